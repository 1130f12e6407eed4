"""Messages of updates and progress as a target, for another session or a program of the Rust crate."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from altneu.cdc.files import ABOUT, MessageFile, message_files, read_lines, row_texts, written_lines
from altneu.cdc.messages import Progress, Refused, read
from altneu.columnar.rows import Rows
from altneu.errors import SinkError, TypeMismatchError
from altneu.operators.json.text import json_fields, parse_json
from altneu.sinks.base import Mark, Sink, sole_writer
from altneu.store import LocalFolder, folder_of
from altneu.trace.update import Updates
from altneu.types import to_ddl

if TYPE_CHECKING:
    from altneu.engine.reading import OnErrors
from altneu.views.view import View

_FORMAT = 1


class FeedSink(Sink):
    """A folder of files of messages; see ``altneu.sinks.feed``."""

    def __init__(self, view: View, path: str | os.PathLike[str], *, errors: OnErrors, lease: float | str) -> None:
        super().__init__(view, "append", (), errors, lease)
        if view.coordinates is not None:
            raise SinkError(
                f"view {view.name!r} has the times {' and '.join(view.coordinates)}, and a message says one; write its "
                'changes with an.sinks.parquet(..., mode="append"), which has all'
            )
        try:
            self._fields = tuple(replace(field, path=(field.name,)) for field in json_fields(view.schema))
        except TypeMismatchError as error:
            raise SinkError(f"view {view.name!r} cannot be written as messages: {error}") from None
        folder = folder_of(path)
        if not isinstance(folder, LocalFolder):
            raise SinkError(f"{folder.where()} is not on a local disk, and a feed is written to local files")
        self._folder = folder
        folder.make()

    @property
    def where(self) -> str:
        """The folder."""
        return self._folder.where()

    def mark(self) -> Mark | None:
        """The end of the last file; of which view the files are stands beside them."""
        files = message_files(self._folder)
        if not files:
            return None
        where = self._folder.where(ABOUT)
        try:
            said: Any = json.loads(bytes(self._folder.read(ABOUT)))
            store, view, schema = (str(said[name]) for name in ("store", "view", "schema"))
            fits = said["format"] == _FORMAT
        except (ValueError, LookupError, TypeError) as error:
            raise SinkError(f"{where} does not say what the messages beside it are of: {error}") from error
        if not fits:
            raise SinkError(f"{where} has a format that this version does not know")
        if schema != to_ddl(self.view.schema):
            raise SinkError(f"{self.where} has messages with the columns {schema}; use the same, or another folder")
        return Mark(store, view, max(file.upper for file in files))

    def contents(self) -> Updates:
        """What all messages add up to."""
        total: Counter[str] = Counter()
        upto = 0
        for file in message_files(self._folder):
            if file.lower > upto:
                raise SinkError(
                    f"{self.where} has no messages of the times from {upto} to {file.lower - 1}: they were removed, "
                    "and what is missing cannot be computed without them; choose an empty folder"
                )
            upto = max(upto, file.upper)
            for line in read_lines(self._folder, file):
                try:
                    said = read(line)
                except Refused as error:
                    raise SinkError(f"{self._folder.where(file.name)} has a message that is none: {error}") from None
                for update in () if isinstance(said, Progress) else said:
                    total[update.data] += update.diff
        left = {data: n for data, n in total.items() if n}
        columns, failed, failure = parse_json(pa.array(list(left), pa.string()), self._fields)
        if failed is not None:
            raise SinkError(f"{self.where} has a row that does not fit the view: {failure(int(failed.argmax()))[1]}")
        schema = self.view.schema
        rows = Rows.from_batch(pa.Table.from_arrays(columns, names=schema.names).cast(schema))
        return Updates(rows, np.zeros((1, len(left)), np.int64), np.array(list(left.values()), np.int64))

    def apply(self, updates: Updates, before: Mark | None, after: Mark) -> None:
        """Write one file; it counts when it gets its name."""
        file = MessageFile(0 if before is None else before.frontier, after.frontier)
        data = list(row_texts(updates.rows))
        times, diffs = updates.times[0].tolist(), updates.diffs.tolist()
        if len({*zip(data, times, strict=True)}) < len(data):
            raise SinkError(
                f"view {self.view.name!r} has different rows that are one row as JSON: strings that are not UTF-8; "
                "encode them, as hex(column) does"
            )
        content = written_lines(data, times, diffs, file)
        with sole_writer(self, self._folder, before):
            if before is None:
                self._folder.put(ABOUT, self._about(after))
            self._folder.clear_unfinished()
            self._folder.put(file.name, content)
            self._folder.sync()

    def _about(self, mark: Mark) -> bytes:
        schema = to_ddl(self.view.schema)
        said = {"format": _FORMAT, "store": mark.store, "view": mark.view, "schema": schema}
        return (json.dumps(said, indent=1) + "\n").encode("ascii")
