"""Bad input of every kind: refused by name before anything runs, or data in the error collection until the row goes."""

from __future__ import annotations

from collections import Counter

import pytest

import altneu as an
from altneu.errors import (
    DiffOverflowError,
    ExpressionSyntaxError,
    NonDeterministicError,
    PlanError,
    SchemaError,
    TypeMismatchError,
    UnknownColumnError,
    UnsupportedFunctionError,
    ViewHasErrorsError,
)

T = an.source("t", "k long, v long, s string, m map<string,int>")


def reduced(needs):
    return T.group_by("k").reduce(lambda *_: [], "x long", needs=needs)


U = an.source("u", "k string, w long")

REFUSED = {
    "an unknown column": (lambda: T.filter("z > 1"), UnknownColumnError, "'z'.*k, v, s, m"),
    "an unknown column in select": (lambda: T.select("k", "z"), UnknownColumnError, "'z'"),
    "an unknown key": (lambda: T.group_by("z"), UnknownColumnError, "'z'"),
    "an unknown join key": (lambda: T.join(U, on="z"), UnknownColumnError, "'z'"),
    "an unknown join key on the right": (lambda: T.join(U, on={"k": "z"}), UnknownColumnError, "'z'.*k, w"),
    "an unknown column in an aggregate": (lambda: T.group_by("k").agg(n="sum(z)"), UnknownColumnError, "'z'"),
    "an unknown column in an order": (lambda: T.top_k(1, "z"), UnknownColumnError, "'z'"),
    "an unknown group of top_k": (lambda: T.top_k(1, "k", per="z"), UnknownColumnError, "'z'"),
    "a condition that is none": (lambda: T.filter("k + 1"), TypeMismatchError, "boolean"),
    "text where a number is due": (lambda: T.select(x="array(1) + 1"), TypeMismatchError, "array"),
    "a sum of maps": (lambda: T.group_by("k").agg(x="sum(m)"), TypeMismatchError, "numbers"),
    "keys that cannot be compared": (
        lambda: T.join(T.select(k="m"), on="k"),
        TypeMismatchError,
        "maps cannot be compared",
    ),
    "maps made distinct": (T.distinct, TypeMismatchError, "'m' has maps"),
    "groups of maps": (lambda: T.group_by("m"), TypeMismatchError, "'m' has maps"),
    "a column outside its aggregate": (lambda: T.group_by("k").agg(x="v + count(*)"), TypeMismatchError, "'v'"),
    "an unknown function": (lambda: T.select(x="frobnicate(k)"), UnsupportedFunctionError, "frobnicate"),
    "an aggregate in a row": (lambda: T.filter("sum(k) > 1"), PlanError, "sum"),
    "an unknown aggregate": (
        lambda: T.group_by("k").agg(x="histogram_numeric(v, 3)"),
        UnsupportedFunctionError,
        "histogram_numeric",
    ),
    "an aggregate by arrival": (lambda: T.group_by("k").agg(x="first(v)"), UnsupportedFunctionError, "order"),
    "rand": (lambda: T.select(x="rand()"), NonDeterministicError, "rand"),
    "uuid": (lambda: T.select(x="uuid()"), NonDeterministicError, "uuid"),
    "current_timestamp": (
        lambda: T.filter("current_timestamp() > timestamp'2020-01-01'"),
        NonDeterministicError,
        "current_timestamp",
    ),
    "a text that does not parse": (lambda: T.filter("k >"), ExpressionSyntaxError, "[12k]"),
    "a text with a rest": (lambda: T.select(x="1 2"), ExpressionSyntaxError, "[12k]"),
    "two columns of one name": (lambda: T.select("k", k="v"), SchemaError, "two columns are called 'k'"),
    "no columns": (T.select, SchemaError, "at least one column"),
    "parts that do not match": (lambda: T.select("k").concat(U.select("k")), SchemaError, "of the same columns"),
    "a join that is none": (
        lambda: T.join(U, on="k", how="cross"),
        PlanError,
        "how must be inner, left, right or full, got 'cross'",
    ),
    "a join without a key": (lambda: T.join(U, on=[]), PlanError, "at least one key"),
    "a count called like a column": (lambda: T.select("k").count("k"), SchemaError, "called 'k'"),
    "top none": (lambda: T.top_k(0, "k"), PlanError, "at least 1"),
    "no aggregate": (lambda: T.group_by("k").agg(), PlanError, "at least one aggregate"),
    "a schema that does not parse": (lambda: an.source("x", "a b c"), SchemaError, "cannot read"),
    "a type that is unknown": (lambda: an.source("x", "a money"), SchemaError, "money"),
    "a column twice": (lambda: an.source("x", "a int, A long"), SchemaError, "twice"),
    "a source without a name": (lambda: an.source("", "a int"), SchemaError, "name"),
    "needs in words": (lambda: reduced("first 3 by v"), PlanError, "needs must be an.first"),
    "needs of no rows": (lambda: reduced(an.first(0, by="v")), PlanError, "k must be a whole number of at least 1"),
    "needs of half a row": (lambda: reduced(an.last(1.5, by="v")), PlanError, "got 1.5"),
    "needs by an unknown column": (lambda: reduced(an.first(1, by="nope")), UnknownColumnError, "nope"),
    "needs by a group column": (lambda: reduced(an.last(1, by="k desc")), PlanError, "'k' is a group column"),
    "needs by what is computed": (
        lambda: reduced(an.first(1, by="v + 1")),
        PlanError,
        "must be columns, got the expression",
    ),
    "needs by a map": (lambda: reduced(an.first(1, by="m")), TypeMismatchError, "map"),
    "needs by nothing": (lambda: reduced(an.first(1, by=[])), ExpressionSyntaxError, "no keys"),
    "a reduced column over a key": (lambda: T.group_by("k").reduce(lambda *_: [], "k long"), SchemaError, "'k'"),
    "a placement that is none": (lambda: an.Session(placement="cloud"), PlanError, "cloud"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_plan_is_refused_when_it_is_built(case):
    build, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        build()


def make(*plans, **settings):
    session = an.Session(**settings)
    return session, *(session.maintain(f"v{i}", plan) for i, plan in enumerate(plans))


def codes(view):
    return Counter(e["code"] for e in view.errors().to_pylist())


N = an.source("n", "k long, v long")
BAD_ROWS = {
    "a division by zero": (N.select("k", x="10 div v"), [(1, 0)], {"DIVIDE_BY_ZERO"}),
    "an overflow": (N.select("k", x="v * 4611686018427387904"), [(1, 2)], {"ARITHMETIC_OVERFLOW"}),
    "a failing cast": (
        N.select("k", x="cast(concat('x', cast(v as string)) as int)"),
        [(1, 5)],
        {"CAST_INVALID_INPUT"},
    ),
    "a failing filter": (N.filter("1 div v = 0"), [(1, 0)], {"DIVIDE_BY_ZERO"}),
    "a failing function": (N.map(lambda r: 1 // r.v, "x long"), [(1, 0)], {"PYTHON_EXCEPTION"}),
    "a failing filter function": (N.filter(lambda r: 1 // r.v), [(1, 0)], {"PYTHON_EXCEPTION"}),
    "a failing flat_map": (N.flat_map(lambda r: [1 // r.v], "x long"), [(1, 0)], {"PYTHON_EXCEPTION"}),
    "a generator that fails late": (
        N.flat_map(lambda r: (1 // (r.v - i) for i in range(3)), "x long"),
        [(1, 2)],
        {"PYTHON_EXCEPTION"},
    ),
    "a result of another type": (N.map(lambda r: "x" if r.v else 1, "x long"), [(1, 1)], {"PYTHON_RESULT_TYPE"}),
    "a fraction for a whole number": (N.map(lambda r: r.v + 0.5, "x long"), [(1, 1)], {"PYTHON_RESULT_TYPE"}),
    "too many values": (N.map(lambda _: (1, 2), "x long"), [(1, 1)], {"PYTHON_EXCEPTION"}),
    "an overflowing sum": (N.group_by("k").agg(x="sum(v)"), [(1, 2**62), (1, 2**62)], {"ARITHMETIC_OVERFLOW"}),
    "a failing aggregate expression": (N.group_by("k").agg(x="1 div sum(v)"), [(1, 1), (1, -1)], {"DIVIDE_BY_ZERO"}),
    "a failing reducer": (N.group_by("k").reduce(lambda *_: 1 // 0, "x long"), [(1, 1)], {"PYTHON_EXCEPTION"}),
    "a failing threshold": (N.threshold(lambda n: 1 // (n - 1)), [(1, 1)], {"PYTHON_EXCEPTION"}),
    "a failing batch": (N.map(an.arrow(lambda _: 1 // 0), "x long"), [(1, 1)], {"PYTHON_EXCEPTION"}),
}
RETRACTED = {
    "distinct": N.distinct(),
    "min": N.group_by("k").agg(x="min(v)"),
    "sum": N.group_by("k").agg(x="sum(v)"),
    "collect": N.group_by("k").agg(x="collect_list(v)"),
    "top_k": N.top_k(1, "v", per="k"),
    "join": N.join(N.distinct(), on="k"),
    "the row itself": N,
}


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_is_an_error_until_it_goes(case, shards):
    plan, rows, wanted = BAD_ROWS[case]
    good = [(7, 3), (8, 4)]
    with an.Session(shards=shards) as other:
        view = other.maintain("v", plan)
        other.insert("n", good)
        other.advance()
        clean = Counter(view.to_pylist(errors="ignore"))
        errors = view.errors().num_rows
    session, view = make(plan, shards=shards)
    session.insert("n", [*good, *rows])
    session.advance()
    assert codes(view).keys() >= wanted
    with pytest.raises(ViewHasErrorsError, match=next(iter(wanted))):
        view.to_arrow()
    assert Counter(view.to_pylist(errors="ignore")) == clean
    session.retract("n", rows)
    session.advance()
    assert view.errors().num_rows == errors
    assert Counter(view.to_pylist(errors="ignore")) == clean


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("case", RETRACTED)
def test_a_row_retracted_that_was_never_there_is_an_error_until_it_comes(case, shards):
    session, view = make(RETRACTED[case], shards=shards)
    session.insert("n", [(2, 2)])
    session.advance()
    clean = view.to_pylist()
    assert len(clean) == 1
    session.retract("n", [(1, 1)])
    session.advance()
    assert codes(view) == {"NEGATIVE_MULTIPLICITY": 1}
    assert view.to_pylist(errors="ignore") == clean
    session.insert("n", [(1, 1)])
    session.advance()
    assert view.to_pylist() == clean


def test_an_error_says_where_what_why_and_which_row():
    """The operator is the step that failed, in the form that the optimiser gave it."""
    session, view = make(N.filter("v < 5").select("k", x="10L div v").filter("x > 0"))
    session.insert("n", [(1, 0)])
    session.advance()
    (error,) = view.errors().to_pylist()
    assert error["operator"] == "compute 10L div v"
    assert (error["code"], error["row"]) == ("DIVIDE_BY_ZERO", '{"k": 1, "v": 0}')
    assert error["message"]


def test_errors_are_a_set_whatever_happens_to_the_rows():
    """Two copies, a diamond and a self-join of the failing rows: still one error each."""
    bad = N.select("k", x="10 div v")
    session, copies, diamond, joined = make(bad, bad.filter("x > 1").concat(bad.filter("x < 1")), bad.join(bad, on="k"))
    session.insert("n", [(1, 0), (1, 5)], diff=3)
    session.advance()
    for view in (copies, diamond, joined):
        assert codes(view) == {"DIVIDE_BY_ZERO": 1}
    session.retract("n", [(1, 0)], diff=2)
    session.advance()
    for view in (copies, diamond, joined):
        assert codes(view) == {"DIVIDE_BY_ZERO": 1}
    session.retract("n", [(1, 0)])
    session.advance()
    for view in (copies, diamond, joined):
        assert view.errors().num_rows == 0


def test_equal_errors_of_opposite_counts_do_not_cancel():
    session, view = make(
        N.select("k", x="10 div v").concat(N.filter("k > 0").negate().negate().consolidate().select("k", x="10 div v"))
    )
    session.insert("n", [(1, 0)])
    session.retract("n", [(-1, 0)])
    session.advance()
    assert {e["row"] for e in view.errors().to_pylist()} == {'{"k": 1, "v": 0}', '{"k": -1, "v": 0}'}


def test_a_function_that_raises_on_one_row_of_many_loses_that_row_only():
    rows = 200_000

    def fragile(row):
        if row.v == 123_456:
            raise ValueError("not this one")
        return row.k, row.v

    session, view = make(N.map(fragile, "k long, v long").group_by("k").agg(n="count(*)", total="sum(v)"))
    session.insert("n", [(i % 10, i) for i in range(rows)])
    session.advance()
    (error,) = view.errors().to_pylist()
    assert (error["code"], error["message"]) == ("PYTHON_EXCEPTION", "ValueError: not this one")
    wanted = {k: (rows // 10, sum(range(k, rows, 10))) for k in range(10)}
    wanted[6] = (wanted[6][0] - 1, wanted[6][1] - 123_456)
    assert {k: (n, total) for k, n, total in view.to_pylist(errors="ignore")} == wanted
    session.retract("n", [(6, 123_456)])
    session.advance()
    assert {k: (n, total) for k, n, total in view.to_pylist()} == wanted


@pytest.mark.parametrize("plan", [N, N.count(), N.join(N, on="k"), N.group_by("k").agg(n="count(*)")])
def test_a_diff_that_leaves_int64_commits_nothing_and_can_be_discarded(plan):
    session, view = make(plan)
    session.insert("n", [(1, 1)])
    session.advance()
    before = Counter(map(repr, view.to_pylist()))
    session.insert("n", [(1, 1)], diff=2**63 - 1)
    session.insert("n", [(1, 1)], diff=2**62)
    for _ in range(2):
        with pytest.raises(DiffOverflowError):
            session.advance()
        assert session.lower == 1
        assert Counter(map(repr, view.to_pylist())) == before
    session.discard()
    session.insert("n", [(2, 2)])
    session.advance()
    assert session.lower == 2
    assert len(view.to_pylist()) == 2


def test_a_failing_step_leaves_every_view_as_it_was():
    """One view overflows: another, computed in the same step before it, shows nothing of the step either."""
    session, plain, product = make(N.filter("k > 0"), N.join(N, on="k"))
    session.insert("n", [(1, 1)], diff=2**40)
    with pytest.raises(DiffOverflowError):
        session.advance()
    assert plain.to_pylist() == []
    session.discard()
    session.insert("n", [(1, 1)])
    session.advance()
    assert plain.to_pylist() == [(1, 1)]
    assert product.to_pylist() == [(1, 1, 1)]


def test_an_interrupt_leaves_the_session_usable():
    struck = []

    def strike(row):
        if not struck:
            struck.append(row)
            raise KeyboardInterrupt
        return row.k

    session, view = make(N.map(strike, "k long"))
    session.insert("n", [(1, 1)])
    with pytest.raises(KeyboardInterrupt):
        session.advance()
    assert session.lower == 0
    session.advance()
    assert view.to_pylist() == [(1,)]
