"""The picture of a plan: everything is in it, and nothing hides anything."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import altneu as an
from altneu.explain import Explained, explained, svg
from altneu.order import Epoch
from altneu.plan.lower import lower
from tests.explain.picture_cases import LOOPS, TRIANGLES
from tests.explain.pictures import check, read
from tests.golden.explain_cases import PLANS
from tests.golden.plans import random_plan as moving_plan
from tests.oracle.plans import random_plan


def plan_of(views, shards=2) -> Explained:
    return explained(lower({name: view.node for name, view in views.items()}, Epoch(), shards))


def check_all(found: Explained) -> None:
    """Every operator, view and input is drawn, and in its loops."""
    picture = read(svg(found))
    check(picture)
    assert picture.boxes.keys() == {o.id for o in found.operators} | {f"view {v.name}" for v in found.views}
    drawn = sorted((line.source, line.target) for line in picture.lines if not line.back)
    inputs = [(name, o.id) for o in found.operators for name in o.inputs]
    assert drawn == sorted([*inputs, *((v.contents, f"view {v.name}") for v in found.views)])
    for operator in found.operators:
        box, said = picture.boxes[operator.id], picture.said[operator.id]
        assert (operator.called in said) == operator.tells_cost
        scope, around = operator.scope, set()
        while scope:
            around |= {scope} if found.scopes[scope].kind == "loop" else set()
            scope = found.scopes[scope].parent
        for number, outline in picture.outlines.items():
            assert box.inside(outline) if number in around else not box.overlaps(outline)
        assert (operator.id in picture.tags) == (operator.exchange is not None)
        if operator.back is not None:
            assert [line.source for line in picture.lines if line.back and line.target == operator.id] == [
                operator.back
            ]
    sources = [
        picture.boxes[o.id] for o in found.operators if o.kind == "source" and not found.scopes[o.scope].parent > 0
    ]
    ends = [picture.boxes[f"view {v.name}"] for v in found.views]
    assert max((box.bottom for box in sources), default=0) <= min(box.top for box in ends)


@pytest.mark.parametrize("name", [*PLANS, *LOOPS])
@pytest.mark.parametrize("shards", [1, 2])
def test_every_operator_is_drawn(name, shards):
    check_all(plan_of({name: {**PLANS, **LOOPS}[name]}, shards))


def test_all_views_in_one_picture():
    check_all(plan_of({**PLANS, **LOOPS}))


@settings(max_examples=40)
@given(st.integers(0, 1 << 32), st.integers(1, 12), st.integers(1, 4))
def test_pictures_of_random_plans(seed, verbs, many):
    rng = random.Random(seed)
    result = [rng.choice([random_plan, moving_plan])(rng, verbs) for _ in range(many)]
    check_all(plan_of({f"view {i}": view for i, view in enumerate(result)}, rng.choice([1, 3])))


@settings(max_examples=40)
@given(st.integers(0, 1 << 32), st.integers(2, 10))
def test_an_id_means_the_same_whatever_other_views_there_are(seed, verbs):
    rng = random.Random(seed)
    one, other = (rng.choice([random_plan, moving_plan])(rng, verbs) for _ in range(2))
    shards = rng.choice([1, 3])
    alone = {o.id: o for o in plan_of({"one": one}, shards).operators}
    for views in ({"one": one, "other": other}, {"other": other, "one": one}):
        beside = [o for o in plan_of(views, shards).operators if "one" in o.views]
        assert all(o.label == alone[o.id].label and o.inputs == alone[o.id].inputs for o in beside if o.id in alone)
        same = [o.id for o in alone.values() if o.kind in ("source", "arrangement") and o.views]
        assert {*same} <= {o.id for o in beside}


def test_a_delta_join_is_one_box_in_any_number_of_shards():
    for shards in (1, 4):
        result = plan_of({"triangles": TRIANGLES.arrange_by("src")}, shards)
        check_all(result)


def test_two_hundred_operators_are_quick_and_apart():
    rng = random.Random(7)
    views = {f"v{i}": random_plan(rng, 9) for i in range(40)}
    result = plan_of(views)
    assert len(result.operators) >= 200
    before = time.process_time()
    drawn = svg(result)
    assert time.process_time() - before < 10  # a second on a quiet machine
    check(read(drawn))


def test_what_is_kept_for_others_is_marked():
    with an.Session(shards=2) as session:
        for name in ("join", "left join", "windows"):
            session.maintain(name, PLANS[name])
        picture, actual = read(session.explain("join", form="svg")), session.explained("join")
        shared = [o for o in actual.operators if o.shared_with]
        assert len(shared) == 2
        for operator in shared:
            assert f"shared with {', '.join(operator.shared_with)}" in picture.said[operator.id]
        kept = [o for o in actual.operators if o.state]
        assert all("key: " in picture.said[o.id] and "updates" in picture.said[o.id] for o in kept)


NAMES = ["<b>&\"'", "]]>", "ä ö 日本語", "a\u0000b\ud800\u202e", "x" * 500, "{{title}} {{data}}", "</script><!--"]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text_whatever_they_are(name):
    rows = an.source("t", "k long")
    with an.Session() as session:
        session.maintain(name.replace("\ud800", ""), rows.filter("k > 0"))
        shown = name.replace("\ud800", "")
        picture = read(session.explain(shown, form="svg"))
        check(picture)
        page = session.explain(shown, form="html")
        assert page.count("<script") == 3
        assert page.count("</script>") == 3
