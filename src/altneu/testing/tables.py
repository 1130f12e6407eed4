"""Tables as text: a header, one line for each row, cells separated by bars."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from altneu.columnar.rows import Rows, array_of
from altneu.errors import InputError, PlanError, SchemaError
from altneu.expressions import parse
from altneu.types import parse_schema, parse_type, type_name

_QUOTED = re.compile(r"\s*('(?:[^']|'')*')\s*(?=\||$)")
_PLAIN = re.compile(r"([^|]*)")
_DASHES = r"\s*(?::?-{2,}:?|:-:?|-:)\s*"
_RULE = re.compile(rf"\|?{_DASHES}(?:[|+]{_DASHES})*\|?")
_NULL = ("", "null")
_LONG = ("time", "diff", "system", "event")
"""Columns that are long unless they are told otherwise."""


class HasSchema(Protocol):
    """A collection, a source, a view, an Arrow table."""

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""


class HasRows(Protocol):
    """A view, the result of a statement."""

    def to_arrow(self) -> pa.Table:
        """Its rows."""


def table(text: str, schema: str | pa.Schema | HasSchema | None = None) -> pa.Table:
    r"""A table from its text: a header, then one line for each row, with cells separated by ``|``.

    A name in the header may be followed by its type (``price decimal(9,2)``). Other types are taken from ``schema``,
    which is DDL or an object with a schema (a collection, a view); ``time`` and ``diff`` are long; otherwise types are
    inferred from the cells: long, double, boolean, or string. Cells are read as Spark casts strings; those of an array,
    struct or map are JSON. An empty cell and NULL are null; ``'…'`` is a string with its spaces, bars and doubled
    quotes. As in Markdown, lines may begin and end with bars, and a line of dashes may follow the header.

    Raises:
        SchemaError: a cell does not fit its column; names the line and the column.
        InputError: there is no header, or a line has more or fewer cells.

    >>> table('''
    ...     item | price | time | diff
    ...     tea  | 3     | 0    | +1
    ...     jam  |       | 1    | -1
    ... ''').to_pylist()
    [{'item': 'tea', 'price': 3, 'time': 0, 'diff': 1}, {'item': 'jam', 'price': None, 'time': 1, 'diff': -1}]
    >>> table('day date | tags array<string>\n2024-02-29 | ["a"]').to_pylist()
    [{'day': datetime.date(2024, 2, 29), 'tags': ['a']}]
    """
    lines = [(i, line.strip()) for i, line in enumerate(text.strip("\n").split("\n"), 1)]
    lines = [(i, line) for i, line in lines if line]
    if len(lines) > 1 and _RULE.fullmatch(lines[1][1]):
        del lines[1]
    if not lines:
        raise InputError("a table as text must begin with a header: the names of its columns, separated by |")
    header = [name.split(None, 1) for name in _cells(lines[0][1])]
    if not all(header):
        raise InputError(f"line {lines[0][0]}: a column of the header has no name")
    names = [parts[0] for parts in header]
    if len(set(names)) < len(names):
        raise InputError(f"line {lines[0][0]}: a name occurs twice: {', '.join(names)}")
    rows = []
    for i, line in lines[1:]:
        cells = _cells(line)
        if len(cells) != len(names):
            raise InputError(f"line {i}: {len(cells)} cells, but the header has {len(names)}: {line}")
        rows.append(cells)
    known = _types(header, schema)
    numbers = [i for i, _ in lines[1:]]
    columns = [_column(name, [row[k] for row in rows], known.get(name), numbers) for k, name in enumerate(names)]
    return pa.table(columns, names=names)


def _cells(line: str) -> list[str]:
    if line.startswith("|") and line.endswith("|") and len(line) > 1:
        line = line[1:-1]
    cells, at = [], 0
    while at <= len(line):
        matched = _QUOTED.match(line, at) or _PLAIN.match(line, at)
        assert matched is not None
        cells.append(matched[1].strip())
        at = matched.end() + 1
    return cells


def _types(header: Sequence[Sequence[str]], schema: str | pa.Schema | HasSchema | None) -> Mapping[str, pa.DataType]:
    types: dict[str, pa.DataType] = {}
    if schema is not None:
        known = schema if isinstance(schema, str | pa.Schema) else schema.schema
        types = {f.name: f.type for f in parse_schema(known)}
    for parts in header:
        if len(parts) == 2:
            try:
                types[parts[0]] = parse_type(parts[1])
            except PlanError as error:
                raise SchemaError(f"column {parts[0]!r} of the table: {error}") from error
        elif parts[0] in _LONG:
            types.setdefault(parts[0], pa.int64())
    return types


def _column(name: str, cells: Sequence[str], kind: pa.DataType | None, lines: Sequence[int]) -> pa.Array:
    kind = _inferred(cells) if kind is None else kind
    values = [None if cell.lower() in _NULL else _unquoted(cell) for cell in cells]
    if pa.types.is_string(kind):
        return pa.array(values, pa.string())
    if pa.types.is_nested(kind):
        return _nested(name, values, kind, lines)
    rows = Rows(pa.schema([("cell", pa.string())]), (pa.array(values, pa.string()),), len(values))
    result = parse(f"cast(cell as {type_name(kind)})", rows.schema).evaluate(rows)
    if result.failed is not None and result.failed.any():
        at = int(result.failed.argmax())
        raise SchemaError(f"line {lines[at]}, column {name!r} must be {type_name(kind)}, got {values[at]!r}")
    return result.values


def _nested(name: str, values: Sequence[str | None], kind: pa.DataType, lines: Sequence[int]) -> pa.Array:
    lists: list[Any] = []
    for line, value in zip(lines, values, strict=True):
        try:
            read = None if value is None else json.loads(value)
            if pa.types.is_map(kind) and read is not None:
                read = list(read.items()) if isinstance(read, dict) else [tuple(pair) for pair in read]
            array_of([read], kind)
        except (ValueError, TypeError, pa.ArrowException) as error:
            raise SchemaError(
                f"line {line}, column {name!r} must be {type_name(kind)}, got {value!r}: {error}"
            ) from error
        lists.append(read)
    return array_of(lists, kind)


def _unquoted(cell: str) -> str:
    if len(cell) > 1 and cell[0] == cell[-1] == "'":
        return cell[1:-1].replace("''", "'")
    return cell


_FORMS = (
    (re.compile(r"[+-]?\d+"), pa.int64()),
    (re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|NaN|-?Infinity"), pa.float64()),
    (re.compile(r"true|false", re.IGNORECASE), pa.bool_()),
)


def _inferred(cells: Sequence[str]) -> pa.DataType:
    values = [cell for cell in cells if cell.lower() not in _NULL]
    for form, kind in _FORMS:
        if values and all(form.fullmatch(cell) for cell in values):
            return kind
    return pa.string()


def to_text(rows: pa.Table | HasRows) -> str:
    """A table or the rows of a view, in the form that ``table`` reads: rows sorted by their text, diffs with signs.

    >>> print(to_text(pa.table({"item": ["tea", None], "diff": [1, -2]})))
    item | diff
    NULL | -2
    tea  | +1
    """
    if not isinstance(rows, pa.Table):
        rows = rows.to_arrow()
    names = rows.schema.names
    cells = [[_shown(name, value) for name, value in zip(names, row, strict=True)] for row in _values(rows)]
    lines = [list(names), *sorted(cells)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(names))]
    return "\n".join(
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _values(rows: pa.Table) -> list[tuple[object, ...]]:
    return Rows.from_batch(rows).to_pylist()


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if name == "diff" and isinstance(value, int):
        return f"{value:+}"
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        plain = value.lower() not in _NULL and value == value.strip() and not _NOT_PLAIN.search(value)
        return value if plain else "'" + value.replace("'", "''") + "'"
    if isinstance(value, list | dict):
        text = json.dumps(value, default=str)
        return "'" + text.replace("'", "''") + "'" if "|" in text else text
    return str(value)


_NOT_PLAIN = re.compile(r"[|'\n]|^[-:+\s]+$")
