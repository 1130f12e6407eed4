"""Error rows of linear logic: a row has the same error whichever way it comes and goes."""

from __future__ import annotations

import pytest

import altneu as an
from altneu.runtime import journal

SCHEMA = "n long, s string, x int"
ROWS = [(2**63 - 1, "a", 1), (1, "b", 2)]
NEXT = an.source("t", SCHEMA).select(y="n + 1")
READ = '{"n": 9223372036854775807}'
WHOLE = '{"n": 9223372036854775807, "s": "a", "x": 1}'


def rows_of(view):
    return [error["row"] for error in view.errors().to_pylist()]


@pytest.mark.parametrize("placement", ["spark", "auto", "driver"])
@pytest.mark.parametrize("frame_first", [True, False])
def test_a_retraction_by_another_way_takes_the_error_back(spark, placement, frame_first):
    """Of a DataFrame come the columns that are read, of Python values all."""
    frame = spark.createDataFrame(ROWS, SCHEMA)
    with an.Session(spark, placement=placement) as session:
        view = session.maintain("v", NEXT)
        session.insert("t", frame if frame_first else ROWS)
        session.advance()
        assert rows_of(view) == [READ]
        session.retract("t", ROWS if frame_first else frame)
        session.advance()
        assert rows_of(view) == []
        assert view.to_pylist() == []


@pytest.mark.parametrize("shards", [1, 3])
def test_another_view_that_reads_more_changes_nothing(tmp_path, shards):
    with an.Session(path=tmp_path, shards=shards) as session:
        session.maintain("v", NEXT)
        session.maintain("kept", an.source("u", SCHEMA, keep=True))
        session.insert("t", ROWS)
        session.advance()
    with an.Session(path=tmp_path) as session:
        view = session.maintain("v", NEXT)
        session.maintain("kept", an.source("u", SCHEMA, keep=True))
        assert rows_of(view) == [READ]
        session.insert("t", [(2**63 - 1, None, None)], diff=2)
        session.retract("t", ROWS)
        session.advance()
        assert view.errors().num_rows == 1
        session.retract("t", [(2**63 - 1, None, None)], diff=2)
        session.advance()
        assert rows_of(view) == []


def test_a_view_that_an_earlier_build_stored_keeps_its_errors(tmp_path, monkeypatch):
    """Its stored errors show all columns; so do those of rows that come and go from now on, until it is dropped."""
    with monkeypatch.context() as earlier:
        earlier.setattr(journal.Journal, "commit_view", without_errors(journal.Journal.commit_view))
        with an.Session(path=tmp_path) as session:
            session.maintain("v", NEXT)
    with an.Session(path=tmp_path) as session:
        view = session.maintain("v", NEXT)
        session.insert("t", ROWS)
        session.advance()
        assert rows_of(view) == [WHOLE]
    with an.Session(path=tmp_path) as session:
        view = session.maintain("v", NEXT)
        session.maintain("more", an.source("w", SCHEMA).select(y="n + 1"))
        session.insert("w", ROWS)
        session.retract("t", ROWS)
        session.advance()
        assert rows_of(view) == []
        assert rows_of(session.view("more")) == [READ]
        session.drop("v")
        view = session.maintain("v", an.source("t2", SCHEMA).select(y="n + 1"))
        session.insert("t2", ROWS)
        session.advance()
        assert rows_of(view) == [READ]


def test_what_a_view_shares_with_one_of_an_earlier_build_keeps_its_errors_when_that_is_dropped(tmp_path, monkeypatch):
    """The errors are one state: a row that goes takes the error with it that it came with."""
    by_y = NEXT.group_by("y").agg(rows="count(*)")
    with monkeypatch.context() as earlier:
        earlier.setattr(journal.Journal, "commit_view", without_errors(journal.Journal.commit_view))
        with an.Session(path=tmp_path) as session:
            session.maintain("v", NEXT)
    with an.Session(path=tmp_path) as session:
        session.maintain("v", NEXT)
        view = session.maintain("by y", by_y)
        session.insert("t", ROWS)
        session.advance()
        assert rows_of(view) == [WHOLE]
        session.drop("v")
        session.advance()
    with an.Session(path=tmp_path) as session:
        view = session.maintain("by y", by_y)
        session.insert("t", ROWS)
        session.advance()
        assert rows_of(view) == [WHOLE]
        session.retract("t", ROWS, diff=2)
        session.advance()
        assert rows_of(view) == []


def without_errors(commit_view):
    """``commit_view`` as it was before views said which columns their errors show."""

    def commit(self, name, *arguments, **more):
        known = self._commit

        def without(lower, values, *rest):
            values[f"view/{name}"].pop("errors")
            return known(lower, values, *rest)

        self._commit = without
        try:
            return commit_view(self, name, *arguments, **more)
        finally:
            del self._commit

    return commit
