"""``an.compare``: the difference of two multisets, wherever they are kept, and what is read for it."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu.errors import HistoryGoneError, PlanError, ReadError, SchemaError, UnknownColumnError, ViewHasErrorsError
from altneu.runtime import files
from altneu.store import reader
from altneu.views import comparing

ROWS = an.source("rows", "k long, s string, v double", keep=True)
PLANS = {
    "as they are": ROWS,
    "by k": ROWS.arrange_by("k"),
    "by s, in order": ROWS.arrange_by("s", order="v"),
    "turned": ROWS.select("v", "s", "k"),
    "filtered": ROWS.filter("k % 3 != 0"),
    "twice": ROWS.concat(ROWS.filter("v > 2")),
}


def expected(left: Counter, right: Counter) -> Counter:
    return Counter({(*row, left[row], right[row]): 1 for row in {*left, *right} if left[row] != right[row]})


def found(left, right, *arguments, **options) -> Counter:
    table = an.compare(left, right, *arguments, **options)
    assert table.column_names[-2:] == ["left_count", "right_count"]
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def rows_of(view, names, at=None) -> Counter:
    table = view.to_arrow(at=at).select(names)
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def random_rows(generator: random.Random, n: int) -> list[tuple[object, ...]]:
    values = [None, 0.0, 1.5, 2.5, float("inf")]
    return [(generator.randrange(9), generator.choice([None, "a", "b"]), generator.choice(values)) for _ in range(n)]


def steps(session, generator, count=4, n=60) -> None:
    there: list[tuple[object, ...]] = []
    for _ in range(count):
        new = random_rows(generator, n)
        gone = [there.pop(generator.randrange(len(there))) for _ in range(min(len(there), n // 3))]
        session.insert("rows", new)
        if gone:
            session.retract("rows", gone)
        there += new
        session.advance()


@pytest.mark.parametrize("room", [comparing.ROOM, 2000], ids=["at once", "in parts"])
@pytest.mark.parametrize("seed", range(2))
def test_any_two_views_at_any_times(monkeypatch, seed, room):
    monkeypatch.setattr(comparing, "ROOM", room)
    generator = random.Random(seed)
    with an.Session(retain="all") as session:
        views = {name: session.maintain(name, plan) for name, plan in PLANS.items()}
        steps(session, generator)
        names = ["k", "s", "v"]
        for left in views.values():
            for right in generator.sample([*views.values()], 3):
                columns = generator.choice([None, ["k"], ["s", "v"]])
                at = generator.choice([None, 2, (1, 3), (3, None)])
                times = at if isinstance(at, tuple) else (at, at)
                chosen = left.schema.names if columns is None else columns
                wanted = expected(*(rows_of(v, chosen, t) for v, t in zip((left, right), times, strict=True)))
                assert found(left, right, columns, at=at) == wanted, (left.name, right.name, columns, at)
        assert found(views["by k"], views["as they are"], at=3) == Counter()
        assert sum(rows_of(views["twice"], names).values()) > sum(rows_of(views["by k"], names).values())


@pytest.mark.parametrize("room", [comparing.ROOM, 20_000], ids=["at once", "in parts"])
@pytest.mark.parametrize("plan", ["as they are", "by k", "twice"])
def test_a_fork_and_its_store_and_readers_of_both(monkeypatch, tmp_path, plan, room):
    monkeypatch.setattr(comparing, "ROOM", room)
    with an.Session(path=tmp_path / "blue", retain="all") as blue:
        view = blue.maintain("v", PLANS[plan])
        steps(blue, random.Random(1), n=2000)
        with blue.fork(tmp_path / "green") as green:
            other = green.view("v")
            assert found(view, other) == found(other, view) == Counter()
            green.insert("rows", [(1, "a", 1.5), (1, "new", None)])
            green.retract("rows", [next(iter(rows_of(all_rows(green), ["k", "s", "v"])))])
            green.advance()
            blue.advance()
            for at in (None, 2, (4, 3), (0, 4)):
                times = at if isinstance(at, tuple) else (at, at)
                sides = [rows_of(v, ["k", "s", "v"], t) for v, t in zip((view, other), times, strict=True)]
                assert found(view, other, at=at) == expected(*sides), at
                with an.read(tmp_path / "blue") as one, an.read(tmp_path / "green") as two:
                    assert found(one.view("v"), two.view("v"), at=at) == expected(*sides)
                    assert found(view, two.view("v"), ["k"], at=at) == expected(
                        *(rows_of(v, ["k"], t) for v, t in zip((view, other), times, strict=True))
                    )


def all_rows(session):
    return session.view("all") if "all" in session.views else session.maintain("all", ROWS)


@pytest.fixture
def opened(monkeypatch):
    """The segments that are opened."""
    names: list[str] = []
    for module in (files, reader):
        real = module.open_segment

        def open_segment(folder, ref, *options, real=real):
            names.append(ref.checksum)
            return real(folder, ref, *options)

        monkeypatch.setattr(module, "open_segment", open_segment)
    return names


@pytest.fixture
def read(monkeypatch):
    """How many updates are read, whether or not they count."""
    count = Counter()
    real = comparing._counting

    def counting(updates, *options):
        count["updates"] += len(updates)
        return real(updates, *options)

    monkeypatch.setattr(comparing, "_counting", counting)
    return count


@pytest.mark.parametrize("n", [3000, 300_000])
def test_what_is_shared_is_read_only_where_other_rows_differ(tmp_path, opened, read, n):
    plan = ROWS.arrange_by("k")
    with an.Session(path=tmp_path / "blue") as blue:
        blue.maintain("v", plan)
        for i in range(3):
            blue.insert("rows", [(n * i + k, "a", 1.0) for k in range(n)])
            blue.advance()
        blue.fork(tmp_path / "green").close()
        blue.advance()
    for differs in (False, True):
        if differs:
            with an.Session(path=tmp_path / "green") as green:
                green.maintain("v", plan)
                green.insert("rows", [(5, "a", 1.0)])
                green.advance()
        with an.read(tmp_path / "blue") as one, an.read(tmp_path / "green") as two:
            views = one.view("v"), two.view("v")
            opened.clear()
            read.clear()
            table = an.compare(*views, at=(one.lower - 1, two.lower - 1))
            assert table.to_pylist() == [{"k": 5, "s": "a", "v": 1.0, "left_count": 1, "right_count": 2}] * differs
            assert bool(opened) == differs
            assert read["updates"] == (2 if differs else 0)  # the row of the fork, and the one that both have
            opened.clear()
            assert views[0].to_arrow().num_rows == 3 * n
            assert opened


@pytest.mark.parametrize("n", [300, 30_000])
def test_of_others_every_update_is_read_once(monkeypatch, tmp_path, read, n):
    """However many parts memory makes of them."""
    monkeypatch.setattr(comparing, "ROOM", 100_000)
    with an.Session(path=tmp_path / "one") as one, an.Session() as two:
        views = [session.maintain("v", plan) for session, plan in ((one, ROWS), (two, ROWS.arrange_by("k", order="v")))]
        for session in (one, two):
            session.insert("rows", [(i, "a", 1.0) for i in range(n)])
            session.advance()
        two.insert("rows", [(n, "b", 1.0)])
        two.advance()
        one.advance()
        assert found(*views) == Counter([(n, "b", 1.0, 0, 1)])
        assert read["updates"] == 2 * n + 1


def test_two_times_and_statements(tmp_path):
    prices = an.source("prices", "item string, price long", time=("time", "day"))
    with an.Session() as one, an.Session(path=tmp_path / "two") as two:
        views = [session.maintain("v", prices.group_by("item").agg(total="sum(price)")) for session in (one, two)]
        for session, rows in ((one, [("tea", 3)]), (two, [("tea", 3), ("jam", 4)])):
            session.insert("prices", rows, time=(0, 5))
            session.advance()
        assert found(*views) == Counter([("jam", 4, 0, 1)])
        one.sql(
            "CREATE TABLE t (a INT, b INT); INSERT INTO t VALUES (1, 2), (1, 2);"
            "CREATE MATERIALIZED VIEW w AS SELECT * FROM t"
        )
        two.sql("CREATE TABLE t (b INT, a INT NOT NULL); INSERT INTO t VALUES (2, 1)")
        two.sql("CREATE MATERIALIZED VIEW w AS SELECT * FROM t")
        at = (one.lower - 1, two.lower - 1)
        assert found(one.view("w"), two.view("w"), at=at) == Counter([(1, 2, 2, 1)])
        table = an.compare(one.view("w"), two.view("w"), at=at)
        assert [field.nullable for field in table.schema] == [True, True, True, True]


def test_errors_and_what_is_refused():
    with an.Session() as one, an.Session(retain=1) as two:
        v, w = one.maintain("v", ROWS), two.maintain("w", ROWS.select("k", "s", inverse="1 / k"))
        assert an.compare(v, v).num_rows == 0  # before any step
        two.insert("rows", [(0, "a", 1.0), (1, "a", 1.0)])
        one.insert("rows", [(1, "a", 1.0)])
        for session in (one, two):
            session.advance()
        with pytest.raises(ViewHasErrorsError, match="view 'w' has 1 error"):
            an.compare(v, w, ["k", "s"])
        assert found(v, w, ["k", "s"], errors="ignore") == Counter()
        with pytest.raises(
            PlanError, match=r"have different columns; columns=\[\.\.\.\] names those to compare them by"
        ):
            an.compare(v, w)
        with pytest.raises(UnknownColumnError, match="the comparison of view w"):
            an.compare(v, w, ["v"])
        with pytest.raises(PlanError, match="columns must be different ones, got"):
            an.compare(v, w, ["k", "k"])
        with pytest.raises(PlanError, match="columns must be a list of names, got 'k'"):
            an.compare(v, w, "k")
        with pytest.raises(PlanError, match="column 'k' has other types in view 'v' and 'other'"):
            an.compare(v, two.maintain("other", ROWS.select(k="cast(k as int)")), ["k"])
        with pytest.raises(SchemaError, match="has a column 'left_count', which is the name of a count here"):
            an.compare(*[two.maintain("named", ROWS.select(left_count="k"))] * 2)
        with pytest.raises(ReadError, match="contents=False"):
            an.compare(v, two.maintain("log", ROWS, contents=False))
        with pytest.raises(PlanError, match="compare needs two views"):
            an.compare(v, "w")
        with pytest.raises(ReadError, match="at must be a time, or two, one for each view"):
            an.compare(v, w, ["k"], at=(0, 0, 0))
        with pytest.raises(ReadError, match='errors must be "raise" or "ignore"'):
            an.compare(v, w, ["k"], errors="hide")
        for _ in range(4):
            two.advance()
        with pytest.raises(HistoryGoneError, match=r"at=\(0, 4\) compares the last of each"):
            an.compare(v, w, ["k"])
        two.retract("rows", [(0, "a", 1.0)])
        two.advance()
        assert found(v, w, ["k", "s"], at=(None, None)) == Counter()
