"""Logs: rows that are stored part by part, so that a part can be read, or taken away, without reading the others.

A part is a file that was read, or what one run of a flow appended. All parts and the progress of flows are rows of two
small sources, which change in the commit that has the rows themselves: whatever is killed, both or neither are there.
What a flow has for a sink is a row of a third one from that commit on until the sink has it.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyarrow import ipc

from altneu.collections.collection import Collection
from altneu.collections.declaring import source as declare
from altneu.session import Session
from altneu.types import quote_name, to_ddl

PART = "__altneu_part"
_PARTS = declare("pipeline parts", "log string, part bigint, path string, size bigint, modified bigint")
_PROGRESS = declare("pipeline progress", "flow string, input string, path string, part bigint")
_OUTBOX = declare("pipeline outbox", "flow string, part bigint, piece bigint, rows binary")
OWN = ("pipeline parts", "pipeline progress", "pipeline outbox")
"""The views of this module's own sources."""
VIEW, ROWS = "parts of ", "rows of "
"""What the names of the arrangement and of the source of a log begin with."""


@dataclass(frozen=True)
class Log:
    """The rows of a streaming table, or of files, with some columns: with other ones it is another log."""

    title: str
    schema: pa.Schema

    @property
    def name(self) -> str:
        """What it is known by in the store."""
        return f"{self.title} ({to_ddl(self.schema)})"

    @cached_property
    def source(self) -> Collection:
        """The rows with their parts."""
        return declare(f"{ROWS}{self.name}", pa.schema([*self.schema, pa.field(PART, pa.int64())]))

    @cached_property
    def collection(self) -> Collection:
        """The rows."""
        return self.source.select(*map(quote_name, self.schema.names))

    @property
    def view(self) -> str:
        """The name of the arrangement by parts."""
        return f"{VIEW}{self.name}"

    def insert(self, session: Session, rows: pa.Table, part: int, sign: int = 1) -> None:
        """Insert rows of a part, or with -1 take them away."""
        if rows.num_rows:
            numbers = pa.array([part], pa.int64()).take(pa.nulls(rows.num_rows, pa.int64()).fill_null(0))
            change = session.insert if sign > 0 else session.retract
            change(f"{ROWS}{self.name}", rows.append_column(PART, numbers))

    def read(self, session: Session, parts: Iterable[int]) -> pa.Table:
        """The rows of some parts, looked up by their numbers.

        Cost:   the rows of these parts.
        """
        tables = [session.peek(self.source.filter(f"{quote_name(PART)} = {part}")) for part in parts]
        return pa.concat_tables([self.schema.empty_table(), *(t.select(self.schema.names) for t in tables)])

    def retract(self, session: Session, part: int) -> None:
        """Take the rows of a part away."""
        rows = session.peek(self.source.filter(f"{quote_name(PART)} = {part}"))
        if rows.num_rows:
            session.retract(f"{ROWS}{self.name}", rows)


@dataclass(frozen=True)
class Part:
    """A part of a log: its number, and of a file what it was when it was read."""

    number: int
    path: str = ""
    size: int = 0
    modified: int = 0


_PIECE_ROWS = 1 << 16  # of what is sent: a value of the outbox


class Books:
    """The parts of all logs, how far flows are, and what they send; changes count with the session's next step."""

    def __init__(self, session: Session) -> None:
        self._session = session
        own = zip(OWN, (_PARTS, _PROGRESS, _OUTBOX), strict=True)
        parts, progress, outbox = (session.maintain(name, one) for name, one in own)
        self._parts: dict[str, dict[int, Part]] = {}
        for log, number, *rest in parts.to_pylist():
            self._parts.setdefault(log, {})[number] = Part(number, *rest)
        self._progress: dict[tuple[str, str], dict[str, int]] = {}
        for flow, of, path, part in progress.to_pylist():
            self._progress.setdefault((flow, of), {})[path] = part
        self._outbox: dict[str, dict[int, list[bytes]]] = {}
        for flow, number, _, piece in sorted(outbox.to_pylist()):
            self._outbox.setdefault(flow, {}).setdefault(number, []).append(piece)

    def parts(self, log: str) -> Sequence[Part]:
        """The parts of a log, in the order of their numbers."""
        return [part for _, part in sorted(self._parts.get(log, {}).items())]

    def add(self, log: str, part: Part) -> None:
        """Note a part."""
        self._parts.setdefault(log, {})[part.number] = part
        self._session.insert(OWN[0], [(log, part.number, part.path, part.size, part.modified)])

    def remove(self, log: str, part: Part) -> None:
        """Note that a part is gone."""
        del self._parts[log][part.number]
        self._session.retract(OWN[0], [(log, part.number, part.path, part.size, part.modified)])

    def logs(self) -> list[str]:
        """The logs that have parts."""
        return [log for log, parts in self._parts.items() if parts]

    def seen(self, flow: str, of: str) -> dict[str, int]:
        """What a flow has read of an input: paths of files, or of a table (under no path) the last part."""
        return self._progress.get((flow, of), {})

    def see(self, flow: str, of: str, path: str, part: int) -> None:
        """Note what a flow has read."""
        seen = self._progress.setdefault((flow, of), {})
        if path in seen:
            self._session.retract(OWN[1], [(flow, of, path, seen[path])])
        seen[path] = part
        self._session.insert(OWN[1], [(flow, of, path, part)])

    def move(self, flow: str, of: str, path: str, part: int) -> None:
        """Note what a flow has read of an input, in the place of what it had read."""
        seen = self._progress.pop((flow, of), {})
        self._session.retract(OWN[1], [(flow, of, *had) for had in seen.items()])
        self.see(flow, of, path, part)

    def forget(self, flow: str) -> None:
        """Have a flow begin again."""
        for (name, of), seen in [*self._progress.items()]:
            if name == flow:
                self._session.retract(OWN[1], [(flow, of, path, part) for path, part in seen.items()])
                del self._progress[name, of]

    def flows(self) -> set[str]:
        """The flows that have read something."""
        return {flow for flow, _ in self._progress}

    # what flows send to sinks -----------------------------------------------------------------------------------------

    def send(self, flow: str, part: int, rows: pa.Table) -> None:
        """Keep what a flow has for a sink, in the commit that says what it has read, until it is written."""
        pieces = [_packed(batch) for batch in rows.to_batches(max_chunksize=_PIECE_ROWS)]
        self._outbox.setdefault(flow, {})[part] = pieces
        self._session.insert(OWN[2], [(flow, part, number, piece) for number, piece in enumerate(pieces)])

    def unsent(self, flow: str) -> list[tuple[int, pa.Table]]:
        """What a flow has for a sink, with the numbers of its parts, in their order."""
        parts = sorted(self._outbox.get(flow, {}).items())
        return [(part, pa.Table.from_batches([*map(_unpacked, pieces)])) for part, pieces in parts]

    def sent(self, flow: str, part: int) -> None:
        """Note that a sink has a part."""
        pieces = self._outbox[flow].pop(part)
        self._session.retract(OWN[2], [(flow, part, number, piece) for number, piece in enumerate(pieces)])


def _packed(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with ipc.new_stream(sink, batch.schema, options=ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def _unpacked(piece: bytes) -> pa.RecordBatch:
    return ipc.open_stream(piece).read_next_batch()
