"""The page for readers of differential dataflow names what there is: each name and each argument exists."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import altneu as an
from altneu import order, testing, weights
from altneu.collections.grouping import Grouping
from altneu.collections.paths import Changes
from altneu.views.view import View

PAGE = Path(__file__).parents[2] / "docs" / "differential_dataflow.md"
ROWS = [
    [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| differential dataflow")
]
HEADS = {
    "an": an,
    "altneu": an,
    "session": an.Session,
    "view": View,
    "trace": an.Trace,
    "collection": an.Collection,
}
PLACES = [an.Collection, an.Session, Grouping, an.algorithms, weights, order, an.Relations, Changes, an, View]
OTHERWISE = {
    "min",
    "max",
    "a",
    "b",
    "GROUP BY",
    "EXPLAIN ANALYZE",
    "CREATE INDEX",
    "WITH MUTUALLY RECURSIVE",
    "/metrics",
}
"""What no Python name stands for."""


def spans(cell):
    return re.findall(r"`([^`]+)`", cell)


def found(name):
    """What a dotted name stands for, wherever it is."""
    if name == "altneu.testing":  # which is not imported with the rest
        return testing
    head, *rest = name.split(".")
    places = [HEADS[head]] if rest and head in HEADS else PLACES
    for start in places:
        thing = start
        for part in rest if places is not PLACES else [head, *rest]:
            thing = getattr(thing, part, None)
        if thing is not None:
            return thing
    raise AssertionError(f"{name} is nowhere")


def test_the_page_has_a_row_for_each_item():
    assert len(ROWS) > 40
    assert all(len(row) == 2 and all(row) for row in ROWS), [row for row in ROWS if len(row) != 2]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: re.sub(r"\W+", " ", row[0])[:40])
def test_every_name_exists_and_what_is_missing_has_a_reason(row):
    theirs, ours = row
    if ours.startswith("none"):
        assert re.match(r"none: \w.{40}", ours), "a reason, and what to do instead"
    if ours.startswith("the same"):
        assert all(hasattr(an.Collection, n) for n in spans(theirs) if n not in ("concatenate", "*_total"))
    for span in spans(ours):
        if span in OTHERWISE:
            continue
        thing = None
        for name, arguments in re.findall(r"([A-Za-z_][\w.]*)(?:\(((?:[^()]|\([^()]*\))*)\))?", span):
            if name in ("f", "n", "total") or f"{name}=" in span:
                continue
            thing = found(name)
            for given in re.findall(r"(\w+)=", re.sub(r"\([^()]*\)", "", arguments)):
                assert given in inspect.signature(thing).parameters, f"{name} has no {given}="
        if thing is None:  # an argument by itself, of what was named before
            assert re.fullmatch(r"\w+=.*", span), span


def test_statements_that_are_named_are_obeyed():
    with an.Session() as session:
        session.sql("CREATE TABLE t (a INT)")
        recursive = "WITH MUTUALLY RECURSIVE x (a INT) AS (SELECT a FROM t)"
        session.sql(f"CREATE MATERIALIZED VIEW v AS {recursive} SELECT max(a) AS m FROM x")
        session.sql("CREATE INDEX i ON t (a)")
        assert "max" in str(session.sql("EXPLAIN ANALYZE SELECT max(a), min(a) FROM t"))


def test_a_name_that_is_nowhere_is_found_out():
    with pytest.raises(AssertionError, match="sideways_join is nowhere"):
        found("sideways_join")
    with pytest.raises(AssertionError, match=r"session\.reduce is nowhere"):
        found("session.reduce")
