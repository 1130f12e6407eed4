"""Parameters of a text: their values are what Spark takes them for, and never anything else."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import altneu as an
from altneu.errors import PlanError, StatementError
from altneu.sql.statements.parser import with_parameters
from tests.sql_statements.cases import ORDERS, rows

UTC = dt.UTC
INSTANTS = st.datetimes(timezones=st.just(UTC)).filter(lambda at: 1900 < at.year < 2200)
DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(), st.binary(), DECIMALS
)
VALUES = st.one_of(SCALARS, st.dates(dt.date(1, 1, 1)), INSTANTS, st.lists(st.integers(0, 9)), st.lists(st.text()))


@pytest.fixture(scope="module")
def session():
    with an.Session() as session:
        session.sql(ORDERS)
        yield session


@given(VALUES, st.text())
def test_a_value_comes_back_as_it_is(session, value, text):
    args = {"value": value, "text": text}
    ((first, second, third),) = rows_with(session, "SELECT :value, :text, ':value ?' -- ?", args)
    assert same(first, value)
    assert second == text
    assert third == ":value ?"


def rows_with(session, text, args):
    return session.sql(text, args).to_pylist()


def same(found, value):
    if isinstance(value, float) and math.isnan(value):
        return math.isnan(found)
    if isinstance(value, list):
        return list(found) == value
    return found == value and isinstance(found, type(value))


def test_spark_takes_the_same_values(spark):
    values = [None, True, 7, -7, 2**40, 1.5, -1e-7, "it's \\n \n ä % \\% \"", Decimal("1.50"), dt.date(2024, 2, 29)]
    values += [dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC), b"\x00a", dt.timedelta(days=1, seconds=2)]
    text = "SELECT " + ", ".join(f"typeof(:p{i}), :p{i}" for i in range(len(values)))
    args = {f"p{i}": value for i, value in enumerate(values)}
    (there,) = spark.sql(text, args=args).collect()
    with an.Session() as session:
        ((*here,),) = rows_with(session, text, args)
    assert [naive(v) for v in here] == [naive(v) for v in there]


def naive(value):
    if isinstance(value, bytearray):
        return bytes(value)
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def test_every_statement_takes_them():
    with an.Session() as session:
        session.sql("CREATE TABLE t (k INT, v STRING)")
        session.sql("INSERT INTO t VALUES (?, ?), (2, 'b')", [1, "a"])
        session.sql("CREATE MATERIALIZED VIEW w AS SELECT * FROM t WHERE k = :k", {"k": np.int64(1)})
        assert rows(session, "SELECT * FROM w") == [(1, "a")]
        session.sql("UPDATE t SET v = :v WHERE k = :k; DELETE FROM t WHERE k = 2", {"k": 1, "v": "z"})
        assert rows_with(session, "SELECT k FROM IDENTIFIER(:t) LIMIT :n", {"t": "t", "n": 1}) == [(1,)]
        assert rows_with(session, "SELECT * FROM t WHERE array_contains(:ks, k)", {"ks": [1, 5]}) == [(1, "z")]
        assert rows_with(session, "SELECT :m['a'] + 5 -:one", {"m": {"a": 1}, "one": -1}) == [(7,)]


def test_a_definition_is_stored_with_its_values(quick):
    with an.Session(path=quick / "state") as session:
        session.sql("CREATE TABLE t (k INT)")
        session.sql("CREATE MATERIALIZED VIEW w AS SELECT k + :n AS n FROM t", {"n": 5})
    with an.Session(path=quick / "state") as session:
        session.sql("INSERT INTO t VALUES (1)")
        assert rows(session, "SELECT * FROM w") == [(6,)]


def test_queries_that_differ_in_them_share_a_plan(session):
    text = "SELECT total FROM totals WHERE item = :item"
    for item, total in (("tea", [(7,)]), ("jam", [(5,)]), ("oil", []), ("tea", [(7,)])):
        assert rows_with(session, text, {"item": item}) == total
    asking = session.statements.templates.asked(with_parameters(text, {"item": "jam"}))
    assert asking is not None
    assert asking.constants


REFUSED = [
    ("SELECT :a", None, "the parameters :a have no value: session.sql(text, args={'a': …})"),
    ("SELECT ?", None, "the text has 1 parameters ?, and args must be a list of as many values, got 0"),
    ("SELECT :a", {}, "the parameters :a have no value"),
    ("SELECT :a, :b", {"a": 1, "c": 2}, "the parameters :b have no value"),
    ("SELECT :a", {"a": 1, "c": 2}, "args has values for :c, and the text has no such parameter; it has: :a"),
    ("SELECT 1", {"c": 2}, "it has: none"),
    ("SELECT :a", (1,), "args must be a mapping, args={'a': …}, got (1,)"),
    ("SELECT ?", {"a": 1}, "parameters without a name, ?: args must be a list"),
    ("SELECT ?, ?", (1,), "the text has 2 parameters ?"),
    ("SELECT ?", "a", "args must be a mapping of values by the names of :parameters, or a list for ?, got 'a'"),
    ("SELECT :a", (("a", object),), "args must be a mapping"),
    ("SELECT * FROM IDENTIFIER('a b')", None, "IDENTIFIER must have the name of a table"),
    ("SELECT * FROM IDENTIFIER(?)", (3,), "IDENTIFIER must have the name of a table, a view or a column"),
]


@pytest.mark.parametrize(("text", "args", "message"), REFUSED)
def test_what_does_not_fit_is_said(text, args, message):
    with pytest.raises(StatementError) as caught:
        with_parameters(text, args)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [1 + 2j, {1, 2}, int, [1, {3}], {"k": 1j}])
def test_a_value_without_constants_is_refused(session, value):
    with pytest.raises(StatementError) as caught:
        session.sql("SELECT :a", {"a": value})
    inner = value[1] if isinstance(value, list) else value["k"] if isinstance(value, dict) else value
    assert str(caught.value) == (
        "the value of :a must be None, a bool, number, text, bytes, date, datetime, time, timedelta, or a list or dict "
        f"of these, got {inner!r}, which is of type {type(inner).__name__}"
    )


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Decimal("1e60"), "more than 38 digits"),
        (Decimal("NaN"), "a decimal must be a finite number, got NaN"),
        (Decimal("-Infinity"), "a decimal must be a finite number, got -Infinity"),
        ("\ud800", "surrogates"),
    ],
)
def test_a_value_beyond_its_type_is_refused(session, value, why):
    with pytest.raises(StatementError, match=rf"^the value of a parameter \? must fit a type of SQL, got .*{why}"):
        session.sql("SELECT ?", [value])


def test_a_part_of_a_value_is_no_parameter(session):
    with pytest.raises(PlanError):
        session.sql("SELECT item:a FROM totals")
