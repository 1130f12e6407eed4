"""Delays and times of functions that move event times: against recomputation of a history that is moved by itself."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest

import altneu as an
from altneu import Collection, Session
from altneu.linear import BoundLogic, DelayBoth, NotDelayed
from altneu.linear.delay import Delay, DelayFunction, Every
from altneu.linear.function import Function
from altneu.order import Epoch, Product
from tests.oracle.histories import random_cuts
from tests.oracle.recompute import recompute
from tests.oracle.runners import Runner, contents_of, errors_of
from tests.oracle.two_times_cases import EVENTS, SYSTEMS, A, B, History, _settle

Pair = tuple[int, int]

DELAYS: dict[str, tuple[Callable[[Collection], Collection], Callable[[Pair], Pair]]] = {
    "event times by ticks": (lambda c: c.delay(by=(None, 2)), lambda t: (t[0], t[1] + 2)),
    "both by ticks": (lambda c: c.delay(by=(1, 2)), lambda t: (t[0] + 1, t[1] + 2)),
    "one after the other": (lambda c: c.delay(by=(0, 1)).delay(by=1).delay(by=(0, 1)), lambda t: (t[0] + 1, t[1] + 2)),
    "to the next multiple": (lambda c: c.delay(every=(2, 3)), lambda t: (-(-t[0] // 2) * 2, -(-t[1] // 3) * 3)),
    "by a function of one": (lambda c: c.delay(by=(None, lambda e: e + e // 2)), lambda t: (t[0], t[1] + t[1] // 2)),
    "by functions of each": (
        lambda c: c.delay(by=(lambda s: max(s, 2), lambda e: max(e, 1))),
        lambda t: (max(t[0], 2), max(t[1], 1)),
    ),
    "by a function of both": (lambda c: c.delay(both=lambda t: (t[0], max(t))), lambda t: (t[0], max(t))),
    "by a function that respects no joins": (
        lambda c: c.delay(both=lambda t: (t[0], t[1] + (2 if min(t) else 0))),
        lambda t: (t[0], t[1] + (2 if min(t) else 0)),
    ),
}

ABOVE: dict[str, Callable[[Collection], Collection]] = {
    "rows": lambda a: a,
    "counts": lambda a: a.group_by("trial", "k").agg(n="count(*)", most="max(v)"),
    "joined with one time": lambda a: a.join(B, on=["trial", "k"]).group_by("trial", "k").agg(n="sum(w)"),
    "failing": lambda a: a.filter("6 div v > 1"),
    "ranks": lambda a: a.window(n="row_number() over (partition by trial, k order by v)"),
    "a loop": lambda a: a.select("trial", "k", label="k").iterate(_settle),
}


def _moved(history: History, move: Callable[[Pair], Pair]) -> History:
    return History([(row, move(time), diff) for row, time, diff in history.a], history.b)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("above", ABOVE)
@pytest.mark.parametrize("delay", DELAYS)
def test_a_delay_of_a_source_is_a_history_with_later_times(delay, above):
    delayed, move = DELAYS[delay]
    plan, history = ABOVE[above], History.random(3)
    with Session(retain="all", shards=2) as session:
        view = session.maintain("v", plan(delayed(A)))
        for lower, upper in pairwise([0, *random_cuts(random.Random(5), SYSTEMS)]):
            history.insert(session, lower, upper)
            session.advance(to=upper)
        session.advance(to=SYSTEMS + 3)
        if above != "a loop":
            _check(view, plan(A), _moved(history, move), range(SYSTEMS + 3))
        else:
            _check_loop(view, plan, history, move)


def _check(view, plan: Collection, history: History, systems: Iterable[int]) -> None:
    """What a view shows at every pair of times, also at those that only a delay leads to."""
    for system in systems:
        for event in range(EVENTS + 4):
            wanted, errors = recompute(plan.node, history.held(system, event), system)
            assert contents_of(view, (system, event)) == wanted, (system, event)
            assert errors_of(view, (system, event)) == errors, (system, event)


def _check_loop(view, plan, history: History, move: Callable[[Pair], Pair]) -> None:
    """The body reads A as it is, and the labels begin with what is delayed: a source of its own in the oracle."""
    late = an.source("late", A.schema)
    node = plan(late).node
    for system in range(SYSTEMS + 3):
        for event in range(EVENTS + 3):
            held = {**history.held(system, event), "late": _moved(history, move).held(system, event)["a"]}
            wanted, _ = recompute(node, held, system)
            assert contents_of(view, (system, event)) == wanted, (system, event)


GALOIS: dict[str, tuple[Callable[[Collection], Collection], Callable[[int], int], Callable[[int], int]]] = {
    "by ticks": (lambda c: c.delay(by=(1, 2)), lambda s: s - 1, lambda e: e - 2),
    "to the next multiple": (lambda c: c.delay(every=(1, 3)), lambda s: s, lambda e: e // 3 * 3),
    "by a function of both": (lambda c: c.delay(both=lambda t: (t[0] + 1, t[1] + 1)), lambda s: s - 1, lambda e: e - 1),
}


@pytest.mark.parametrize("above", ABOVE)
@pytest.mark.parametrize("delay", GALOIS)
def test_a_delay_of_a_result_shows_it_as_it_was(delay, above):
    """At (s, e) there is what the result was at the last pair that is delayed no further than that."""
    delayed, known, about = GALOIS[delay]
    plan, history = ABOVE[above](A), History.random(4)
    with Session(retain="all", shards=2) as session:
        view = session.maintain("v", delayed(plan))
        for lower, upper in pairwise([0, *random_cuts(random.Random(6), SYSTEMS)]):
            history.insert(session, lower, upper)
            session.advance(to=upper)
        session.advance(to=SYSTEMS + 2)
        for system in range(SYSTEMS + 2):
            for event in range(EVENTS + 3):
                at = known(system), about(event)
                wanted = recompute(plan.node, history.held(*at), at[0])[0] if min(at) >= 0 else Counter()
                assert contents_of(view, (system, event)) == wanted, (system, event)


TRIPLES: dict[str, tuple[Collection, Callable[..., list]]] = {
    "pairs of expressions": (
        A.join_function([({"x": "v"}, ("k", "v + 1"), "1"), ({"x": "v + 10"}, (None, "k * 2"), "-v")]),
        lambda k, v: [((v,), (k, v + 1), 1), ((v + 10,), (0, 2 * k), -v)],
    ),
    "one pair": (A.join_function([({"x": "v"}, ("1", "v"), "k")]), lambda k, v: [((v,), (1, v), k)]),
    "nulls": (
        A.join_function([({"x": "v"}, (None, "nullif(v, 1)"), "1")]),
        lambda _k, v: [((v,), (0, v), 1)] if v != 1 else [],
    ),
    "a function": (
        A.join_function(lambda r: [(r.v, (r.k, r.v), 1), (r.v, (None, 3), 2), (r.v, 1, 1), (r.v, None, -1)], "x long"),
        lambda k, v: [((v,), (k, v), 1), ((v,), (0, 3), 2), ((v,), (1, 0), 1), ((v,), (0, 0), -1)],
    ),
    "delayed": (
        A.join_function(lambda r: [(r.v, (r.k, r.v), 1)], "x long").delay(by=(1, 1)),
        lambda k, v: [((v,), (k + 1, v + 1), 1)],
    ),
    "expressions delayed": (
        A.join_function([({"x": "v"}, ("k", "v"), "1")]).delay(by=(1, lambda e: e + 1)),
        lambda k, v: [((v,), (k + 1, v + 1), 1)],
    ),
}


@pytest.mark.parametrize("name", TRIPLES)
def test_times_of_triples_are_joined_whole(name):
    plan, made = TRIPLES[name]
    history, later = History.random(8), (1, 1) if "delayed" in name else (0, 0)
    moved = [
        (row, (max(s + later[0], t[0]), max(e + later[1], t[1])), diff * n)
        for (_, k, v), (s, e), diff in history.a
        for row, t, n in made(k, v)
    ]
    with Session(retain="all") as session:
        view = session.maintain("v", plan.count())
        for lower, upper in pairwise([0, *random_cuts(random.Random(7), SYSTEMS)]):
            history.insert(session, lower, upper)
            session.advance(to=upper)
        session.advance(to=SYSTEMS + 2)
        for system in range(SYSTEMS + 2):
            for event in range(EVENTS + 3):
                wanted: Counter = Counter()
                for row, (s, e), n in moved:
                    if s <= system and e <= event:
                        wanted[row] += n
                assert set(view.to_pylist(at=(system, event))) == {(*r, n) for r, n in wanted.items() if n}


def test_functions_of_batches_say_event_times():
    import pyarrow as pa

    def batch(rows: pa.RecordBatch):
        many = range(rows.num_rows)
        values = pa.RecordBatch.from_arrays([rows.column("v")], ["x"])
        return values, list(many), rows.column("k"), [1] * rows.num_rows, rows.column("v")

    plan = A.join_function(an.arrow(batch), "x long")
    with Session() as session:
        view = session.maintain("v", plan)
        session.insert("a", [(0, 1, 4), (0, 1, 2)], time=3)
        session.advance(to=2)
        assert [sorted(view.to_pylist(at=(None, e))) for e in (2, 3, 4)] == [[], [(2,)], [(2,), (4,)]]


@pytest.mark.parametrize("delay", ["both by ticks", "by a function of both"])
def test_on_every_runner(runner: Runner, delay):
    delayed, move = DELAYS[delay]
    plan, history, folder = ABOVE["counts"], History.random(9), runner.folder()
    session = runner.open_session(folder)
    view = session.maintain("v", plan(delayed(A)))
    for step, (lower, upper) in enumerate(pairwise([0, 2, 3, SYSTEMS, SYSTEMS + 2])):
        runner.before_step(session, step)
        history.insert(session, lower, upper, runner.convert)
        session.advance(to=upper)
        _check(view, plan(A), _moved(history, move), [upper - 1])
        if runner.reopened:
            session.close()
            session = runner.open_session(folder)
            view = session.maintain("v", plan(delayed(A)), trust_functions=True)
    session.close()


def test_a_function_of_both_stays_behind_what_makes_times():
    """The end of a row is delayed as a time of its own, not with its beginning."""
    window = A.filter("logical_now() < v + 1").delay(both=lambda t: (t[0], max(t)))
    with Session(retain="all") as session:
        view = session.maintain("v", window)
        session.insert("a", [(0, 0, 3)], time=1)
        session.advance(to=10)
        there = [[bool(view.to_pylist(at=(s, e))) for e in range(6)] for s in range(6)]
    # it is there from (0, 1) on, and goes at (4, 1), which becomes (4, 4)
    assert there == [[e >= 1 and not (s >= 4 and e >= 4) for e in range(6)] for s in range(6)]


NOT_MONOTONE = {
    "back in the event time": (lambda t: (t[0], t[1] - 1), "a delay never goes back, in either time"),
    "not a pair": (lambda t: t[0], "is not a tuple of two times"),
    "not whole": (lambda t: (t[0], t[1] + 0.5), "one of which is not a time"),
    "raising": (lambda t: (t[0], 1 // 0), "raised ZeroDivisionError"),
    "too late": (lambda t: (t[0], 2**63), "beyond 64 bits"),
    "against the order": (lambda t: (t[0], t[1] + (5 if t[1] < 2 else 0)), "is not monotone"),
    "against the order of the first": (lambda t: (t[0], t[1] + (5 if t[0] < 1 else 0)), "is not monotone"),
}


@pytest.mark.parametrize("name", NOT_MONOTONE)
def test_what_is_no_delay_is_an_error_row(name):
    function, message = NOT_MONOTONE[name]
    with Session() as session:
        view = session.maintain("v", A.delay(both=function))
        session.insert(
            "a", [{"trial": 0, "k": 0, "v": 0, "s": s, "e": e} for s, e in ((0, 1), (1, 2))], time=("s", "e")
        )
        session.advance(to=9)
        errors = view.errors().to_pylist()
        assert errors
        assert all(error["code"] == "DELAY" for error in errors)
        assert message in errors[-1]["message"]


def test_functions_are_found_not_monotone_exactly_where_they_are_not():
    """Against a look at all pairs of times."""
    rng = random.Random(1)
    plane = Product(Epoch(), Epoch())
    for _ in range(300):
        times = [(rng.randrange(5), rng.randrange(5)) for _ in range(rng.randrange(1, 9))]
        made = {t: (t[0] + rng.randrange(3), t[1] + rng.randrange(3)) for t in times}
        wrong = any(
            s[0] <= t[0] and s[1] <= t[1] and not (made[s][0] <= made[t][0] and made[s][1] <= made[t][1])
            for s in times
            for t in times
        )
        delay = Delay((DelayBoth(Function.of(made.__getitem__, "made")),))
        if wrong:
            with pytest.raises(NotDelayed, match="is not monotone"):
                delay.move(plane.from_pylist(times))
        else:
            assert plane.to_pylist(delay.move(plane.from_pylist(times))) == [made[t] for t in times]


def test_what_a_delay_is_called():
    both = Delay((DelayBoth(Function.of(lambda t: t, "f")),))
    assert str(Delay.by(2, 1).then(Delay.by(3, 1)).then(Delay.by(1))) == "delay event times by 5, then by 1"
    assert str(Delay((Every(3, 1), DelayFunction(Function.of(len, "f"), 1)))).startswith(
        "delay event times to every 3, "
    )
    assert both.moves_events
    assert both.is_of_both
    assert not BoundLogic((), Delay.by(2)).moves_events


def test_what_is_refused():
    for plan in (B.delay(by=(1, 1)), B.delay(both=lambda t: t), B.join_function([({"x": "k"}, (None, "k"), "1")])):
        with (
            Session() as session,
            pytest.raises(an.errors.PlanError, match="moves event times, and its rows do not have two"),
        ):
            session.maintain("v", plan)
    for call in ({"by": (1, 2, 3)}, {"by": (None, None)}, {"every": ()}):
        with pytest.raises(an.errors.PlanError, match="must be one delay or a pair"):
            A.delay(**call)
    for call in ({}, {"by": 1, "every": 2}, {"by": 1, "both": lambda t: t}):
        with pytest.raises(an.errors.PlanError, match="delay needs exactly one of"):
            A.delay(**call)
    with pytest.raises(an.errors.PlanError, match="would go back in time"):
        A.delay(by=(0, -1))
    with Session() as session:
        view = session.maintain("v", B.join_function(lambda r: [(r.k, (1, 1), 1)], "x long"))
        session.insert("b", [(0, 1, 2)])
        session.advance()
        assert "as rows do not have two times" in view.errors().to_pylist()[0]["message"]
    logic = an.logic.temporal("v").followed_by(an.logic.delay(both=lambda t: t))
    with pytest.raises(an.errors.PlanError, match=r"after while .* has made times"):
        logic.run([1], "v long", time=(0, 0))


def test_compacted_event_times_are_not_delayed():
    counts = A.group_by("trial", "k").agg(n="count(*)")
    with Session(retain_events=1) as session:
        with pytest.raises(an.errors.PlanError, match=r"view 'v' delays event times \(delay event times by 1\) of"):
            session.maintain("v", counts.delay(by=(None, 1)))
        session.maintain("by its own time", counts.delay(by=1))
        view = session.maintain("rows", A.concat(A.delay(by=(None, 3))).group_by("k").agg(n="count(*)"))
        session.insert("a", [(0, 1, 2)], time=2)
        session.advance(event=6)
        assert [view.to_pylist(at=(None, e)) for e in (4, 5)] == [[(1, 1)], [(1, 2)]]


def test_logic_alone_runs_at_pairs():
    logic = an.logic.join_function(lambda r: [(r.v, (2, r.v), 1)], "x long").followed_by(an.logic.delay(by=(None, 1)))
    assert logic.run([3], "v long", time=(0, 1)) == ([((3,), (2, 4), 1)], [])
    with pytest.raises(an.errors.PlanError, match="run it at a pair"):
        logic.run([3], "v long")


@pytest.mark.parametrize("delay", DELAYS)
def test_rows_are_explained_through_delays_of_event_times(delay):
    delayed, move = DELAYS[delay]
    with Session(retain="all") as session:
        kept = an.source("kept", "k long, v long", time=("system", "event"), keep=True)
        view = session.maintain("v", delayed(kept).group_by("k").agg(n="sum(v)"))
        session.insert("kept", [(1, 5), (1, 6)], time=1)
        session.advance(to=6)
        session.insert("kept", [(1, 7)], time=3)
        session.advance(to=12)
        at = move((6, 3))
        [row] = view.to_pylist(at=at)
        assert row == (1, 18)
        assert '"v": 7' in str(view.explain_row(row, at=at))
