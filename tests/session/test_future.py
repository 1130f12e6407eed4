"""Future updates at scale: what a step writes of them, how a long advance is cut, what stays when it is cut short."""

from __future__ import annotations

import io
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

import altneu as an
from altneu.errors import StepFailedError
from altneu.order import Antichain
from altneu.runtime import step_limit
from altneu.runtime.local import LocalExecutor
from altneu.runtime.progress import Watch
from altneu.store import forget_segments

EVENTS = an.source("events", "k long, v long")
COUNTS = EVENTS.group_by("k").agg(n="count(*)", s="sum(v)")
VIEWS = {"events": EVENTS, "counts": COUNTS, "pairs": EVENTS.join(EVENTS.filter("v % 2 = 0"), on="k")}


class Recorder(LocalExecutor):
    """Runs steps as ever, noting up to where each goes and how much it takes up; may fail before one of them."""

    def __init__(self, failing=None, failure=ZeroDivisionError) -> None:
        super().__init__()
        self.uppers, self.rows = [], []
        self.failing, self.failure = failing, failure

    def step(self, plan, table, inputs, region, mode):
        if mode.hydrating:
            return super().step(plan, table, inputs, region, mode)
        if len(self.uppers) == self.failing:
            self.failing = None
            raise self.failure("on purpose")
        arrived = sum(
            int(np.count_nonzero(u.times[0] < region.upper.least)) for p in inputs.updates.values() for u in p
        )
        self.uppers.append(region.upper.least)
        self.rows.append(arrived + table.due(region.upper))
        return super().step(plan, table, inputs, region, mode)


def windows(count, *, keys=5, length=7, at=None):
    """Rows that come each at a time of its own (or all ``at`` one) and go after ``length``, in no order."""
    times = np.arange(count) if at is None else np.full(count, at)
    both = np.concatenate([times, times + length])
    order = np.random.default_rng(1).permutation(2 * count)
    row = np.tile(np.arange(count), 2)
    columns = {"k": row % keys, "v": row % 11, "t": both, "d": np.repeat([1, -1], count)}
    return pa.table({name: column[order] for name, column in columns.items()})


def opened(path=None, recorder=None, views=VIEWS, **settings):
    forget_segments()
    session = an.Session(path=path, **settings)
    session._engine.executor = recorder or Recorder()
    return session, {name: session.maintain(name, plan) for name, plan in views.items()}


def insert(session, table):
    session.insert("events", table, time="t", diff="d")


def changed_rows(view):
    return Counter(tuple(row.values()) for row in view.changes().to_pylist())


def whole(table, to, views=VIEWS):
    """What one step of one advance gives."""
    session, result = opened(views=views)
    insert(session, table)
    step = session.advance(to=to)
    assert len(session._engine.executor.uppers) == 1
    return step, {name: changed_rows(view) for name, view in result.items()}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state"


# what is written ------------------------------------------------------------------------------------------------------


def bytes_in(path):
    return sum(f.stat().st_size for f in path.rglob("*") if f.is_file())


def future_of(session, name="events"):
    (state,) = (
        session._engine.table.get(*key)
        for key in session._engine.table.future
        if key[0] == session._engine.ports(name).contents
    )
    return state.future.buckets[()]


def test_a_small_step_writes_little_however_many_future_updates_there_are(path):
    session, _ = opened(path, views={"events": EVENTS})
    insert(session, windows(50_000, length=10**9))
    session.advance(to=50_000)
    assert len(future_of(session)) == 50_000
    before = bytes_in(path)
    for i in range(20):
        insert(session, windows(1, length=10**9 + i, at=session.lower))
        session.advance()
    assert bytes_in(path) - before < 300_000  # the hold alone has over a million
    assert len(future_of(session)) == 50_020
    session.close()


def test_what_is_written_follows_what_is_added(path):
    """The progress law: each update is written O(log n) times while it waits, whether it is added or is due."""
    session, _ = opened(path, views={"events": EVENTS})
    rows = 0
    writer = session._engine.table.names.write

    def write(batches, schema):
        nonlocal rows
        rows += sum(b.num_rows for b in batches if "#key_hash" not in schema.names)
        return writer(batches, schema)

    session._engine.table.names.write = write
    for i in range(600):
        insert(session, windows(1, length=300, at=i))
        session.advance()
    assert len(future_of(session)) == 300
    assert 600 <= rows < 600 * 12
    session.close()


def test_a_run_keeps_its_name_while_its_front_is_taken(path):
    session, _ = opened(path, views={"events": EVENTS})
    insert(session, windows(1000, length=10_000))
    session.advance(to=1000)

    def runs():
        (value,) = (v["hold"] for v in session._engine.table.stored.values() if v["hold"])
        return [(r["run"]["data"], r["skip"], r["least"]) for r in value]

    ((first, skip, least),) = runs()
    assert (skip, least) == (0, 10_000)
    session.advance(to=10_400)
    assert runs() == [(first, 400, 10_400)]
    session.advance(to=10_600)
    ((second, skip, least),) = runs()
    assert second != first, "less than half is left: it is written anew"
    assert (skip, least) == (0, 10_600)
    session.close()


def test_opening_takes_runs_as_they_are(path):
    session, _ = opened(path, views={"events": EVENTS})
    for count in (2000, 500, 30):
        insert(session, windows(count, length=50_000 + count, at=session.lower))
        session.advance(to=session.lower + 10)
    session.advance(to=50_100 + 500)
    was = [(len(r), r.skip, r.updates()) for r in future_of(session).runs]
    session.close()
    mapped = pa.total_allocated_bytes()
    session, _ = opened(path, views={"events": EVENTS})
    runs = future_of(session).runs
    assert [(len(r), r.skip) for r in runs] == [w[:2] for w in was]
    for run, (_, _, updates) in zip(runs, was, strict=True):
        assert run.updates().rows.to_pylist() == updates.rows.to_pylist()
        assert (run.times == updates.times).all()
        assert not run.whole.times.flags.owndata
    assert pa.total_allocated_bytes() - mapped < 16_384, "it is mapped, not read"
    session.close()


def test_future_rows_that_are_retracted_before_they_come_do_not_pile_up():
    session, _ = opened(views={"events": EVENTS})
    insert(session, windows(200, length=10**6))
    for i in range(500):
        row = [(i, i, 10**7)]
        session.insert("events", row, time="t")
        session.advance(to=session.lower + 1)
        session.retract("events", row, time="t")
        session.advance(to=session.lower + 1)
    assert len(future_of(session)) <= 230


# how an advance is cut ------------------------------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(step_limit, "STEP_ROWS", 100)


def test_a_step_takes_up_no_more_than_it_may(few):
    table = windows(600, length=50)
    once, _ = whole_at(table, 650)
    session, views = opened()
    insert(session, table)
    step = session.advance(to=650)
    seen = session._engine.executor
    assert max(seen.rows) <= 100
    assert 20 < len(seen.uppers) < 60, "each takes up about as much as it may"
    assert seen.uppers == sorted(set(seen.uppers))
    assert seen.uppers[-1] == 650
    assert (step.lower, step.upper, step.changes_in) == (0, 650, 1200)
    assert step.changes_out == once.changes_out
    assert all(view.to_pylist() == [] for view in views.values())


def whole_at(table, to, views=VIEWS):
    """``whole``, with the ordinary budget."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(step_limit, "STEP_ROWS", 1_000_000)
        return whole(table, to, views)


def test_after_a_long_pause_expirations_come_in_portions(few):
    table = windows(1000, length=10_000)
    session, views = opened(views={"counts": COUNTS})
    insert(session, table)
    session.advance(to=1000)
    session._engine.executor.rows.clear()
    session.advance(to=20_000)
    assert sum(session._engine.executor.rows) >= 1000
    assert max(session._engine.executor.rows) <= 100
    assert views["counts"].to_pylist() == []
    changes = changed_rows(views["counts"])
    assert len({time for *_, time, _ in changes}) == 1000


def test_one_time_is_one_step(few):
    session, views = opened(views={"events": EVENTS})
    insert(session, windows(400, keys=400, length=9, at=3))
    session.advance(to=100)
    assert session._engine.executor.uppers == [4, 13, 100]
    assert views["events"].to_pylist() == []


@pytest.mark.parametrize("retain", [None, 5, "all"])
def test_cut_or_not_it_says_the_same(few, path, retain):
    table = windows(150, length=20)
    _, wanted = whole_at(table, 200)
    session, views = opened(path, retain=retain)
    insert(session, table)
    session.advance(to=60)
    half = {name: changed_rows(view) for name, view in views.items()}
    session.advance(to=200)
    for name, view in views.items():
        assert half[name] + changed_rows(view) == wanted[name]
        for at in range(view.since, 200):
            held = Counter()
            for row, n in wanted[name].items():
                held[row[:-2]] += n * row[-1] if row[-2] <= at else 0
            assert Counter(view.to_pylist(at)) == +held
    last = {name: changed_rows(view) for name, view in views.items()}
    session.close()
    session, views = opened(path, retain=retain)
    assert {name: changed_rows(view) for name, view in views.items()} == last
    session.close()


def test_small_advances_open_nothing_to_be_cut(path):
    session, _ = opened(path, views={"events": EVENTS})
    insert(session, windows(1000, length=5000))
    session.advance(to=1000)
    session.close()
    session, _ = opened(path, views={"events": EVENTS})
    table = session._engine.table
    for pending_due in (False, True):
        upper = Antichain.of(session._engine.lattice, 6000 if pending_due else 5000)
        assert not table.is_due(upper, beyond=1000)
        assert table.live == {}
    assert table.is_due(Antichain.of(session._engine.lattice, 5500), beyond=499)
    assert not table.is_due(Antichain.of(session._engine.lattice, 5500), beyond=500)
    session.close()


def test_inspect_sees_updates_in_order_of_time_however_the_advance_is_cut(few):
    seen = {"source": [], "sums": []}
    source = EVENTS.inspect(lambda row, time, diff: seen["source"].append((time, row.k, row.v, diff)))
    sums = COUNTS.inspect(lambda row, time, diff: seen["sums"].append((time, row.k, row.n, diff)))
    views = {"source": source, "sums": sums}
    table = windows(300, length=30)
    whole_at(table, 310, views)
    wanted = {name: list(updates) for name, updates in seen.items()}
    for updates in seen.values():
        updates.clear()
    session, _ = opened(views=views)
    insert(session, table)
    session.advance(to=310)
    assert len(session._engine.executor.uppers) > 5
    for name, updates in seen.items():
        assert [time for time, *_ in updates] == sorted(time for time, *_ in updates)
        assert Counter(updates) == Counter(wanted[name])
    assert len(seen["source"]) == 600, "also what is later than the advance, as ever"


def test_an_inspect_that_fails_stops_the_advance_where_it_is(few):
    seen = []

    def look(_row, time, _diff):
        if time == 130 and 130 not in seen:
            seen.append(time)
            raise ValueError("look away")
        seen.append(time)

    session, views = opened(views={"v": EVENTS.inspect(look)})
    insert(session, windows(300, length=30))
    with pytest.raises(ValueError, match="look away") as caught:
        session.advance(to=400)
    assert 130 < session.lower < 400
    assert f"lower is {session.lower}" in caught.value.__notes__[0]
    assert f"those before {session.lower} are closed" in caught.value.__notes__[1]
    stopped = session.lower
    session.advance(to=400)
    assert views["v"].to_pylist() == []
    assert [t for t in seen if t >= stopped] == sorted([*range(stopped, 300), *range(max(stopped, 30), 330)])


def test_progress_says_how_far_it_is(few, monkeypatch):
    watch = Watch(Console(file=io.StringIO(), force_terminal=True))
    monkeypatch.setattr("altneu.engine.history.watch", watch)
    shown = []

    class Looking(Recorder):
        def step(self, plan, table, inputs, region, mode):
            if not mode.hydrating:
                shown.append(watch.current)
            return super().step(plan, table, inputs, region, mode)

    session, _ = opened(recorder=Looking(), views={"events": EVENTS})
    insert(session, windows(200, length=5))
    session.advance(to=300)
    texts = [text for text, _ in shown]
    assert texts[0] == "altneu: closing times 0 to 300"
    uppers = session._engine.executor.uppers
    assert texts[1:] == [f"{texts[0]}, closed up to {upper}" for upper in uppers[:-1]]
    assert len({started for _, started in shown}) == 1, "patience is with the advance, not with each of its steps"
    assert watch.current is None


# when it is cut short -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("kind", ["memory", "durable", "reopened"])
def test_what_is_committed_stays_and_another_advance_goes_on(few, path, failure, kind):
    table = windows(300, length=30)
    _, wanted = whole_at(table, 400)
    session, views = opened(None if kind == "memory" else path, Recorder(3, failure))
    insert(session, table)
    with pytest.raises((StepFailedError, KeyboardInterrupt)) as caught:
        session.advance(to=400)
    stopped = session.lower
    assert stopped == session._engine.executor.uppers[-1]
    assert len(session._engine.executor.uppers) == 3
    assert f"those before {stopped} are closed and committed" in caught.value.__notes__[0]
    assert "still pending" not in str(caught.value)
    if kind == "reopened":
        session.close()
        session, views = opened(path)
        assert session.lower == stopped
    first = {name: changed_rows(view) for name, view in views.items()}
    for name, view in views.items():
        assert all(row[-2] < stopped for row in first[name])
        assert Counter(view.to_pylist()) == +sum_of(first[name])
    step = session.advance(to=400)
    assert (step.lower, step.changes_in) == (stopped, 0)
    for name, view in views.items():
        assert first[name] + changed_rows(view) == wanted[name]
        assert view.to_pylist() == []
    session.close()


def sum_of(changes):
    held = Counter()
    for row, n in changes.items():
        held[row[:-2]] += n * row[-1]
    return held


def test_a_first_step_that_fails_leaves_what_was_inserted(few):
    session, views = opened(recorder=Recorder(0), views={"events": EVENTS})
    insert(session, windows(300, length=30))
    with pytest.raises(StepFailedError, match="still pending") as caught:
        session.advance(to=400)
    assert session.lower == 0
    assert not hasattr(caught.value, "__notes__")
    session.advance(to=30)
    assert len(views["events"].to_pylist()) == 30


def test_after_a_crash_between_two_steps_the_store_is_where_it_was(few, path):
    """The process ends without closing anything: what it committed is a store like any other."""
    table = windows(300, length=30)
    _, wanted = whole_at(table, 400)
    session, _ = opened(path, Recorder(4, KeyboardInterrupt))
    insert(session, table)
    with pytest.raises(KeyboardInterrupt):
        session.advance(to=400)
    stopped = session.lower
    session._engine.journal.store.close()
    session, views = opened(path)
    assert session.lower == stopped
    before = {name: changed_rows(view) for name, view in views.items()}
    session.advance(to=400)
    assert {name: before[name] + changed_rows(view) for name, view in views.items()} == wanted
    session.close()
