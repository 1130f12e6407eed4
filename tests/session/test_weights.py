"""Weights as users meet them: laws, what is refused and why, what is kept and read at n and at 100 n, stores."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import altneu as an
from altneu import Collection, Session
from altneu.collections.weights import Best, Max, Min, Moments, Sums, Union, Weight, Weighted
from altneu.errors import PlanError, SchemaError, StorePlanError, TypeMismatchError, UnknownColumnError
from altneu.testing import assert_weight_laws
from tests.oracle.runners import state_left

T = an.source("t", "k long, v long, x double, d decimal(9,2), s string, m map<string, long>, xs array<long>")
GROWS, CHANGES = (an.source("t", "k long, v long", append_only=grows) for grows in (True, False))


class Longest(Weight):
    """A semigroup with no more than that."""

    layout, zero = "string", ""

    def add(self, a: str, b: str) -> str:
        return max(a, b, key=lambda text: (len(text), text))


class Count(Weight):
    """The whole numbers, as a user writes them."""

    layout, zero = "bigint", 0

    def add(self, a: int, b: int) -> int:
        return a + b

    def negate(self, a: int) -> int:
        return -a

    def multiply(self, a: int, b: int) -> int:
        return a * b

    one = 1


# laws -----------------------------------------------------------------------------------------------------------------

NUMBERS = st.integers(-50, 50)
LAWFUL: dict[str, tuple[Weight, Any]] = {
    "sums": (Sums("a", "b"), st.tuples(NUMBERS, NUMBERS)),
    "decimals": (Sums("a"), NUMBERS.map(lambda n: Decimal(n).scaleb(-2))),
    "moments": (Moments("n", "s", "q"), st.tuples(NUMBERS, NUMBERS, NUMBERS)),
    "min": (Min("a"), st.none() | NUMBERS),
    "min-plus": (Min("a", multiply="+"), st.none() | NUMBERS),
    "greatest": (Min("a", multiply="greatest"), st.none() | NUMBERS),
    "max-plus": (Max("a", multiply="+"), st.none() | NUMBERS),
    "widest": (Max("a", multiply="least"), st.none() | NUMBERS),
    "best": (Best("a", "b desc"), st.none() | st.tuples(NUMBERS, st.none() | NUMBERS)),
    "best-plus": (Best("a", "b desc", multiply="+"), st.none() | st.tuples(NUMBERS, NUMBERS)),
    "union": (Union("a"), st.none() | st.sets(NUMBERS, max_size=3).map(sorted)),
    "longest": (Longest("a"), st.text(max_size=2)),
    "count": (Count("a"), NUMBERS),
}


@pytest.mark.parametrize("name", LAWFUL)
def test_the_kinds_obey_their_laws(name: str) -> None:
    assert_weight_laws(*LAWFUL[name])


def broken(**methods: Any) -> Weight:
    made: type[Count] = type("Broken", (Count,), methods)
    return made("a")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("weight", "law"),
    [
        (broken(add=lambda _, a, b: a - b), "add is commutative|add is associative"),
        (broken(multiply=None, add=lambda _, a, b: a + b + (a * b > 6)), "add is associative"),
        (broken(zero=1), "zero is the identity of add"),
        (broken(negate=lambda _, a: a), "a weight and its negative are zero"),
        (
            broken(one=None, multiply=lambda _, a, b: a * b + (b > 3)),
            "multiply distributes over add|zero times anything",
        ),
        (broken(one=None, multiply=lambda _, a, b: max(a, b)), "multiply distributes over add"),
        (broken(one=2), "one is the unit of multiply"),
        (broken(layout="tinyint", add=lambda _, a, b: 3 * (a + b)), "add is associative|cannot be stored as tinyint"),
        (broken(layout="string"), "comes back as|cannot be stored"),
    ],
)
def test_a_law_that_does_not_hold_is_named(weight: Weight, law: str) -> None:
    with pytest.raises(AssertionError, match=law):
        assert_weight_laws(weight, NUMBERS)


def test_a_method_that_changes_its_arguments_is_found() -> None:
    class Lists(Weight):
        layout, zero = "array<bigint>", []

        def add(self, a: list[int], b: list[int]) -> list[int]:
            a.extend(b)
            a.sort()
            return a

    with pytest.raises(AssertionError):
        assert_weight_laws(Lists("a"), st.lists(NUMBERS, max_size=2).map(sorted))


# refusals -------------------------------------------------------------------------------------------------------------

MIN, SUM = T.select("k", "v").weighted(Min("v")), T.select("k", "v").weighted(Sums("v"))
PAIR = T.select("k", a="v", b="v").weighted(Sums("a", "b"))

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "negate": (MIN.negate, PlanError, r"negate needs a weight with negate, and Min\('v'\) has none"),
    "negate in logic": (lambda: MIN.join_function(an.logic.negate()), PlanError, "negate needs a weight with negate"),
    "join": (
        lambda: MIN.join(MIN, "k"),
        PlanError,
        r"join with another weighted .* needs a weight with multiply, and Min",
    ),
    "own join": (
        lambda: T.select("k", "s").weighted(Longest("s")).join(T.select("k", "s").weighted(Longest("s")), "k"),
        PlanError,
        r"needs a weight with multiply, and Longest\('s'\) has none: use a weight that has it, or consolidate\(\)",
    ),
    "left join": (
        lambda: (w := T.select("k", "v").weighted(Min("v", multiply="greatest"))).join(w, "k", "left"),
        PlanError,
        "a left join needs a weight with one, the unit of its product, and Min.* has none: concat the inner join",
    ),
    "right join": (
        lambda: MIN.join(T.select("k", "x"), "k", "right"),
        PlanError,
        "a right join needs a weight with one",
    ),
    "explode": (lambda: MIN.explode(lambda r: [((r.k,), 2)], "k long"), PlanError, "explode with a function needs"),
    "given": (lambda: MIN.select("k", v="2"), PlanError, "select with the columns of a weight needs a weight with mul"),
    "given in part": (
        lambda: PAIR.select("k", a="2"),
        PlanError,
        "select gives a of the weight .* all columns .* a, b",
    ),
    "other weights": (
        lambda: SUM.concat(MIN),
        PlanError,
        r"concat needs collections of one weight, got Sums\('v'\) and",
    ),
    "no weights": (lambda: SUM.concat(T), PlanError, "needs another one, got Collection; weighted"),
    "other product": (
        lambda: T.select("k", "v").weighted(Min("v", multiply="+")).join(MIN, "k"),
        PlanError,
        "join needs collections of one weight",
    ),
    "a filter of weights": (
        lambda: SUM.filter("v > 1"),
        PlanError,
        r"filter reads 'v', a column of the weight Sums\('v'\)",
    ),
    "a key of weights": (lambda: SUM.join(T, "v"), PlanError, "a key reads 'v', a column of the weight"),
    "a key of weights there": (lambda: SUM.join(SUM, {"k": "v"}), PlanError, "a key reads 'v'"),
    "no column": (lambda: T.weighted(Sums("y")), UnknownColumnError, "y"),
    "twice": (lambda: Sums("v", "v"), PlanError, "names a column twice"),
    "sums of texts": (
        lambda: T.weighted(Sums("s")),
        TypeMismatchError,
        "column s of Sums.* a number, got string; cast",
    ),
    "least map": (lambda: T.weighted(Min("m")), TypeMismatchError, "of a type that has an order, got map"),
    "text plus": (lambda: T.weighted(Min("s", multiply="+")), TypeMismatchError, "a number, for the product"),
    "union of a number": (lambda: T.weighted(Union("v")), TypeMismatchError, "an array, got bigint"),
    "decimal moments": (lambda: T.weighted(Moments("d", "v", "x")), TypeMismatchError, "a whole number or a double"),
    "a layout with maps": (
        lambda: T.weighted(type("Maps", (Longest,), {"layout": "map<string, long>"})("m")),
        PlanError,
        "maps cannot be compared; use an array of structs",
    ),
    "another layout": (lambda: T.weighted(Longest("v")), TypeMismatchError, "must be string, got bigint; cast it"),
    "product": (
        lambda: Min("v", multiply="least"),
        PlanError,
        "must be one of '[+]', 'greatest', which keep its order",
    ),
    "fine products": (
        lambda: (
            T.select("k", d="cast(d as decimal(9,4))")
            .weighted(Sums("d"))
            .join(T.select("k", d="cast(d as decimal(9,4))").weighted(Sums("d")), "k")
        ),
        TypeMismatchError,
        "scale is at most 6",
    ),
    "given type": (
        lambda: SUM.select("k", v="1.5D"),
        TypeMismatchError,
        "must be bigint, as what it is multiplied with",
    ),
    "maps in rows": (lambda: T.weighted(Sums("v")).consolidate(), TypeMismatchError, "column 'm' has maps"),
    "weighted in a join": (lambda: T.join(SUM, "k"), PlanError, r"got Weighted; consolidate\(\) makes a collection"),
    "weighted in a concat": (lambda: T.concat(SUM), PlanError, r"consolidate\(\) makes a collection of a weighted one"),
    "a verb": (lambda: SUM.top_k(1, "k"), AttributeError, r"no 'top_k'; consolidate\(\) makes a collection"),
    "a body": (
        lambda: SUM.iterate(lambda x: x.consolidate()),
        PlanError,
        "x is weighted by .* returns is not weighted",
    ),
    "another weight in a body": (
        lambda: SUM.iterate(lambda _: MIN),
        PlanError,
        "weighted by Sums.*returns is weighted by",
    ),
    "columns of a body": (lambda: SUM.iterate(lambda x: x.select(j="k")), SchemaError, "the loop's variable x has"),
    "batches": (
        lambda: SUM.explode(an.arrow(lambda batch: batch), "k long"),
        PlanError,
        "takes a function of a row, got one of batches; flat_map takes it",
    ),
    "weight of a triple": (
        lambda: PAIR.join_function([({"k": "k"}, None, "1")]),
        PlanError,
        "for each of a, b, got '1'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_weight_lacks_is_refused_by_name(name: str) -> None:
    make, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        make()


def test_a_view_is_of_a_collection() -> None:
    with Session() as session, pytest.raises(PlanError, match=r"consolidate\(\) makes a collection of a weighted one"):
        session.maintain("v", SUM)  # type: ignore[arg-type]


# values ---------------------------------------------------------------------------------------------------------------


def shown(plan: Collection, rows: list[Any], *more: list[Any], diffs: list[int] | None = None) -> list[tuple[Any, ...]]:
    """What a view shows in the end of rows that are inserted, and then others."""
    with Session() as session:
        view = session.maintain("v", plan)
        for some, diff in zip([rows, *more], diffs or [1] * (1 + len(more)), strict=True):
            session.insert("t", some, diff=diff)
            session.advance()
        return sorted(view.to_pylist(), key=repr)


ONE = an.source("t", "k long, x double")
EXACT = ONE.weighted(Sums("x")).consolidate()


def test_sums_of_doubles_are_exact_and_rounded_once() -> None:
    assert shown(EXACT, [(1, 1e300), (1, 1.0), (1, -1e300), (2, 0.1), (2, 0.2), (2, -0.1), (2, -0.2)]) == [(1, 1.0)]
    assert shown(EXACT, [(1, 5e-324), (1, 1e300)], [(1, 1e300)], diffs=[1, -1]) == [(1, 5e-324)]


def test_doubles_that_are_not_finite_come_and_go() -> None:
    inf = math.inf
    assert shown(EXACT, [(1, inf), (1, 3.0)]) == [(1, inf)]
    assert shown(EXACT, [(1, inf), (1, 3.0)], [(1, inf)], diffs=[1, -1]) == [(1, 3.0)]
    assert shown(EXACT, [(1, inf)], [(1, inf)], diffs=[-1, 1]) == []
    assert shown(EXACT, [(1, inf)], diffs=[-1]) == [(1, -inf)]
    assert shown(EXACT, [(1, inf)], [(1, -inf)], diffs=[1, -1]) == [(1, inf)]
    assert math.isnan(shown(EXACT, [(1, inf), (1, -inf)])[0][1])
    assert math.isnan(shown(EXACT, [(1, math.nan)], diffs=[-1])[0][1])


def test_a_null_is_zero() -> None:
    rows = an.source("t", "k long, a long, b long")
    assert shown(rows.weighted(Sums("a", "b")).consolidate(), [(1, None, 3), (2, None, None), (3, 1, None)]) == [
        (1, 0, 3),
        (3, 1, 0),
    ]
    assert shown(rows.weighted(Best("a", "b")).consolidate(), [(1, None, 3), (2, 1, None), (2, 1, 5)]) == [(2, 1, 5)]
    squares = rows.select("k", "a").weighted(Min("a", multiply="greatest"))
    assert shown(squares.join(squares, "k").consolidate(), [(1, None, 0), (2, 4, 0)]) == [(2, 4)]
    assert shown(rows.select("k", "a").weighted(Count("a")).consolidate(), [(1, None, 0), (2, 4, 0), (2, None, 0)]) == [
        (2, 4)
    ]


def test_a_sum_outside_its_type_is_an_error_row_until_it_is_not() -> None:
    plan = CHANGES.weighted(Sums("v")).consolidate()
    with Session() as session:
        view = session.maintain("v", plan)
        session.insert("t", [(1, 2**62), (1, 2**62), (2, 1)])
        session.advance()
        assert [error["code"] for error in view.errors().to_pylist()] == ["ARITHMETIC_OVERFLOW"]
        session.insert("t", [(1, -1)])
        session.advance()
        assert sorted(view.to_pylist()) == [(1, 2**63 - 1), (2, 1)]


def test_counts_below_zero_are_errors_of_semigroups_and_weights_of_groups() -> None:
    plans = {"min": Min("v"), "best": Best("v"), "own": Count("v"), "sums": Sums("v")}
    with Session() as session:
        views = {name: session.maintain(name, CHANGES.weighted(w).consolidate()) for name, w in plans.items()}
        session.insert("t", [(1, 5)], diff=-2)
        session.advance()
        codes = {name: [error["code"] for error in view.errors().to_pylist()] for name, view in views.items()}
        assert codes == {"min": ["NEGATIVE_MULTIPLICITY"], "best": ["NEGATIVE_MULTIPLICITY"], "own": [], "sums": []}
        assert views["own"].to_pylist() == views["sums"].to_pylist() == [(1, -10)]


# weights that verbs give ----------------------------------------------------------------------------------------------


def test_verbs_multiply_by_the_weights_that_they_give() -> None:
    rows = [(1, 3), (1, 4), (2, 5)]
    weighed = CHANGES.select("k", n="1", s="v").weighted(Sums("n", "s"))
    wanted = [(1, 4, 21), (2, 2, 15)]
    plans = [
        weighed.select("k", n="2", s="3"),
        weighed.map(lambda r: (r.k, 2, 3), "k long, n long, s long"),
        weighed.flat_map(lambda r: [(r.k, 1, 2), (r.k, 1, 1)], "k long, n long, s long"),
        weighed.explode(lambda r: [((r.k,), (1, 2)), (r.k, (1, 1))], "k long"),
        weighed.join_function(lambda r: [((r.k,), None, (1, 2)), ((r.k,), 0, [1, 1])], "k long"),
        weighed.join_function([({"k": "k"}, None, (2, "k - k + 3"))]),
    ]
    for plan in plans:
        assert shown(plan.consolidate(), rows) == wanted


def test_triples_with_weights_have_times() -> None:
    plan = CHANGES.weighted(Count("v")).join_function(lambda r: [((r.k,), r.k, 2), ((r.k,), r.k + 2, -2)], "k long")
    with Session() as session:
        view = session.maintain("v", plan.consolidate())
        session.insert("t", [(1, 3), (2, 4)])
        seen = []
        for to in (1, 2, 3, 4, 5):
            session.advance(to=to)
            seen.append(sorted(view.to_pylist()))
        assert seen == [[], [(1, 6)], [(1, 6), (2, 8)], [(2, 8)], []]


def test_functions_of_batches_see_the_data_and_keep_the_weights() -> None:
    weighed = CHANGES.weighted(Sums("v"))

    def half(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.schema.names == ["k"]
        return pa.RecordBatch.from_arrays([pa.array([k // 2 for k in batch["k"].to_pylist()])], ["h"])

    def twice(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, list[int]]:
        return pa.RecordBatch.from_arrays([pa.array([1] * 2 * len(batch))], ["h"]), [*range(len(batch))] * 2

    rows = [(1, 3), (2, 4), (3, 5)]
    assert shown(weighed.map(an.arrow(half), "h long").consolidate(), rows) == [(0, 3), (1, 9)]
    assert shown(weighed.flat_map(an.arrow(twice), "h long").consolidate(), rows) == [(1, 24)]
    some = weighed.filter(an.arrow(lambda batch: pa.array([k > 1 for k in batch["k"].to_pylist()])))
    assert shown(some.consolidate(), rows) == [(2, 4), (3, 5)]


def test_one_collection_without_data_is_a_total() -> None:
    total = an.source("t", "v long").weighted(Sums("v"))
    assert shown(total.consolidate(), [1, 2, 3]) == [(6,)]
    assert shown(total.concat(total.negate()).consolidate(), [1, 2, 3]) == []


# cost -----------------------------------------------------------------------------------------------------------------


def rows_of(count: int, first: int = 0) -> list[tuple[int, int]]:
    return [(i % 5, (i * 7919) % 100_003) for i in range(first, first + count)]


def stored(session: Session) -> int:
    """Updates in all states but the contents and last changes of views."""
    engine = session._engine
    contents = {ports.contents for ports in engine.plan.views.values()}
    return sum(engine.table.rows(name) for name in engine.plan.arrangements if name not in contents)


def filled(session: Session, plan: Collection, count: int) -> None:
    session.maintain("v", plan)
    for first in range(0, count, count // 10):
        session.insert("t", rows_of(count // 10, first))
        session.advance()


SMALL: dict[str, Callable[[], Weighted]] = {
    "max of rows that grow": lambda: GROWS.weighted(Max("v")),
    "best of rows that grow": lambda: GROWS.select("k", "v", w="v % 7").weighted(Best("w desc", "v")),
    "sums": lambda: CHANGES.select("k", n="1", s="v", q="v * v").weighted(Sums("n", "s", "q")),
    "a group of one's own": lambda: CHANGES.weighted(Count("v")),
}


class Greatest(Weight):
    """A semigroup: no sum can take the place of its parts, one of which may be taken back."""

    layout, zero = "bigint", -1

    def add(self, a: int, b: int) -> int:
        return max(a, b)


class Parted(Greatest):
    buckets = (4096, 64)


def test_own_weights_in_buckets_are_read_in_part(read: list[int]) -> None:
    """Of a row with n different weights a change reads all, and in buckets a few, whatever n is."""
    touched = {}
    for count in (100, 10_000):
        for weight in (Greatest("v"), Parted("v")):
            with Session() as session:
                view = session.maintain("v", CHANGES.weighted(weight).consolidate())
                session.insert("t", [(1, i) for i in range(count)])
                session.advance()
                read.append(0)
                session.insert("t", [(1, count)])
                session.advance()
                touched[type(weight), count] = read[-1]
                assert view.to_pylist() == [(1, count)]
    assert touched[Greatest, 10_000] >= 10_000
    assert touched[Parted, 10_000] <= 400 + touched[Parted, 100]


def test_a_group_of_ones_own_is_kept_as_one_sum(read: list[int]) -> None:
    """Of a row with n different weights, whatever n is; each of them may still be taken back."""
    touched, kept = {}, {}
    for count in (100, 10_000):
        with Session() as session:
            view = session.maintain("v", CHANGES.weighted(Count("v")).consolidate())
            for first in range(0, count, count // 10):
                session.insert("t", [(1, i) for i in range(first, first + count // 10)])
                session.advance()
            read.append(0)
            session.retract("t", [(1, 7)])
            session.advance()
            touched[count], kept[count] = read[-1], stored(session)
            assert view.to_pylist() == [(1, count * (count - 1) // 2 - 7)]
            session.insert("t", [(1, i) for i in range(count) if i != 7], diff=-1)
            session.advance()
            assert view.to_pylist() == []
            session.merge()
            assert stored(session) == 0
    assert touched[10_000] == touched[100] <= 100
    assert kept[10_000] == kept[100] <= 30


def test_a_group_of_ones_own_at_two_times_is_what_sums_are() -> None:
    rng = random.Random(5)
    source = an.source("t", "k long, v long", time=("known", "day"))
    weighed = {name: source.weighted(weight) for name, weight in (("own", Count("v")), ("sums", Sums("v")))}
    with Session(retain="all") as session:
        views = {name: session.maintain(name, plan.consolidate()) for name, plan in weighed.items()}
        for _ in range(12):
            for day in {rng.randrange(5) for _ in range(3)}:
                rows = [(rng.randrange(2), rng.randrange(-3, 4)) for _ in range(3)]
                session.insert("t", rows, time=day, diff=rng.choice([1, 1, 2, -1]))
            session.advance()
        found = {
            name: [sorted(view.to_pylist(at=(at, day))) for at in range(12) for day in range(5)]
            for name, view in views.items()
        }
        assert found["own"] == found["sums"]
        assert len({*map(str, found["own"])}) > 20


def test_weights_that_cannot_be_added_are_errors_until_they_are_gone() -> None:
    class Careful(Count):
        def add(self, a: int, b: int) -> int:
            if 13 in (a, b):
                raise ValueError("13")
            return a + b

    with Session() as session:
        view = session.maintain("v", CHANGES.weighted(Careful("v")).consolidate())
        seen = []
        for value, diff in ((5, 1), (13, 1), (6, 1), (13, -1), (5, -1)):
            session.insert("t", [(1, value)], diff=diff)
            session.advance()
            seen.append([error["code"] for error in view.errors().to_pylist()] or view.to_pylist())
        assert seen == [[(1, 5)], ["PYTHON_EXCEPTION"], ["PYTHON_EXCEPTION"], [(1, 11)], [(1, 6)]]


@pytest.mark.parametrize("name", SMALL)
def test_state_and_rows_read_do_not_grow_with_the_rows(name: str, read: list[int]) -> None:
    kept, touched = {}, {}
    for count in (100, 10_000):
        with Session() as session:
            filled(session, SMALL[name]().consolidate(), count)
            kept[count] = stored(session)
            read.append(0)
            session.insert("t", [(1, 5), (7, 10**6)])
            session.advance()
            touched[count] = read[-1]
    assert kept[10_000] <= max(kept[100], 5 * 20)
    assert touched[10_000] <= touched[100] + 50


@pytest.mark.parametrize("grows", [True, False])
def test_joins_keep_a_row_for_each_row_of_the_data(grows: bool) -> None:
    """However many weights it came with: they are added up before."""
    source = GROWS if grows else CHANGES
    other = an.source("o", "k long")
    for weight in (Max("v"), Sums("v")):
        with Session() as session:
            filled(session, source.weighted(weight).join(other, "k").consolidate(), 10_000)
            plan, table = session._engine.plan, session._engine.table
            sizes = [(plan.nodes[i].label, table.rows(name)) for name, i in plan.arrangements.items()]
            assert sum(n for label, n in sizes if label == "arrange by k") <= 5 * 20, sizes


def test_weights_in_a_loop_keep_the_best_of_each_node() -> None:
    """Of edges and nodes that are only added, as ``group_by`` and ``min`` in a loop do."""
    for grows in (True, False):
        weight = Min("cost", multiply="+")
        edges = an.source("e", "src long, dst long, cost long", append_only=grows).weighted(weight)
        start = an.source("s", "node long, cost long", append_only=grows).weighted(weight)

        def further(known: Weighted, edges: Weighted = edges, start: Weighted = start) -> Weighted:
            return known.join(edges, {"node": "src"}).select(node="dst").concat(start)

        with Session() as session:
            view = session.maintain("v", start.iterate(further).consolidate())
            session.insert("s", [(0, 0)])
            session.insert(
                "e", [(i, (i * 31 + j) % 50, 1 + (i * j * 7919) % 1009) for i in range(50) for j in range(40)]
            )
            session.advance()
            assert len(view.to_pylist()) == 50
            kept = [line for line in session.explain("v").splitlines() if "the first row of each key" in line]
            assert len(kept) == (3 if grows else 0), session.explain("v")


@pytest.mark.parametrize("weight", [Sums("w"), Min("w", multiply="+"), Count("w")], ids=["sums", "min", "own"])
@pytest.mark.parametrize("steps", [1, 2, {"near": 3, "far": 1}], ids=str)
def test_weighted_variables_have_steps_and_rows_that_enter_later(weight: Weight, steps: Any) -> None:
    """Each round as it is written: what the body made so many rounds before, with the rows that have entered."""
    rounds, rng = 5, random.Random(7)
    by = steps if isinstance(steps, dict) else {"near": steps, "far": steps}
    edges = an.source("e", "src long, dst long, w long").weighted(weight)
    start = an.source("s", "node long, w long").weighted(weight)

    def body(near: Weighted, far: Weighted) -> tuple[Weighted, Weighted]:
        along = near.join(edges, {"node": "src"}).select(node="dst")
        return along.concat(start.enter_at("node - 1")), far.concat(near)

    views = an.weights.recursive(body, max_rounds=rounds, on_limit="stop", step=steps, near=start, far=start)
    given: dict[str, list[tuple[int, ...]]] = {"e": [], "s": []}

    def added(pairs: list[tuple[int, int]]) -> dict[int, int]:
        table: dict[int, int] = {}
        for node, w in pairs:
            table[node] = weight.add(table[node], w) if node in table else w
        return {node: w for node, w in table.items() if not weight.is_zero(w)}

    def expected() -> list[dict[int, int]]:
        first = added([(node, w) for node, w in given["s"]])
        seen, made = [(first, first)], []
        for r in range(rounds):
            near, far = seen[r]
            entered = [(node, w) for node, w in first.items() if max(node - 1, 0) <= r]
            along = [(dst, weight.multiply(near[src], w)) for src, dst, w in given["e"] if src in near]
            made.append((added([*along, *entered]), added([*far.items(), *near.items()])))
            late = [r + 1 - by[name] for name in ("near", "far")]
            seen.append(tuple(first if at < 0 else made[at][i] for i, at in enumerate(late)))
        return [*made[-1]]

    with Session() as session:
        shown = [session.maintain(f"v{i}", view.consolidate()) for i, view in enumerate(views)]
        for _ in range(6):
            for name, width in (("e", 2), ("s", 1)):
                for _ in range(rng.randrange(4)):
                    row = (*(rng.randrange(5) for _ in range(width)), rng.randrange(1, 4))
                    given[name].append(row)
                    session.insert(name, [row])
                if given[name] and rng.random() < 0.5:
                    session.retract(name, [given[name].pop(rng.randrange(len(given[name])))])
            session.advance()
            assert [dict(view.to_pylist()) for view in shown] == expected()
    with pytest.raises(PlanError, match="enter_at reads 'w', a column of the weight"):
        start.iterate(lambda x: x.concat(start.enter_at("w")))


# stores ---------------------------------------------------------------------------------------------------------------


def test_a_weight_whose_methods_have_changed_is_noticed(tmp_path: Path) -> None:
    def of(method: Callable[[int, int], int]) -> Collection:
        class Own(Count):
            def add(self, a: int, b: int) -> int:
                return method(a, b)

        return CHANGES.weighted(Own("v")).consolidate()

    with Session(path=tmp_path) as session:
        session.maintain("v", of(lambda a, b: a + b))
        session.insert("t", [(1, 2), (1, 3)])
        session.advance()
    with Session(path=tmp_path) as session:
        assert session.maintain("v", of(lambda a, b: a + b)).to_pylist() == [(1, 5)]
    with Session(path=tmp_path) as session, pytest.raises(StorePlanError, match="have changed since it was stored"):
        session.maintain("v", of(max))


def test_a_late_view_is_filled_from_what_others_keep() -> None:
    with Session() as session:
        session.maintain("all", an.source("t", "k long, v long", keep=True))
        session.insert("t", rows_of(100))
        session.advance()
        source = an.source("t", "k long, v long", keep=True)
        views = [
            session.maintain(f"v{i}", source.weighted(w).consolidate()) for i, w in enumerate((Max("v"), Sums("v")))
        ]
        values = [[v for k, v in rows_of(100) if k == one] for one in range(5)]
        assert sorted(views[0].to_pylist()) == [(k, max(some)) for k, some in enumerate(values)]
        assert sorted(views[1].to_pylist()) == [(k, sum(some)) for k, some in enumerate(values)]


def test_all_that_is_retracted_leaves_nothing() -> None:
    weights = [Max("v"), Sums("v"), Best("v"), Count("v")]
    with Session() as session:
        for i, weight in enumerate(weights):
            session.maintain(f"v{i}", CHANGES.weighted(weight).consolidate())
        for diff in (1, -1):
            session.insert("t", rows_of(100), diff=diff)
            session.advance()
        assert all(session.view(f"v{i}").to_pylist() == [] for i in range(len(weights)))
        session.advance()
        assert [*state_left(session)] == []
