"""Functions that are none: what a retraction then says, and the check that finds them at once."""

from __future__ import annotations

import itertools
import random

import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import ImpureFunctionError, PlanError, ViewHasErrorsError
from altneu.linear.checked import same
from altneu.testing import assert_incremental
from altneu.testing.replaying import History

A = an.source("a", "k long, v double")


def noisy(_):
    return random.random()


@pytest.mark.parametrize("plan", [A.map(noisy, "x double"), A.map(noisy, "x double").distinct()])
def test_a_retraction_that_meets_other_rows_names_the_function(plan, tmp_path):
    with an.Session(path=tmp_path) as session:
        view = session.maintain("v", plan)
        session.insert("a", [(1, 2.0)])
        session.advance()
        session.retract("a", [(1, 2.0)])
        session.advance()
        said = (
            "the Python function noisy returned other rows at the retraction than at the "
            "insertion.*check_functions=True"
        )
        with pytest.raises(ViewHasErrorsError, match=said):
            view.to_pylist()
        with an.read(tmp_path) as reader, pytest.raises(ViewHasErrorsError, match=said):
            reader.view("v").to_pylist()


def test_without_a_function_none_is_blamed():
    with an.Session() as session:
        view = session.maintain("v", A.select("k"))
        session.retract("a", [(1, 2.0)])
        session.advance()
        with pytest.raises(ViewHasErrorsError) as refused:
            view.to_pylist()
        assert "function" not in str(refused.value)


counter = itertools.count()


@an.arrow
def noisy_batch(batch):
    return pa.record_batch({"x": pa.array([random.random() for _ in range(len(batch))])})


@an.arrow
def noisy_filter(batch):
    return pa.array([next(counter) % 3 == 0 for _ in range(len(batch))])


def sometimes_raising(row):
    if next(counter) % 2:
        raise ValueError("odd")
    return row.k


IMPURE = {
    "map": A.map(noisy, "x double"),
    "flat_map": A.flat_map(lambda _: (next(counter) for _ in range(2)), "x long"),
    "filter": A.filter(lambda _: next(counter) % 2 == 0),
    "explode": A.explode(lambda r: [(r.k, next(counter))], "x long"),
    "join_function": A.join_function(lambda r: [(r.k, next(counter), 1)], "x long"),
    "delay": A.delay(lambda t: t + next(counter)),
    "reduce": A.group_by("k").reduce(lambda _, rows: [next(counter) + len(rows)], "x long"),
    "threshold": A.threshold(lambda n: n + next(counter)),
    "raising": A.map(sometimes_raising, "x long"),
    "batch": A.map(noisy_batch, "x double"),
    "batch filter": A.filter(noisy_filter),
    "in a loop": A.select("k").iterate(lambda r: r.map(lambda _: next(counter) % 5, "k long").concat(r).distinct()),
}


@pytest.mark.parametrize("verb", IMPURE)
def test_a_check_names_the_function_and_the_row(verb, tmp_path):
    with an.Session(path=tmp_path, check_functions=True) as session:
        session.maintain("v", IMPURE[verb])
        session.insert("a", [(17, 2.5)])
        with pytest.raises(
            ImpureFunctionError, match=r"the Python function \S+ returned .* and then .* for .*(17|0|1)"
        ):
            session.advance()
        assert session.lower == 0
        session.discard()
        session.advance()
        assert session.view("v").to_pylist() == []
    with an.Session(path=tmp_path) as session:  # what is stored does not depend on the check
        session.maintain("v", IMPURE[verb])


def test_what_is_a_function_passes_the_check():
    nan = float("nan")
    plans = {
        "map": A.map(lambda r: (r.k, nan if r.k else r.v), "k long, v double"),
        "flat_map": A.flat_map(lambda r: (x for x in range(r.k)), "x long"),
        "raising": A.map(lambda r: 1 // r.k, "x long"),
        "reduce": A.group_by("k").reduce(lambda _, rows: ({"x": len(rows)} for _ in range(2)), "x long"),
        "batch": A.map(an.arrow(lambda b: b.select(["v"])), "v double"),
        "inspect": A.inspect(lambda *_: next(counter)),
    }
    with an.Session(check_functions=True) as checked, an.Session() as plain:
        for session in (checked, plain):
            for name, plan in plans.items():
                session.maintain(name, plan)
            session.insert("a", [(0, 1.0), (1, nan), (2, -0.0), (2, 0.0)])
            session.advance()
            session.retract("a", [(1, nan), (0, 1.0)])
            session.advance()
        for name in plans:
            one, other = (s.view(name).to_arrow(errors="ignore") for s in (checked, plain))
            assert sorted(map(str, one.to_pylist())) == sorted(map(str, other.to_pylist()))
            assert checked.view(name).errors().equals(plain.view(name).errors())


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (1, 1.0), ([1], (1,)), ({"a": 1}, {"b": 1}), (ValueError("a"), ValueError("b"))]
)
def test_results_of_another_type_or_value_differ(one, other):
    assert not same(one, other)
    assert same(one, one)


def test_the_test_kit_checks_functions():
    history = History({"a": A.schema}, {"a": [((1, 2.0), 0, 1), ((1, 2.0), 1, -1)]}, 2)
    assert_incremental(A.map(lambda r: r.k, "x long"), history, check_functions=True)
    with pytest.raises(ImpureFunctionError, match="function noisy returned"):
        assert_incremental(A.map(noisy, "x double"), history, check_functions=True)


def test_the_option_is_true_or_false():
    with pytest.raises(PlanError, match="check_functions must be True or False, got 1"):
        an.Session(check_functions=1)


@pytest.mark.spark
def test_a_check_on_spark_names_the_function(spark):
    with an.Session(spark, placement="spark", check_functions=True) as session:
        session.maintain("v", IMPURE["map"])
        session.insert("a", [(17, 2.5)])
        with pytest.raises(ImpureFunctionError, match=r"the Python function noisy returned .*17"):
            session.advance()
