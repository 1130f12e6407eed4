"""EXPLAIN in each of its forms, from Python and from SQL."""

from __future__ import annotations

import json

import pytest

import altneu as an
from altneu.errors import PlanError, StatementError
from altneu.explain import FORMS, rendered
from tests.explain.picture_cases import EDGES, TRIANGLES, reach
from tests.explain.pictures import read

ORDERS = an.source("orders", "item string, price long")


@pytest.fixture
def session():
    with an.Session() as made:
        made.maintain("total", ORDERS.group_by("item").agg(total="sum(price)"))
        made.maintain("dear", ORDERS.top_k(1, "price desc"))
        made.maintain("reach", reach(EDGES))
        made.maintain("triangles", TRIANGLES)
        made.insert("orders", [("tea", 3), ("jam", 5)])
        made.insert("edges", [(1, 2), (2, 3), (3, 1)])
        made.advance()
        yield made


def tree(plan):
    """What a view's contents are made of, without the way round a loop: that is what a text shows."""
    result, todo = set(), [plan.views[0].contents]
    while todo:
        result.add(todo[-1])
        todo += plan[todo.pop()].inputs
    return result


@pytest.mark.parametrize("view", ["total", "dear", "reach", "triangles"])
def test_forms_say_the_same(session, view):
    plan = session.explained(view)
    answer = json.loads(session.explain(view, form="json", analyze=True))
    assert answer == json.loads(json.dumps(plan.to_dict()))
    assert [o["id"] for o in answer["operators"]] == [o.id for o in plan.operators]
    text = session.explain(view, analyze=True)
    picture, page = (
        read(session.explain(view, form="svg", analyze=True)),
        session.explain(view, form="html", analyze=True),
    )
    for operator in plan.operators:
        actual = operator.total
        ran = f"{actual.rows_out:,} out" if actual.steps else "nothing"
        assert ran in picture.said[operator.id]
        assert f'"{operator.id}"' in page
        if operator.id in tree(plan):
            assert operator.label in text
            rows = f"{actual.rows_in:,} row{'' if actual.rows_in == 1 else 's'} in, {actual.rows_out:,} out"
            assert (rows if actual.steps else "measured: nothing") in text


def test_nothing_measured_is_told_unless_asked_for(session):
    for form in FORMS:
        text = session.explain("total", form=form)
        assert "row in" not in text
        assert "rows in" not in text
        assert '"total":' not in text
        assert "measured" not in text


def test_data_of_an_operator(session):
    answer = json.loads(session.explain("dear", form="json"))
    reduce = next(o for o in answer["operators"] if o["kind"] == "reduce")
    assert {k: reduce[k] for k in ("label", "keys", "bound", "called", "exchange", "logic", "scope", "views")} == {
        "label": "reduce top 1 by price desc [general]",
        "keys": [],
        "bound": "the change",
        "called": "incremental",
        "exchange": None,
        "logic": "",
        "scope": 0,
        "views": ["dear"],
    }
    contents = answer["operators"][-1]
    assert (contents["kind"], contents["inputs"], contents["updates"]) == ("arrangement", [reduce["id"]], 1)
    (view,) = answer["views"]
    assert (view["contents"], view["called"], view["exchanges"]) == (contents["id"], "incremental", 2)


def test_all_views_share_one_graph(session):
    plan = session.explained()
    assert [view.name for view in plan.views] == ["total", "dear", "reach", "triangles"]
    edges = [o for o in plan.operators if o.label == "source edges"]
    assert len(edges) == 1
    assert edges[0].views == ("reach", "triangles")
    assert {o.id for o in session.explained("reach").operators} < {o.id for o in plan.operators}
    shared = {o.label: o.shared_with for o in plan.operators if o.shared_with}
    assert shared == {"arrange by src": ("reach", "triangles")}


def test_a_source_that_is_kept_is_in_the_graph_of_all_views():
    with an.Session() as session:
        kept = an.source("kept", "k long", keep=True)
        session.maintain("few", kept.filter("k > 3"))
        assert "keep kept" in [o.label for o in session.explained().operators]
        assert "keep kept" not in [o.label for o in session.explained("few").operators]


def test_where_an_operator_is():
    two = an.source("two", "k long", time=("known", "about"))
    with an.Session() as session:
        session.maintain("two", two.distinct())
        session.maintain("nested", EDGES.iterate(lambda x: x.concat(reach(x)).distinct(), max_rounds=9))
        session.maintain("met", EDGES.differentiate().semijoin(EDGES, on="src").integrate())
        within = {o.within for o in session.explained().operators}
    assert within == {
        (),
        ("two times",),
        ("the loop over x",),
        ("the loop over x", "the loop over x"),
        ("moments of each time",),
    }


def test_a_session_without_views_has_an_empty_graph():
    with an.Session() as session:
        plan = session.explained()
    assert (plan.views, plan.operators) == ((), ())
    for form in FORMS:
        rendered(plan, form, analyze=True)
    assert read(rendered(plan, "svg")).boxes == {}


def test_join_plans_say_why(session):
    (join,) = [o for o in session.explained("triangles").operators if o.kind == "delta join"]
    assert join.notes[0].startswith("delta join: the pattern is cyclic")
    assert join.notes[0] in session.explain("triangles", form="svg").replace("\n", " ")


def test_what_there_is_not(session):
    with pytest.raises(PlanError, match="no view 'nothing'; the views are: total, dear"):
        session.explained("nothing")
    with pytest.raises(PlanError, match="no form 'png'; it has text, json, svg, html"):
        session.explain("total", form="png")


def test_statements_in_every_form(session):
    for form in FORMS:
        answer = session.sql(f"EXPLAIN AS {form} VIEW total").to_pylist()
        assert "\n".join(line for (line,) in answer) == session.explain("total", form=form)
        measured = session.sql(f"EXPLAIN ANALYZE AS {form} VIEW total").to_pylist()
        assert "\n".join(line for (line,) in measured) == session.explain("total", form=form, analyze=True)
    assert len(session.sql("EXPLAIN AS SVG VIEW total")) == 1
    read(session.sql("EXPLAIN ANALYZE AS SVG SELECT 1 AS one").to_pylist()[0][0])


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("EXPLAIN AS PNG VIEW total", "expected TEXT, JSON, SVG, HTML, not 'PNG'"),
        ("EXPLAIN ANALYZE AS VIEW total", "expected TEXT, JSON, SVG, HTML"),
        ("EXPLAIN ANALYZE", "the text ends"),
    ],
)
def test_what_explain_does_not_take(session, statement, why):
    with pytest.raises(StatementError, match=why):
        session.sql(statement)


def test_a_query_that_cannot_be_answered_is_not_analyzed(session):
    with pytest.raises(an.errors.AltneuError):
        session.sql("EXPLAIN ANALYZE SELECT * FROM nowhere")


def test_a_closed_session_says_so(session):
    session.close()
    with pytest.raises(an.errors.ReadError, match="closed"):
        session.explained("total")
