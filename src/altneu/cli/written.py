"""Rows in the forms that `altneu query` writes: for people, and as CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from altneu.cli.output import as_json, plain
from altneu.columnar.rows import Rows
from altneu.errors import SchemaError

_AT_ONCE = 10_000  # rows

SUFFIXES = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}


def _chunks(table: pa.Table) -> Iterator[list[tuple[Any, ...]]]:
    for start in range(0, table.num_rows, _AT_ONCE):
        yield Rows.from_batch(table.slice(start, _AT_ONCE)).to_pylist()


def write_csv(table: pa.Table, file: TextIO) -> None:
    """A line of names, then a line a row; NULL is empty, nested values are JSON."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.schema.names)
    for rows in _chunks(table):
        writer.writerows([_field(value) for value in row] for row in rows)


def _field(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, default=plain, ensure_ascii=False)
    return value if isinstance(value, int | float | str | None) else plain(value)


def refuse_same_names(table: pa.Table) -> None:
    """Refuse columns of one name, which are one where they are told by name.

    Raises:
        SchemaError: naming it.
    """
    names = table.schema.names
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SchemaError(
            f"two columns are called {twice!r}, and this format needs different names: SELECT … AS other_name"
        )


def write_json(table: pa.Table, file: TextIO) -> None:
    """An object a line."""
    refuse_same_names(table)
    names = table.schema.names
    for rows in _chunks(table):
        file.writelines(as_json(dict(zip(names, row, strict=True))) + "\n" for row in rows)
        file.flush()


TEXTS: dict[str, Callable[[pa.Table, TextIO], None]] = {"csv": write_csv, "json": write_json}


def write_file(table: pa.Table, form: str, path: Path) -> None:
    """Put rows into a file, which is there wholly or not at all."""
    with _replacing(path) as temporary:
        if form == "parquet":
            refuse_same_names(table)
            pq.write_table(table, temporary)
            return
        with temporary.open("w", encoding="utf-8", newline="") as file:
            TEXTS[form](table, file)


def write_text(text: str, path: Path) -> None:
    """Put a text into a file, which is there wholly or not at all."""
    with _replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A file beside another one, which it replaces at the end."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}")
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
