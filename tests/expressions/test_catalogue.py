"""The list of Spark's functions: it is Spark's, and each name is supported or refused with its reason."""

from __future__ import annotations

import pytest

import altneu as an
from altneu import types as T
from altneu.errors import PlanError, UnsupportedFunctionError
from altneu.expressions import catalogue, parse, registry
from altneu.expressions.aggregate_calls import ALIASES, HANDLERS
from altneu.expressions.names import WINDOWS
from altneu.expressions.nodes import SPECIAL
from altneu.expressions.reference import listing

SCHEMA = T.parse_schema("a int, s string")


def test_the_list_is_spark_s(spark):
    theirs = {function.name for function in spark.catalog.listFunctions()}
    assert set(catalogue.SPARK) == theirs, "write the new names into expressions/catalogue.py, supported or refused"


def test_what_is_supported_is_there():
    known = {*registry.FUNCTIONS, *HANDLERS, *ALIASES, *WINDOWS, *SPECIAL, *catalogue.ELSEWHERE}
    assert sorted(set(catalogue.supported()) - known) == []
    refused = {name for name in catalogue.SPARK if catalogue.refusal(name) is not None}
    assert sorted(refused & known) == []
    assert sorted(({*catalogue.REFUSED, *catalogue.LACKING} | set(catalogue.ELSEWHERE)) - set(catalogue.SPARK)) == []


@pytest.mark.parametrize("name", [*catalogue.REFUSED, *catalogue.LACKING])
def test_what_is_refused_says_why(name):
    source = an.source("rows", SCHEMA)
    with pytest.raises(UnsupportedFunctionError) as refused:
        source.group_by("a").agg(f"{name}(s) AS x")
    assert name in str(refused.value)
    assert catalogue.refusal(name) in str(refused.value) or "aggregate" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "near"),
    [("json_object(s)", "get_json_object"), ("levenstein(s, s)", "levenshtein"), ("uppper(s)", "upper")],
)
def test_near_names_are_shown(text, near):
    with pytest.raises(PlanError, match=rf"there is no function '\w+' \(did you mean .*{near}"):
        parse(text, SCHEMA)


def test_show_functions_lists_names():
    lines = listing()
    assert {line[0] for line in lines} >= {"abs", "sum", "ntile", "explode", "conv", "struct"}
    assert all(usage and doc for _, _, usage, doc in lines)
    with an.Session() as session:
        rows = session.sql("SHOW FUNCTIONS LIKE 'map_f%'").to_pylist()
    assert [row[0] for row in rows] == [name for name, *_ in lines if name.startswith("map_f")]
