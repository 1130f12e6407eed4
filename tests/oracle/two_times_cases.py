"""What tests of two times share with other tests."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

import altneu as an
from altneu import Session
from altneu.plan.rewrite import optimise
from tests.oracle.recompute import Multiset, Row, recompute, without_zeros
from tests.oracle.runners import Runner, contents_of, errors_of, row_text, table_of

A = an.source("a", "trial int, k long, v long", time=("system", "event"))
B = an.source("b", "trial int, k long, w long")
SYSTEMS, EVENTS, TRIALS = 5, 5, 4
E = A.select("trial", "k", dst="v")


_best = lambda _, group: [sum(row.v * count for row, count in group) % 5]  # noqa: E731 -- tasks know no tests


def _reach(x):
    longer = x.join(E, on={"trial": "trial", "dst": "k"}).select("trial", "k", dst="`right.dst`")
    return longer.concat(E).distinct()


def _settle(x):
    own = E.select("trial", "k", label="k")
    near = x.join(E, on=["trial", "k"]).select("trial", k="dst", label="label")
    return near.concat(own).group_by("trial", "k").agg(label="min(label)")


def _inner(x):
    return x.concat(_reach(x)).distinct().iterate(_reach)


PLANS = {
    "source": A,
    "filter with errors": A.filter("6 div v > 1"),
    "filter of its time": A.filter("logical_now() >= k"),
    "consolidate": A.select("trial", "k").consolidate(),
    "count": A.group_by("trial", "k").agg(n="count(*)", total="sum(v)", mean="avg(v)"),
    "count of everything": A.group_by().agg(n="count(*)"),
    "extremes": A.group_by("trial", "k").agg(least="min(v)", most="max(v)", kinds="count(distinct v)"),
    "lists": A.group_by("trial", "k").agg(all="collect_list(v)"),
    "distinct": A.select("trial", "k").distinct(),
    "counts": A.select("trial", "k").count(),
    "threshold": A.select("trial", "k").threshold(lambda n: min(n, 2)),
    "threshold by row": A.select("trial", "k").threshold(lambda row, n: min(n, row.k), with_row=True),
    "weights": A.select("trial", "k", n="1", s="v").weighted(an.weights.Sums("n", "s")).consolidate(),
    "top_k": A.top_k(2, "v desc", per=["trial", "k"]),
    "window": A.window(
        n="row_number() over (partition by trial, k order by v)",
        most="max(v) over (partition by trial order by k, v rows between 1 preceding and current row)",
    ),
    "values": A.group_by("trial", "k").agg(m="mode(v)", half="median(distinct v)", n="count(distinct k, v)"),
    "a median and others": A.group_by("trial", "k").agg(half="median(v)", total="sum(v)", most="max(v)"),
    "window of what is behind": A.window(
        n="sum(v) over (partition by trial, k order by v rows between current row and unbounded following)"
    ),
    "first ranks": A.window(
        n="rank() over (partition by trial order by v)", total="sum(k) over (partition by trial order by v)"
    ).filter("n <= 2"),
    "a function": A.group_by("trial", "k").reduce(_best, "best long"),
    "a failing function": A.group_by("trial", "k").reduce(lambda _, group: [6 // group[0][0].v], "best long"),
    "joined with one time": A.join(B, on=["trial", "k"]).group_by("trial", "k").agg(n="sum(w)"),
    "errors of one time": A.join(B.filter("4 div w > 1"), on=["trial", "k"]),
    "left join": A.join(B, on=["trial", "k"], how="left"),
    "antijoin": B.antijoin(A, on=["trial", "k"]),
    "self-join": A.join(A.select("trial", "k", u="v"), on=["trial", "k"]).count(),
    "reduce of a reduce": A.group_by("trial", "k").agg(n="count(*)").group_by("trial", "n").agg(m="count(*)"),
    "reach": E.iterate(_reach),
    "labels": E.select("trial", "k", label="k").iterate(_settle),
    "a loop in a loop": E.iterate(_inner, max_rounds=2, on_limit="stop"),
    "a loop of one time beside": A.join(
        B.select("trial", "k").iterate(lambda x: x.concat(B.select("trial", "k")).distinct()), on=["trial", "k"]
    ),
}

WEDGES = E.join(E, on={"trial": "trial", "dst": "k"}).select("trial", a="k", b="dst", c="`right.dst`")
PLANS |= {
    "triangles": WEDGES.join(E, on={"trial": "trial", "a": "k", "c": "dst"}),
    "triangles with one time": WEDGES.join(B, on={"trial": "trial", "a": "k", "c": "w"}),
    "triangles in a loop": E.iterate(
        lambda x: x.concat(
            WEDGES.join(x, on={"trial": "trial", "a": "k", "b": "dst"}).select("trial", k="a", dst="c")
        ).distinct()
    ),
}


def _row(rng, trial):
    return trial, rng.randrange(3), rng.randrange(3)


@dataclass
class History:
    """Updates ``(row, (system, event), diff)`` of A, and ``(row, system, diff)`` of B."""

    a: list[tuple[Row, tuple[int, int], int]]
    b: list[tuple[Row, int, int]]

    @classmethod
    def random(cls, seed: int, *, negative: bool = False) -> History:
        """Rows that come, go at their own event time or another one, and are corrected; never below zero if asked."""
        rng = random.Random(seed)
        result = cls([], [])
        for trial in range(TRIALS):
            there: list[tuple[Row, int]] = []
            for system in range(SYSTEMS):
                for _ in range(rng.randint(0, 3)):
                    if there and rng.random() < 0.4:
                        row, event = there.pop(rng.randrange(len(there)))
                        result.a.append((row, (system, event), -1))
                    elif negative and rng.random() < 0.2:
                        result.a.append((_row(rng, trial), (system, rng.randrange(EVENTS)), -1))
                    else:
                        row, event = _row(rng, trial), rng.randrange(EVENTS)
                        there.append((row, event))
                        result.a.append((row, (system, event), 1))
                if rng.random() < 0.5:
                    result.b.append(((trial, rng.randrange(3), rng.randrange(4)), system, 1))
        rng.shuffle(result.a)
        return result

    def held(self, system: int, event: int) -> Mapping[str, Multiset]:
        a: Multiset = Counter()
        for row, (s, e), diff in self.a:
            if s <= system and e <= event:
                a[row] += diff
        b: Multiset = Counter()
        for row, s, diff in self.b:
            if s <= system:
                b[row] += diff
        return {"a": without_zeros(a), "b": without_zeros(b)}

    def insert(self, session: Session, lower: int, upper: int, convert=lambda table: table) -> None:
        updates = [u for u in self.a if lower <= u[1][0] < upper]
        columns = [*zip(*((*row, s, e, d) for row, (s, e), d in updates), strict=True)] or [()] * 6
        names = [*A.schema, *(pa.field(n, pa.int64()) for n in ("s", "e", "d"))]
        table = pa.table([pa.array(c, f.type) for c, f in zip(columns, names, strict=True)], schema=pa.schema(names))
        if "a" in session._engine.declared:
            session.insert("a", convert(table), time=("s", "e"), diff="d")
        if "b" in session._engine.declared:
            actual = [u for u in self.b if lower <= u[1] < upper]
            session.insert("b", convert(table_of(actual, B)), time="time", diff="diff")


def check(view, plan, history, system, systems, first=0) -> None:
    """What a view shows at every time that it can be read at, event times from ``first`` on."""
    node = optimise(plan.node)
    for s in systems:
        for e in range(first, EVENTS + 1):
            wanted, errors = recompute(node, history.held(s, e), s)
            assert contents_of(view, (s, e)) == Counter({r: n for r, n in wanted.items() if n > 0}), (system, s, e)
            negative = {("NEGATIVE_MULTIPLICITY", row_text(plan.columns, r)) for r, n in wanted.items() if n < 0}
            assert errors_of(view, (s, e)) == errors | negative, (system, s, e)
        assert contents_of(view, s) == contents_of(view, (s, EVENTS))


def check_on(runner: Runner, name: str) -> None:
    """A view shows the same on this runner, in few steps."""
    plan, history = PLANS[name], History.random(11)
    folder = runner.folder()
    session = runner.open_session(folder)
    session.retain_events = 3
    view = session.maintain("v", plan)
    for step, (lower, upper) in enumerate(pairwise([0, 2, 3, SYSTEMS])):
        runner.before_step(session, step)
        history.insert(session, lower, upper, runner.convert)
        session.advance(to=upper)
        first = max(0, upper - 4)
        check(view, plan, history, upper, [upper - 1], first)
        if runner.reopened:
            session.close()
            session = runner.open_session(folder)
            session.retain_events = 3
            view = session.maintain("v", plan)
            check(view, plan, history, upper, [upper - 1], first)
    session.close()
