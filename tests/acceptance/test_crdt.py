"""A document that many edit: its text as loops of hundreds of rounds, against a walk through the tree."""

import random

import pytest

import altneu as an
from altneu.sql import query
from bench.crdt import INSERTED, QUERY, REMOVED, answer, trace

EDITS, RUN = 900, 150


def text_of(session):
    return session.maintain("text", query(QUERY, {"inserted": INSERTED, "removed": REMOVED}))


@pytest.mark.parametrize("seed", range(2))
def test_the_text_is_what_a_walk_through_the_tree_gives(seed, tmp_path):
    inserts, removals = trace(EDITS, RUN, seed)
    rng, there, gone = random.Random(seed), inserts[: len(inserts) // 2], []
    came = {row[:2] for row in there}
    gone = [row for row in removals if row in came]
    with an.Session(path=tmp_path / "store") as session:
        view = text_of(session)
        session.insert("inserted", there)
        session.insert("removed", gone)
        session.advance()
        assert sorted(view.to_pylist()) == answer(there, gone)
    with an.Session(path=tmp_path / "store") as session:
        view = text_of(session)
        session.insert("inserted", inserts[len(there) :])
        more = [row for row in removals if row not in set(gone)]
        session.insert("removed", more)
        session.advance()
        there, gone = inserts, gone + more
        assert sorted(view.to_pylist()) == answer(there, gone)
        for _ in range(6):  # an element is removed, another one is there again, and one is new
            shown = [row[:2] for row in there if row[:2] not in set(gone)]
            new = (10_000 + len(there), rng.randrange(4), *rng.choice(there)[:2])
            again, next_gone = rng.choice(gone), rng.choice(shown)
            session.insert("inserted", [new])
            session.insert("removed", [next_gone])
            session.retract("removed", [again])
            session.advance()
            there, gone = [*there, new], [*(row for row in gone if row != again), next_gone]
            assert sorted(view.to_pylist()) == answer(there, gone)
