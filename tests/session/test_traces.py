"""Traces as a user meets them: what they cost, what they refuse, and imports across restarts."""

from __future__ import annotations

import pytest

import altneu as an
from altneu.errors import HistoryGoneError, InputError, NotYetKnownError, PlanError, ReadError, ViewHasErrorsError
from altneu.trace.cursor import MOST

ROWS = an.source("rows", "k long, v long")


def filled(n, **options):
    session = an.Session(**options)
    trace = session.arrange("rows", ROWS, "k", order="v")
    for part in range(4):
        session.insert("rows", [(7 if i % 2 else i, i) for i in range(part, n, 4)])
        session.advance()
    return session, trace


def read(cursor, most=None):
    found = []
    for entry in cursor:
        found.append(entry.value.v)
        if len(found) == most:
            break
    return found, cursor.updates_read


def test_what_a_cursor_reads_does_not_depend_on_how_much_there_is():
    costs = []
    for n in (400, 40_000):
        session, trace = filled(n)
        with session:
            parts = [
                read(trace.cursor(2)),
                read(trace.cursor(7, 101)),
                read(trace.cursor(7, start=51, stop=60)),
                read(trace.cursor(7), most=5),
            ]
        assert [found for found, _ in parts] == [[2], [101], [51, 53, 55, 57, 59], [1, 3, 5, 7, 9]]
        costs.append([cost for _, cost in parts])
    assert costs[0] == costs[1] or all(b <= a + 4 * 64 for a, b in zip(*costs, strict=True))
    assert max(costs[1]) <= 4 * 64


def test_a_cursor_holds_a_part_of_what_it_reads_at_a_time():
    session, trace = filled(200_000)
    with session:
        batches = sum(
            len(t.spine.batches)
            for t in [session._engine.table.get(n, 0) for n in session._engine.arrangements("rows")]
        )
        sizes = [table.num_rows for table in trace.cursor().tables()]
        assert sum(sizes) == 200_000
        assert max(sizes) <= MOST * batches
        assert len(sizes) > 5


def test_a_cursor_stays_at_the_state_that_it_was_made_at(tmp_path):
    for where in ({}, {"path": tmp_path / "state"}):
        session, trace = filled(100, **where)
        with session:
            cursor = trace.cursor()
            next(cursor)
            for _ in range(3):
                session.retract("rows", [(7, 1)])
                session.insert("rows", [(8, 8)])
                session.advance()
            session.merge()
            assert len(list(cursor)) == 99
            assert cursor.seek(7, 1).seek(7, 3).__next__().value.v == 3


def test_traces_of_a_reader_are_as_of_its_commit(tmp_path):
    session, trace = filled(50, path=tmp_path)
    with session, an.read(tmp_path) as reader:
        there = reader.trace("rows")
        assert list(there.cursor(7)) == list(trace.cursor(7))
        assert there.order == trace.order == (("v", False, True),)
        session.insert("rows", [(7, 1000)])
        session.advance()
        assert there.lookup(7, 1000) == []
        reader.refresh()
        assert there.lookup(7, 1000) == [((1000,), 1)]
        for use in (lambda: there.collection, lambda: there.retain(3), lambda: there.join_core(trace, len, "a int")):
            with pytest.raises(ReadError, match="is read from a store"):
                use()


def test_each_trace_is_compacted_on_its_own():
    with an.Session() as session:
        one = session.arrange("one", ROWS, "k", retain=1)
        two = session.arrange("two", ROWS, "v")
        for i in range(6):
            session.insert("rows", [(i, i)])
            session.advance()
            if i == 3:
                one.retain("all")
                two.retain(2)
        assert (one.since, two.since) == (2, 3)
        assert [len(list(one.cursor(at=t))) for t in range(2, 6)] == [3, 4, 5, 6]
        assert {entry.time for entry in two.cursor()} == {3, 4, 5}
        one.retain(0)
        session.advance()
        assert one.since == 6
        with pytest.raises(HistoryGoneError):
            one.lookup(1, at=5)
        with pytest.raises(PlanError, match="retain must be"):
            one.retain(-1)


def test_what_a_trace_refuses():
    with an.Session() as session:
        trace = session.arrange("rows", ROWS, "k", order="v")
        plain = session.arrange("plain", ROWS, "k")
        both = session.arrange("both", ROWS, "k", "v")
        with pytest.raises(NotYetKnownError):
            trace.lookup(1, at=0)
        session.insert("rows", [(1, 1)])
        session.advance()
        for use, match in [
            (trace.lookup, r"has 1 columns, got 0"),
            (lambda: both.cursor(1), r"is sought by values of its key \(k, v\), got 1 value"),
            (lambda: trace.cursor(1, 2, 3), r"then of the order \(v\), got 3"),
            (lambda: trace.cursor(start=3), r"got 0 value"),
            (lambda: plain.cursor(1, start=3), r"there is none after the 1 value\(s\) given; arrange it with order="),
            (lambda: trace.cursor("x"), r"the values do not fit"),
            (lambda: trace.cursor(1, errors="no"), r"errors must be"),
            (lambda: trace.join_core(both, len, "a int"), r"keys of as many columns"),
            (lambda: trace.join_core(ROWS, len, "a int"), r"needs a Trace"),
        ]:
            with pytest.raises(ReadError, match=match):
                use()
        for order, match in [("v + 1", "must be of columns"), ("k", "belongs to the key"), ((), "at least one column")]:
            with pytest.raises(PlanError, match=match):
                ROWS.arrange_by(*(["k"] if order else []), order=order)
        for own, match in [(trace, "belongs to this session"), (ROWS, "needs a view or a trace")]:
            with pytest.raises(PlanError, match=match):
                session.source_from(own)


def test_errors_below_a_trace_are_raised():
    with an.Session() as session:
        trace = session.arrange("parts", ROWS.select("k", part="10 div v"), "k")
        session.insert("rows", [(1, 0), (2, 5)])
        session.advance()
        for use in (trace.cursor, lambda: trace.lookup(2)):
            with pytest.raises(ViewHasErrorsError):
                use()
        assert trace.lookup(2, errors="ignore") == [((2,), 1)]


def test_an_import_goes_on_after_both_sessions_were_reopened(tmp_path):
    def opened():
        first, second = an.Session(path=tmp_path / "a"), an.Session(path=tmp_path / "b")
        trace = first.arrange("rows", ROWS, "k")
        imported = second.source_from(trace, lease="1 hour")
        return first, second, imported, second.maintain("sums", imported.collection.group_by("k").agg(v="sum(v)"))

    for i in range(5):
        first, second, imported, sums = opened()
        for n in range(3):  # the import lags, and yet each change comes at its own time
            first.insert("rows", [(n, i)])
            if i:
                first.retract("rows", [(n, i - 1)])
            first.advance()
        imported.advance()
        assert imported.advance() is None
        assert sorted(sums.to_pylist()) == [(n, i) for n in range(3)]
        assert {row["time"] for row in sums.changes().to_pylist()} == {*range(3 * i, 3 * i + 3)}
        assert second.lower == first.lower == 3 * i + 3
        first.close()
        second.close()


def test_an_import_that_is_left_alone_holds_its_history_until_it_is_closed():
    with an.Session() as first, an.Session() as second:
        trace = first.arrange("rows", ROWS, "k")
        imported = second.source_from(trace)
        second.maintain("rows", imported.collection)
        first.insert("rows", [(0, 0)])
        first.advance()
        imported.advance()
        for i in range(1, 4):
            first.insert("rows", [(i, i)])
            first.advance()
        assert trace.since == 0
        imported.close()
        first.advance()
        assert trace.since == 4
        with pytest.raises(HistoryGoneError):
            imported.advance()
        late = an.Session()
        again = late.source_from(trace)
        view = late.maintain("rows", again.collection)
        again.advance()
        assert sorted(view.to_pylist()) == [(i, i) for i in range(4)]
        assert late.lower == first.lower
        late.close()


def test_imports_of_several_sessions_and_feeds_advance_together():
    feed = an.cdc.Feed("people", "name string")
    with an.Session() as first, an.Session() as second, an.Session() as third:
        a = first.arrange("a", ROWS, "k")
        b = second.maintain("b", ROWS)
        imported = third.source_from(a), third.source_from(b)
        joined = imported[0].collection.join(imported[1].collection, "k")
        view = third.maintain("joined", joined)
        people = third.maintain("people", feed.collection)
        first.insert("rows", [(1, 1)], time=0)
        second.insert("rows", [(1, 5)], time=1)
        first.advance(to=4)
        second.advance(to=3)
        feed.offer(
            ['{"progress": {"lower": 0, "upper": 9, "counts": [[1, 1]]}}', '{"updates": [[{"name": "Ada"}, 1, 1]]}']
        )
        step = an.cdc.advance(third, *imported, feed)
        assert (step.upper, view.to_pylist(), people.to_pylist()) == (3, [(1, 1, 5)], [("Ada",)])
        third.advance()
        with pytest.raises(InputError, match="has closed the times before 4"):
            imported[0].advance()
        with pytest.raises(InputError, match="imported by another session"):
            an.cdc.advance(first, imported[1])


def test_an_import_of_a_view_with_errors_is_refused_or_ignored():
    with an.Session() as first, an.Session() as second, an.Session() as third:
        view = first.maintain("parts", ROWS.select("k", part="10 div v"))
        first.insert("rows", [(1, 0), (2, 5)])
        first.advance()
        imported = second.source_from(view)
        second.maintain("parts", imported.collection)
        with pytest.raises(ViewHasErrorsError):
            imported.advance()
        assert second.lower == 0
        first.retract("rows", [(1, 0)])
        first.advance()
        imported.advance()
        assert second.view("parts").to_pylist() == [(2, 2)]
        ignoring = third.source_from(view, errors="ignore")
        third.maintain("parts", ignoring.collection)
        ignoring.advance()
        assert third.view("parts").to_pylist() == [(2, 2)]


def test_an_import_waits_for_feeds_that_are_behind_its_first_time():
    with an.Session() as first, an.Session() as second, an.Session() as third:
        a, b = first.arrange("a", ROWS, "k"), second.arrange("b", ROWS, "k")
        first.insert("rows", [(1, 1)])
        first.advance(to=4)
        second.advance(to=3)
        imported = third.source_from(a), third.source_from(b)
        views = [third.maintain(name, one.collection) for name, one in zip("ab", imported, strict=True)]
        with pytest.raises(InputError, match="can be imported from time 3 on"):
            an.cdc.advance(third, *imported)
        assert third.lower == 0
        second.insert("rows", [(2, 2)])
        second.advance(to=5)
        an.cdc.advance(third, *imported)
        assert [view.to_pylist() for view in views] == [[(1, 1)], [(2, 2)]]
        first.advance()
        an.cdc.advance(third, *imported)
        assert [view.to_pylist() for view in views] == [[(1, 1)], [(2, 2)]]
