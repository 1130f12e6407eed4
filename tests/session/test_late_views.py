"""Views added late over collections of which other views keep only a part: filled from that, or refused by name."""

import random

import pytest

import altneu as an
from altneu.errors import HydrationError

A = an.source("a", "k long, v long, w long")
B = an.source("b", "k long, u long")
JOINED = A.join(B, on="k")
SUM = JOINED.group_by("k").agg(n="sum(v + u)")
SOME = JOINED.filter("v > 1").group_by("k").agg(n="sum(v + u)")

FILLED = {  # what is maintained, and what is added late
    "grouped otherwise": (SUM, JOINED.group_by("u").agg(n="sum(v)", top="max(v)")),
    "filtered": (SUM, JOINED.filter("v > 1").select("k", "u")),
    "filtered by both": (SUM, JOINED.filter("v + u > 4").select("v", "u")),
    "computed": (SUM, JOINED.select("k", x="v * u")),
    "failing": (SUM, JOINED.select("k", x="10 / (v - 2)")),
    "narrower": (SUM, A.select("v").distinct()),
    "as wide": (SUM, JOINED.select("k", "v", "u")),
    "outer": (SUM, A.select("k", "v").join(B, on="k", how="left")),
    "a filter that may fail": (SOME, JOINED.filter("10 / v > 2 and v > 1").select("k", "v")),
    "the same filter": (SOME, JOINED.filter("v > 1 and u > 2").select("k", "v", "u")),
}
REFUSED = {
    "a column more": (SUM, JOINED.select("k", "w"), r"columns k, v of some rows"),
    "a row more": (SOME, JOINED.filter("u > 2").select("k", "v"), r"columns k, v of some rows"),
}
LOADED = {"a": [(1, 1, 1), (1, 2, 2), (2, 3, 3), (2, 3, 3), (3, 2, 0)], "b": [(1, 5), (2, 6), (2, 1), (4, 4)]}
LATER = {"a": [(3, 4, 4)], "b": [(3, 7), (1, 9)]}
GONE = {"a": [(1, 2, 2), (2, 3, 3)], "b": [(2, 1)]}


def change(session, *, rows, gone=()):
    for name, values in dict(rows).items():
        session.insert(name, values)
    for name, values in dict(gone).items():
        session.retract(name, values)
    session.advance()


def seen(view):
    errors = sorted(e["message"] for e in view.errors().to_pylist())
    return sorted(view.to_pylist(errors="ignore"), key=repr), errors


@pytest.mark.parametrize("case", FILLED)
@pytest.mark.parametrize("shards", [1, 3])
def test_from_what_another_view_keeps(case, shards, tmp_path):
    first, late = FILLED[case]
    both = first, late, A.select("k"), B.select("k")  # so that every source is read
    with an.Session() as early:
        expected = [early.maintain(f"v{i}", c) for i, c in enumerate(both)][1]
        change(early, rows=LOADED)
        with an.Session(path=tmp_path, shards=shards) as session:
            session.maintain("first", first)
            change(session, rows=LOADED)
            view = session.maintain("late", late)
            assert seen(view) == seen(expected)
            change(early, rows=LATER, gone=GONE)
            change(session, rows=LATER, gone=GONE)
            assert seen(view) == seen(expected)
            session.drop("first")
        with an.Session(path=tmp_path) as session:
            view = session.maintain("late", late)
            assert seen(view) == seen(expected)
            change(session, rows={}, gone={name: rows[:1] for name, rows in LATER.items() if name in session.sources})
            change(early, rows={}, gone={name: rows[:1] for name, rows in LATER.items()})
            assert seen(view) == seen(expected)


@pytest.mark.parametrize("case", REFUSED)
def test_what_lacks_rows_or_columns_is_refused(case):
    first, late, answer = REFUSED[case]
    with an.Session() as session:
        session.maintain("first", first)
        change(session, rows=LOADED)
        with pytest.raises(HydrationError, match=f"the rows of source 'a' .*{answer}.*keep=True"):
            session.maintain("late", late)
        change(session, rows=LATER, gone=GONE)  # and nothing else has happened
        assert session.views == ["first"]


def test_what_to_do_comes_first():
    orders = an.source("orders", "item string, price long")
    with an.Session() as session:
        session.maintain("items", orders.select("item"))
        session.insert("orders", [("tea", 3)])
        session.advance()
        first = r"^call session\.backfill\('orders', rows\) with the rows that the source holds now"
        with pytest.raises(HydrationError, match=first):
            session.maintain("v", orders.group_by("price").agg(n="count(*)"))


def test_a_loop_added_late_runs_over_what_can_be_read_alone():
    """Rows of times before that are folded in part, and add up to nothing that ever was."""
    links = an.source("links", "k long, v long", keep=True)
    weights = an.source("weights", "k long, w long", keep=True)
    first, more = links.distinct(), links.select("k as v", "v as z").distinct()
    reached = first.iterate(
        lambda r: r.join(more, on="v").select("k", "z as v").concat(first).distinct(), max_rounds=30
    )
    for seed in (29, 54, 64):
        generator, held = random.Random(seed), list[tuple[int, int]]()
        with an.Session() as session:
            pairs = session.maintain("pairs", links.join(weights, on="k").select("v", "w"))
            steps = generator.randint(6, 25)
            for step in range(steps):
                for _ in range(generator.randint(1, 4)):
                    if held and generator.random() < 0.4:
                        session.retract("links", [held.pop(generator.randrange(len(held)))])
                    else:
                        held.append((generator.randrange(5), generator.randrange(8)))
                        session.insert("links", held[-1:])
                session.insert("weights", [(generator.randrange(5), generator.randrange(8))])
                session.advance(session.lower + generator.choice([1, 1, 2, 5]))
                if step == steps // 2:
                    pairs.subscribe(lambda *_: None, snapshot=False)
            expected = {*held}
            while more_of := {(a, d) for a, b in expected for c, d in held if b == c} - expected:
                expected |= more_of
            assert sorted(session.maintain("late", reached).to_pylist()) == sorted(expected)


@pytest.mark.parametrize("keys", [(), ("n",), ("k",), ("n", "k")])
@pytest.mark.parametrize("gone", ["cancelled", "null"])
def test_groups_of_which_one_aggregate_has_no_rows_at_all(keys, gone):
    """Its arrangement is empty, and another one's tells that there is a group."""
    rows = an.source("rows", "n long, k string, w long, x long", keep=True)
    with an.Session() as session:
        session.maintain("rows", rows)
        if gone == "null":
            session.insert("rows", [(0, "a", 5, None)])
        else:
            session.insert("rows", [(0, "a", 5, 1)])
            session.insert("rows", [(0, "a", 4, 1)], diff=-1)
        session.advance()
        late = session.maintain("late", rows.group_by(*keys).agg(most="max(x)", total="sum(w)"))
        if gone == "cancelled":
            session.insert("rows", [(0, "a", 4, 1)])
            session.advance()
        shown = {"n": 0, "k": "a"}
        assert late.to_pylist() == [(*(shown[key] for key in keys), None if gone == "null" else 1, 5)]
