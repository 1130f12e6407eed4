"""What commands write: for people as tables and lines, for programs as a JSON object a line."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from altneu.rows import Rows

_RIGHT = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)


class Output:
    """Where a command writes: results to the standard output, how it goes and what failed to the standard error."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._out = Console(soft_wrap=as_json, highlight=False)
        self._err = Console(stderr=True, highlight=False)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show that something goes on, where somebody looks on."""
        if self.as_json or not self._err.is_terminal:
            yield
            return
        with self._err.status(what):
            yield

    def said(self, statement: str, message: str) -> None:
        """What a statement did."""
        if self.as_json:
            self._json({"statement": statement, "message": message})
        else:
            self._err.print(message, style="dim", markup=False)

    def table(self, statement: str, table: pa.Table) -> None:
        """The rows that a statement gives."""
        rows = Rows.from_batch(table).to_pylist()
        if self.as_json:
            self._json({"statement": statement, "columns": table.schema.names, "rows": rows})
            return
        if table.schema.names == ["plan"]:
            for (line,) in rows:
                self._out.print(line, markup=False, soft_wrap=True)
            return
        shown = Table(box=None, pad_edge=False, header_style="bold")
        for field in table.schema:
            numeric = any(is_it(field.type) for is_it in _RIGHT)
            shown.add_column(_escaped(field.name), justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            shown.add_row(*(_escaped(text(value)) for value in row))
        self._out.print(shown)
        self._out.print(f"({len(rows)} row{'' if len(rows) == 1 else 's'})", style="dim")

    def change(self, statement: str, columns: list[str], row: tuple[Any, ...]) -> None:
        """One row of a subscription."""
        if self.as_json:
            self._json({"statement": statement, "change": dict(zip(columns, row, strict=True))})
        else:
            self._out.print("  ".join(text(value) for value in row), markup=False, soft_wrap=True)

    def heading(self, columns: list[str]) -> None:
        """The columns of a subscription."""
        if not self.as_json:
            self._out.print("  ".join(columns), style="bold", markup=False, soft_wrap=True)

    def failed(self, error: BaseException) -> None:
        """What went wrong."""
        notes = [note.removeprefix("altneu: ") for note in getattr(error, "__notes__", ())]
        if self.as_json:
            self._json({"error": type(error).__name__, "message": str(error), "notes": notes})
            return
        self._err.print(f"{type(error).__name__}: {error}", style="red", markup=False, soft_wrap=True)
        for note in notes:
            self._err.print(f"  {note}", markup=False, soft_wrap=True)

    def _json(self, value: dict[str, Any]) -> None:
        self._out.file.write(json.dumps(value, default=_plain, ensure_ascii=False) + "\n")
        self._out.file.flush()


def text(value: Any) -> str:
    """A value as a table shows it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _escaped(shown: str) -> str:
    return shown.replace("[", r"\[")


def _plain(value: Any) -> Any:
    """A value that JSON has no form for, as the text that SQL has for it; binary as base64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dt.date | dt.datetime):
        return value.isoformat()
    if isinstance(value, decimal.Decimal | dt.timedelta):
        return str(value)
    return list(value) if isinstance(value, tuple | set) else str(value)
