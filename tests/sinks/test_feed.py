"""A view as messages of updates and progress: a second session reads it, at the same times."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import random
from collections import Counter

import pytest

import altneu as an
from altneu.cdc.files import read_lines
from altneu.errors import InputError, SinkError

EVENTS = an.source("events", "k long, v string")
COUNTS = EVENTS.group_by("k").agg(n="count(*)", top="max(v)")
FIELDS = "k long, n long, top string"


def change(session, chance):
    session.insert("events", [(chance.randrange(4), chance.choice("xyzé\n")) for _ in range(4)])
    there = session.view("all").to_pylist() if session.lower else []
    session.retract("events", chance.sample(there, min(len(there), 3)))
    session.advance(to=session.lower + chance.randrange(1, 4))


def both(view, other, at):
    assert sorted(map(str, view.to_pylist(at=at))) == sorted(map(str, other.to_pylist(at=at)))


@pytest.mark.parametrize("seed", range(6))
def test_two_sessions_are_one_dataflow(tmp_path, seed):
    chance = random.Random(seed)
    feed = an.cdc.Feed("counts", FIELDS, path=tmp_path / "m")
    with an.Session(retain="all") as one, an.Session(retain="all") as two:
        one.maintain("all", EVENTS)
        view, copy = one.maintain("counts", COUNTS), two.maintain("copy", feed.collection)
        assert feed.advance(two) is None  # there is no folder yet
        sink = an.sinks.feed(view, tmp_path / "m")
        first = None
        for _ in range(8):
            change(one, chance)
            if chance.random() < 0.7:
                sink.run()
                first = first or one.lower
            if chance.random() < 0.7:
                feed.advance(two)
        change(one, chance)
        sink.run()
        first = first or one.lower
        feed.advance(two)
        assert two.lower == one.lower
        assert sink.run() == 0
        assert feed.advance(two) is None
        for at in range(first - 1, one.lower):
            both(view, copy, at)


def test_a_time_without_changes_is_progress(tmp_path):
    feed = an.cdc.Feed("counts", FIELDS, path=tmp_path)
    with an.Session() as one, an.Session() as two, an.sinks.feed(one.maintain("counts", COUNTS), tmp_path).attach():
        two.maintain("copy", feed.collection)
        for to in (3, 9):
            one.advance(to=to)
            feed.advance(two)
            assert two.lower == to


def test_on_spark(spark, tmp_path):
    feed = an.cdc.Feed("counts", FIELDS, path=tmp_path)
    chance = random.Random(3)
    with (
        an.Session(spark, placement="spark", shards=2) as one,
        an.Session(spark, placement="spark", shards=2) as two,
    ):
        one.maintain("all", EVENTS)
        view, copy = one.maintain("counts", COUNTS), two.maintain("copy", feed.collection)
        sink = an.sinks.feed(view, tmp_path)
        for _ in range(2):
            change(one, chance)
            sink.run()
            feed.advance(two)
            both(view, copy, None)


TYPES = (
    "b boolean, i byte, l long, f float, d double, n decimal(20, 3), s string, x binary, day date, at timestamp, "
    "local timestamp_ntz, xs array<double>, m map<string, date>, r struct<a: decimal(4, 1), b: binary>, "
    "t time, `a.b` int"
)
UTC = dt.UTC
VALUES = [
    (
        *(True, -7, 2**62 + 1, 0.1, 0.1, decimal.Decimal("12.340"), 'é"\\\n\u2028', b"\x00\xff", dt.date(1, 1, 1)),
        *(dt.datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), dt.datetime(1, 1, 2, 3, 4, 5, 6)),  # noqa: DTZ001
        *([math.inf, -math.inf, None, 1e-300], [("a", dt.date(9999, 12, 31)), ("b", None)]),
        *({"a": decimal.Decimal("1.5"), "b": b"z"}, dt.time(1, 2, 3, 456789), 7),
    ),
    (None,) * 16,
    (False, 0, -(2**63), math.nan, -math.inf, decimal.Decimal(-1) / 8, "", b"", dt.date(1969, 12, 31), *(None,) * 7),
]


def test_rows_of_every_type_arrive_as_they_are(tmp_path):
    rows, feed = an.source("rows", TYPES), an.cdc.Feed("copy", TYPES, path=tmp_path)
    with an.Session() as one, an.Session() as two:
        view, copy = one.maintain("rows", rows), two.maintain("copy", feed.collection)
        one.insert("rows", VALUES)
        one.advance()
        an.sinks.feed(view, tmp_path).run()
        feed.advance(two)
        found = copy.to_arrow()
        assert copy.schema == view.schema
        wanted = view.to_arrow()
        assert Counter(map(str, found.to_pylist())) == Counter(map(str, wanted.to_pylist()))


def test_lines_are_messages_as_the_crate_has_them(tmp_path):
    with an.Session() as session:
        sink = an.sinks.feed(session.maintain("counts", COUNTS), tmp_path)
        session.insert("events", [(1, "x")] * 2)
        session.advance(to=3)
        sink.run()
    (file,) = tmp_path.glob("*.jsonl")
    assert file.name == f"messages-{0:019d}-{3:019d}.jsonl"
    assert [json.loads(line) for line in file.read_text("utf-8").splitlines()] == [
        {"Updates": [[{"k": 1, "n": 2, "top": "x"}, 2, 1]]},
        {"Progress": {"lower": [0], "upper": [3], "counts": [[2, 1]]}},
    ]


def test_history_that_is_gone_is_made_up_from_the_messages(tmp_path, monkeypatch):
    chance, feed = random.Random(1), an.cdc.Feed("counts", FIELDS, path=tmp_path)
    with an.Session() as one, an.Session() as two:
        one.maintain("all", EVENTS)
        view, copy = one.maintain("counts", COUNTS), two.maintain("copy", feed.collection)
        sink = an.sinks.feed(view, tmp_path)
        monkeypatch.setattr(sink, "_hold", lambda _: None)
        for _ in range(4):
            for _ in range(5):
                change(one, chance)
            sink.run()
            feed.advance(two)
            both(view, copy, None)


def test_a_reader_that_begins_again_reads_no_file_of_closed_times(tmp_path, monkeypatch):
    chance, read = random.Random(2), []
    monkeypatch.setattr("altneu.cdc.feed.read_lines", lambda *found: read.append(found[1]) or read_lines(*found))
    with an.Session() as one:
        one.maintain("all", EVENTS)
        sink = an.sinks.feed(one.maintain("counts", COUNTS), tmp_path / "m")
        for _ in range(3):
            for _ in range(3):
                change(one, chance)
                sink.run()
            with an.Session(path=tmp_path / "two") as two:
                feed = an.cdc.Feed("counts", FIELDS, path=tmp_path / "m")
                copy = two.maintain("copy", feed.collection)
                read.clear()
                feed.advance(two)
                assert len(read) == 3
                both(one.view("counts"), copy, None)


def test_what_is_refused(tmp_path):
    gaps = an.source("gaps", "at timestamp").select("at - timestamp'2020-01-01' as gap")
    twice = an.source("twice", "x long", time=("system", "event"))
    with an.Session() as session:
        with pytest.raises(SinkError, match="cannot be written as messages"):
            an.sinks.feed(session.maintain("gaps", gaps), tmp_path)
        with pytest.raises(SinkError, match="the times system and event"):
            an.sinks.feed(session.maintain("twice", twice), tmp_path)
        with pytest.raises(SinkError, match="is not on a local disk"):
            an.sinks.feed(session.maintain("counts", COUNTS), "memory://there")
        an.sinks.feed(session.view("counts"), tmp_path)
        session.advance()
        an.sinks.feed(session.view("counts"), tmp_path).run()
        session.maintain("all", EVENTS)
        with pytest.raises(SinkError, match="has messages with the columns"):
            an.sinks.feed(session.view("all"), tmp_path).run()
    with an.Session() as session:
        sink = an.sinks.feed(session.maintain("counts", COUNTS), tmp_path)
        session.advance(to=5)
        with pytest.raises(SinkError, match="of another store"):
            sink.run()
        (file,) = tmp_path.glob("*.jsonl")
        file.write_text("{}\n")
        feed = an.cdc.Feed("counts", FIELDS, path=tmp_path)
        session.maintain("copy", feed.collection)
        with pytest.raises(InputError, match="a message must be an object with updates or with progress"):
            feed.refresh()
