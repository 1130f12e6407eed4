"""Assertions about views, whose messages show what differs as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from altneu.columnar.canonical import canonical
from altneu.columnar.rows import Rows, array_of
from altneu.errors import InputError, SchemaError
from altneu.order import Epoch
from altneu.provenance.finding import agree
from altneu.testing.tables import table, to_text
from altneu.trace.update import Updates, consolidate
from altneu.types import type_name
from altneu.views.view import View

Expected: TypeAlias = str | pa.Table | Sequence[Sequence[Any]]
"""A table as text, an Arrow table, or tuples."""

_SHOWN = 20


def assert_changes(
    found: View | pa.Table, expected: Expected, *, since: int | None = None, until: int | None = None
) -> None:
    """Assert the changes of a view: those of the last advance, or all after ``since`` and up to ``until``.

    ``expected`` has the view's columns, by name, and ``time`` and ``diff`` as in ``view.changes()``. Without a column
    ``diff`` each row counts as +1; without ``time`` only the net changes are compared. Updates of the same row and time
    are added up on both sides. Tuples have the columns in order, then the time and the diff.

    Raises:
        AssertionError: they differ; shows the missing and the unexpected updates.
        SchemaError: ``expected`` has other columns.

    >>> import altneu as an
    >>> with an.Session() as session:
    ...     orders = an.source("orders", "item string, price long")
    ...     view = session.maintain("total", orders.group_by("item").agg(total="sum(price)"))
    ...     session.insert("orders", [("tea", 3), ("tea", 4)])
    ...     _ = session.advance()
    ...     session.retract("orders", [("tea", 3)])
    ...     _ = session.advance()
    ...     assert_changes(
    ...         view,
    ...         '''
    ...         item | total | time | diff
    ...         tea  | 7     | 1    | -1
    ...         tea  | 4     | 1    | +1
    ...     ''',
    ...     )
    """
    name = f"view {found.name}" if isinstance(found, View) else "the table"
    changes = found.changes(since=since, until=until) if isinstance(found, View) else found
    columns = changes.schema.names
    expected_rows = _as_table(expected, changes.schema)
    _check(expected_rows, changes.schema, optional=[*_times(found, changes), "diff"])
    compared = [c for c in columns if c in expected_rows.schema.names and c != "diff"]
    _compare(
        f"the changes of {name} differ",
        _counted(changes, compared),
        _counted(expected_rows, compared, changes.schema),
        diffs=True,
    )


def assert_contents(found: View | pa.Table | Any, expected: Expected, *, at: Any = None) -> None:
    """Assert the rows of a view, an Arrow table or a Spark DataFrame, each with its count, in any order.

    ``expected`` may have an additional column ``diff`` with the counts.

    Raises:
        AssertionError: they differ; shows the missing and the unexpected rows.
        SchemaError: ``expected`` has other columns.

    >>> assert_contents(
    ...     pa.table({"item": ["tea"], "n": [2]}),
    ...     '''
    ...     item | n
    ...     tea  | 3
    ... ''',
    ... )
    Traceback (most recent call last):
    AssertionError: the table has other rows
    missing:
      item | n
      tea  | 3
    not expected:
      item | n
      tea  | 2
    """
    name = f"view {found.name}" if isinstance(found, View) else "the table"
    actual = rows_of(found, at)
    expected_rows = _as_table(expected, actual.schema)
    _check(expected_rows, actual.schema, optional=["diff"])
    columns = actual.schema.names
    _compare(
        f"{name} has other rows",
        _counted(actual, columns),
        _counted(expected_rows, columns, actual.schema),
        diffs=False,
    )


def rows_of(found: Any, at: Any = None) -> pa.Table:
    """The rows of a view, an Arrow table, or an object with a method ``toArrow`` or ``to_arrow``."""
    if isinstance(found, View):
        return found.to_arrow(at)
    if isinstance(found, pa.Table):
        return found
    for method in ("toArrow", "to_arrow"):
        if hasattr(found, method):
            return getattr(found, method)()
    raise InputError(f"the rows to compare must be a view, an Arrow table or a DataFrame, got a {type(found).__name__}")


def _times(found: Any, table: pa.Table) -> Sequence[str]:
    if isinstance(found, View):
        return [n for n in table.schema.names if n not in found.schema.names and n != "diff"]
    return [n for n in ("time",) if n in table.schema.names]


def _as_table(expected: Expected, schema: pa.Schema) -> pa.Table:
    if isinstance(expected, str):
        return table(expected, schema)
    if isinstance(expected, pa.Table):
        return expected
    rows = [tuple(row) if isinstance(row, tuple | list) else (row,) for row in expected]
    widths = {len(row) for row in rows}
    if widths - {len(schema)}:
        raise InputError(f"there are rows of {min(widths)} values for {len(schema)} columns: {', '.join(schema.names)}")
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([array_of(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _check(expected: pa.Table, schema: pa.Schema, optional: Sequence[str]) -> None:
    names = expected.schema.names
    lacking = [n for n in schema.names if n not in names and n not in optional]
    unknown = [n for n in names if n not in schema.names and n not in optional]
    if lacking or unknown:
        problem = f"lacks {lacking[0]!r}" if lacking else f"has an unknown column {unknown[0]!r}"
        raise SchemaError(f"the expected table {problem}; the columns are: {', '.join(schema.names)}")


def _counted(rows: pa.Table, columns: Sequence[str], schema: pa.Schema | None = None) -> Updates:
    """Each row over some columns once, with its count."""
    fields = [pa.field(n, (schema or rows.schema).field(n).type) for n in columns]
    columns_in = []
    for field in fields:
        column = rows.column(field.name)
        try:
            cast = column.cast(field.type)
        except pa.ArrowException as error:
            raise SchemaError(f"column {field.name!r} of the expected table must be {type_name(field.type)}") from error
        columns_in.append(canonical(cast.combine_chunks() if isinstance(cast, pa.ChunkedArray) else cast))
    count = rows.num_rows
    if "diff" in rows.schema.names and "diff" not in columns:
        counts = rows.column("diff")
        if not pa.types.is_integer(counts.type) or counts.null_count:
            raise SchemaError(f"the diffs of a table must be whole numbers without nulls, got {type_name(counts.type)}")
    diffs = rows.column("diff").to_numpy() if "diff" in rows.schema.names and "diff" not in columns else np.ones(count)
    all_rows = Rows(pa.schema(fields), tuple(columns_in), count)
    return consolidate(Updates(all_rows, np.zeros((1, count), np.int64), diffs.astype(np.int64)), Epoch())


def _compare(what: str, actual: Updates, expected: Updates, *, diffs: bool) -> None:
    less = Updates(expected.rows, expected.times, -expected.diffs)
    left = consolidate(Updates.concat([actual, less], actual.schema, 1), Epoch())
    if len(left):
        parts = [some.filter(agree(some, left.rows)) for some in (expected, actual)]
        diffs = diffs or any((part.diffs != 1).any() for part in parts)
        message = [what]
        for title, part in zip(("missing:", "not expected:"), parts, strict=True):
            message += [title, *_listed(part, diffs=diffs)] if len(part) else []
        raise AssertionError("\n".join(message))


def _listed(some: Updates, *, diffs: bool) -> list[str]:
    shown = some.take(np.arange(min(len(some), _SHOWN)))
    rows = pa.Table.from_arrays(list(shown.rows.columns), schema=shown.schema)
    if diffs:
        rows = rows.append_column("diff", pa.array(shown.diffs))
    lines = [f"  {line}" for line in to_text(rows).split("\n")]
    return lines + [f"  … and {len(some) - _SHOWN:,} more"] * (len(some) > _SHOWN)
