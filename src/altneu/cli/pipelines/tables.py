"""The tables of a pipeline: where each is, and what is said of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from altneu.cli.pipelines.elements import Dataset, Names
from altneu.cli.pipelines.errors import refused
from altneu.cli.pipelines.forms import Form, form_of
from altneu.cli.pipelines.graph import Resolved
from altneu.cli.pipelines.logs import Books
from altneu.cli.written import write_text
from altneu.session import Session
from altneu.types import to_ddl

_ABOUT = "_table.json"
_STORED = ("columns", "kind", "format", "partitions")  # of which another value makes another table


class Tables:
    """The folders of all tables: ``<name>``, or ``<database>.db/<name>``, as in Spark's warehouse."""

    def __init__(self, root: Path, names: Names | None = None) -> None:
        self._root, self._names = root, names or Names()

    def folder(self, name: str) -> Path:
        """The folder of a table.

        >>> Tables(Path("tables")).folder("orders"), Tables(Path("tables")).folder("shop.orders")
        (PosixPath('tables/orders'), PosixPath('tables/shop.db/orders'))
        """
        *before, own = name.split(".")
        return self._root.joinpath(*(f"{part}.db" for part in before), own)

    def form(self, dataset: Dataset) -> Form:
        """What a table is stored as.

        Raises:
            PipelineError: what altneu does not write.
        """
        return form_of(dataset, self.folder(dataset.name), self._names.written(dataset.name)[-1])

    def clear(self, dataset: Dataset) -> None:
        """Remove a table, so that it is written from the beginning."""
        self.form(dataset).clear()
        (self.folder(dataset.name) / _ABOUT).unlink(missing_ok=True)

    def write(self, session: Session, books: Books, table: Resolved) -> int:
        """Bring a table to what the session has; the number of rows that came and went.

        Cost:   of a streaming table the new rows; of another the files, of 16, that have a row that changes.

        Raises:
            PipelineError: it is partitioned by a column that it does not have.
            SinkError: another program writes to the table.
        """
        assert table.collection is not None
        schema = table.collection.schema
        dataset = replace(table.dataset, partition_by=_partitions(table.dataset, schema))
        folder = self.folder(dataset.name)
        about = _about(dataset, schema)
        known = folder / _ABOUT
        had = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
        had = {"format": "parquet", "partitions": [], **had} if had else about
        if any(had[name] != about[name] for name in _STORED):
            self.clear(replace(dataset, format=had["format"], partition_by=()))
        form = self.form(dataset)
        if table.is_log:
            assert table.log is not None
            changed = form.append(session, table.log, books.parts(table.log.name))
        else:
            changed = form.follow(session.view(dataset.name))
        text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
        if not known.exists() or known.read_text(encoding="utf-8") != text:
            folder.mkdir(parents=True, exist_ok=True)
            write_text(text, known)
        return changed


def _about(dataset: Dataset, schema: pa.Schema) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "kind": dataset.kind,
        "columns": to_ddl(schema),
        "comment": dataset.comment,
        "properties": dict(dataset.properties),
        "format": dataset.format or "parquet",
        "partitions": list(dataset.partition_by),
    }


def _partitions(dataset: Dataset, schema: pa.Schema) -> tuple[str, ...]:
    """The columns by which a table is partitioned, as its query names them."""
    by_lower = {name.lower(): name for name in schema.names}
    for name in dataset.partition_by:
        if name.lower() not in by_lower:
            raise refused(
                "COLUMN_NOT_DEFINED_IN_TABLE",
                f"table {dataset.name!r} is partitioned by {name!r}, and its columns are: {', '.join(schema.names)}",
                dataset.place,
            )
    return tuple(by_lower[name.lower()] for name in dataset.partition_by)
