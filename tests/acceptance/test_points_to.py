"""Points-to analysis while programs are edited, beside a solver in plain Python."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from examples.points_to.analysis import points_to
from examples.points_to.programs import program, solved, statement


def analysed(session):
    points, heap = points_to()
    return session.maintain("points", points), session.maintain("heap", heap)


def edit(session, statements, diff=1, time=None):
    for source, row in statements:
        session.insert(source, [row], diff=diff, time=time)


def check(views, statements, at=None):
    for view, wanted in zip(views, solved(statements), strict=True):
        assert Counter(view.to_pylist(at=at)) == Counter(wanted)


@pytest.mark.parametrize("seed", range(6))
def test_edits_one_by_one_and_all_at_once(seed, tmp_path):
    rng = random.Random(seed)
    text, versions, edits = [*program(rng, 4)], [], []
    edits.append(([*text], []))
    versions.append([*text])
    for _ in range(5):
        gone = rng.sample(text, 3)
        new = [statement(rng, rng.randrange(4), 4) for _ in range(rng.randrange(4))]
        for one in gone:
            text.remove(one)
        text.extend(new)
        edits.append((new, gone))
        versions.append([*text])
    assert len({frozenset(solved(version)[0]) for version in versions}) > 2
    with an.Session(path=tmp_path / "state", shards=seed % 3 + 1) as session:
        views = analysed(session)
        for new, gone in edits[:3]:
            edit(session, new), edit(session, gone, -1)
            session.advance()
        check(views, versions[2])
    with an.Session(path=tmp_path / "state") as session:
        views = analysed(session)
        for version, (new, gone) in zip(versions[3:], edits[3:], strict=True):
            edit(session, new), edit(session, gone, -1)
            session.advance()
            check(views, version)
    with an.Session(retain="all") as session:
        views = analysed(session)
        for time, (new, gone) in enumerate(edits):
            edit(session, new, time=time), edit(session, gone, -1, time=time)
        session.advance(to=len(edits))
        for time, version in enumerate(versions):
            check(views, version, at=time)


def test_on_spark(spark):
    with an.Session(spark, placement="spark", shards=2) as session:
        views = analysed(session)
        edit(session, TEXT)
        assert session.advance().placement == "spark"
        check(views, TEXT)


@pytest.mark.parametrize("copies", [3, 300])
def test_an_edit_costs_what_it_changes(copies):
    """Programs beside each other: an edit of one reads none of the others."""
    texts = [[(source, tuple(f"{copy}:{name}" for name in row)) for source, row in TEXT] for copy in range(copies)]
    with an.Session() as session:
        views = analysed(session)
        for source in ("news", "moves", "loads", "stores"):
            session.insert(source, [row for text in texts for kind, row in text if kind == source])
        session.advance()
        loaded = read(session)
        edit(session, texts[1][:1], -1)
        session.advance()
        assert sum(len(view.changes()) for view in views) == 5
        assert read(session) - loaded < 200


TEXT = [
    ("news", ("a", "A")),
    ("news", ("b", "B")),
    ("stores", ("a", "f", "b")),
    ("moves", ("c", "a")),
    ("loads", ("d", "c", "f")),
    ("moves", ("e", "d")),
]


def read(session):
    """Rows that operators have been given since the session was opened."""
    return sum(o.total.rows_in for view in session.views for o in session.explained(view).operators if o.total)
