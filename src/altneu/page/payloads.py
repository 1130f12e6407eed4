"""A session as JSON: its state, steps, views, sources and streams."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from altneu.engine.history import Past
from altneu.page.cells import cells_of, columns_of
from altneu.page.monitor import Change, Monitor
from altneu.page.rows import count_errors
from altneu.page.snapshot import TEMPORARY, Snapshot
from altneu.streams import Status
from altneu.streams.stream import Stream


def session_payload(monitor: Monitor, *, allow_writes: bool) -> dict[str, Any]:
    """What the head of the page shows, and how its views are."""
    engine, snapshot = monitor.engine, monitor.snapshot
    past = engine.past
    doing, failed = past.doing, past.failed
    return {
        "served": monitor.started,
        "store": snapshot.place,
        "spark": engine.spark is not None,
        "placement": engine.placement,
        "shards": snapshot.shards,
        "lower": snapshot.lower,
        "since": snapshot.since,
        "steps": past.count,
        "retained": dict(zip(("updates", "bytes"), snapshot.retained, strict=True)),
        "doing": None if doing is None else {"text": doing.text, "seconds": doing.seconds},
        "failed": None if failed is None else {"ended": failed.ended, "error": failed.error},
        "trouble": monitor.trouble,
        "allow_writes": allow_writes,
        "views": [view_in_short(snapshot, name) for name in snapshot.views],
    }


def step_payload(past: Past) -> dict[str, Any]:
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


def view_in_short(snapshot: Snapshot, name: str) -> dict[str, Any]:
    """How much a view keeps, how many errors it has, and whether it has contents to be shown."""
    ports = snapshot.ports(name)
    updates, size = snapshot.sizes.get(ports.contents, (0, 0))
    errors, contents = count_errors(snapshot, name), not ports.changes_only
    return {"name": name, "updates": updates, "bytes": size, "errors": errors, "contents": contents}


def view_payload(monitor: Monitor, snapshot: Snapshot, name: str) -> dict[str, Any]:
    """A view: its columns, times, and the statement that made it, if one did."""
    known, defined = snapshot.known(name), monitor.engine.definitions.get(name.lower())
    return view_in_short(snapshot, name) | {
        "columns": columns_of(snapshot.ports(name).schema),
        "key": list(snapshot.table.layouts[snapshot.ports(name).contents].key),
        "since": known.since,
        "lower": known.lower,
        "times": list(known.coordinates or ("time",)),
        "definition": None if defined is None else defined["text"],
    }


def change_payload(change: Change, rows: int) -> dict[str, Any]:
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


def source_payload(monitor: Monitor, snapshot: Snapshot, name: str) -> dict[str, Any]:
    """A source: its columns, whether it ever had rows, and where they come from."""
    source, defined = snapshot.sources[name], monitor.engine.definitions.get(name.lower())
    return {
        "name": name,
        "columns": columns_of(source.schema),
        "times": list(source.coordinates or ("time",)),
        "filled": name in snapshot.filled,
        "definition": None if defined is None else defined["text"],
        "stream": name in snapshot.streams,
    }


def jobs_payload(monitor: Monitor) -> dict[str, Any]:
    """The Spark jobs of the session: how many, how long, the last ones, and the rows that they read by source."""
    jobs = monitor.engine.jobs
    return {"count": jobs.count, "seconds": jobs.seconds, "read": jobs.read, "last": [asdict(j) for j in [*jobs.last]]}


def streams_payload(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The streams that are followed, or were."""
    return [_stream(stream, stream.status_at(record, snapshot.lower)) for stream, record in snapshot.streams.values()]


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
