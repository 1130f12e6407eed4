"""Streams whose micro-batches are snapshots: each replaces what its source has, and a step gets the differences."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import InputError, StreamError
from faults.stream_files import Files, follow
from tests.commits import copied

N = an.source("n", "k long, v long", keep=True)
COUNTS = N.group_by("k").agg(n="count(*)", total="sum(v)")


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path / "in")


def snapshots_of(seed, count):
    chance = random.Random(seed)
    return [[(chance.randrange(5), chance.randrange(3)) for _ in range(chance.randrange(12))] for _ in range(count)]


def counted(rows):
    keys = {k for k, _ in rows}
    return {(k, sum(1 for j, _ in rows if j == k), sum(v for j, v in rows if j == k)) for k in keys}


@pytest.mark.parametrize("where", ["local", "driver", "tasks"])
def test_each_snapshot_is_the_source_at_its_time(where, spark, files, tmp_path, monkeypatch):
    options = {"local": {}, "driver": {"spark": spark}, "tasks": {"spark": spark, "placement": "spark"}}[where]
    if where == "tasks":
        monkeypatch.setattr("altneu.streams.batch.HERE_ROWS", 0)
    snapshots, upto = snapshots_of(where, 5), 0
    for turn in (snapshots[:3], snapshots[3:]):
        for rows in turn:
            files.put(*rows)
        with an.Session(path=tmp_path / "state", retain="all", **options) as session:
            view, whole = session.maintain("counts", COUNTS), session.maintain("whole", N)
            follow(session, files, snapshots=True)
            upto += len(turn)
            assert session.lower == upto
            for at in range(upto):
                assert set(view.to_pylist(at=at)) == counted(snapshots[at])
                assert Counter(whole.to_pylist(at=at)) == Counter(snapshots[at])


def test_a_million_rows_of_which_a_thousand_changed_are_two_thousand_changes(files):
    keys, values = np.arange(1_000_000), np.zeros(1_000_000, np.int64)
    later = values.copy()
    later[::1000] = 1
    steps = []
    with an.Session() as session:
        session.maintain("by v", N.group_by("v").agg(n="count(*)"))
        for column in (values, later, later):
            filled = [pa.array(c) for c in (keys, column, values, values)]
            files.put_table(pa.table(filled, schema=files.schema))
        follow(session, files, snapshots=True, on_step=lambda _, step: steps.append(step.changes_in))
        assert steps == [1_000_000, 2_000, 0]
        assert set(session.view("by v").to_pylist()) == {(0, 999_000), (1, 1_000)}


def test_rows_that_were_inserted_meanwhile_are_replaced_too(files):
    files.put((1, 1))
    with an.Session() as session:
        view = session.maintain("whole", N)
        session.insert("n", [(7, 7)])
        follow(session, files, snapshots=True)
        assert view.to_pylist() == [(1, 1)]


def test_a_key_and_a_count(files, tmp_path):
    keyed = an.source("n", "k long, v long", key="k")
    files.put((1, 1), (2, 2))
    files.put((2, 3), (4, 4))
    with an.Session() as session:
        view = session.maintain("whole", keyed)
        follow(session, files, snapshots=True)
        assert sorted(view.to_pylist()) == [(2, 3), (4, 4)]
    more = Files(files.spark, tmp_path / "more")
    more.put((1, 1, 0, 2), (2, 2, 0, 3))
    more.put((1, 1, 0, 1))
    with an.Session() as session:
        view = session.maintain("whole", N)
        follow(session, more, snapshots=True, diff="d")
        assert view.to_pylist() == [(1, 1)]


def test_a_crash_before_or_after_any_commit(files, tmp_path):
    snapshots = snapshots_of(9, 3)
    for rows in snapshots:
        files.put(*rows)
    with copied(tmp_path) as copies, an.Session(path=tmp_path / "state") as session:
        session.maintain("counts", COUNTS)
        follow(session, files, snapshots=True)
    follows = copies[2:]  # the first commit is that of the view
    assert len(follows) == 6
    for path in follows:
        with an.Session(path=path) as session:
            view = session.maintain("counts", COUNTS)
            follow(session, files, snapshots=True)
            assert set(view.to_pylist()) == counted(snapshots[-1])
            assert session.lower == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"time": "time"}, "time='time' of stream 'n' is not for snapshots"),
        ({"max_rows": 3}, "max_rows=3 of stream 'n' is not for snapshots"),
        ({"snapshots": 1}, "snapshots must be True or False, got 1"),
    ],
)
def test_what_is_refused(files, options, words):
    with an.Session() as session:
        session.maintain("whole", N)
        with pytest.raises(InputError, match=words):
            session.follow(n=files.stream(), **{"snapshots": True, **options}, extra="ignore")


def test_snapshots_beside_streams_with_times_are_refused(spark, files, tmp_path):
    others = Files(spark, tmp_path / "others")
    with an.Session() as session:
        session.maintain("whole", N)
        session.maintain("more", an.source("m", "k long, v long"))
        frames = {"n": files.stream(), "m": others.stream()}
        with pytest.raises(InputError, match="the snapshots of 'n' each need a step of their own"):
            session.follow(frames, snapshots={"n": True}, time={"m": "time"}, extra="ignore")


def test_a_source_that_no_state_has_is_refused(files):
    files.put((1, 1))
    with an.Session() as session:
        session.maintain("some", an.source("n", "k long, v long").filter("k > 1").select("v"))
        with pytest.raises(StreamError, match="no state has all of its rows"):
            follow(session, files, snapshots=True)
