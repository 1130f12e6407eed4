"""What sessions, views, readers and results show of themselves in a notebook, and what showing it reads."""

from __future__ import annotations

import random
import re

import pytest

import altneu as an
from altneu.runtime import read
from altneu.views.view import state_of

SCRIPT = "<script>alert(1)</script>"


def rows_of(updates):
    return dict(zip(updates.rows.to_pylist(), updates.diffs.tolist(), strict=True))


def views(session):
    """One view whose rows are its keys, one with one key for nearly all rows, one with groups, one with two copies."""
    source = an.source("rows", "k long, n long")
    doubled = source.concat(source)
    return [
        session.maintain("plain", source),
        session.maintain("one_key", source.select(k="if(k < 9900, 0, k)", n="n").arrange_by("k")),
        session.maintain("groups", source.group_by("k").agg(s="sum(n)")),
        session.maintain("doubled", doubled),
    ]


def check(view, wanted):
    state = state_of(view)
    at, name = state.known(view.name).readable(None), state.ports(view.name).contents
    found, whole = read.first_rows(state.table, name, at, wanted)
    every = rows_of(read.contents(state.table, name, at))
    shown = rows_of(found)
    assert len(shown) == len(found)
    assert shown.items() <= every.items()
    assert len(shown) >= min(wanted, len(every))
    assert not whole or shown == every


@pytest.mark.parametrize("size", [0, 1, 30, 1000, 20_000])
def test_the_first_rows_are_rows_of_the_view_with_their_counts(tmp_path, size):
    chance = random.Random(size)
    rows = [(chance.randrange(10_000), chance.randrange(5)) for _ in range(size)]
    with an.Session(path=tmp_path / "state") as session:
        made = views(session)
        for part in range(3):
            session.insert("rows", rows[part::3])
            session.retract("rows", rows[part : size // 2 : 6])
            session.advance()
            for view in made:
                check(view, 20)
    with an.Session(path=tmp_path / "state") as session, an.read(tmp_path / "state") as reader:
        for view in views(session):
            check(view, 1)
            check(reader.view(view.name), 20)


def test_rows_that_are_gone_do_not_hide_those_that_are_there():
    with an.Session() as session:
        view = session.maintain("view", an.source("rows", "k long, n long"))
        session.insert("rows", [(i, i) for i in range(3000)])
        session.advance()
        session.retract("rows", [(i, i) for i in range(2990)])
        session.advance()
        check(view, 10)


def test_showing_a_large_view_reads_as_little_as_showing_a_small_one(monkeypatch):
    used = []
    summed = read.summed

    def counted(batches, *rest):
        used.append(sum(map(len, batches)))
        return summed(batches, *rest)

    monkeypatch.setattr(read, "summed", counted)

    def reads(size):
        with an.Session() as session:
            shown = views(session)
            session.insert("rows", [(i, i) for i in range(size)])
            session.advance()
            used.clear()
            for view in shown:
                assert f"<b>{view.name}</b>" in view._repr_html_()
            return sum(used)

    assert reads(200_000) <= 2 * reads(2000)


def test_a_large_view_says_how_much_it_keeps():
    with an.Session() as session:
        view = session.maintain("view", an.source("rows", "k long, s string"))
        session.insert("rows", [(i, SCRIPT) for i in range(5000)])
        session.advance()
        html = view._repr_html_()
        assert "20 rows of a larger view, which keeps 5,000 updates" in html
        assert len(re.findall("<tr>", html)) == 21
        assert "<script" not in html
        assert "&lt;script&gt;" in html


def test_names_are_escaped_too():
    with an.Session() as session:
        session.maintain(SCRIPT, an.source("rows", "k long").select(**{SCRIPT: "k"}))
        session.insert("rows", [(1,)])
        session.advance()
        row = session.view(SCRIPT).explain_row((1,))
        shown = [session, session.view(SCRIPT), session.collections[SCRIPT], session.explained(SCRIPT), row]
        assert ["<script" in thing._repr_html_() for thing in shown] == [False] * 5


def test_values_of_every_kind():
    schema = (
        "b boolean, x double, d decimal(9, 2), t timestamp, y binary, xs array<long>, m map<string, long>, s string"
    )
    with an.Session() as session:
        view = session.maintain("view", an.source("rows", schema))
        session.insert("rows", [(True, 0.5, None, 0, b"\x00\xff", [1, None], {"a": 1}, "é" * 300)])
        session.advance()
        cells = re.findall("<td[^>]*>(.*?)</td>", view._repr_html_())
    assert cells[:3] == ["True", "0.5", "<i>null</i>"]
    assert cells[4:] == ["0x00ff", "[1, null]", "[[&quot;a&quot;, 1]]", "é" * 200 + "…"]


def test_errors_changes_only_and_closed_sessions_are_said(tmp_path):
    with an.Session(path=tmp_path / "state") as session:
        rows = an.source("rows", "k long, n long")
        broken = session.maintain("broken", rows.select(x="k / n"))
        followed = session.maintain("followed", rows, contents=False)
        session.insert("rows", [(1, 0), (4, 2)])
        session.advance()
        assert "errors() lists them" in broken._repr_html_()
        assert "contents=False" in followed._repr_html_()
        with an.read(tmp_path / "state") as reader:
            assert [name in reader._repr_html_() for name in ("broken", "followed", "commit")] == [True] * 3
    assert "closed" in broken._repr_html_()
    assert "this session is closed" in session._repr_html_()


def test_results_show_their_rows_or_message():
    with an.Session() as session:
        html = session.sql("SELECT * FROM range(50)")._repr_html_()
        assert "and 30 more" in html
        assert "<b>Result</b> <small>" in session.sql("CREATE TABLE t (a BIGINT)")._repr_html_()


def test_a_live_view_needs_a_notebook():
    with an.Session() as session:
        view = session.maintain("view", an.source("rows", "k long"))
        with pytest.raises(an.errors.ReadError, match="must be called in a cell of a notebook or in IPython"):
            view.live()
        with pytest.raises(an.errors.ReadError, match="rows must be a positive number, got 0"):
            view.live(rows=0)
