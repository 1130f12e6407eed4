"""The last steps of a session, what it is doing, and who is told."""

from __future__ import annotations

import time

import pytest

import altneu as an
from altneu.engine.history import KEPT, History


@pytest.fixture
def session():
    with an.Session() as made:
        made.maintain("n", an.source("n", "k long"))
        yield made


def test_steps_are_kept_in_order_with_when_they_ended(session):
    before = time.time()
    for k in range(3):
        session.insert("n", [k])
        session.advance()
    session.commit()
    past = session.history()
    assert [p.number for p in past] == [1, 2, 3, 4]
    assert [(p.step.lower, p.step.upper) for p in past] == [(0, 1), (1, 2), (2, 3), (3, 3)]
    assert before <= past[0].ended <= past[-1].ended <= time.time()
    assert session.history(2) == past[-2:]
    assert session.history(0) == []


def test_of_many_steps_the_last_are_kept_and_all_are_counted(session):
    step = session.advance()
    for _ in range(KEPT + 4):
        session._engine.past.add(step)
    assert len(session.history()) == len(session.history(10 * KEPT)) == KEPT
    assert session.history()[-1].number == session._engine.past.count == KEPT + 5


def test_listeners_are_called_after_the_commit_and_on_failures(session):
    seen = []
    end = session._engine.past.listen(lambda: seen.append((session.lower, session._engine.past.failed is not None)))
    session.advance()
    for _ in range(2):
        session.insert("n", [1], diff=2**62)
    with pytest.raises(an.errors.DiffOverflowError):
        session.advance()
    session.discard()
    end()
    session.advance()
    assert seen == [(1, False), (1, True)]
    assert session._engine.past.failed is None
    assert len(session.history()) == 2


def test_a_failure_says_what_it_was(session):
    for _ in range(2):
        session.insert("n", [1], diff=2**62)
    with pytest.raises(an.errors.DiffOverflowError) as raised:
        session.advance()
    failed = session._engine.past.failed
    assert failed is not None
    assert failed.error == f"DiffOverflowError: {raised.value}"


def test_what_is_being_done_is_known_while_it_is():
    history = History()
    with history.watch("one"):
        doing = history.doing
        assert doing is not None
        with history.watch("two"):  # a part of it
            assert history.doing is doing
        assert (doing.text, doing.seconds >= 0) == ("one", True)
    assert history.doing is None
    with history.watch("since", time.monotonic() - 5):
        assert history.doing is not None
        assert history.doing.seconds >= 5


DOING: list[object] = []


def test_an_advance_says_which_times_it_closes():
    with an.Session() as session:

        def looks(row):
            DOING.append(session._engine.past.doing.text)
            return True

        session.maintain("n", an.source("n", "k long").filter(looks))
        session.insert("n", [1])
        session.advance(to=7)
        assert DOING == ["closing times 0 to 7"]
        assert session._engine.past.doing is None
