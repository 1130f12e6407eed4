"""Functions of users in expressions, and those whose results are kept: against plain Python, on every runner."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import altneu as an
from altneu import Collection, Session
from altneu.errors import PlanError
from altneu.sql import query
from tests.oracle.functions_of_users_cases import FORMS, SOURCES, TABLES, T, plans, shift
from tests.oracle.histories import History, accumulated, random_cuts, random_history, undone
from tests.oracle.recompute import Multiset, Row
from tests.oracle.runners import Runner, contents_of, table_of

CASES, TIMES = 6, 7


def possible(history: History) -> History:
    """Without the cases in which counts go below zero."""
    return {name: [u for u in updates if u[0][0] % 2 == 0] for name, updates in history.items()}


HISTORY = possible(random_history(random.Random(3), TABLES, 12, TIMES, 5))
EACH = list(range(1, TIMES + 1))


def meaning(  # noqa: C901 -- a case for each plan
    name: str, held: Mapping[str, Multiset]
) -> tuple[Multiset, bool]:
    """The rows of a plan, and whether some have failed."""
    rows: Multiset = Counter()
    failed = False

    def add(count: int, make: Callable[[], Row | None]) -> None:
        nonlocal failed
        try:
            row = make()
        except ValueError:
            failed = True
        else:
            if row is not None:
                rows[row] += count

    for (trial, k, s), n in held["t"].items():
        match name:
            case "selected":
                add(n, lambda: (trial, k, shift(k, s)))  # noqa: B023 -- called at once
            case "filtered":
                add(n, lambda: (trial, k, s, y + 1) if (y := shift(k, s)) is not None and y > 5 else None)  # noqa: B023
            case "joined":
                for (other, j, w), m in held["u"].items():
                    if (other, j) == (trial, k) and k is not None:
                        add(n * m, lambda: (trial, shift(w, s)))  # noqa: B023
            case "twice" if k != 3:
                add(n, lambda: (trial, shift(shift(k, s), "ab")))  # noqa: B023
    if name == "grouped":
        groups: Counter[Any] = Counter()
        for (trial, k, s), n in held["t"].items():
            if k != 3:
                groups[trial, shift(k, s)] += n
        rows.update({(*key, n): 1 for key, n in groups.items()})
    if name == "in SQL":
        best: dict[Any, list[int]] = {}
        for trial, k, s in held["t"]:
            if k is not None and k != 3 and (shift(k, "ab") or 0) > 2:
                best.setdefault(trial, []).extend([y] if (y := shift(k, s)) is not None else [])
        rows.update({(trial, max(some, default=None)): 1 for trial, some in best.items()})
    return rows, failed


def check(runner: Runner, some: Mapping[str, Collection], history: History, cuts: list[int], names: Any = None) -> None:
    """Every step of every plan shows what Python makes of the rows that are there."""
    chosen = {n: p for n, p in some.items() if names is None or n in names}
    traces = runner.run(chosen, SOURCES, history, cuts)
    for name, trace in traces.items():
        for step in trace.steps:
            held = {source: accumulated(updates, step.upper - 1) for source, updates in history.items()}
            rows, failed = meaning(name, held)
            assert (step.contents, step.raises) == (rows, failed), (name, step.upper)


@pytest.mark.parametrize("memo", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_every_step_shows_what_python_makes_of_the_rows(runner, form, memo):
    if runner.name in ("driver", "mixed") or (runner.name in ("spark", "durable") and form != "of values"):
        pytest.skip("a step is dear")
    some = plans(FORMS[form](memo=memo))
    cuts = EACH if runner.name == "memory" and memo and form == "of values" else [4, TIMES]
    check(runner, some, HISTORY, cuts, None if runner.name != "spark" else ["filtered", "in SQL"])


@pytest.mark.parametrize("seed", range(2))
def test_any_history_in_any_steps(seed):
    rng = random.Random(seed)
    history = possible(random_history(rng, TABLES, CASES, TIMES, 5))
    runner = Runner("any", lambda _: Session(shards=rng.randint(1, 3)), together=True, ahead=bool(seed % 2))
    memo = bool(rng.randint(0, 1))
    check(runner, plans(FORMS[rng.choice(list(FORMS))](memo=memo)), history, random_cuts(rng, TIMES))


@pytest.mark.parametrize("form", FORMS)
def test_functions_are_called_twice_where_that_is_checked(form):
    runner = Runner("checked", lambda _: Session(check_functions=True), together=True)
    check(runner, plans(FORMS[form]()), HISTORY, [3, TIMES])


def test_another_view_begins_with_the_present():
    some = plans(FORMS["of values"](memo=True))
    with Session(shards=2) as session:
        for name, source in SOURCES.items():
            session.maintain(f"all of {name}", source)
            session.insert(name, table_of(HISTORY[name], source), time="time", diff="diff")
        session.advance(to=4)
        views = {name: session.maintain(name, plan) for name, plan in some.items()}
        for time in (4, TIMES):
            if time > session.lower:
                session.advance(to=time)
            held = {source: accumulated(updates, time - 1) for source, updates in HISTORY.items()}
            assert {n: contents_of(v) for n, v in views.items()} == {n: meaning(n, held)[0] for n in views}


# results that are kept ------------------------------------------------------------------------------------------------


class Counting:
    """A function that notes its calls, and answers each of them differently."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.number = itertools.count()

    def __call__(self, k: int | None, s: str | None) -> int:
        self.calls.append((k, s))
        if k == 3:
            raise ValueError("three")
        return next(self.number)

    def taken(self) -> list[tuple[Any, ...]]:
        """The calls since this was asked last."""
        calls, self.calls = self.calls, []
        return sorted(calls, key=str)


VERSIONS = itertools.count(1)


def counting(version: int | None = None) -> tuple[Counting, an.Udf]:
    """A function and its expression: another function each time, unless the version says that it is the same."""
    function = Counting()
    return function, an.udf(function, "long", name="counting", memo=True, version=version or next(VERSIONS))


@pytest.mark.parametrize("options", [{}, {"shards": 3}, {"retain": "all"}], ids=str)
def test_a_function_is_called_once_for_each_argument(options):
    function, f = counting()
    with Session(**options) as session:
        view = session.maintain("v", T.filter(f("k", "s") >= 0).select("trial", n=f("k", "s")))
        session.insert("t", [(1, 1, "a"), (2, 1, "a"), (3, None, None), (4, 3, "x"), (5, 3, "x")])
        session.advance()
        assert function.taken() == [(1, "a"), (3, "x"), (None, None)]
        before = contents_of(view)
        (one,) = {n for trial, n in before if trial in (1, 2)}
        assert len(before) == 3
        assert {e["message"] for e in view.errors().to_pylist()} == {"ValueError: three"}
        session.retract("t", [(1, 1, "a"), (4, 3, "x"), (3, None, None)])  # some of the rows with an argument, or all
        session.advance()
        assert contents_of(view) == {(2, one): 1}
        session.retract("t", [(2, 1, "a"), (5, 3, "x")])
        session.advance()
        assert contents_of(view) == {}
        assert view.errors().num_rows == 0
        session.insert("t", [(1, 1, "a"), (2, 1, "a"), (3, None, None), (4, 3, "x")])
        session.advance()
        assert function.taken() == []
        assert contents_of(view) == before
        session.retract("t", [(2, 1, "a")])
        session.insert("t", [(9, 1, "a"), (9, 1, "b")])  # a correction of another column
        session.advance()
        assert function.taken() == [(1, "b")]


def test_a_function_that_answers_differently_does_no_harm():
    history = {"t": [*HISTORY["t"], *undone(HISTORY, TIMES)["t"]]}
    for seed in range(4):
        rng = random.Random(seed)
        function, f = counting()
        with Session(shards=rng.randint(1, 3)) as session:
            view = session.maintain("v", T.select("trial", "k", "s", n=f("k", "s")))
            for lower, upper in itertools.pairwise([0, *random_cuts(rng, TIMES), TIMES + 1]):
                session.insert(
                    "t", table_of([u for u in history["t"] if lower <= u[1] < upper], T), time="time", diff="diff"
                )
                session.advance(to=upper)
                rows = contents_of(view)
                held = accumulated(history["t"], upper - 1)
                wanted = Counter({row: n for row, n in held.items() if row[1] != 3})
                assert Counter({row[:3]: n for row, n in rows.items()}) == wanted
                assert len({(k, s, n) for _, k, s, n in rows}) == len({(k, s) for _, k, s, _ in rows})
            assert contents_of(view) == {}
        there = {row[1:] for time in range(TIMES) for row in accumulated(history["t"], time)}
        assert len(there) >= 12
        assert sorted(function.calls, key=str) == sorted(there, key=str)


def test_results_are_kept_by_a_store(tmp_path):
    for part in range(3):
        function, f = counting(version=1_000_000)
        with Session(path=tmp_path) as session:
            view = session.maintain("v", T.select("trial", n=f("k", "s")))
            session.insert("t", [(part, 1, "a"), (part, part, "b")])
            if part:
                session.retract("t", [(part - 1, 1, "a"), (part - 1, part - 1, "b")])
            session.advance()
            assert function.taken() == ([(0, "b"), (1, "a")] if part == 0 else [(part, "b")])
            assert sorted(trial for trial, _ in contents_of(view).elements()) == [part, part]


@pytest.mark.spark
def test_results_are_kept_on_spark(spark):
    f = an.udf(lambda k: random.random() if k != 3 else 1 // 0, "double", memo=True, name="chance")
    with Session(spark, placement="spark") as session:
        view = session.maintain("v", T.filter(f("k") >= 0).select("trial", n=f("k")))
        for time in (0, 1):
            updates = [u for u in HISTORY["t"] if u[1] <= 3] if not time else undone(HISTORY, 3)["t"]
            session.insert("t", table_of([(row, time, n) for row, _, n in updates], T), time="time", diff="diff")
            session.advance()
            held = {} if time else accumulated(updates, 3)
            assert sum(contents_of(view).values()) == sum(n for row, n in held.items() if row[1] != 3)


def test_a_change_costs_what_it_changes():
    """One call for a new argument and none for an old one, however many there are."""
    for n in (20, 2000):
        function, f = counting()
        with Session() as session:
            session.maintain("v", T.select("trial", n=f("k", "s")))
            session.insert("t", [(i, i + 10, "x") for i in range(n)])
            session.advance()
            assert len(function.taken()) == n
            session.retract("t", [(0, 10, "x")])
            session.insert("t", [(n, 11, "x"), (n, n + 10, "x")])
            session.advance()
            assert function.taken() == [(n + 10, "x")]


def test_what_results_cannot_be_kept_for_is_refused():
    _, f = counting()
    two = an.source("two", "k long, s string", time=("known", "day"))
    with pytest.raises(PlanError, match="counting, a function with memo=True, cannot be called in a loop"):
        T.iterate(lambda x: x.select("trial", k=f("k", "s"), s="s").distinct())
    with pytest.raises(
        PlanError, match="needs collections with one time, but one of its sources has two times, known and"
    ):
        two.select(n=f("k", "s"))
    with pytest.raises(PlanError, match="this collection is differentiated"):
        T.differentiate().select(n=f("k", "s"))
    with pytest.raises(PlanError, match="cannot stand inside a lambda"):
        query("SELECT transform(array(k), x -> f(x, s)) AS n FROM t", {"t": T}, {"f": f})
    with pytest.raises(PlanError, match=r"has maps, which are not compared"):
        T.select(n=an.udf(len, "int", memo=True)(an.fn.map(an.col("k"), an.col("s"))))


def test_a_failing_argument_is_the_error_of_its_row():
    _, f = counting()
    with Session() as session:
        view = session.maintain("v", T.select("trial", n=f(an.lit(12) / an.col("k"), "s")))
        session.insert("t", [(1, 0, "a"), (2, 2, "a")])
        session.advance()
        assert [e["code"] for e in view.errors().to_pylist()] == ["DIVIDE_BY_ZERO"]
        session.retract("t", [(1, 0, "a")])
        session.advance()
        assert view.errors().num_rows == 0
        assert [trial for trial, _ in contents_of(view)] == [2]
