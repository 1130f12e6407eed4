"""Loops of many rounds: what a round costs does not depend on how many there are, counted and not timed."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable

import pytest

import altneu as an
from altneu.operators.base import Operation
from altneu.plan.ir import MAX_ROUNDS
from altneu.runtime import local, schedule

EDGES = an.source("edges", "src long, dst long")
ROOTS = an.source("roots", "node long")
CALLS = 2_500  # of Python functions that a round of few rows may make


def reach(reached):
    return reached.join(EDGES, on={"node": "src"}).select(node="dst").concat(ROOTS).distinct()


def calls_of(run: Callable[[], object]) -> int:
    """How many Python functions are called."""
    counted = 0

    def note(_frame, event, _argument):
        nonlocal counted
        counted += event == "call"

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return counted


def operations(kind):
    """The classes of operations below one."""
    for below in kind.__subclasses__():
        yield from operations(below) if below.__subclasses__() else [below]


class Work:
    """What a step does: segments, operators that were run, functions that were called."""

    def __init__(self, monkeypatch) -> None:
        self.segments = self.operators = self.calls = 0
        for operation in operations(Operation):
            monkeypatch.setattr(operation, "step", self._noting(operation.step))
        run_whole = local._run_whole

        def noting(*given, **named):
            self.segments += 1
            return run_whole(*given, **named)

        monkeypatch.setattr(local, "_run_whole", noting)

    def _noting(self, run):
        def noting(operation, here):
            self.operators += 1
            return run(operation, here)

        return noting

    def of(self, run):
        self.segments = self.operators = 0
        self.calls = calls_of(run)
        return self.segments, self.operators, self.calls


def chain(session, nodes):
    session.insert("roots", [(0,)])
    session.insert("edges", [(i, i + 1) for i in range(nodes)])


def test_a_round_costs_the_same_whether_there_are_hundreds_or_thousands(monkeypatch):
    work, actual = Work(monkeypatch), {}
    for nodes in (600, 60, 600):  # the first only brings what is made once, such as kernels
        with an.Session() as session:
            view = session.maintain("reach", ROOTS.iterate(reach))
            chain(session, nodes)
            segments, operators, calls = work.of(session.advance)
            assert len(view.to_pylist()) == nodes + 1
            actual[nodes] = operators / segments, calls / segments
            assert nodes <= segments <= nodes + 5
    (operators, calls), (more_operators, more_calls) = actual[60], actual[600]
    assert more_operators <= operators * 1.05
    assert more_calls <= calls * 1.15
    assert more_calls < CALLS


def test_a_change_at_the_end_of_a_long_chain_costs_what_it_does_at_that_of_a_short_one(monkeypatch):
    work, actual = Work(monkeypatch), {}
    for nodes in (500, 50, 500):
        with an.Session() as session:
            view = session.maintain("reach", ROOTS.iterate(reach))
            chain(session, nodes)
            session.advance()
            session.insert("edges", [(nodes, nodes + 1)])
            added = work.of(session.advance)
            assert len(view.to_pylist()) == nodes + 2
            session.retract("edges", [(nodes - 2, nodes - 1)])
            cut = work.of(session.advance)
            assert len(view.to_pylist()) == nodes - 1
            actual[nodes] = added, cut
    for few, many in zip(actual[50], actual[500], strict=True):
        assert many[:2] == few[:2]
        assert many[2] <= few[2] * 1.3


def test_operators_without_anything_to_do_are_not_run(monkeypatch):
    """Two loops' worth of operators in one: what one variable's round needs does not wake the other's."""
    work = Work(monkeypatch)

    def body(one, other):
        further = other.join(EDGES, on={"node": "src"}).select(node="dst").filter("node < 0")
        return reach(one), further.concat(ROOTS.filter("node < 0")).distinct()

    counts = []
    for made in (ROOTS.iterate(reach), an.recursive(body, one=ROOTS, other=ROOTS.filter("node < 0"))[0]):
        with an.Session() as session:
            session.maintain("reach", made)
            chain(session, 100)
            counts.append(work.of(session.advance)[1])
    assert counts[1] <= counts[0] + 20


def test_more_rounds_than_ten_thousand_are_as_good_as_others():
    assert MAX_ROUNDS == 1_000_000
    late = EDGES.iterate(lambda x: x.concat(EDGES.enter_at("src").select(src="src + 1", dst="dst")).distinct())
    with an.Session() as session:
        view = session.maintain("late", late)
        session.insert("edges", [(20_000, 1)])
        session.advance()
        assert sorted(view.to_pylist()) == [(20_000, 1), (20_001, 1)]


def test_a_limit_that_is_the_default_leaves_a_plan_its_name():
    """The views of older stores are found by it; where a loop stops, a limit is a part of what it means."""
    limited = {limit: ROOTS.iterate(reach, max_rounds=limit).node.fingerprint for limit in (10_000, MAX_ROUNDS, 9)}
    assert limited[10_000] == limited[MAX_ROUNDS] == ROOTS.iterate(reach).node.fingerprint != limited[9]
    stopped = {ROOTS.iterate(reach, max_rounds=n, on_limit="stop").node.fingerprint for n in (10_000, MAX_ROUNDS)}
    assert len(stopped) == 2


def test_a_loop_without_end_can_be_interrupted():
    with an.Session() as session:
        view = session.maintain("numbers", ROOTS.iterate(lambda x: x.select(node="node + 1").concat(ROOTS)))
        session.maintain("roots", ROOTS)
        session.insert("roots", [(0,)])
        gc.disable()  # an interrupt that comes in Hypothesis' callback for collections is lost
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        handler = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
        try:
            with pytest.raises(KeyboardInterrupt):
                session.advance()
        finally:
            gc.enable()
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
        assert session.lower == 0
        session.retract("roots", [(0,)])
        session.advance()
        assert view.to_pylist() == []


def test_a_loop_of_many_rounds_logs_one_warning(monkeypatch, caplog):
    monkeypatch.setattr(schedule, "WARN_ROUNDS", 50)
    with an.Session() as session:
        session.maintain("reach", ROOTS.iterate(reach))
        chain(session, 20)
        session.advance()
        assert caplog.messages == []
        session.insert("edges", [(i, i + 1) for i in range(20, 80)])
        session.advance()
        (message,) = caplog.messages
        assert "still changes after 50 rounds, of at most 1,000,000." in message
