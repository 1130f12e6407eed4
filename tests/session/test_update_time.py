"""``update_time()`` in sessions: late views, sharing, reopening, resharding, what is refused, and what it reads."""

from __future__ import annotations

import pytest

import altneu as an
from altneu import Session, col
from altneu.errors import PlanError, TypeMismatchError, UnknownColumnError, UpdateTimeError
from altneu.operators.asof import locked
from tests.oracle.runners import state_left

FLAGS = an.source("flags", "name string, enabled boolean", keep=True)
SINCE = FLAGS.filter("enabled").select("name", since="update_time()")
OTHER = an.source("other", "name string, n long", keep=True)


def rows_of(view) -> list[tuple]:
    return sorted(view.to_pylist())


def history(session: Session) -> None:
    """At each time from 0 to 5 one change."""
    changes = [("a", 1), ("b", 1), ("a", 1), ("a", -1), ("b", -1), ("b", 1)]
    for time, (name, diff) in enumerate(changes):
        session.insert("flags", [(name, True)], time=time, diff=diff)
    for time in (2, 4, 6):
        session.advance(to=time)


AFTER = [("a", 2), ("b", 5)]  # of a's two copies the first to come has gone


def test_the_first_copy_to_come_is_the_first_to_go():
    with Session() as session:
        view = session.maintain("since", SINCE)
        session.insert("flags", [("a", True)] * 2, time=1)
        session.insert("flags", [("a", True)] * 2, time=4)
        session.advance(to=5)
        assert rows_of(view) == [("a", 1), ("a", 1), ("a", 4), ("a", 4)]
        session.retract("flags", [("a", True)] * 3)
        session.advance()
        assert rows_of(view) == [("a", 4)]
        assert [(r["since"], r["diff"]) for r in view.changes().to_pylist()] in ([(1, -2), (4, -1)], [(4, -1), (1, -2)])


def test_what_comes_and_goes_at_one_time_is_nothing():
    with Session() as session:
        view = session.maintain("since", SINCE)
        session.insert("flags", [("a", True)])
        session.advance()
        session.insert("flags", [("a", True)])
        session.retract("flags", [("a", True)])
        session.advance()
        assert rows_of(view) == [("a", 0)]
        assert view.changes().num_rows == 0


def test_it_takes_the_times_that_rows_are_given():
    """A time of the future counts as of then, and times may be those of a clock."""
    with Session() as session:
        view = session.maintain("since", SINCE)
        session.insert("flags", [("a", True)], time=1_700_000_000)
        session.advance()
        assert rows_of(view) == []
        session.advance(to=1_700_000_001)
        assert rows_of(view) == [("a", 1_700_000_000)]


def test_a_row_retracted_that_is_not_there_is_an_error_until_it_comes():
    with Session() as session:
        view = session.maintain("since", SINCE)
        session.retract("flags", [("a", True)])
        session.advance()
        (error,) = view.errors().to_pylist()
        assert (error["operator"], error["code"]) == ("update_time()", "NEGATIVE_MULTIPLICITY")
        assert error["row"] == '{"name": "a", "enabled": true}'
        session.insert("flags", [("a", True)])
        session.advance()
        assert rows_of(view) == []
        assert not view.errors().num_rows


# later ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 3])
def test_a_late_view_begins_with_the_present(shards):
    with Session(shards=shards) as session:
        session.maintain("flags", FLAGS)
        history(session)
        view = session.maintain("since", SINCE)
        assert rows_of(view) == [("a", 5), ("b", 5)]
        assert "a view added later starts from the present" in session.explain("since")
        session.insert("flags", [("c", True)])
        session.advance()
        assert rows_of(view) == [("a", 5), ("b", 5), ("c", 6)]


def test_a_late_view_where_history_is_kept_is_as_if_it_had_been_there():
    with Session(retain="all") as session:
        session.maintain("flags", FLAGS)
        history(session)
        view = session.maintain("since", SINCE)
        assert rows_of(view) == AFTER
        assert sorted(view.to_pylist(at=2)) == [("a", 0), ("a", 2), ("b", 1)]


@pytest.mark.parametrize(
    ("late", "wanted"),
    [
        (SINCE, AFTER),
        (SINCE.filter("name = 'a'"), AFTER[:1]),
        (SINCE.select("since"), [(2,), (5,)]),
        (SINCE.filter("since > 3 and name > 'a'").select("name"), [("b",)]),
        (SINCE.group_by().agg(first="min(since)"), [(2,)]),
        (SINCE.join(OTHER, on="name", how="left").select("name", "since"), AFTER),
    ],
)
def test_views_over_one_that_has_seen_rows_come_say_the_same(late, wanted):
    """Maintained late, or answered once: what a view keeps of when rows came is there for all that read it."""
    with Session(shards=2) as session:
        session.maintain("other", OTHER)
        session.maintain("since", SINCE)
        history(session)
        assert sorted(tuple(row.values()) for row in session.peek(late).to_pylist()) == wanted
        assert rows_of(session.maintain("late", late)) == wanted


def test_a_late_view_chooses_the_joins_below_it_as_the_first_did():
    """What is arranged by then must not lead to another plan, whose state would begin with the present."""
    a, b, c = (an.source(n, f"k long, {n} long", keep=True) for n in "abc")
    timed = a.join(b, on="k").join(c, on="k").select("*", came="update_time()")
    with Session() as session:
        session.maintain("first", timed)
        session.insert("a", [(1, 1)])
        session.insert("b", [(1, 2)])
        session.insert("c", [(1, 3)])
        session.advance()
        for name in "abc":  # by the key of a delta join
            session.maintain(f"{name} by k", an.source(name, f"k long, {name} long", keep=True).arrange_by("k"))
        session.advance()
        assert rows_of(session.maintain("late", timed.filter("c = 3").select("came"))) == [(0,)]


def test_a_query_that_is_answered_once_sees_what_a_view_has_locked_in():
    """Not what a plan that was rewritten for the query would lock in now."""
    prices = an.source("prices", "name string, price long", keep=True)
    met = FLAGS.asof_join(prices, "name", mode="locked")
    blips = FLAGS.differentiate().join(prices, on="name").integrate()
    with Session() as session:
        for name, joined in (("met", met), ("blips", blips)):
            session.maintain(name, joined)
        session.insert("flags", [("a", True)])
        session.insert("prices", [("a", 5)])
        session.advance()
        session.retract("prices", [("a", 5)])
        session.insert("prices", [("a", 6)])
        session.advance()
        for joined in (met, blips):
            assert session.peek(joined.filter("enabled").select("price")).to_pylist() == [{"price": 5}]


def test_a_query_that_is_answered_once_refuses_times_that_no_view_keeps():
    with Session() as session:
        session.maintain("flags", FLAGS)
        session.insert("flags", [("a", True)])
        session.advance()
        with pytest.raises(PlanError, match=r"only views record.*session.maintain"):
            session.peek(SINCE)
        session.maintain("since", SINCE)
        assert session.peek(SINCE).to_pylist() == [{"name": "a", "since": 0}]


@pytest.mark.parametrize("retain", [None, "all"])
def test_a_store_that_is_opened_again_goes_on(tmp_path, retain):
    options = {} if retain is None else {"retain": retain}
    with Session(path=tmp_path, **options) as session:
        session.maintain("since", SINCE)
        history(session)
    with Session(path=tmp_path, **options) as session:
        view = session.maintain("since", SINCE)
        assert rows_of(view) == AFTER
        session.reshard(3)
        session.retract("flags", [("a", True)])
        session.insert("flags", [("b", True), ("c", True)])
        session.advance()
        assert rows_of(view) == [("b", 5), ("b", 6), ("c", 6)]
        assert rows_of(session.maintain("fewer", SINCE.filter("name > 'b'"))) == [("c", 6)]
    with Session(path=tmp_path, **options) as session:
        assert rows_of(session.maintain("fewer", SINCE.filter("name > 'b'"))) == [("c", 6)]
        assert rows_of(session.maintain("since", SINCE)) == [("b", 5), ("b", 6), ("c", 6)]


def test_nothing_is_left_of_rows_that_have_gone():
    with Session() as session:
        session.maintain("since", SINCE)
        for _ in range(3):
            session.insert("flags", [("a", True), ("b", True)])
            session.advance()
        session.retract("flags", [("a", True), ("b", True)] * 3)
        session.advance()
        kept = session.maintain("flags", FLAGS)
        assert rows_of(kept) == []
        assert list(state_left(session)) == []


# uses -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (FLAGS.select("update_time()", "*"), [(0, "a", True), (2, "b", True)]),
        (FLAGS.select(t=an.update_time() + 1), [(1,), (3,)]),
        (FLAGS.filter(an.update_time() > 1).select("name"), [("b",)]),
        (FLAGS.filter("logical_now() < update_time() + 2"), [("b", True)]),
        (FLAGS.temporal("update_time()", "update_time() + 2").select("name"), [("b",)]),
        (FLAGS.generate_series("update_time()", "update_time() + 1", as_="n").select("n"), [(0,), (1,), (2,), (3,)]),
        (FLAGS.unnest("array(update_time())", as_="n"), [("a", True, 0), ("b", True, 2)]),
        (FLAGS.repeat_row("update_time()"), [("b", True), ("b", True)]),
        (FLAGS.join_function([({"n": "update_time()"}, None, 1)]), [(0,), (2,)]),
        (FLAGS.join_function(an.logic.select("name", n="update_time()")), [("a", 0), ("b", 2)]),
        (FLAGS.group_by("enabled").agg(first="min(update_time())"), [(True, 0)]),
        (FLAGS.group_by(came=an.update_time()).agg(n="count(*)"), [(0, 1), (2, 1)]),
        (FLAGS.group_by(came="update_time()").reduce(lambda _, rows: [len(rows[0][0])], "n long"), [(0, 2), (2, 2)]),
    ],
)
def test_every_linear_verb_takes_it(made, wanted):
    with Session() as session:
        view = session.maintain("v", made)
        assert not any(name.startswith("#") for name in made.columns)
        session.insert("flags", [("a", True)], time=0)
        session.insert("flags", [("b", True)], time=2)
        session.advance(to=3)
        assert rows_of(view) == wanted


TWO = an.source("two", "k long, v long", time=("system", "event"))


@pytest.mark.parametrize(
    ("made", "error", "match"),
    [
        (lambda: FLAGS.top_k(1, "update_time()"), UpdateTimeError, 'select\\("\\*", came='),
        (lambda: FLAGS.window(n="max(update_time()) over ()"), UpdateTimeError, "column first"),
        (lambda: FLAGS.select(t="update_time(name)"), TypeMismatchError, "takes no argument, got 1"),
        (lambda: FLAGS.select(t="update_time() + x"), UnknownColumnError, "the columns are: name, enabled \\["),
        (lambda: an.source("m", "m map<string, long>").select(t="update_time()"), TypeMismatchError, "'m' has maps"),
        (lambda: FLAGS.differentiate().select(t="update_time()"), PlanError, "after integrate"),
        (
            lambda: FLAGS.iterate(lambda x: x.filter("update_time() > 1").distinct()),
            PlanError,
            "update_time\\(\\) reads what changes from round to round.*before the loop or after",
        ),
        (
            lambda: Session().maintain("v", TWO.select("*", t="update_time()")),
            PlanError,
            "update_time\\(\\) needs collections with one time.* two times, system and event",
        ),
        (lambda: an.logic.select(t=col("update_time()")).run([(1,)], "k long"), UnknownColumnError, "update_time"),
        (lambda: an.logic.select(t="update_time()").run([(1,)], "k long"), UpdateTimeError, "cannot stand here"),
    ],
)
def test_where_there_is_no_one_time_it_is_refused(made, error, match):
    with pytest.raises(error, match=match):
        made()


def test_a_row_is_traced_back_to_its_input_row():
    with Session() as session:
        view = session.maintain("since", SINCE)
        session.insert("flags", [("a", True), ("b", True)])
        session.advance()
        actual = view.explain_row(("a", 0))
        assert "update_time()" in str(actual)
        assert [row["name"] for row in actual.to_arrow("flags").to_pylist()] == ["a"]


# what it reads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 2])
def test_a_change_reads_the_copies_of_its_row_alone(monkeypatch, shards):
    """Counted, of few rows and of a hundred times as many."""
    read: list[int] = []

    def counted(memory):
        groups = plain(memory)
        read.append(groups.old_values.count)
        return groups

    plain = locked.touched
    monkeypatch.setattr(locked, "touched", counted)
    actual = {}
    for n in (100, 10_000):
        with Session(shards=shards) as session:
            session.maintain("since", SINCE)
            session.insert("flags", [(f"flag {i}", True) for i in range(n)])
            session.advance()
            session.insert("flags", [("flag 7", True)])
            session.advance()
            read.clear()
            session.insert("flags", [("flag 7", True), ("another", True)])
            session.retract("flags", [("flag 8", True)])
            session.advance()
            actual[n] = sum(read)
    assert actual == {100: 3, 10_000: 3}  # two copies of flag 7 and one of flag 8
