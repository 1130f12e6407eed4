"""Collections of the empty key are in one shard, whatever is made of them: consolidated, joined, counted, kept late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

import altneu as an
from altneu import Collection, Session
from tests.oracle.runners import contents_of
from tests.session.reshard_cases import check_places

A = an.source("a", "k long", keep=True)
B = an.source("b", "k long", keep=True)

OF_ONE_GROUP = {
    "top_k": A.top_k(5, "k"),
    "window": A.window(n="count(*) over ()").select("k"),
    "sums": A.group_by().agg(k="max(k)"),
    "reduce": A.group_by().reduce(lambda _, rows: [(row.k,) for row, _ in rows], "k long"),
    "loop": A.top_k(5, "k").iterate(lambda c: c.concat(c.select(k="k + 1").filter("k < 4")).top_k(5, "k")),
}
READERS = {
    "view": lambda c: c,
    "join": lambda c: c.join(B, on="k"),
    "joined by": lambda c: B.join(c, on="k"),
    "left join": lambda c: c.join(B.select("k", other="k"), on="k", how="left"),
    "semijoin": lambda c: c.semijoin(B, on="k"),
    "antijoin": lambda c: c.antijoin(B, on="k"),
    "antijoined by": lambda c: B.antijoin(c, on="k"),
    "distinct": lambda c: c.concat(B.consolidate()).distinct(),
    "counted": lambda c: c.concat(B).group_by("k").agg(n="count(*)"),
    "top of each": lambda c: c.concat(B).top_k(1, "k", per="k"),
    "minus": lambda c: B.concat(c, c.negate().consolidate()).distinct(),
    "counted together": lambda c: c.concat(B).group_by().agg(n="count(*)", most="max(k)"),
    "arranged": lambda c: c.arrange_by("k"),
}


def readers(of_one: Collection) -> dict[str, Collection]:
    """Everything that reads it, consolidated; and some of it with the same a second time, and as it is."""
    again = of_one.consolidate().filter("k < 100").consolidate()
    actual = {name: read(of_one.consolidate()) for name, read in READERS.items()}
    return {**actual, "joined again": READERS["join"](again), "distinct as it is": READERS["distinct"](of_one)}


CHANGES = [
    {"a": [(1, 1), (2, 1), (3, 1), (4, 1)], "b": [(2, 1), (3, 1), (5, 1), (6, 1)]},
    {"a": [(2, -1), (7, 2)], "b": [(4, 1), (3, -1)]},
    {"a": [(1, -1), (0, 1), (8, 1)], "b": [(2, -1), (0, 1)]},
    {"a": [(0, -1), (3, -1), (4, -1), (7, -2), (8, -1)], "b": [(0, -1), (4, -1), (5, -1), (6, -1)]},
]


def steps(session: Session) -> Iterator[int]:
    for number, change in enumerate(CHANGES):
        for source, updates in change.items():
            _insert(session, source, updates)
        session.advance()
        yield number


def _insert(session: Session, source: str, updates: list[tuple[int, int]]) -> None:
    for k, diff in updates:
        (session.insert if diff > 0 else session.retract)(source, [(k,)] * abs(diff))


def shown(session: Session, plans: dict[str, Collection]) -> list[dict[str, tuple[Counter, Counter]]]:
    """Contents, and the sum of all changes so far, of every view after every step."""
    views = {name: session.maintain(name, plan) for name, plan in plans.items()}
    sums: dict[str, Counter] = {name: Counter() for name in views}
    result = []
    for _ in steps(session):
        check_places(session)
        for name, view in views.items():
            for *row, _, diff in map(dict.values, view.changes().to_pylist()):
                sums[name][tuple(row)] += diff
        result.append({n: (contents_of(v), Counter({r: c for r, c in sums[n].items() if c})) for n, v in views.items()})
    return result


@pytest.mark.parametrize("name", OF_ONE_GROUP)
def test_what_is_of_one_group_is_read_right_whatever_the_shards(name):
    plans = readers(OF_ONE_GROUP[name])
    with Session() as session:
        wanted = shown(session, plans)
    assert all(contents == changes for step in wanted for contents, changes in step.values())
    assert any(wanted[0][n][0] for n in plans)
    with Session(shards=3) as session:
        actual = shown(session, plans)
    for number, (seen, right) in enumerate(zip(actual, wanted, strict=True)):
        assert seen == right, (number, {n: (seen[n], right[n]) for n in plans if seen[n] != right[n]})


@pytest.mark.parametrize("name", OF_ONE_GROUP)
def test_late_views_of_what_is_of_one_group(name):
    """Each is maintained after the first step, upon what one that was there has kept, and goes on like any other."""
    plans = readers(OF_ONE_GROUP[name])
    with Session() as session:
        wanted = shown(session, plans)
    with Session(shards=3) as session:
        first = session.maintain("first", OF_ONE_GROUP[name].consolidate())
        session.maintain("others", B)
        for number in steps(session):
            if number == 1:
                session.reshard(6)
            views = {n: session.maintain(n, plan) for n, plan in plans.items()}
            check_places(session)
            for reader, view in views.items():
                assert view.errors().num_rows == 0
                assert contents_of(view) == wanted[number][reader][0], (number, reader)
        assert first.errors().num_rows == 0


@pytest.mark.spark
def test_what_is_of_one_group_is_read_right_on_spark(spark):
    plans = readers(OF_ONE_GROUP["top_k"])
    plans = {name: plans[name] for name in ("join", "antijoined by", "distinct", "joined again")}
    with Session() as session:
        wanted = shown(session, plans)
    with Session(spark, placement="spark") as session:
        assert shown(session, plans) == wanted
