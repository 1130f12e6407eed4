"""One measurement of Pathway. Runs in Pathway's own environment: imports nothing of altneu, writes JSON to stdout.

Called with a JSON object: ``query`` (groups, join, triangles, bfs, components, count, lookup), ``files`` by source,
``mode`` (first, changes, stream), and what the mode asks for.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import threading
import time
from typing import Any

import pathway as pw
import pyarrow.parquet as pq

JOB: dict[str, Any] = json.loads(sys.argv[1])
SECOND = JOB.get("keys") if JOB["query"] == "triangles" else 1000  # values of the second column
PATIENCE = 60.0  # seconds after which a change that nothing answers is an error


class _Ident(pw.Schema):
    id: int = pw.column_definition(primary_key=True)


SCHEMAS = {
    "events": _Ident | pw.schema_from_types(g=int, v=int),
    "updates": _Ident | pw.schema_from_types(k=int, v=int),
    "a": _Ident | pw.schema_from_types(k=int, a=int),
    "edges": _Ident | pw.schema_from_types(src=int, dst=int),
}


def static(source: str) -> pw.Table:
    """An input that is there from the start."""
    return pw.debug.table_from_parquet(JOB["files"][source])


def fed(source: str, subject: pw.io.python.ConnectorSubject) -> pw.Table:
    """An input that a subject feeds, without its id."""
    table = pw.io.python.read(subject, schema=SCHEMAS[source], autocommit_duration_ms=None)
    return table.without("id")


def groups(events: pw.Table) -> pw.Table:
    """Case a."""
    return events.groupby(events.g).reduce(events.g, n=pw.reducers.count(), total=pw.reducers.sum(events.v))


def join(left: pw.Table, right: pw.Table) -> pw.Table:
    """Case b."""
    return left.join(right, left.k == right.k).select(left.k, left.a, right.b)


def triangles(edges: pw.Table) -> pw.Table:
    """Case j."""
    second, third = edges.copy(), edges.copy()
    both = edges.join(second, edges.dst == second.src).select(a=edges.src, c=second.dst)
    result = both.join(third, both.a == third.src, both.c == third.dst).select(both.a)
    return result.reduce(n=pw.reducers.count())


def bfs(edges: pw.Table) -> pw.Table:
    """Case g: distances from node 0."""
    root = pw.debug.table_from_rows(pw.schema_from_types(node=int, found=int), [(0, 0)])
    return _least(edges, root, 1)


def components(edges: pw.Table) -> pw.Table:
    """Case g: the least node of each component."""
    turned = edges.select(src=edges.dst, dst=edges.src)
    both = pw.Table.concat_reindex(edges.select(edges.src, edges.dst), turned)
    return _least(both, both.groupby(both.src).reduce(node=both.src, found=both.src), 0)


def _least(edges: pw.Table, start: pw.Table, more: int) -> pw.Table:
    """The least of what is found along edges, ``more`` at each, until nothing changes.

    Of the forms that were tried the fastest: steps by pointers, as Pathway's Bellman-Ford goes, took twice as long.
    """

    def further(state: pw.Table, edges: pw.Table, start: pw.Table) -> dict[str, pw.Table]:
        met = edges.join(state, edges.src == state.node).select(node=edges.dst, found=state.found + more)
        known = pw.Table.concat_reindex(met, start)
        near = known.groupby(known.node).reduce(known.node, found=pw.reducers.min(known.found))
        return {"state": near.with_id_from(near.node)}

    start = start.with_id_from(start.node)
    return pw.iterate(further, state=pw.iterate_universe(start), edges=edges, start=start).state


# The query, what changes in it, and the columns of that.
QUERIES = {
    "groups": (groups, "events", ["g", "v"]),
    "join": (lambda a: join(a, static("b")), "a", ["k", "a"]),
    "triangles": (triangles, "edges", ["src", "dst"]),
    "bfs": (bfs, "edges", ["src", "dst"]),
    "components": (components, "edges", ["src", "dst"]),
}


def count(events: pw.Table) -> pw.Table:
    """Case c: filter and count."""
    large = events.filter(events.v >= 100)
    return large.groupby(large.k).reduce(large.k, n=pw.reducers.count())


def lookup(events: pw.Table, dimension: pw.Table) -> pw.Table:
    """Case c: filter and join."""
    large = events.filter(events.v >= 100)
    return large.join(dimension, large.k == dimension.k).select(large.k, large.v, dimension.w)


class Changes(pw.io.python.ConnectorSubject):
    """Rows that come and go again, each alone, then all in one commit; waits until the view has answered."""

    def __init__(self, columns: list[str], keys: int, number: int) -> None:
        super().__init__()
        self.columns, self.keys, self.number = columns, keys, number
        self.answered = threading.Event()
        self.one_by_one: list[float] = []
        self.at_once: list[float] = []

    def run(self) -> None:
        """Wait for the static inputs, warm up, measure."""
        self._wait()
        self._singly(50)
        self.one_by_one = self._singly(self.number)
        for i in range(3):
            started = time.perf_counter()
            rows = [self._row(1_000_000 * (i + 1) + j) for j in range(self.number)]
            self._send(rows, 1)
            self.at_once.append(time.perf_counter() - started)

    def _row(self, ident: int) -> dict[str, int]:
        rng = random.Random(ident)
        return {"id": ident, self.columns[0]: rng.randrange(self.keys), self.columns[1]: rng.randrange(SECOND)}

    def _singly(self, number: int) -> list[float]:
        seconds = []
        for i in range(number):
            row = self._row(i // 2)
            started = time.perf_counter()
            self._send([row], -1 if i % 2 else 1)
            seconds.append(time.perf_counter() - started)
        return seconds

    def _send(self, rows: list[dict[str, int]], diff: int) -> None:
        self.answered.clear()
        for row in rows:
            if diff > 0:
                self.next(**row)
            else:
                self.delete(**row)
        self.commit()
        self._wait()

    def _wait(self) -> None:
        if not self.answered.wait(PATIENCE):
            raise TimeoutError("the view did not answer a change")


class Stream(pw.io.python.ConnectorSubject):
    """The updates of a Parquet file in batches, a commit after each, without waiting for answers."""

    def run(self) -> None:
        """Send them all."""
        self.started = time.perf_counter()
        table = pq.read_table(JOB["files"]["updates"]).slice(0, JOB["updates"])
        k, v, d = (table.column(n).to_pylist() for n in "kvd")
        ids: dict[tuple[int, int], list[int]] = {}
        for i in range(len(k)):
            if d[i] > 0:
                ids.setdefault((k[i], v[i]), []).append(i)
                self.next(id=i, k=k[i], v=v[i])
            else:
                self.delete(id=ids[k[i], v[i]].pop(), k=k[i], v=v[i])
            if (i + 1) % JOB["batch"] == 0:
                self.commit()
        self.commit()


def run() -> None:
    """Run the graph to its end."""
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


def first() -> dict[str, Any]:
    """The query over Parquet files, its result discarded."""
    started = time.perf_counter()
    query, source, _ = QUERIES[JOB["query"]]
    pw.io.null.write(query(static(source)))
    run()
    return {"seconds": time.perf_counter() - started}


def changes() -> dict[str, Any]:
    """One-row changes after the query has been computed."""
    query, source, columns = QUERIES[JOB["query"]]
    subject = Changes(columns, JOB["keys"], JOB["changes"])
    table = pw.Table.concat_reindex(static(source), fed(source, subject))
    view = query(table)
    heard = view.reduce(n=pw.reducers.count()) if JOB["query"] == "join" else view
    if JOB["query"] == "triangles":  # most edges close none, and what does not change says nothing
        heard = table.reduce(n=pw.reducers.count()).join(view).select(pw.left.n, m=pw.right.n)
    pw.io.null.write(view)
    changed: set[int] = set()

    def on_time_end(time: int) -> None:
        if time in changed:
            subject.answered.set()

    pw.io.subscribe(heard, on_change=lambda time, **_: changed.add(time), on_time_end=on_time_end)
    run()
    return {"one_by_one": subject.one_by_one, "at_once": subject.at_once}


def stream() -> dict[str, Any]:
    """The stream of case c."""
    times: set[int] = set()
    subject = Stream()
    events = fed("updates", subject)
    view = count(events) if JOB["query"] == "count" else lookup(events, static("dimension"))
    pw.io.subscribe(view, on_change=lambda time, **_: times.add(time))
    run()
    return {"seconds": time.perf_counter() - subject.started, "times": len(times)}


if __name__ == "__main__":
    found = {"first": first, "changes": changes, "stream": stream}[JOB["mode"]]()
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(found))
