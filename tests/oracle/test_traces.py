"""Traces against recomputation: lookups and cursors at every retained time, and imports into another session."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu.columnar.hashing import hash_bits
from altneu.trace import cursor
from tests.oracle.histories import accumulated, random_cuts, random_history
from tests.oracle.runners import table_of

ROWS = an.source("rows", "case_ int, k long, v long, s string", keep=True)
KEYS = [1, 2, 3, None]


def a_row(rng, case):
    return (
        case,
        rng.choice(KEYS),
        rng.choice([0, 1, 2, 5, -3, None]),
        rng.choice(["a long text 1", "a long text 2", None]),
    )


def descending(value):
    return value is None, -(value or 0)


def by_text(text):
    return text is not None, text or ""


KINDS = {
    "by key": (("k",), ()),
    "in order": (("k",), ("v desc", "s")),
    "one group": ((), ("v", "s desc")),
    "by two": (("s", "k"), ()),
}


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(cursor, "LEAST", 1)
    monkeypatch.setattr(cursor, "MOST", 4)


def entries(found):
    """The updates of a cursor, as rows in the order of the source, times and diffs."""
    updates = []
    for key, value, time, diff in found:
        row = {**key.asdict(), **value.asdict()}
        updates.append((tuple(row[name] for name in ROWS.columns), time, diff))
    return updates


def compacted(updates, since, lower):
    sums = Counter()
    for row, time, diff in updates:
        if time < lower:
            sums[row, max(time, since)] += diff
    return Counter({update: diff for update, diff in sums.items() if diff})


def check(trace, kind, history, lower, *, together=True):
    key, _ = KINDS[kind]
    found = entries(trace.cursor())
    assert Counter({(row, time): diff for row, time, diff in found}) == compacted(history, trace.since, lower)
    assert len(found) == len({(row, time) for row, time, _ in found})
    for at in range(trace.since, lower):
        rows = accumulated(history, at)
        found = entries(trace.cursor(at=at))
        assert {(row, time): n for row, time, n in found} == {(row, at): n for row, n in rows.items()}
        values = [tuple(row[ROWS.columns.index(name)] for name in key) for row, _, _ in found]
        if together:
            assert len([1 for i, v in enumerate(values) if i == 0 or v != values[i - 1]]) == len({*values})  # together
        for value in {*values, (None,) * len(key)} if key else [()]:
            mine = Counter(
                {row: n for row, n in rows.items() if tuple(row[ROWS.columns.index(c)] for c in key) == value}
            )
            looked = trace.lookup(*value, at=at)
            assert Counter({(*v,): n for v, n in looked}) == Counter({without(row, key): n for row, n in mine.items()})
            if kind == "in order":
                check_order(trace, value, mine, at)
        if kind == "one group":
            assert [row[2] for row, _, _ in found] == sorted((row[2] for row in rows), key=lambda v: (v is not None, v))
            some = entries(trace.cursor(start=0, stop=3, at=at))
            assert {row: n for row, _, n in some} == {
                r: n for r, n in rows.items() if r[2] is not None and 0 <= r[2] < 3
            }


def check_order(trace, value, rows, at):
    """The rows of a key in their order, and every part of them."""
    ordered = entries(trace.cursor(*value, at=at))
    assert [(row[2], row[3]) for row, _, _ in ordered] == sorted(
        ((row[2], row[3]) for row in (r for r, _, _ in ordered)), key=lambda r: (descending(r[0]), by_text(r[1]))
    )
    for bound in (5, 1, -4, None):
        start = entries(trace.cursor(*value, start=bound, at=at))
        stop = entries(trace.cursor(*value, stop=bound, at=at))
        assert start == [e for e in ordered if descending(e[0][2]) >= descending(bound)]
        assert stop == [e for e in ordered if descending(e[0][2]) < descending(bound)]
        prefix = entries(trace.cursor(*value, bound, at=at))
        assert prefix == [e for e in ordered if e[0][2] == bound]
        texts = entries(trace.cursor(*value, bound, start="a long text 2", at=at))
        assert texts == [e for e in prefix if by_text(e[0][3]) >= by_text("a long text 2")]


def pairs(rows):
    """The join of rows with themselves by k, each pair twice."""
    expected = Counter()
    for one, n in rows.items():
        for two, m in rows.items():
            if one[1] == two[1] is not None:
                for i in range(2):
                    expected[one[1], one[2], two[2], i] += n * m
    return Counter({row: n for row, n in expected.items() if n})


def without(row, key):
    return tuple(value for name, value in zip(ROWS.columns, row, strict=True) if name not in key)


def test_collisions_of_hashes_change_nothing(small_chunks):
    history = random_history(random.Random(7), {"rows": a_row}, cases=2, times=7, size=3)["rows"]
    with hash_bits(2), an.Session(retain="all") as session:
        traces = {kind: session.arrange(kind, ROWS, *key, order=order) for kind, (key, order) in KINDS.items()}
        session.insert("rows", table_of(history, ROWS), time="time", diff="diff")
        for upper in (3, 7):
            session.advance(to=upper)
            for kind, trace in traces.items():
                check(trace, kind, history, upper, together=False)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(3))
def test_traces_equal_recomputation_and_imports_follow_them(runner, seed, small_chunks):
    rng = random.Random(seed)
    history = random_history(rng, {"rows": a_row}, cases=2, times=7, size=3)["rows"]
    cuts = random_cuts(rng, 7)
    folder = runner.folder()
    other = an.Session(retain="all")

    def pair(row, left, right):  # inside, because Spark's workers do not find this module
        for n in range(2):
            yield row.k, left.v, right.v, n

    def opened():
        session = runner.open_session(folder)
        traces = {
            kind: session.arrange(kind, ROWS, *key, order=order, retain=2 if kind == "by key" else None)
            for kind, (key, order) in KINDS.items()
        }
        paired = traces["by key"].join_core(traces["in order"], pair, "k long, v long, w long, n int")
        session.maintain("paired", paired)
        return session, traces

    session, traces = opened()
    imported = other.source_from(traces["in order"], "copy")
    copy = other.maintain("copy", imported.collection)
    lower, times = 0, []
    for step, upper in enumerate(cuts):
        runner.before_step(session, step)
        updates = [u for u in history if lower <= u[1] < upper]
        session.insert("rows", runner.convert(table_of(updates, ROWS)), time="time", diff="diff")
        session.advance(to=upper)
        for kind, trace in traces.items():
            check(trace, kind, history, upper)
        assert traces["by key"].since <= max(upper - 3, 0)
        found = Counter()
        for table in session.trace("paired").cursor(at=upper - 1).tables():
            found.update({(row["k"], row["v"], row["w"], row["n"]): row["diff"] for row in table.to_pylist()})
        assert found == pairs(accumulated(history, upper - 1))
        if step % 2 or upper == cuts[-1]:  # it may lag
            imported.advance()
            times.append(upper - 1)
            assert other.lower == upper
            for at in times:
                there = Counter()
                for row, time, diff in entries(other.trace("copy").cursor()):
                    there[row] += diff if time <= at else 0
                assert Counter({r: n for r, n in there.items() if n}) == accumulated(history, at)
        lower = upper
        if runner.reopened:
            session.close()
            session, traces = opened()
            imported = other.source_from(traces["in order"], "copy")
    assert copy.schema.names == ROWS.columns
    other.close()
    session.close()
