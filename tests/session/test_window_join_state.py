"""What a windowed join keeps: with its bounds pushed below it the window, without them all that ever came."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu.order import Antichain
from altneu.plan import rewrite
from altneu.plan.rewrite.push_bounds import push_bounds
from altneu.plan.rewrite.push_filters import push_filters
from altneu.store import forget_segments
from altneu.windows import sliding

CLICKS = an.source("clicks", "user long, page long, at long")
ORDERS = an.source("orders", "user long, amount long, placed long")
PAIRS = CLICKS.join(ORDERS, on="user")
STEP, USERS = 10, 7
LENGTH = 5 * STEP
STEPS = 30
CLICKED = f"logical_now() >= at and logical_now() < at + {LENGTH}"
PLACED = f"logical_now() >= placed and logical_now() < placed + {LENGTH}"
QUERIES = {
    "a filter above the join": PAIRS.filter(f"{CLICKED} and {PLACED}"),
    "verbs above the join": PAIRS.temporal("at", f"at + {LENGTH}").temporal("placed", f"placed + {LENGTH}"),
    "a window of windows": sliding(sliding(PAIRS, "at", LENGTH), "placed", LENGTH),
    "renamed, below another filter": PAIRS.select("user", a="at", p="placed", v="amount * page")
    .filter("v % 3 <> 0")
    .temporal("a", f"a + {LENGTH}")
    .temporal("p", f"p + {LENGTH}"),
    "below a count": PAIRS.filter(f"{CLICKED} and {PLACED}").group_by("user").agg(n="count(*)", s="sum(amount)"),
    "with one that can fail": PAIRS.filter(f"{CLICKED} and {PLACED} and logical_now() < at + 5000 div (1 + page)"),
}
FIRST = QUERIES["a filter above the join"]
PLAIN = tuple(rule for rule in rewrite.RULES if rule not in (push_bounds, push_filters))


@pytest.fixture
def unpushed(monkeypatch):
    """Bounds and filters stay where they were written."""
    monkeypatch.setattr(rewrite, "RULES", PLAIN)


def events(now, late):
    """A click and an order for each of ``STEP`` ticks, in no order, each up to ``late`` ticks after its time."""
    rng = random.Random(now)
    ticks = [max(0, t - rng.randint(0, late)) for t in range(now, now + STEP)]
    rng.shuffle(ticks)
    users = [rng.randrange(USERS) for _ in ticks]
    return [(u, rng.randrange(9), t) for u, t in zip(users, ticks, strict=True)], [
        (rng.randrange(USERS), rng.randint(1, 9), t) for t in ticks
    ]


def streamed(collection, *, steps=STEPS, late=0, path=None):
    """What the two inputs of the join keep after each step, the contents after each step, all changes."""
    kept, contents, changes = [], [], Counter()
    forget_segments()
    with an.Session(path=path) as session:
        view = session.maintain("pairs", collection)
        for now in range(0, steps * STEP, STEP):
            clicks, orders = events(now, late)
            session.insert("clicks", clicks)
            session.insert("orders", orders)
            session.advance(to=now + STEP)
            kept.append(inputs_kept(session))
            contents.append(Counter(view.to_pylist()))
            changes.update(tuple(row.values()) for row in view.changes().to_pylist())
        assert view.errors().num_rows == 0
        return kept, contents, changes


def inputs_kept(session, sides=("at", "placed")):
    """How many updates the arrangements that the join reads keep, of clicks and of orders, those to come included.

    What merging has not removed yet is not counted.
    """
    now = Antichain.of(session._engine.lattice, session.lower)
    states = [session._engine.table.get(name, 0) for name in arrangements(session, sides)]
    return tuple(len(state.spine.merged(now)) + len(state.future) for state in states)


def arrangements(session, sides=("at", "placed")):
    """Names of those arrangements, each told by a column that it alone has."""
    columns = {name: layout.schema.names for name, layout in session._engine.table.layouts.items()}
    columns.pop(session._engine.ports("pairs").contents)
    ((clicks,), (orders,)) = ([name for name in columns if side in columns[name]] for side in sides)
    return clicks, orders


@pytest.mark.parametrize("name", QUERIES)
def test_pushed_bounds_keep_the_window_and_nothing_else(name):
    """Of each side the events of one window, and for each the retraction that is to come."""
    kept, contents, _ = streamed(QUERIES[name])
    assert kept == [(2 * STEP * min(i, 5), 2 * STEP * min(i, 5)) for i in range(1, STEPS + 1)]
    assert all(contents)


@pytest.mark.parametrize("name", QUERIES)
def test_without_them_everything_is_kept(name, unpushed):
    kept, _, _ = streamed(QUERIES[name])
    assert kept == [(STEP * i, STEP * i) for i in range(1, STEPS + 1)]


@pytest.mark.parametrize("late", [0, LENGTH + 20])
@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_the_same(name, late, monkeypatch):
    """The contents after each step, and every change with its time; also where some come too late to be in a window."""
    kept, *pushed = streamed(QUERIES[name], late=late)
    monkeypatch.setattr(rewrite, "RULES", PLAIN)
    _, *plain = streamed(QUERIES[name], late=late)
    assert pushed == plain
    assert pushed[1]
    assert max(max(sides) for sides in kept) <= 2 * LENGTH


@pytest.mark.parametrize("late", [0, LENGTH + 20])
def test_what_is_over_is_merged_away(late):
    """Counting also what merging has not removed yet: a step's worth, or where less and less is needed, a window's."""
    rows = []
    with an.Session() as session:
        session.maintain("pairs", FIRST)
        for now in range(0, 100 * STEP, STEP):
            for source, part in zip(("clicks", "orders"), events(now, late), strict=True):
                session.insert(source, part)
            session.advance(to=now + STEP)
            rows.append(max(session._engine.table.rows(name) for name in arrangements(session)))
    assert max(rows) <= 2 * LENGTH + 2 * STEP


def test_a_store_keeps_no_more(tmp_path):
    assert streamed(FIRST, path=tmp_path / "state") == streamed(FIRST)


def test_a_bound_of_one_side_frees_that_side():
    kept, _, _ = streamed(PAIRS.filter(CLICKED))
    assert kept[5:] == [(2 * LENGTH, STEP * i) for i in range(6, STEPS + 1)]


def test_a_bound_of_the_key_frees_both():
    """The key is a time, of which both sides know when it is over."""
    pairs = an.source("clicks", "at long, n long").join(an.source("orders", "at long, m long"), on="at")
    kept = []
    with an.Session() as session:
        session.maintain("pairs", pairs.filter(f"logical_now() < at + {LENGTH}"))
        for now in range(0, STEPS * STEP, STEP):
            for source in ("clicks", "orders"):
                session.insert(source, [(t, 0) for t in range(now, now + STEP)])
            session.advance(to=now + STEP)
            kept.append(inputs_kept(session, ("n", "m")))
    assert kept[5:] == [(2 * LENGTH, 2 * LENGTH)] * (STEPS - 5)


def test_after_a_pause_longer_than_the_window_nothing_is_kept():
    with an.Session() as session:
        view = session.maintain("pairs", FIRST)
        for now in range(0, STEPS * STEP, STEP):
            clicks, orders = events(now, 0)
            session.insert("clicks", clicks)
            session.insert("orders", orders)
        session.advance(to=STEPS * STEP)
        assert inputs_kept(session) == (2 * LENGTH, 2 * LENGTH)
        assert view.to_pylist()
        session.advance(to=STEPS * STEP + LENGTH)
        assert inputs_kept(session) == (0, 0)
        assert view.to_pylist() == []


def test_what_is_kept_grows_with_the_window_and_not_with_the_stream():
    for length in (STEP, 2 * STEP, 8 * STEP):
        query = PAIRS.temporal("at", f"at + {length}").temporal("placed", f"placed + {length}")
        for steps in (10, 50):
            assert streamed(query, steps=steps)[0][-1] == (2 * length, 2 * length)
