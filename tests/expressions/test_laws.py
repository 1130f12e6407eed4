"""What holds of every expression: its text is itself, slices change nothing, a promise not to fail is kept."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.python_values import python_values
from altneu.columnar.rows import Rows
from altneu.expressions import parse
from tests.expressions import cases, values

ALL = [text for group in cases.GROUPS.values() for text in group]
TABLE = values.table(96)
ROWS = Rows.from_batch(TABLE)


@pytest.mark.parametrize("group", cases.GROUPS)
def test_canonical_text_parses_to_the_same_expression(group):
    for text in cases.GROUPS[group]:
        expr = parse(text, values.SCHEMA)
        again = parse(expr.sql, values.SCHEMA)
        assert again == expr, f"{text}: {expr.sql} became {again.sql}"
        assert hash(again) == hash(expr)
        assert again.sql == expr.sql


def test_pickled_expressions_are_equal():
    exprs = [parse(text, values.SCHEMA) for text in ALL]
    copies = pickle.loads(pickle.dumps(exprs))  # noqa: S301 -- made one line above
    assert [e.text for e in copies] == [e.text for e in exprs], "a task must say of an error what the driver says"
    assert copies == exprs
    assert [c.nullable for c in copies] == [e.nullable for e in exprs]


@pytest.mark.parametrize("group", cases.GROUPS)
def test_a_result_has_the_type_and_length_that_was_promised(group):
    for text in cases.GROUPS[group]:
        expr = parse(text, values.SCHEMA)
        result = expr.evaluate(ROWS)
        assert result.values.type == expr.type, text
        assert len(result.values) == ROWS.count, text
        result.values.validate(full=True)
        if result.failed is not None:
            assert expr.can_fail, f"{text} failed and can_fail is False"
            assert result.failed.any(), text
            assert not np.asarray(result.values.is_valid())[result.failed].any(), f"{text}: a failed row has a value"
            for row in np.flatnonzero(result.failed):
                code, message = result.error(int(row))
                assert code
                assert message
        elif not expr.nullable:
            assert result.values.null_count == 0, f"{text} is null and nullable is False"


@pytest.mark.parametrize("group", cases.GROUPS)
def test_rows_are_independent_of_each_other(group):
    """Slices with an offset, one row, and no row give what the whole gives."""
    for text in cases.GROUPS[group]:
        expr = parse(text, values.SCHEMA)
        whole = expr.evaluate(ROWS)
        failed = np.zeros(ROWS.count, bool) if whole.failed is None else whole.failed
        for start, stop in ((0, 0), (7, 8), (13, 14), (5, 70)):
            part = expr.evaluate(ROWS.slice(start, stop))
            assert _same(part.values, whole.values.slice(start, stop - start)), f"{text} on rows {start} to {stop}"
            mine = np.zeros(stop - start, bool) if part.failed is None else part.failed
            assert (mine == failed[start:stop]).all(), f"{text} on rows {start} to {stop}"
            for row in np.flatnonzero(mine):
                assert part.error(int(row)) == whole.error(start + int(row)), text


def _same(left: pa.Array, right: pa.Array) -> bool:
    if len(left) != len(right):
        return False
    return repr(_plain(left)) == repr(_plain(right))


def _plain(array: pa.Array) -> list[object]:
    if pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type):
        array = array.cast(pa.int64())
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    return python_values(array)


def test_columns_names_exactly_what_is_read():
    for text in ALL:
        expr = parse(text, values.SCHEMA)
        parse(text, pa.schema([values.SCHEMA.field(n) for n in expr.columns])) if expr.columns else None
        assert expr.columns <= set(values.SCHEMA.names)


def test_equal_floats_have_equal_bits():
    """One NaN and no negative zero, nested ones too, so that kernels may compare bits."""
    texts = ["array(d1 * d2, d1 - d2)", "named_struct('x', d1 / -7)", "map('a', -d1)", "d1 - d1", "-(d1 * 0)"]
    seen = set()
    for text in (*ALL, *texts):
        result = parse(text, values.SCHEMA).evaluate(ROWS).values
        if pa.types.is_map(result.type):
            result = result.items
        elif pa.types.is_struct(result.type):
            result = result.field(0)
        elif pa.types.is_list(result.type):
            result = result.flatten()
        if result.type == pa.float64():
            numbers = result.drop_null().to_numpy()
            assert not (np.signbit(numbers) & (numbers == 0)).any(), text
            seen |= set(numbers[np.isnan(numbers)].view(np.int64).tolist())
    assert len(seen) == 1
