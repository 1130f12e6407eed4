"""Rows that fail: which, why, and that branches which a row does not take cannot fail it."""

from __future__ import annotations

import numpy as np
import pytest

from altneu import types as T
from altneu.columnar.rows import Rows
from altneu.expressions import parse

SCHEMA = T.parse_schema("a int, b int, t string, xs array<int>, n decimal(5,2)")
ROWS = Rows.from_pydict(
    {
        "a": [1, 0, None, 2147483647],
        "b": [0, 5, 0, 1],
        "t": ["7", "x", None, "2020"],
        "xs": [[1], [], None, [4, 5]],
        "n": [1, None, 999, 2],
    },
    SCHEMA,
)


MALFORMED = 'The value \'x\' of the type "STRING" cannot be cast to "INT" because it is malformed'


def failing(text):
    result = parse(text, SCHEMA).evaluate(ROWS)
    return [] if result.failed is None else np.flatnonzero(result.failed).tolist()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a / b", [0]),
        ("a + b", [3]),
        ("a + 0", []),
        ("cast(t as int)", [1]),
        ("try_cast(t as int)", []),
        ("xs[0]", [1]),
        ("b <> 0 and a / b > 0", []),
        ("a / b > 0 and b <> 0", [0]),
        ("b = 0 or a / b > 0", []),
        ("a / b > 0 or b = 0", [0]),
        ("a is null and 1 / b > 0", [2]),
        ("a > 0 and 1 / b > 0", [0, 2]),
        ("case when b = 0 then 0 else a / b end", []),
        ("case when a / b > 0 then 1 else 0 end", [0]),
        ("case when b = 0 then a / b else 0 end", [0]),
        ("if(b = 0, 1, a / b)", []),
        ("coalesce(b, a / b)", []),
        ("coalesce(a / b, 1)", [0]),
        ("coalesce(null, a / b)", [0]),
        ("nvl2(a, 1, 1 / b)", [2]),
        ("nullif(a / b, 1)", [0]),
        ("b in (0, a / b)", []),
        ("b in (7, 1 / a)", [1]),
        ("null + a / b", []),
        ("a / b + null", [0]),
        ("a + 1 / b", [0]),
        ("(a + 1) / b", [0, 3]),
        ("greatest(b, a / b)", [0]),
        ("array(a / b)", [0]),
        ("concat(t, a / b)", [0]),
        ("1 / 0", [0, 1, 2, 3]),
        ("b > 0 and 1 / 0 > 0", [1, 3]),
        ("cast('x' as int) + a", [0, 1, 2, 3]),
        ("a = 1 and cast(t as int) = 7", []),
        ("t like 'a' escape 'a'", [0, 1, 3]),
        ("n * 1000", []),
        ("cast(n * 1000 as decimal(5,2))", [0, 2, 3]),
        ("-(a + 1)", [3]),
        ("split_part(t, 'x', b)", [0]),
        ("try_divide(a, b) is null", []),
        ("isnull(a / b)", [0]),
        ("make_date(2020, a, b)", [0, 1, 3]),
    ],
)
def test_exactly_the_rows_that_reach_a_failure_fail(text, rows):
    assert failing(text) == rows


@pytest.mark.parametrize(
    ("text", "row", "code", "message"),
    [
        ("a / b", 0, "DIVIDE_BY_ZERO", "Division by zero in `a / b`"),
        ("10 % b", 0, "REMAINDER_BY_ZERO", "Remainder by zero in `10 % b`"),
        ("a + b", 3, "ARITHMETIC_OVERFLOW", "integer overflow in `a + b`; try_add gives NULL instead"),
        ("cast(t as int)", 1, "CAST_INVALID_INPUT", MALFORMED),
        (
            "cast(a as tinyint)",
            3,
            "CAST_OVERFLOW",
            'The value 2147483647 of the type "INT" cannot be cast to "TINYINT" due to an overflow',
        ),
        ("xs[0]", 1, "INVALID_ARRAY_INDEX", "`xs[0]`: the index is outside of the array, which has 0 elements"),
        ("1 / 0", 2, "DIVIDE_BY_ZERO", "Division by zero in `1 / 0`"),
        (
            "t > 5",
            1,
            "CAST_INVALID_INPUT",
            'The value \'x\' of the type "STRING" cannot be cast to "BIGINT" because it is malformed',
        ),
        ("cast(t as int) / b", 1, "CAST_INVALID_INPUT", MALFORMED),
        ("cast(array(t) as array<int>)", 1, "CAST_INVALID_INPUT", MALFORMED),
    ],
)
def test_a_failure_names_its_class_and_its_place(text, row, code, message):
    result = parse(text, SCHEMA).evaluate(ROWS)
    assert result.error(row) == (code, message)
    with pytest.raises(IndexError):
        parse("a + b", SCHEMA).evaluate(ROWS).error(0)


def test_the_failure_that_is_met_first_is_the_one_reported():
    assert parse("a / b + cast('x' as int)", SCHEMA).evaluate(ROWS).error(0)[0] == "DIVIDE_BY_ZERO"
    assert parse("cast('x' as int) + a / b", SCHEMA).evaluate(ROWS).error(0)[0] == "CAST_INVALID_INPUT"
    assert (
        parse("a / b / cast('x' as int)", SCHEMA).evaluate(ROWS).error(0)[0] == "CAST_INVALID_INPUT"
    )  # the divisor first


def test_an_expression_that_cannot_fail_says_so():
    for text in (
        "a > b",
        "coalesce(a, 0)",
        "a is null",
        "upper(t)",
        "cast(a as bigint)",
        "d + 1",
        "a & b",
        "try_add(a, b)",
    ):
        schema = T.parse_schema("a int, b int, t string, d double")
        assert not parse(text, schema).can_fail, text
    for text in ("a + b", "a / 2", "cast(t as int)", "cast(a as tinyint)", "a > t"):
        assert parse(text, schema).can_fail, text


def test_no_rows_never_fail():
    for text in ("1 / 0", "a / b", "cast('x' as int)"):
        result = parse(text, SCHEMA).evaluate(Rows.empty(SCHEMA))
        assert result.failed is None
        assert len(result.values) == 0
