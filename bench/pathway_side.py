"""One measurement of Pathway. Runs in Pathway's own environment: imports nothing of altneu, writes JSON to stdout.

Called with a JSON object: ``query`` (groups, join, triangles, bfs, components, count, lookup, one of ``ONE_GROUP``),
``files`` by source, ``mode`` (first, changes, steps, stream), and what the mode asks for.
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
PATIENCE = 600.0  # seconds after which a change that nothing answers is an error
TOP, BEFORE = 10, 10  # rows of the first ones, and rows before a row of which the mean is taken with it


class _Ident(pw.Schema):
    id: int = pw.column_definition(primary_key=True)


SCHEMAS = {
    "events": _Ident | pw.schema_from_types(g=int, v=int),
    "updates": _Ident | pw.schema_from_types(k=int, v=int),
    "a": _Ident | pw.schema_from_types(k=int, a=int),
    "edges": _Ident | pw.schema_from_types(src=int, dst=int),
    "t": _Ident | pw.schema_from_types(g=int, o=int, v=int, w=str),
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


def extremes(t: pw.Table) -> pw.Table:
    """Case q: min and max."""
    return t.groupby(t.g).reduce(t.g, low=pw.reducers.min(t.v), high=pw.reducers.max(t.v))


def top(t: pw.Table) -> pw.Table:
    """Case q: the greatest values. Pathway has no such reducer: all are sorted, and the first ones taken."""
    every = t.groupby(t.g).reduce(t.g, all=pw.reducers.sorted_tuple(-t.v))
    return every.select(every.g, first=pw.apply(lambda values: values[:TOP], every.all))


def distinct(t: pw.Table) -> pw.Table:
    """Case q: count(DISTINCT), by two groupings, of which each is kept right row by row."""
    values = t.groupby(t.g, t.w).reduce(t.g, t.w)
    return values.groupby(values.g).reduce(values.g, n=pw.reducers.count())


def _in_order(t: pw.Table) -> pw.Table:
    """With pointers to the rows before and after."""
    return t + t.sort(key=t.o, instance=t.g)


def lag(t: pw.Table) -> pw.Table:
    """Case q: the value of the row before."""
    rows = _in_order(t)
    return rows.select(rows.g, rows.o, r=rows.ix(rows.prev, optional=True).v)


def average(t: pw.Table) -> pw.Table:
    """Case q: the mean of a row and those before it, which are followed one by one."""
    rows = _in_order(t)
    reached = rows.select(rows.g, rows.o, at=rows.prev, total=rows.v, n=1)
    for _ in range(BEFORE):
        found = rows.ix(reached.at, optional=True)
        reached = reached.select(
            reached.g,
            reached.o,
            at=found.prev,
            total=reached.total + pw.coalesce(found.v, 0),
            n=reached.n + pw.if_else(reached.at.is_none(), 0, 1),
        )
    return reached.select(reached.g, reached.o, r=reached.total / reached.n)


def filter_count(t: pw.Table) -> pw.Table:
    """Case q: filter and count."""
    large = t.filter(t.v >= 100)
    return large.groupby(large.g).reduce(large.g, n=pw.reducers.count())


def filter_join(t: pw.Table) -> pw.Table:
    """Case q: filter and join."""
    large, d = t.filter(t.v >= 100), static("d")
    return large.join(d, large.g == d.g).select(large.g, large.v, d.label)


ONE_GROUP = {
    "extremes": extremes,
    "top": top,
    "distinct": distinct,
    "lag": lag,
    "average": average,
    "filter_count": filter_count,
    "filter_join": filter_join,
}
# The query, what changes in it, and the columns of that.
QUERIES = {
    **{name: (query, "t", ["g", "o", "v", "w"]) for name, query in ONE_GROUP.items()},
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

    def __init__(self, columns: list[str], ranges: list[int], number: int, warm: int, turns: int) -> None:
        super().__init__()
        self.columns, self.ranges, self.number, self.warm, self.turns = columns, ranges, number, warm, turns
        self.answered = threading.Event()
        self.one_by_one: list[float] = []
        self.at_once: list[float] = []

    def run(self) -> None:
        """Wait for the static inputs, warm up, measure."""
        self._wait()
        self._singly(self.warm)
        self.one_by_one = self._singly(self.number)
        for i in range(self.turns):
            started = time.perf_counter()
            rows = [self._row(1_000_000 * (i + 1) + j) for j in range(self.number)]
            self._send(rows, 1)
            self.at_once.append(time.perf_counter() - started)

    def _row(self, ident: int) -> dict[str, Any]:
        """A row: ``o`` is odd, between those that are there, and ``w`` a text."""
        rng, row = random.Random(ident), dict[str, Any]({"id": ident})
        for name, many in zip(self.columns, self.ranges, strict=True):
            number = rng.randrange(many)
            row[name] = 2 * number + 1 if name == "o" else f"w{number}" if name == "w" else number
        return row

    def _singly(self, number: int) -> list[float]:
        seconds = []
        for i in range(number):
            row = self._row(i // 2)
            started = time.perf_counter()
            self._send([row], -1 if i % 2 else 1)
            seconds.append(time.perf_counter() - started)
        return seconds

    def _send(self, rows: list[dict[str, Any]], diff: int) -> None:
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
    """One-row changes after the query has been computed, then all of them at once; in the mode "steps" the former."""
    query, source, columns = QUERIES[JOB["query"]]
    ranges, turns = JOB.get("ranges") or [JOB["keys"], SECOND], 3 if JOB["mode"] == "changes" else 0
    subject = Changes(columns, ranges, JOB["changes"], min(50, JOB["changes"]), turns)
    table = pw.Table.concat_reindex(static(source), fed(source, subject))
    view = query(table)
    heard = view.reduce(n=pw.reducers.count()) if JOB["query"] == "join" else view
    if JOB["query"] == "triangles":  # most edges close none, and what does not change says nothing
        heard = table.reduce(n=pw.reducers.count()).join(view).select(pw.left.n, m=pw.right.n)
    if JOB["query"] in ONE_GROUP:  # a row may change nothing, or many rows
        many = view.reduce(m=pw.reducers.count())
        heard = table.reduce(n=pw.reducers.count()).join(many).select(pw.left.n, pw.right.m)
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
    found = {"first": first, "changes": changes, "steps": changes, "stream": stream}[JOB["mode"]]()
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(found))
