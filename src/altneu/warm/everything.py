"""Every operator on a few rows, in memory and from files: what meets every kernel."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from altneu import Collection, Session, col, source, weights
from altneu.columnar import few
from altneu.columnar.columns import FEW, Stack
from altneu.columnar.hashing import hash_rows
from altneu.columnar.lookup import rows_of_hits
from altneu.columnar.rows import Rows
from altneu.operators.reduce.collate import changes_of
from altneu.order import AltNeu, Antichain, Epoch, Product, chain_joins, due_and_pended, interesting_times

_SCHEMA = "k string, n long, x double, d decimal(10, 2), b boolean, t timestamp, i int, xs array<long>"
_TEXTS = [
    '{"n": 1, "x": -0.5e3, "s": "a\\u00e9\\ud83d\\ude00", "d": "1.5", "t": 1}',
    '{"n": 2, "s": {"y": [1, "z"]}, "xs": [1, null], "m": {"k": {"z": true}}}',
    "{",
    None,
]
_MEMBERS = "n int, x double, s string, d decimal(10, 2), t timestamp, xs array<long>, m map<string, struct<z: boolean>>"
_ROWS = [
    ("a", 1, 0.5, 1, True, None, 3, [1, 2]),
    ("a", 1, 0.5, 1, True, None, 3, [1, 2]),
    ("a", 2, -2.5, 2, False, 0, 4, None),
    ("b", 3, None, None, None, 10**15, None, []),
    (None, None, 1e300, 3, True, None, 5, [None]),
]


_QUEUE = [(1, f"{i:04}", i if i % 7 else None) for i in range(500)]


def _many(count: int) -> list[tuple[object, ...]]:
    """Distinct rows, enough of them for batches that are files of their own."""
    return [(f"k{i % 97}", i, i / 3, i % 100, i % 2 == 0, i, i % 11, [i, i + 1]) for i in range(count)]


def _sizes(_key: object, rows: list[object]) -> list[int]:
    return [len(rows)]


def _views() -> dict[str, Collection]:
    rows = source("rows", _SCHEMA, keep=True)
    texts = source("texts", "at long, text string")
    users = source("users", "k string, n long", key="k")
    known = source("known", "k string, n long", time=("system", "event"))
    queue = source("queue", "k long, x string, n long")
    grows = source("grows", "k long, n long", append_only=True)
    few = queue.select("k", "n").filter("n < 3")
    plain = rows.select("k", "n", "x", "d", "b", "t", "i")
    sums = plain.group_by("k").agg(c="count(*)", s="sum(n)", f="sum(x)", a="avg(d)", e="avg(i)", m="count(x)")
    ranks = plain.group_by("k", "b").agg(
        lo="min(n)",
        hi="max(x)",
        u="count(distinct i)",
        v="sum(distinct n)",
        l="collect_list(n)",
        z="collect_set(k)",
        c="count(*)",
    )
    return {
        "rows": rows.filter(col("n") > 0),
        "sums": sums,
        "total": plain.group_by().agg(c="count(*)", s="sum(n)", h="max(n)"),
        "parts": plain.group_by("k").agg(
            c="count(*)", lo="min(n)", hi="max(x)", u="count(distinct i)", v="sum(distinct n)"
        ),
        "ranks": ranks,
        "counts": queue.group_by("k").agg(c="count(*)", s="sum(n)"),
        "totals": plain.select("k", "n", "x", "d").weighted(weights.Sums("n", "x", "d")).consolidate(),
        "one": plain.join(sums, on="k"),
        "two": plain.join(rows.select("n", y="x"), on={"n": "n"}, how="full"),
        "three": plain.join(sums.select("k", "c"), on={"k": "k", "n": "c"}, how="left"),
        "semi": plain.semijoin(sums.filter("c > 1"), on="k"),
        "anti": plain.antijoin(sums.filter("c > 1"), on="k"),
        "distinct": plain.select("k", "b").distinct(),
        "counted": plain.select("n").concat(plain.select("n").negate()).count(),
        "threshold": plain.select("i").threshold(abs),
        "top": plain.top_k(2, by="x desc, n", per="k"),
        "first": plain.top_k(1, by="n"),
        "near": plain.window(was="lag(n) over (partition by k order by i)"),
        "placed": plain.window(
            number="row_number() over (partition by k order by x desc)",
            near="max(n) over (partition by k order by x desc range between 1 preceding and current row)",
            mean="avg(x) over (partition by k order by n rows between 1 preceding and 1 following)",
            kinds="count(distinct i) over (partition by k order by n)",
        ),
        "reduced": plain.group_by("k").reduce(_sizes, "size long"),
        "consolidated": rows.consolidate(),
        "latest": plain.latest("k", "n"),
        "nearest": plain.asof_join(
            plain.select("k", "n", y="x"), "k", time="n", mode="revising", allow_exact_matches=False
        ),
        "told": plain.asof_join(plain.select("k", "n", y="x"), "k", time="n", mode="locked", how="left"),
        "met": plain.asof_join(plain.select("k", y="x"), "k", mode="locked"),
        "elements": rows.unnest("xs", as_="element"),
        "months": plain.select("n").generate_series("date'2020-01-31'", "date'2021-01-31'", step="interval 1 month"),
        "members": texts.json("text", _MEMBERS, unit="ms"),
        "while": texts.temporal("at", "at + 2"),
        "users": users,
        "by user": users.join(plain.select("k", m="n"), on="k"),
        "spread": users.group_by("k").agg(lo="min(n)", hi="max(n)"),
        "known": known.group_by("k").agg(c="count(*)", h="max(n)"),
        "both": known.select("k", m="n div 9").join(known, on="k"),
        "filtered": plain.group_by("k").agg(
            u="count(distinct i)", v="count(distinct i) FILTER (WHERE n > 1)", w="sum(distinct i) FILTER (WHERE b)"
        ),
        "texts": texts.count(),
        "head": queue.top_k(1, by="x", per="k"),
        "best": grows.group_by("k").agg(lo="min(n)", hi="max(n)", c="count(*)"),
        "best in rounds": grows.iterate(
            lambda c: c.select("k", n="n + 1").filter("n < 9").concat(grows).group_by("k").agg(n="min(n)")
        ),
        "least in rounds": few.iterate(
            lambda c: c.select("k", n="n + 1").filter("n < 9").concat(few).group_by("k").agg(n="min(n)")
        ),
        "counted in rounds": few.select("k")
        .distinct()
        .iterate(lambda c: c.join(few, on="k").group_by("k").agg(c="count(*)").filter("c > 1").select("k")),
        "few met": few.join(few.select("k", m="n"), on="k"),
        "greatest": queue.select("k", "n").top_k(1, by="n desc", per="k"),
        "ends": queue.group_by("k").agg(lo="min(n)", hi="max(n)"),  # from the order of the one before, in reverse
        "least": queue.select("k", "n")
        .filter("false")
        .iterate(
            lambda c: c.select("k", n="n + 1").filter("n < 3").concat(queue.select("k", "n")).top_k(1, "n", per="k")
        ),
        "middle": queue.group_by("k").agg(m="median(n)", d="percentile_approx(x, 0.9)", u="count(distinct x)"),
        "most frequent": queue.group_by("k").agg(m="mode(x)", d="median(distinct n)", u="count(distinct x, n)"),
        "beside": queue.window(before="lag(n) OVER (PARTITION BY k ORDER BY x)"),
        "between": queue.window(
            total="sum(n) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING)"
        ),
        "running": queue.select("k", "x", "n", f="n / 2.0e0", d="cast(n as decimal(9, 2))").window(
            number="row_number() OVER (PARTITION BY k ORDER BY x)",
            total="sum(n) OVER (PARTITION BY k ORDER BY x)",
            mean="avg(f) OVER (PARTITION BY k ORDER BY x)",
            exact="sum(d) OVER (PARTITION BY k ORDER BY x)",
            around="max(n) OVER (PARTITION BY k ORDER BY x ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
        ),
        "between and beside": queue.window(
            total="sum(n) OVER (PARTITION BY k ORDER BY n RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
            before="lag(x) IGNORE NULLS OVER (PARTITION BY k ORDER BY n)",
        ),
        "running first": queue.window(
            earliest="first_value(n) OVER (PARTITION BY k ORDER BY x)",
            place="dense_rank() OVER (PARTITION BY k ORDER BY x)",
        ),
        "running first alone": queue.window(earliest="first_value(n) OVER (PARTITION BY k ORDER BY x)"),
        "running back": queue.window(
            total="sum(n) OVER (PARTITION BY k ORDER BY x ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"
        ),
        "circle": plain.select("n", m="n div 2")
        .join(plain.select(m="n", o="n div 2"), on="m")
        .join(plain.select("n", o="n div 4"), on=["n", "o"]),
    }


def _times() -> None:
    """Interesting times in each kind of lattice."""
    plane, groups = Product(Epoch(), Epoch()), np.zeros(2, np.int64)
    for lattice in (plane, Product(plane, Epoch()), AltNeu(plane)):
        times = np.repeat(lattice.minimum(), 2, axis=1)
        interesting = interesting_times(lattice, groups, times, np.ones(2, np.bool_))
        due_and_pended(lattice, *interesting, Antichain.minimum(lattice))
        chain_joins(lattice, times, times)


def _few() -> None:
    """What runs for a few updates, of which some cancel, and for a few matches."""
    numbers, starts = pa.array([1, 1, 2]), np.array([0, 3])
    places = few.places_of([numbers])
    assert places is not None
    few.settled(places[None], starts, 1, np.zeros((1, 3), np.int64), np.array([1, -1, 1]))
    few.gathered(places[None], starts, np.array([2, 0]), [numbers.type])
    at, choice = np.array([[0, 1], [2, 0]]), np.array([[0, 0], [1, 0]])
    few.chosen(places, at, places[None], np.array([[0, 2]]), choice, False, [numbers.type] * 2)


def _seldom() -> None:
    """What runs where hashes of keys collide, for columns of nulls, and where counts are below zero."""
    rows_of_hits(np.array([[0, 0, 0, 1]], np.int64))
    hash_rows(Rows.from_pydict({"x": [None]}, pa.schema([("x", pa.null())])))
    for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):  # more rows than Arrow takes
        schema, index = pa.schema([("x", kind)]), np.arange(FEW + 1)
        stack = Stack([Rows(schema, (pa.array(index % 100).cast(kind),), FEW + 1)], schema)
        stack.take(index)
        stack.take_words(index[:2])
    changes_of(np.zeros(2, np.int64), np.arange(2), np.array([1, -1]))


def warm() -> None:
    """Run every operator over several steps, with many times in one, in memory and in a store that is reopened."""
    _times()
    _few()
    _seldom()
    _run(_views())


def _run(queries: Mapping[str, Collection]) -> None:
    with tempfile.TemporaryDirectory(prefix="altneu-") as folder:
        for path in (None, Path(folder) / "store"):
            for part in range(2):
                with Session(path=path) as session:
                    views = [session.maintain(name, view) for name, view in queries.items()]
                    _insert(session, "rows", _ROWS)  # at one time: joins need not order the times of a key
                    _insert(session, "queue", _QUEUE)
                    session.advance()
                    for taken in range(0, 200, 50):
                        _steps(session, part, _QUEUE[taken : taken + 50])
                    for row in _QUEUE[200:205]:  # a change that is small beside its group
                        if "queue" in session.sources:
                            session.retract("queue", [row])
                        session.advance()
                    for view in views:
                        view.to_arrow(errors="ignore")


def _steps(session: Session, part: int, drained: Sequence[tuple[object, ...]]) -> None:
    """Three times in one step; changes of the sources that some view reads."""
    known = session.sources
    if "queue" in known:
        session.retract("queue", drained)
    for time in range(session.lower, session.lower + 3):
        _insert(session, "rows", _ROWS, time)
        if "rows" in known:
            session.retract("rows", _ROWS[part:3], time=time)
        if "users" in known:
            session.insert("users", [("a", time), ("b", time), ("b", part)], time=time)
            session.insert_or_update("users", [("a", part)], time=time)
            session.delete_key("users", ["b"], time=time)
        if "known" in known:
            session.insert("known", [("a", time), ("b", time)], time=(time, part))
            session.retract("known", [("a", time)], time=(time, time))
    if "texts" in known:
        session.insert("texts", [(session.lower, text, 1) for text in _TEXTS], diff="diff")
    _insert(session, "rows", _many(1000 * part + 40))
    _insert(session, "grows", [(i % 7, i) for i in range(2000)])
    session.advance(to=session.lower + 3)


def _insert(session: Session, name: str, rows: Sequence[tuple[object, ...]], time: int | None = None) -> None:
    if name in session.sources:
        session.insert(name, rows, time=time)
