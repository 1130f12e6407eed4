"""The tables of a pipeline: a folder of Parquet files each, which any program reads as a whole."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from altneu import sinks
from altneu.cli.pipelines.graph import Resolved
from altneu.cli.pipelines.logs import Books
from altneu.cli.written import write_file, write_text
from altneu.session import Session
from altneu.types import to_ddl
from altneu.views.view import View

_ABOUT = "_table.json"
_SCHEMA = "schema.parquet"  # no rows: what tells readers of an empty table its columns


class Tables:
    """The folders of all tables: ``<name>``, or ``<database>.db/<name>``, as in Spark's warehouse."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, name: str) -> Path:
        """The folder of a table.

        >>> Tables(Path("tables")).folder("orders"), Tables(Path("tables")).folder("shop.orders")
        (PosixPath('tables/orders'), PosixPath('tables/shop.db/orders'))
        """
        *before, own = name.split(".")
        return self._root.joinpath(*(f"{part}.db" for part in before), own)

    def clear(self, name: str) -> None:
        """Remove a table, so that it is written from the beginning."""
        shutil.rmtree(self.folder(name), ignore_errors=True)

    def write(self, session: Session, books: Books, table: Resolved) -> int:
        """Bring a table to what the session has; the number of rows that came and went.

        Cost:   of a streaming table the new rows; of another the files, of 16, that have a row that changes.
        """
        assert table.collection is not None
        name, schema = table.dataset.name, table.collection.schema
        folder = self.folder(name)
        about = self._about(table, schema)
        known = folder / _ABOUT
        had = json.loads(known.read_text(encoding="utf-8")) if known.exists() else {}
        if had and (had["columns"], had["kind"]) != (to_ddl(schema), table.dataset.kind):
            self.clear(name)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / _SCHEMA).exists():
            write_file(schema.empty_table(), "parquet", folder / _SCHEMA)
        changed = self._log(session, books, table, folder) if table.is_log else self._view(session.view(name), folder)
        if not known.exists() or known.read_text(encoding="utf-8") != about:
            write_text(about, known)
        return changed

    def _about(self, table: Resolved, schema: pa.Schema) -> str:
        dataset = table.dataset
        said = {
            "name": dataset.name,
            "kind": dataset.kind,
            "columns": to_ddl(schema),
            "comment": dataset.comment,
            "properties": dict(dataset.properties),
        }
        return json.dumps(said, indent=1, ensure_ascii=False) + "\n"

    def _view(self, view: View, folder: Path) -> int:
        sink = sinks.parquet(view, folder, keep=0)
        changed = sink.run()
        present = {Path(file).name for file in sink.files()}
        for file in folder.glob("part-*.parquet"):  # of a run that was stopped between two writes
            if file.name not in present:
                file.unlink()
        return changed

    def _log(self, session: Session, books: Books, table: Resolved, folder: Path) -> int:
        assert table.log is not None
        parts = {f"part-{part.number:019d}.parquet": part for part in books.parts(table.log.name)}
        there = {file.name for file in folder.glob("part-*.parquet")}
        changed = 0
        for name in there - parts.keys():
            changed += pq.read_metadata(folder / name).num_rows
            (folder / name).unlink()
        for name in sorted(parts.keys() - there):
            rows = table.log.read(session, [parts[name].number])
            write_file(rows, "parquet", folder / name)
            changed += rows.num_rows
        return changed
