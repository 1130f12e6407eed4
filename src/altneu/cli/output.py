"""What commands write: for people as tables and lines, for programs as a JSON object a line."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyarrow as pa
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from altneu.columnar.rows import Rows
from altneu.runtime.progress import watch

_RIGHT = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
_MANY = 1_000  # rows
_WIDE = 1_000_000  # where nobody looks on, no line is broken: it is for grep and awk


class _Console(Console):
    """Rich's, but for a reader that goes away: that ends the command like any other."""

    def on_broken_pipe(self) -> None:
        """Called while the error is handled."""
        raise BrokenPipeError


class Output:
    """Where a command writes: results to the standard output, how it goes and what failed to the standard error."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._out = _Console(soft_wrap=as_json, highlight=False)
        if not self._out.is_terminal and "COLUMNS" not in os.environ:
            self._out.width = _WIDE
        self._err = Console(stderr=True, highlight=False)

    @property
    def is_terminal(self) -> bool:
        """Whether somebody looks at the results."""
        return self._out.is_terminal

    def busy(self, what: str) -> AbstractContextManager[None]:
        """Show that something goes on, once it has for two seconds, where somebody looks on."""
        return nullcontext() if self.as_json else watch(f"altneu: {what}")

    def said(self, statement: str, message: str) -> None:
        """What a statement did."""
        if self.as_json:
            self.json({"statement": statement, "message": message})
        else:
            self.note(message)

    def note(self, message: str) -> None:
        """Something by the way, for people."""
        if not self.as_json:
            self._err.print(message, style="dim", markup=False, soft_wrap=True)

    def table(self, statement: str, table: pa.Table) -> None:
        """The rows that a statement gives."""
        rows = Rows.from_batch(table).to_pylist()
        if self.as_json:
            self.json({"statement": statement, "columns": table.schema.names, "rows": rows})
            return
        if table.schema.names == ["plan"]:
            for (line,) in rows:
                self.line(str(line))
            return
        self.rows(table)
        self._out.print(f"({len(rows)} row{'' if len(rows) == 1 else 's'})", style="dim")

    def rows(self, table: pa.Table) -> None:
        """Rows as a table for people."""
        numeric = [any(is_it(field.type) for is_it in _RIGHT) for field in table.schema]
        self.grid(table.schema.names, Rows.from_batch(table).to_pylist(), numeric)

    def grid(self, names: Sequence[str], rows: Iterable[Sequence[Any]], numeric: Sequence[bool]) -> None:
        """Columns with their headings, numbers to the right; many rows in lines as wide as they are."""
        rows = list(rows)
        if len(rows) > _MANY:
            self._many(names, rows, numeric)
            return
        shown = Table(box=None, pad_edge=False, header_style="bold")
        for name, is_number in zip(names, numeric, strict=True):
            shown.add_column(_escaped(name), justify="right" if is_number else "left", overflow="fold")
        for row in rows:
            shown.add_row(*(_escaped(text(value)) for value in row))
        with self._out.capture() as captured:
            self._out.print(shown)
        self._out.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())
        self.flush()

    def _many(self, names: Sequence[str], rows: Sequence[Sequence[Any]], numeric: Sequence[bool]) -> None:
        """The same without folding what a terminal is too narrow for, which takes half a millisecond a cell."""
        columns = [list(map(text, column)) for column in zip(*rows, strict=True)]
        aligned = [
            _aligned([name, *column], right=right) for name, column, right in zip(names, columns, numeric, strict=True)
        ]
        self._out.file.writelines("  ".join(line).rstrip() + "\n" for line in zip(*aligned, strict=True))
        self.flush()

    def line(self, line: str = "", style: str = "") -> None:
        """A line of the result."""
        if style:
            self._out.print(line, style=style, markup=False, soft_wrap=True)
        else:
            self._out.file.write(line + "\n")
            self.flush()

    def more(self, line: str) -> None:
        """A line of many, which are to be flushed at the end."""
        self._out.file.write(line + "\n")

    def flush(self) -> None:
        """Let whoever reads have what was written."""
        self._out.file.flush()

    def pair(self, mark: str, style: str, rest: str) -> None:
        """A line that begins with a coloured mark."""
        self._out.print(Text.assemble((mark, style), " ", rest), soft_wrap=True)

    def change(self, statement: str, columns: list[str], row: tuple[Any, ...]) -> None:
        """One row of a subscription."""
        if self.as_json:
            self.json({"statement": statement, "change": dict(zip(columns, row, strict=True))})
        else:
            self.line("  ".join(text(value) for value in row))

    def address(self, url: str, store: str | None) -> None:
        """Where a page is."""
        if self.as_json:
            self.json({"url": url, "store": store})
        else:
            self.line(url)

    def heading(self, columns: list[str]) -> None:
        """The columns of a subscription."""
        if not self.as_json:
            self.line("  ".join(columns), "bold")

    def failed(self, error: BaseException) -> None:
        """What went wrong."""
        notes = [note.removeprefix("altneu: ") for note in getattr(error, "__notes__", ())]
        if self.as_json:
            self.json({"error": type(error).__name__, "message": str(error), "notes": notes})
            return
        self._err.print(f"{type(error).__name__}: {error}", style="red", markup=False, soft_wrap=True)
        for note in notes:
            self._err.print(f"  {note}", markup=False, soft_wrap=True)

    def json(self, value: Mapping[str, Any]) -> None:
        """An object, on a line of its own."""
        self.line(as_json(value))


def _aligned(cells: Sequence[str], *, right: bool) -> list[str]:
    """Cells of one width.

    >>> _aligned(["n", "茶"], right=True), _aligned(["a", "茶"], right=False)
    ([' n', '茶'], ['a ', '茶'])
    """
    widths = list(map(cell_len, cells))
    most = max(widths)
    if right:
        return [" " * (most - width) + cell for cell, width in zip(cells, widths, strict=True)]
    return [cell + " " * (most - width) for cell, width in zip(cells, widths, strict=True)]


_CONTROLS = {i: f"\\x{i:02x}" for i in (*range(9), *range(11, 32), *range(127, 160))}
"""What a terminal would do something at, but for tabs and ends of lines."""


def as_json(value: Mapping[str, Any]) -> str:
    """An object as JSON, with texts for values that JSON has no form for.

    >>> as_json({"d": dt.date(2024, 1, 2), "n": decimal.Decimal("1.50"), "b": b"x"})
    '{"d": "2024-01-02", "n": "1.50", "b": "eA=="}'
    """
    return _encoded(value)


def text(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value).translate(_CONTROLS)


def in_bytes(count: int) -> str:
    """A number of bytes, for people.

    >>> in_bytes(512), in_bytes(204_800), in_bytes(3 * 1024**3)
    ('512 bytes', '200 KB', '3.0 GB')
    """
    if count < 1024:
        return f"{count} bytes"
    power = min((count.bit_length() - 1) // 10, 4)
    size = count / 1024**power
    return f"{size:.{0 if size >= 10 else 1}f} {('KB', 'MB', 'GB', 'TB')[power - 1]}"


def _escaped(shown: str) -> str:
    return shown.replace("[", r"\[")


def plain(value: Any) -> Any:
    """A value that JSON has no form for, as the text that SQL has for it; binary as base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | dt.timedelta):
        return str(value)
    return list(value) if isinstance(value, tuple | set) else str(value)


_encoded = json.JSONEncoder(default=plain, ensure_ascii=False).encode
