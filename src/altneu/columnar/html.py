"""What notebooks show: tables and texts as HTML that stands by itself, with everything from data escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.types import type_name

SHOWN = 20  # rows of a table
_LONGEST = 200  # letters of a value
_LEFT, _RIGHT = "text-align:left", "text-align:right"


def titled(title: str, *parts: str, note: str = "") -> str:
    """A heading, what is said of it, and parts that are HTML already.

    >>> titled("a < b", table(["x"], [["<i>"]]), note="2 rows")
    '<div><b>a &lt; b</b> <small>2 rows</small><table><thead><tr><th style="text-align:left">x</th></tr></thead>...
    """
    small = f" <small>{escape(note)}</small>" if note else ""
    return f"<div><b>{escape(title)}</b>{small}{''.join(parts)}</div>"


def note(text: str) -> str:
    """A line below a table."""
    return f"<div><small>{escape(text)}</small></div>"


def preformatted(text: str) -> str:
    """A text whose lines stay as they are."""
    return f"<pre>{escape(text)}</pre>"


def folded(title: str, part: str) -> str:
    """HTML that is shown when its title is clicked."""
    return f"<details><summary>{escape(title)}</summary>{part}</details>"


def table(head: Sequence[str], lines: Iterable[Sequence[Any]], numbers: Sequence[bool] | None = None) -> str:
    """A table of Python values; columns in which ``numbers`` is true stand on the right."""
    sides = [_RIGHT if number else _LEFT for number in numbers or [False] * len(head)]
    top = "".join(f'<th style="{side}">{escape(name)}</th>' for name, side in zip(head, sides, strict=True))
    cells = (
        "".join(f'<td style="{side}">{_cell(value)}</td>' for value, side in zip(line, sides, strict=True))
        for line in lines
    )
    body = "".join(f"<tr>{line}</tr>" for line in cells)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def columns(schema: pa.Schema) -> str:
    """Names and types of columns, as a table."""
    return table(["column", "type"], [(f.name, type_name(f.type)) for f in schema])


def rows(shown: Rows, counts: Sequence[int] | None = None, most: int = SHOWN) -> str:
    """Rows as a table, the first ``most`` of them; with ``counts`` a last column says how often each is there."""
    part = shown.slice(0, min(most, shown.count))
    heads = [f"{f.name} {type_name(f.type)}" for f in part.schema]
    sides = [_is_number(f.type) for f in part.schema]
    lines = part.to_pylist()
    if counts is not None:
        heads, sides = [*heads, "×"], [*sides, True]
        lines = [(*line, count) for line, count in zip(lines, counts, strict=False)]
    return table(heads, lines, sides)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _cell(value: Any) -> str:
    match value:
        case None:
            return "<i>null</i>"
        case str():
            text = value
        case bytes():
            text = f"0x{value[: _LONGEST // 2 + 1].hex()}"
        case list() | tuple() | dict():
            text = json.dumps(value, default=str, ensure_ascii=False)
        case _:
            text = str(value)
    return escape(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
