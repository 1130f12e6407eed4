"""A session in JSON: what it is, its steps, views, sources and streams."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from altneu.engine.history import Past
from altneu.page.board import Board, Change
from altneu.page.cells import cells_of, columns_of
from altneu.page.rows import count_errors
from altneu.page.shot import TEMPORARY, Shot
from altneu.streams import Status
from altneu.streams.stream import Stream


def session_told(board: Board, *, allow_writes: bool) -> dict[str, Any]:
    """What the head of the page shows, and how its views are."""
    engine, shot = board.engine, board.shot
    past = engine.past
    doing, failed = past.doing, past.failed
    return {
        "served": board.started,
        "store": shot.place,
        "spark": engine.spark is not None,
        "placement": engine.placement,
        "shards": shot.shards,
        "lower": shot.lower,
        "since": shot.since,
        "steps": past.count,
        "kept": dict(zip(("updates", "bytes"), shot.kept, strict=True)),
        "doing": None if doing is None else {"text": doing.text, "seconds": doing.seconds},
        "failed": None if failed is None else {"ended": failed.ended, "error": failed.error},
        "trouble": board.trouble,
        "allow_writes": allow_writes,
        "views": [view_in_short(shot, name) for name in shot.views],
    }


def step_told(past: Past) -> dict[str, Any]:
    """A step."""
    step = past.step
    return {
        "number": past.number,
        "ended": past.ended,
        "lower": step.lower,
        "upper": step.upper,
        "seconds": step.seconds,
        "changes_in": step.changes_in,
        "changes_out": {n: rows for n, rows in step.changes_out.items() if not n.startswith(TEMPORARY)},
        "placement": step.placement,
        "state_rows": step.state_rows,
    }


def view_in_short(shot: Shot, name: str) -> dict[str, Any]:
    """How much a view keeps, how many errors it has, and whether it has contents to be shown."""
    ports = shot.ports(name)
    updates, size = shot.sizes.get(ports.contents, (0, 0))
    errors, contents = count_errors(shot, name), not ports.changes_only
    return {"name": name, "updates": updates, "bytes": size, "errors": errors, "contents": contents}


def view_told(board: Board, shot: Shot, name: str) -> dict[str, Any]:
    """A view: its columns, times, and the statement that made it, if one did."""
    known, defined = shot.known(name), board.engine.definitions.get(name.lower())
    return view_in_short(shot, name) | {
        "columns": columns_of(shot.ports(name).schema),
        "key": list(shot.table.layouts[shot.ports(name).contents].key),
        "since": known.since,
        "lower": known.lower,
        "times": list(known.coordinates or ("time",)),
        "definition": None if defined is None else defined["text"],
    }


def change_told(change: Change, rows: int) -> dict[str, Any]:
    """What a step changed in a view, at most so many rows; at each time those that go before those that come."""
    shown = change.shown.take(np.lexsort((change.shown.diffs > 0, change.shown.times[0]))[:rows])
    step = change.past.step
    return {
        "number": change.past.number,
        "ended": change.past.ended,
        "lower": step.lower,
        "upper": step.upper,
        "total": change.total,
        "times": shown.times.T.tolist(),
        "diffs": shown.diffs.tolist(),
        "rows": cells_of(shown.rows),
    }


def source_told(board: Board, shot: Shot, name: str) -> dict[str, Any]:
    """A source: its columns, whether it ever had rows, and where they come from."""
    source, defined = shot.sources[name], board.engine.definitions.get(name.lower())
    return {
        "name": name,
        "columns": columns_of(source.schema),
        "times": list(source.coordinates or ("time",)),
        "filled": name in shot.filled,
        "definition": None if defined is None else defined["text"],
        "stream": name in shot.streams,
    }


def jobs_told(board: Board) -> dict[str, Any]:
    """The Spark jobs of the session: how many, how long, the last ones, and the rows that they read by source."""
    jobs = board.engine.jobs
    return {"count": jobs.count, "seconds": jobs.seconds, "read": jobs.read, "last": [asdict(j) for j in [*jobs.last]]}


def streams_told(shot: Shot) -> list[dict[str, Any]]:
    """The streams that are followed, or were."""
    return [_stream(stream, stream.status_at(record, shot.lower)) for stream, record in shot.streams.values()]


def _stream(stream: Stream, status: Status) -> dict[str, Any]:
    """A stream: how far it was taken, how far behind it is, and what Spark says of its last micro-batch."""
    query, error = stream.query, stream.error
    progress = None if query is None else query.lastProgress
    shown = ("batchId", "numInputRows", "inputRowsPerSecond", "processedRowsPerSecond", "batchDuration")
    return {
        "name": status.name,
        "active": status.active,
        "batch": status.batch,
        "batches": status.batches,
        "rows": status.rows,
        "late": status.late,
        "seconds": status.seconds,
        "last_seconds": status.last_seconds,
        "seen": status.seen,
        "frontier": status.frontier,
        "lag": status.lag,
        "error": None if error is None else str(error),
        "spark": None if progress is None else {key: getattr(progress, key, None) for key in shown},
    }
