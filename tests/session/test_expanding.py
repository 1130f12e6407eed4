"""Table functions that make much of little, and sums of one collection by many ways: what is built of them."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter

import pytest

import altneu as an
from altneu import Session
from altneu.errors import DiffOverflowError
from altneu.operators.linear import logic as linear
from altneu.operators.linear.expansion import Expansion
from altneu.runtime import base

A = an.source("a", "k long, n long, xs array<long>", keep=True)
SERIES = A.generate_series("0", "n", as_="i")
PLANS = {
    "as it is": SERIES.select("k", "i"),
    "summed up": SERIES.group_by("k").agg(c="count(*)", s="sum(i)"),
    "all in one": SERIES.group_by().agg(c="count(*)", s="sum(i)", h="max(i)"),
    "ranked": SERIES.group_by("k").agg(lo="min(i)", d="count(distinct i)"),
    "with errors behind it": SERIES.select("k", x="10 div (i - 3)"),
    "with errors before it": A.select("k", n="12 div n").generate_series("0", "n", as_="i").select("i"),
    "summed up with errors": SERIES.select("k", x="10 div (i - 3)").group_by("k").agg(s="sum(x)"),
    "twice": SERIES.generate_series("i", "i + 2", as_="j").select("k", "j"),
    "elements": A.unnest("xs", as_="x").select("x"),
    "elements summed up": A.unnest("xs", as_="x").group_by("x").agg(c="count(*)"),
    "with others": SERIES.select("k", "i").concat(A.select("k", i="n")),
    "with itself": SERIES.select("i").concat(SERIES.select("i").negate()).concat(SERIES.filter("i > 3").select("i")),
    "distinct": SERIES.select("i").distinct(),
    "consolidated": SERIES.select("i").consolidate(),
    "joined": SERIES.select(k="i", m="k").join(A.select("k", "n"), on="k"),
    "in order": SERIES.top_k(3, by="i desc", per="k").select("k", "i"),
    "while": A.temporal("k", "k + 1").generate_series("0", "n", as_="i").select("i"),
    "in a loop": A.select("n").iterate(
        lambda x: (
            x.filter("n < 6").generate_series("n", "n + 1", as_="m").select(n="m").concat(A.select("n")).distinct()
        )
    ),
    "after a reduce": A.group_by("k").agg(m="max(n)").generate_series("0", "m", as_="i").select("k", "i"),
    "changes": SERIES.select("i").differentiate().integrate(),
}


def history(seed):
    chance = random.Random(seed)
    there, steps = [], []
    for _ in range(4):
        step = []
        for _ in range(chance.randrange(1, 12)):
            if there and chance.random() < 0.4:
                step.append((there.pop(chance.randrange(len(there))), -1))
            else:
                row = (
                    chance.randrange(4),
                    chance.choice([0, 1, 2, 7, 30, None]),
                    (None, (), (1, 2), (3, 3, 3, 4))[chance.randrange(4)],
                )
                row = row[0], row[1], None if row[2] is None else list(row[2])
                there.append(row)
                step.append((row, 1))
        if chance.random() < 0.5:
            row = (9, 25, [5] * 20)
            step += [(row, 1), (row, -1)]
        steps.append(step)
    return steps


def contents(plans, seed, **options):
    result = []
    with Session(**options) as session:
        views = {name: session.maintain(name, plan) for name, plan in plans.items()}
        for step in history(seed):
            for row, diff in step:
                session.insert("a", [row], diff=diff)
            session.advance()
            for name, view in views.items():
                rows = Counter(map(str, view.to_arrow(errors="ignore").to_pylist()))
                errors = Counter(str(error) for error in view.errors().to_pylist())
                result.append((name, rows, errors))
    return result


@pytest.mark.parametrize("seed", range(2))
def test_pieces_come_to_what_the_whole_does(seed, monkeypatch):
    wanted = contents(PLANS, seed)
    for name, size in (("PIECE", 6), ("SLICE", 4), ("EXPANDED_CHUNK", 2)):
        monkeypatch.setattr(linear, name, size)
    monkeypatch.setattr(base, "GATHERED", 10)
    monkeypatch.setattr(base, "FEW", 3)
    flowed = []
    passing = base._Stage._pass

    def counting(stage, port, part):
        flowed.append(len(part))
        return passing(stage, port, part)

    monkeypatch.setattr(base._Stage, "_pass", counting)
    assert contents(PLANS, seed) == wanted
    assert len(flowed) > 100, "what is more than a piece has flowed"
    assert contents(PLANS, seed, shards=3) == wanted


def test_a_row_that_is_cancelled_is_not_expanded(monkeypatch):
    built = []
    rows = Expansion.rows

    def counting(expansion, begin, end):
        result = rows(expansion, begin, end)
        built.append(len(result[0]))
        return result

    monkeypatch.setattr(Expansion, "rows", counting)
    with Session() as session:
        view = session.maintain("v", SERIES.group_by().agg(c="count(*)"))
        for _ in range(2):
            session.insert("a", [(1, 30_000_000, None)])
        session.retract("a", [(1, 30_000_000, None)], diff=2)
        session.insert("a", [(1, 9, None)], diff=3)
        session.advance()
        assert view.to_pylist() == [(30,)]
    assert sum(built) == 10


@pytest.mark.parametrize("behind", ["group_by().agg(c='count(*)', s='sum(i)')", "filter('i % 1000000 = 0').count()"])
def test_a_long_series_stays_within_the_memory_that_was_given(behind):
    program = f"""if True:
        import resource, altneu as an
        a = an.source("a", "n long")
        with an.Session(memory="64m") as session:
            view = session.maintain("v", a.generate_series("0", "n", as_="i").{behind})
            session.insert("a", [(5,)])
            session.advance()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            session.insert("a", [(10_000_000,)])
            session.advance()
            print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) < 160, "megabytes; the series has 80 of numbers alone, and 3 GB as updates on their way"


def test_what_follows_a_reduce_flows_too(monkeypatch):
    flowed = []
    passing = base._Stage._pass

    def counting(stage, port, part):
        flowed.append(len(part))
        return passing(stage, port, part)

    monkeypatch.setattr(base._Stage, "_pass", counting)
    monkeypatch.setattr(linear, "PIECE", 1000)
    monkeypatch.setattr(linear, "SLICE", 500)
    with Session() as session:
        view = session.maintain("v", PLANS["after a reduce"].group_by("k").agg(c="count(*)"))
        session.insert("a", [(1, 9_999, None), (1, 5, None)])
        session.advance()
        assert view.to_pylist() == [(1, 10_000)]
    assert (sum(flowed), max(flowed)) == (10_000, 1_000)


def ways(levels, other=lambda c: c):
    result = A.select("k")
    for _ in range(levels):
        result = result.concat(other(result))
    return result


def test_one_collection_by_many_ways_is_a_larger_diff():
    with Session() as session:
        twice = session.maintain("twice", ways(40).count())
        some = session.maintain("some", ways(30, lambda c: c.filter("k > 1")).count())
        moved = session.maintain("moved", ways(16, lambda c: c.select(k="(k + 1) % 5")).group_by().agg(c="count(*)"))
        none = session.maintain("none", ways(20, lambda c: c.negate()))
        session.insert("a", [(1, 0, None), (2, 0, None)])
        session.advance()
        assert sorted(twice.to_pylist()) == [(1, 2**40), (2, 2**40)]
        assert sorted(some.to_pylist()) == [(1, 1), (2, 2**30)]
        assert moved.to_pylist() == [(2 * 2**16,)]
        assert none.to_pylist() == []
        session.retract("a", [(1, 0, None)])
        session.advance()
        assert twice.to_pylist() == [(2, 2**40)]


def test_sums_by_many_ways_through_any_additive_operator_are_summed_up():
    """A sample of a sum is one way more, as a filter of it is."""
    with Session() as session:
        sampled = session.maintain("sampled", ways(30, lambda c: c.sample(0.999999, "k")).count())
        plan = session._engine.catalogue.plan
        assert len(plan.overlapping) >= 6  # else there are 2^30 updates of each row
        session.insert("a", [(1, 0, None), (2, 0, None)])
        session.advance()
        assert sorted(sampled.to_pylist()) == [(1, 2**30), (2, 2**30)]


def test_more_ways_than_a_diff_has_room_for_are_seen():
    with Session() as session:
        session.maintain("v", ways(70))
        session.insert("a", [(1, 0, None)])
        with pytest.raises(DiffOverflowError):
            session.advance()
        session.retract("a", [(1, 0, None)])
        session.advance()
        assert session.view("v").to_pylist() == []
