"""The stream reader as Spark drives it: whatever crashes when, a batch that is planned again has the same rows."""

from __future__ import annotations

import json
import pickle
import random
from collections import Counter

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import altneu as an
from altneu.errors import HistoryGoneError, ReadError, ViewHasErrorsError
from altneu.store import forget_segments
from pyspark_altneu.options import Options
from pyspark_altneu.stream import ChangeReader

ORDERS = an.source("orders", "item string, price long")
TWO = an.source("two", "item string", time=("system", "event"))


def reader_of(path, view="v", **options) -> ChangeReader:
    given = {"path": str(path), "view": view, "mode": "changes", **{k: str(v) for k, v in options.items()}}
    return ChangeReader(Options.of(given))


def batch(reader, start, end) -> Counter:
    """The rows of a batch, through what Spark does to parts: they are pickled, and read elsewhere."""
    result = Counter()
    for part in pickle.loads(pickle.dumps(list(reader.partitions(start, end)))):  # noqa: S301  # its own
        for rows in reader.read(part):
            result.update(tuple(row.values()) for row in rows.to_pylist())
    return result


class Query:
    """What Spark keeps of a streaming query: offsets written ahead, batches that are done, and what the sink got."""

    def __init__(self, path, **options):
        self.path, self.options = path, options
        self.offsets: list[dict] = []
        self.done = 0
        self.got: dict[int, Counter] = {}
        self.reader: ChangeReader | None = None

    def restart(self) -> None:
        if self.reader is not None:
            self.reader.stop()
        self.reader = reader_of(self.path, **self.options)

    def start_of(self, number: int) -> dict:
        return self.offsets[number - 1] if number else self.reader.initialOffset()

    def step(self, chance, crash: float) -> bool:
        """One trigger, cut short anywhere; whether there was anything to do."""
        for part in (self._plan, self._write, self._finish):
            if chance.random() < crash:
                self.restart()
                return True
            if not part():
                return False
        return True

    def _plan(self) -> bool:
        if len(self.offsets) == self.done:
            start = self.start_of(self.done)
            end = json.loads(json.dumps(self.reader.latestOffset(start, self.reader.getDefaultReadLimit())))
            if end == start:
                return False
            self.offsets.append(end)
        return True

    def _write(self) -> bool:
        rows = batch(self.reader, self.start_of(self.done), self.offsets[self.done])
        assert self.got.setdefault(self.done, rows) == rows
        return True

    def _finish(self) -> bool:
        self.reader.commit(self.offsets[self.done])
        self.done += 1
        return True

    def contents(self) -> Counter:
        actual = Counter()
        for number in range(self.done):
            for *row, _, diff in self.got[number].elements():
                actual[tuple(row)] += diff
        return Counter({row: n for row, n in actual.items() if n})


def change(session, chance, name="orders") -> None:
    for _ in range(chance.randrange(4)):
        session.insert(name, [(chance.choice("ab"), chance.randrange(3), chance.choice((-1, 1, 2)))], diff="d")
    session.advance(to=session.lower + chance.choice((1, 1, 3)))


def contents(view) -> Counter:
    actual = view._read(None, "ignore")
    return Counter(dict(zip(actual.rows.to_pylist(), actual.diffs.tolist(), strict=True)))


@pytest.mark.parametrize("options", [{}, {"maxRowsPerBatch": 2}, {"maxTimesPerBatch": 1}], ids=str)
def test_crashes_anywhere_while_the_writer_goes_on(tmp_path, options):
    for seed in range(6):
        chance, path = random.Random(seed), tmp_path / str(seed)
        with an.Session(path=path, shards=chance.choice((1, 3))) as session:
            view = session.maintain("v", ORDERS)
            query = Query(path, **options)
            query.restart()
            for _ in range(30):
                if chance.random() < 0.5:
                    change(session, chance)
                if chance.random() < 0.3:
                    session._engine.journal.store.vacuum(keep=1)
                    forget_segments()
                query.step(chance, crash=0.2)
            while query.step(chance, crash=0.0):
                pass
            assert query.contents() == contents(view)
            if options and session.lower > 15:
                assert query.done > 3
            query.reader.stop()


def test_crashes_anywhere_of_a_stream_that_has_changes_alone(tmp_path):
    began = set()
    for seed in range(5):
        options = {"maxTimesPerBatch": 1} if seed % 2 else {}
        chance, path = random.Random(seed), tmp_path / str(seed)
        with an.Session(path=path, shards=chance.choice((1, 3))) as session:
            plain = session.maintain("plain", ORDERS)
            session.maintain("v", ORDERS, contents=False)
            had, query = {0: Counter()}, Query(path, **options)
            query.restart()
            for _ in range(25):
                if chance.random() < 0.5:
                    change(session, chance)
                    had[session.lower] = contents(plain)
                if chance.random() < 0.3:
                    session._engine.journal.store.vacuum(keep=1)
                    forget_segments()
                query.step(chance, crash=0.2)
            while query.step(chance, crash=0.0):
                pass
            first = query.offsets[0]["from"]  # 0 where all its changes were told apart then
            given = Counter(contents(plain))
            given.subtract(had[first])
            assert query.contents() == {row: n for row, n in given.items() if n}
            query.reader.stop()
            began.add(first > 0)
            asked = Query(path, snapshot="true")
            asked.restart()
            with pytest.raises(ReadError, match="contents=False"):
                asked.step(chance, crash=0.0)
            asked.reader.stop()
    assert began == {True, False}


def test_a_step_that_had_not_seen_the_query_loses_nothing(tmp_path):
    """The writer looks at leases when a step begins: what the step folds is told by its commit."""
    for ahead in (1, 4):
        path = tmp_path / str(ahead)
        with an.Session(path=path) as session:
            view = session.maintain("v", ORDERS)
            chance = random.Random(ahead)
            change(session, chance)
            query = Query(path)
            query.restart()
            own, session._engine.times.since_after = session._engine.times.since_after, lambda upper: upper - 1
            while query.step(chance, crash=0.0):
                pass
            change(session, chance)
            session._engine.times.since_after = own
            for _ in range(ahead):
                change(session, chance)
            session._engine.journal.store.vacuum(keep=1)
            query.restart()  # a new process too: the lease of the one before still holds
            while query.step(chance, crash=0.0):
                pass
            assert query.contents() == contents(view)
            query.reader.stop()


def test_history_is_kept_while_the_query_is_stopped_and_no_longer_than_its_lease(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.maintain("v", ORDERS)
        chance, query = random.Random(1), Query(tmp_path)
        change(session, chance)
        query.restart()
        while query.step(chance, crash=0.0):
            pass
        query.reader.stop()
        at = session.lower
        for _ in range(5):
            session.insert("orders", [("x", session.lower)])
            session.advance()
        assert session.view("v").since == at - 1
        store = session._engine.journal.store
        for lease in store.leases():
            store._leases.end(lease)  # as if its time had come
        session.advance()
        session.advance()
        store.vacuum(keep=1)
        query.restart()
        with pytest.raises(HistoryGoneError, match=r"stopped for longer than its lease of 1 hour: start it with a new"):
            query.step(chance, crash=0.0)
        query.reader.stop()


def test_where_it_begins(tmp_path):
    everything = ReadAllAvailable()
    with an.Session(path=tmp_path, retain="all") as session:
        session.maintain("v", ORDERS)
        for at in range(5):
            session.insert("orders", [("x", at)])
            session.advance()

        def first(**options):
            reader = reader_of(tmp_path, **options)
            start = reader.initialOffset()
            end = reader.latestOffset(start, everything)
            result = batch(reader, start, end) if end != start else None
            reader.stop()
            return result

        assert first() == Counter(("x", n, 4, 1) for n in range(5))
        assert first(snapshot="false") == Counter()
        assert first(startingTime=2) == Counter(
            [("x", 0, 2, 1), ("x", 1, 2, 1), ("x", 2, 2, 1), ("x", 3, 3, 1), ("x", 4, 4, 1)]
        )
        assert first(startingTime=2, snapshot="false") == Counter([("x", 3, 3, 1), ("x", 4, 4, 1)])
        assert first(startingTime=5) is None  # a time to come
        reader = reader_of(tmp_path, startingTime=5)
        session.advance()
        assert batch(
            reader, reader.initialOffset(), reader.latestOffset(reader.initialOffset(), everything)
        ) == Counter(("x", n, 5, 1) for n in range(5))
        reader.stop()


def test_what_is_available_now_and_no_more(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.maintain("v", ORDERS)
        for at in range(5):
            session.insert("orders", [("x", at)])
            session.advance()
        reader = reader_of(tmp_path, maxRowsPerBatch=1)
        reader.prepareForTriggerAvailableNow()
        assert reader.getDefaultReadLimit() == ReadMaxRows(1)
        session.advance()
        start, ends = reader.initialOffset(), []
        while (end := reader.latestOffset(start, ReadMaxRows(1))) != start:
            ends.append(end["frontier"])
            start = end
        assert ends == [5]
        assert reader.reportLatestOffset()["frontier"] == 6
        reader.stop()


def test_two_times_and_names_of_columns(tmp_path):
    with an.Session(path=tmp_path) as session:
        view = session.maintain("v", TWO)
        session.insert("two", [("a", 3), ("b", 5)], time="event")
        session.advance()
        session.insert("two", [("a", 4)], time="event")
        session.advance()
        query = Query(tmp_path, timeColumn="t", diffColumn="n")
        query.restart()
        query.step(random.Random(0), 0.0)
        session.retract("two", [("a", 4)], time="event")
        session.advance()
        query.step(random.Random(0), 0.0)
        assert query.got[0] == Counter([("a", 1, 3, 1), ("a", 1, 4, 1), ("b", 1, 5, 1)])
        assert query.got[1] == Counter([("a", 2, 4, -1)])
        assert view.changes("t", "n").column_names == ["item", "t", "t_event", "n"]
        query.reader.stop()


def test_errors_stop_it_unless_they_are_ignored(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.maintain("v", ORDERS.select("item", share="100 div price"))
        session.insert("orders", [("tea", 0), ("jam", 5)])
        session.advance()
        chance, query, careless = random.Random(0), Query(tmp_path), Query(tmp_path, errors="ignore")
        query.restart()
        careless.restart()
        with pytest.raises(ViewHasErrorsError, match="view 'v' has 1 error"):
            query.step(chance, 0.0)
        careless.step(chance, 0.0)
        assert careless.contents() == Counter([("jam", 20)])
        session.retract("orders", [("tea", 0)])
        session.advance()
        query.offsets.clear()
        query.restart()
        while query.step(chance, 0.0):
            pass
        assert query.contents() == Counter([("jam", 20)])
        query.reader.stop()
        careless.reader.stop()


def test_another_history_is_refused(tmp_path):
    chance = random.Random(0)
    query = Query(tmp_path / "a")
    for name in "ab":
        with an.Session(path=tmp_path / name) as session:
            session.maintain("v", ORDERS)
            for _ in range(3):
                change(session, chance)
        if name == "a":
            query.restart()
            query.step(chance, 0.0)
        else:
            query.path = tmp_path / "b"
            query.restart()
            with pytest.raises(ReadError, match="another one, an older copy, it went back to an earlier commit"):
                query.step(chance, 0.0)
            query.reader.stop()
    with pytest.raises(ReadError, match=r'a stream is of changes: add .option\("mode", "changes"\)'):
        reader_of(tmp_path, mode="contents")
    with pytest.raises(ReadError, match='a stream begins at "startingTime"'):
        reader_of(tmp_path, since=3)


def test_columns_that_are_chosen(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.maintain("v", an.source("s", "`a,b` long, c string"))
        session.insert("s", [(1, "x")])
        session.advance()
        query = Query(tmp_path, columns='["a,b"]')
        query.restart()
        query.step(random.Random(0), 0.0)
        assert query.got[0] == Counter([(1, 0, 1)])
        (part,) = query.reader.partitions(query.reader.initialOffset(), query.offsets[0])
        assert part.shape.schema == pa.schema(
            [("a,b", pa.int64()), pa.field("time", pa.int64(), False), pa.field("diff", pa.int64(), False)]
        )
        query.reader.stop()
