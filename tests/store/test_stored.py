"""The JSON text by which a commit names what an arrangement has: stores are read by it, in both directions."""

from __future__ import annotations

import json

import pytest

import altneu as an
from altneu.runtime.stored import MessageRef

EDGES = an.source("edges", "a long, b long")
ROOTS = an.source("roots", "a long")


def reach(found):
    return EDGES.join(found, on="a").select(a="b").concat(ROOTS).distinct()


def test_the_text_of_a_state_and_of_changes(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.maintain("all", EDGES)
        session.insert("edges", [(1, 2), (2, 3)])
        session.insert("edges", [(3, 4)], time=5)
        session.advance(to=1)
        state = stored(session)
    ((_, arranged),) = (item for item in state.items() if item[0].startswith("arrangement/"))
    ((_, changes),) = (item for item in state.items() if item[0].startswith("new/"))
    batch = '{"lower": [[0]], "upper": [[1]], "since": [[0]], "rows": 2, "data": {"blob": "b2.0"}}'
    assert json.dumps(changes) == f'{{"upper": 1, "batches": [{batch}]}}'
    run = '{"run": {"rows": 1, "data": {"blob": "b2.1"}}, "skip": 0, "least": 5}'
    assert json.dumps(arranged) == f'{{"batches": [{batch}], "hold": [{run}]}}'


def test_the_text_of_future_updates_of_rounds(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.maintain("reached", ROOTS.iterate(reach))
        session.insert("roots", [(1,)])
        session.insert("edges", [(n, n + 1) for n in range(1, 4)])
        session.insert("edges", [(2, 9)], time=3)
        session.advance(to=1)
        session.insert("roots", [(2,)], time=4)
        session.advance(to=2)
        futures = [f for key, s in stored(session).items() if key.startswith("arrangement/") for f in s["hold"]]
    run = '{{"run": {{"rows": 1, "data": {{"blob": "{}"}}}}, "skip": 0, "least": {}{}}}'
    places = (
        ("b2.2", 3, ""),
        ("b3.0", 4, ', "rounds": [0]'),
        ("b3.1", 4, ', "rounds": [0]'),
        ("b3.2", 4, ', "rounds": [1]'),
    )
    assert [json.dumps(future) for future in futures] == [run.format(*place) for place in places]


def stored(session):
    return dict(session._engine.journal.store.state)


@pytest.mark.parametrize(
    ("ref", "text"),
    [
        (MessageRef(3), '{"rows": 3}'),
        (MessageRef(3, {"blob": "b1"}, part=0), '{"data": {"blob": "b1"}, "part": 0, "rows": 3}'),
        (MessageRef(3, {"blob": "b1"}, old=()), '{"old": [], "data": {"blob": "b1"}, "rows": 3}'),
    ],
)
def test_a_message_is_the_same_after_its_way(ref, text):
    assert json.dumps(ref.to_json()) == text
    assert MessageRef.from_json(json.loads(text)) == ref
