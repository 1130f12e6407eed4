"""Sources with three times and more: every plan with two times, with a third, at every triple against recomputation."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, product

import pyarrow as pa
import pytest

import altneu as an
from altneu import Collection, Session
from altneu.order import Antichain, Epoch, Product
from altneu.plan import ir
from altneu.plan.rewrite import optimise
from altneu.plan.rewrite.transform import transform
from tests.oracle.histories import random_cuts
from tests.oracle.recompute import Multiset, Row, recompute, without_zeros
from tests.oracle.runners import Runner, contents_of, errors_of, row_text, table_of
from tests.oracle.two_times_cases import PLANS, SYSTEMS, TRIALS, B

TIMES = ("system", "day", "shift")
SPACE = Product(Epoch(), Epoch(), Epoch())
DAYS, SHIFTS = 3, 3
A = an.source("a", "trial int, k long, v long", time=TIMES)


def _with_three(plan: Collection) -> Collection:
    """The plan over a source with three times."""

    def change(new: ir.Node, _old: ir.Node) -> ir.Node:
        if isinstance(new, ir.Source) and new.coordinates is not None:
            return replace(new, coordinates=TIMES)
        return new

    return Collection(transform(plan.node, change))


@dataclass
class History:
    """Updates ``(row, (system, day, shift), diff)`` of A, and ``(row, system, diff)`` of B."""

    a: list[tuple[Row, tuple[int, int, int], int]]
    b: list[tuple[Row, int, int]]

    @classmethod
    def random(cls, seed: int, closed: tuple[tuple[int, int], ...] = ((0, 0),) * SYSTEMS) -> History:
        """Rows that come and go; none is about what is ``closed`` at its system time."""
        rng = random.Random(seed)
        result = cls([], [])
        for trial in range(TRIALS):
            there: list[tuple[Row, tuple[int, int]]] = []
            for system in range(SYSTEMS):
                day, shift = closed[system]
                for _ in range(rng.randint(0, 3)):
                    if there and rng.random() < 0.4:
                        row, (d, s) = there.pop(rng.randrange(len(there)))
                        result.a.append((row, (system, max(d, day), max(s, shift)), -1))
                    else:
                        row = trial, rng.randrange(3), rng.randrange(3)
                        at = max(rng.randrange(DAYS), day), max(rng.randrange(SHIFTS), shift)
                        there.append((row, at))
                        result.a.append((row, (system, *at), 1))
                if rng.random() < 0.5:
                    result.b.append(((trial, rng.randrange(3), rng.randrange(4)), system, 1))
        rng.shuffle(result.a)
        return result

    def held(self, at: tuple[int, ...]) -> Mapping[str, Multiset]:
        a, b = Counter(), Counter()
        for row, time, diff in self.a:
            if all(t <= u for t, u in zip(time, at, strict=True)):
                a[row] += diff
        for row, system, diff in self.b:
            if system <= at[0]:
                b[row] += diff
        return {"a": without_zeros(a), "b": without_zeros(b)}

    def insert(self, session: Session, lower: int, upper: int, convert=lambda table: table) -> None:
        updates = [u for u in self.a if lower <= u[1][0] < upper]
        columns = [*zip(*((*row, *time, d) for row, time, d in updates), strict=True)] or [()] * 7
        names = [*A.schema, *(pa.field(n, pa.int64()) for n in ("s", "d", "f", "n"))]
        table = pa.table([pa.array(c, f.type) for c, f in zip(columns, names, strict=True)], schema=pa.schema(names))
        if "a" in session.sources:
            session.insert("a", convert(table), time=("s", "d", "f"), diff="n")
        if "b" in session.sources:
            actual = [u for u in self.b if lower <= u[1] < upper]
            session.insert("b", convert(table_of(actual, B)), time="time", diff="diff")


def _check(view, plan: Collection, history: History, systems) -> None:
    node = optimise(plan.node)
    for at in product(systems, range(DAYS + 1), range(SHIFTS)):
        wanted, errors = recompute(node, history.held(at), at[0])
        assert contents_of(view, at) == Counter({r: n for r, n in wanted.items() if n > 0}), at
        negative = {("NEGATIVE_MULTIPLICITY", row_text(plan.columns, r)) for r, n in wanted.items() if n < 0}
        assert errors_of(view, at) == errors | negative, at


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("seed", range(2))
def test_every_triple_of_times_shows_what_was_known(name, seed):
    plan, history = _with_three(PLANS[name]), History.random(seed)
    with Session(retain="all", shards=1 + seed) as session:
        view = session.maintain("v", plan)
        for lower, upper in pairwise([0, *random_cuts(random.Random(seed), SYSTEMS)]):
            history.insert(session, lower, upper)
            session.advance(to=upper)
        _check(view, plan, history, range(SYSTEMS))


@pytest.mark.parametrize("name", PLANS)
def test_only_the_present_is_retained_by_default(name):
    plan, history = _with_three(PLANS[name]), History.random(7)
    with Session() as session:
        view = session.maintain("v", plan)
        for system in range(SYSTEMS):
            history.insert(session, system, system + 1)
            session.advance()
        _check(view, plan, history, [SYSTEMS - 1])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["extremes", "joined with one time", "labels", "first ranks", "count"])
def test_on_every_runner(runner: Runner, name):
    plan, history, folder = _with_three(PLANS[name]), History.random(11), runner.folder()
    session = runner.open_session(folder)
    view = session.maintain("v", plan)
    for step, (lower, upper) in enumerate(pairwise([0, 3, SYSTEMS])):
        runner.before_step(session, step)
        history.insert(session, lower, upper, runner.convert)
        session.advance(to=upper)
        _check(view, plan, history, [upper - 1])
        if runner.reopened:
            with an.read(folder) as reader:
                _check(reader.view("v"), plan, history, [upper - 1])
            session.close()
            session = runner.open_session(folder)
            view = session.maintain("v", plan)
            _check(view, plan, history, [upper - 1])
    session.close()


CLOSED = ((0, 0), (0, 1), (1, 1), (1, 2), (2, 2))


@pytest.mark.parametrize("name", ["source", "extremes", "joined with one time", "reach"])
def test_what_is_closed_in_each_of_them_is_final(name):
    plan, history = _with_three(PLANS[name]), History.random(3, CLOSED)
    with Session(retain="all") as session:
        view, final = session.maintain("v", plan), 0
        for system in range(SYSTEMS):
            history.insert(session, system, system + 1)
            own = CLOSED[system + 1] if system + 1 < SYSTEMS else (DAYS, SHIFTS)
            session.advance(event=own)
            assert session.frontier == Antichain.of(SPACE, (system + 1, *own))
            for at in product(range(SYSTEMS + 2), range(DAYS), range(SHIFTS)):
                if not view.frontier.less_equal(SPACE.from_python(at))[0]:
                    wanted, _ = recompute(optimise(plan.node), history.held(at), at[0])
                    assert contents_of(view, at) == wanted, at
                    final += at[0] > system
        assert final or name == "joined with one time"


def test_how_times_are_given_and_shown(tmp_path):
    with Session(path=tmp_path, retain="all") as session:
        view = session.maintain("a", A)
        session.insert("a", [(0, 1, 2)], time=(3, 1))
        session.insert("a", [(0, 1, 3)], time=(None, 1, 2))
        session.insert("a", [(0, 1, 4)], time=(1, 0, 0))
        session.advance(to=2)
        assert view.coordinates == TIMES
        assert view.changes().column_names == ["trial", "k", "v", *TIMES, "diff"]
        assert view.changes(time_column="t").column_names == ["trial", "k", "v", "t", "t_day", "t_shift", "diff"]
        rows = {
            at: sorted(v for *_, v in view.to_pylist(at=at)) for at in ((0, 3, 1), (0, 2, 2), (1, 0, 0), (1, 9, 9), 1)
        }
        assert rows == {(0, 3, 1): [2], (0, 2, 2): [3], (1, 0, 0): [4], (1, 9, 9): [2, 3, 4], 1: [2, 3, 4]}
        assert sorted(v for *_, v in view.to_pylist(at=(None, None, 1))) == [2, 4]
        assert str(view.explain_row((0, 1, 3))).startswith(
            '{"trial": 0, "k": 1, "v": 3} is in view a at time (1, last, last)'
        )
        assert "at time (1, 0, 0)" in str(view.explain_row((0, 1, 4), at=(1, 0, 0)))
        session.advance(event=(1, 1))
        with pytest.raises(an.errors.BeforeFrontierError, match="event time 0 is closed"):
            session.insert("a", [(0, 1, 2)], time=(5, 0))
    with an.read(tmp_path) as reader:
        assert sorted(v for *_, v in reader.view("a").to_pylist(at=(None, 0, 0))) == [4]
        assert reader.view("a").frontier == Antichain.of(SPACE, (3, 1, 1))


@pytest.mark.parametrize("retain", ["all", 0])
def test_traces_have_all_times(tmp_path, retain):
    """A cursor gives every update that the trace distinguishes; a lookup the rows of a key at a triple."""
    history = History.random(17)
    with Session(path=tmp_path, shards=2, retain=retain) as session:
        trace = session.arrange("a by k", A, "k", order="v desc")
        history.insert(session, 0, SYSTEMS)
        session.advance(to=SYSTEMS)
        wanted: Counter = Counter()
        for row, (system, *own), diff in history.a:
            wanted[row, (max(system, trace.since), *own)] += diff
        with an.read(tmp_path) as reader:
            for found in (trace, reader.trace("a by k")):
                cursor = found.cursor()
                shown = [((v.trial, *k, v.v), time, diff) for k, v, time, diff in cursor]
                assert {(row, time): diff for row, time, diff in shown} == without_zeros(wanted)
                assert len(shown) == len(without_zeros(wanted))
                tables = pa.concat_tables(found.cursor().tables())
                assert tables.column_names == ["trial", "k", "v", *TIMES, "diff"]
                assert tables.num_rows == len(shown)
                for at in product(range(trace.since, SYSTEMS), range(DAYS), range(SHIFTS)):
                    held = history.held(at)["a"]
                    for k in range(3):
                        here = Counter(
                            {(t, k, value.v): n for value, n in found.lookup(k, at=at) for t in [value.trial]}
                        )
                        assert here == Counter({row: n for row, n in held.items() if row[1] == k})


def test_statements_name_each_time():
    with Session(retain="all") as session:
        session.maintain("a", A)
        session.insert("a", [(0, 1, 2)], time=(0, 0, 1))
        session.insert("a", [(0, 1, 3)], time=(0, 1, 0))
        session.advance()
        for at, values in {"(0, 0, 1)": [2], "(0, 1, 0)": [3], "(NULL, 1, 1)": [2, 3], "(0, 1, NULL)": [2, 3]}.items():
            assert sorted(v for *_, v in session.sql(f"SELECT * FROM a AS OF {at}").to_pylist()) == values
        session.sql("ADVANCE TO 3 EVENT (1, 2)")
        assert session.frontier == Antichain.of(SPACE, (3, 1, 2))
        assert "closed already" in str(session.sql("ADVANCE TO 3 EVENT (1, 1)"))  # a script that is run again
        session.sql("ADVANCE TO 2 EVENT (0, 3)")
        assert session.frontier == Antichain.of(SPACE, (3, 1, 3))
        with pytest.raises(an.errors.InputError, match="must say where each of day, shift is closed"):
            session.sql("ADVANCE EVENT 4")


def test_what_is_refused():
    with Session() as session:
        session.maintain("a", A)
        for given in (1, (1, 2, 3, 4), (1, None), (0, 1, None)):
            with pytest.raises(an.errors.InputError, match="source 'a' has three times, system and day and shift; say"):
                session.insert("a", [(0, 1, 2)], time=given)
        with pytest.raises(an.errors.InputError, match="must say where each of day, shift is closed"):
            session.advance(event=3)
        with pytest.raises(an.errors.ReadError, match="must be one time, or one for each of system, day, shift"):
            session.sql("SELECT * FROM a AS OF (0, 1)")
        two = an.source("two", "k long", time=("known", "day"))
        for plan in (two, two.join(A, on="k")):
            with pytest.raises(an.errors.PlanError, match="must have equally many"):
                session.maintain("v", plan)
        with pytest.raises(an.errors.PlanError, match="its rows do not have two times"):
            session.maintain("late", A.delay(by=(0, 1)))
        assert session.views == ["a"]
    with Session(retain_events=2) as session, pytest.raises(an.errors.PlanError, match="compacts one event time"):
        session.maintain("a", A)
    for times in (("a",), ("a", "a"), ("a", "b", ""), "ab"):
        with pytest.raises(an.errors.SchemaError, match="must name the two times of a source, or more"):
            an.source("x", "k long", time=times)
