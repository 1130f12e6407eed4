"""``session.swap``: a fork takes the place of its store, and whoever follows a view gets what is different."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest

import altneu as an
from altneu.errors import InputError, PlanError, StatementError, StoreError, StorePlanError
from altneu.store import Lease, check_store
from faults.stream_files import Files, N, follow
from tests.store.killable import arm

ORDERS = an.source("orders", "item string, price long", keep=True)
SHOPS = an.source("shops", "item string, shop string", keep=True)
BLUE = {
    "totals": ORDERS.group_by("item").agg(total="sum(price)"),
    "cheap": ORDERS.filter("price < 5"),
    "sold": ORDERS.join(SHOPS, on="item").select("shop", "price"),
    "old": ORDERS.group_by().agg(n="count(*)"),
    "widened": ORDERS.select("item"),
}
GREEN = {
    "totals": ORDERS.filter("price > 1").group_by("item").agg(total="max(price)"),
    "cheap": BLUE["cheap"],
    "sold": ORDERS.filter("price > 3").join(SHOPS, on="item").select("shop", "price"),
    "widened": ORDERS.select("item", "price"),
    "new": SHOPS.group_by("shop").agg(n="count(*)"),
}
GOING_ON = ("totals", "cheap", "sold")


def rows(view, at=None) -> Counter:
    return Counter(view.to_pylist(at=at))


class Follower:
    """What a view has by its changes."""

    def __init__(self, view, **options):
        self.rows: Counter = Counter()
        self.times: list[int] = []
        self.subscription = view.subscribe(self.take, **options)

    def take(self, row, time, diff) -> None:
        self.rows[tuple(row)] += diff
        self.times.append(time)

    @property
    def present(self) -> Counter:
        assert self.times == sorted(self.times)
        return Counter({row: n for row, n in self.rows.items() if n})


def fill(sessions, generator, steps) -> None:
    """The same rows in all of some sessions, some of them at times to come."""
    for _ in range(steps):
        orders = [(generator.choice("abcde"), generator.randrange(9)) for _ in range(20)]
        shops = [(generator.choice("abcde"), generator.choice("xy"))]
        for session in sessions:
            session.insert("orders", orders[4:])
            session.insert("orders", orders[:4], time=session.lower + 2)
            session.insert("shops", shops)
            session.advance()


def built(fork) -> None:
    """The other version of the pipeline."""
    for name in ("old", "widened"):
        fork.drop(name)
    for name, plan in GREEN.items():
        fork.maintain(name, plan, replace=True)


def sinks_of(views, folder) -> list:
    modes = ("merge", "append")
    return [an.sinks.parquet(views[name], f"{folder}/{name} {mode}", mode=mode) for name in GOING_ON for mode in modes]


def check_sinks(sinks) -> None:
    for sink in sinks:
        contents = sink.contents()
        actual: Counter = Counter()
        for row, diff in zip(contents.rows.to_pylist(), contents.diffs.tolist(), strict=True):
            actual[row] += diff
        assert Counter({row: n for row, n in actual.items() if n}) == rows(sink.view), sink.where


def from_the_start(seed) -> dict[str, Counter]:
    """What the views of the other version have when all rows have arrived."""
    with an.Session() as fresh:
        for name, plan in GREEN.items():
            fresh.maintain(name, plan)
        fill([fresh], random.Random(seed), 6)
        for _ in range(4):
            fresh.advance()
        return {name: rows(fresh.view(name)) for name in GREEN}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ahead", [-1, 0, 2])
@pytest.mark.parametrize("where", ["local", "object store", pytest.param("spark", marks=pytest.mark.spark)])
def test_histories_go_on_with_what_is_different(request, tmp_path, where, ahead):
    if where != "local" and ahead != 2:
        pytest.skip("one clock is enough")
    options = {"spark": request.getfixturevalue("spark"), "placement": "spark", "shards": 2} if where == "spark" else {}
    generator = random.Random(ahead)
    at = f"memory://{uuid.uuid4().hex}" if where == "object store" else tmp_path
    with an.Session(path=f"{at}/blue", **options) as blue:
        views = {name: blue.maintain(name, plan) for name, plan in BLUE.items()}
        fill([blue], generator, 2)
        followers = {name: Follower(view) for name, view in views.items()}
        pulled = views["totals"].subscribe()
        sinks = sinks_of(views, tmp_path)
        for i, sink in enumerate(sinks):
            (sink.attach if i % 2 else sink.run)()
        with an.read(f"{at}/blue", since=1) as reader:
            remote = Follower(reader.view("totals"))
            green = blue.fork(f"{at}/green")
            built(green)
            fill([blue, green], generator, 2)
            for session in [blue] * max(-ahead, 0) + [green] * max(ahead, 0):
                session.advance()
            upper = max(blue.lower, green.lower)
            blue.swap(green)
            assert (blue.lower, sorted(blue.views)) == (upper, sorted(GREEN))
            for name in GOING_ON:  # which have what they had, until a time is closed
                assert followers[name].present == rows(views[name])
            assert [followers[name].subscription.closed for name in BLUE] == [False] * 3 + [True] * 2
            fill([blue], generator, 2)
            for name, plan in GREEN.items():
                assert rows(blue.view(name)) == rows(blue.maintain(f"again {name}", plan)), name
            for _ in range(4):  # until nothing waits any more
                blue.advance()
            assert {name: rows(blue.view(name)) for name in GREEN} == from_the_start(ahead)
            for name in GOING_ON:
                assert followers[name].present == rows(blue.view(name)), name
            seen: Counter = Counter()
            for table in pulled:
                for row in table.to_pylist():
                    seen[row["item"], row["total"]] += row["diff"]
            assert Counter({row: n for row, n in seen.items() if n}) == rows(views["totals"])
            reader.refresh()
            assert remote.present == rows(views["totals"])
            for sink in sinks:
                sink.run()
            check_sinks(sinks)
            for name in [name for name in blue.views if "again" in name]:
                blue.drop(name)
            last = {name: rows(blue.view(name)) for name in GREEN}
    assert check_store(f"{at}/blue").problems == ()
    with an.Session(path=f"{at}/blue", **options) as blue:
        views = {name: blue.maintain(name, plan) for name, plan in GREEN.items()}
        assert {name: rows(view) for name, view in views.items()} == last
        blue.store.vacuum(keep=1)
        fill([blue], generator, 1)
        for name, view in views.items():
            assert rows(view) == rows(blue.maintain(f"again {name}", GREEN[name])), name
    assert check_store(f"{at}/blue").problems == ()


def test_statements_sinks_and_subscriptions(tmp_path):
    def written():
        return sorted(an.sinks.parquet(blue.view("totals"), str(tmp_path / "out")).contents().rows.to_pylist())

    with an.Session(path=tmp_path / "blue", retain="all") as blue:
        blue.sql(f"""
            CREATE TABLE orders (item STRING, price BIGINT);
            CREATE MATERIALIZED VIEW totals AS SELECT item, sum(price) AS total FROM orders GROUP BY item;
            CREATE SINK s FROM totals INTO PARQUET '{tmp_path}/out';
            INSERT INTO orders VALUES ('tea', 3), ('tea', 4), ('jam', 5);
        """)
        changes = blue.sql("SUBSCRIBE totals WITH (SNAPSHOT = false)")
        before = blue.lower - 1
        green = blue.fork(tmp_path / "green")
        green.sql("""
            ALTER TABLE orders ADD COLUMN shop STRING;
            CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT item, max(price) AS total FROM orders GROUP BY item;
            CREATE MATERIALIZED VIEW shops AS SELECT shop, count(*) AS n FROM orders GROUP BY shop;
            INSERT INTO orders VALUES ('oil', 9, 'here');
        """)
        assert an.compare(blue.view("totals"), green.view("totals"), at=(None, None)).num_rows == 3
        blue.sql("INSERT INTO orders VALUES ('jam', 1)")
        assert written() == [("jam", 6), ("tea", 7)]
        blue.swap(green)
        assert written() == [("jam", 6), ("tea", 7)]
        assert len(blue.sql("SHOW SINKS").to_pylist()) == 1
        blue.sql("INSERT INTO orders VALUES ('jam', 7, 'there')")
        assert written() == [("jam", 7), ("oil", 9), ("tea", 4)]
        assert rows(blue.view("totals")) == Counter(written())
        assert sum(row[1] for row in changes) == 1  # jam, tea and oil: three rows instead of two
        assert rows(blue.view("totals"), before) == Counter([("jam", 5), ("tea", 7)])
    with an.Session(path=tmp_path / "blue") as blue:
        blue.sql("INSERT INTO orders VALUES ('tea', 8, 'here')")
        assert written() == [("jam", 7), ("oil", 9), ("tea", 8)]
        assert blue.sql("SELECT n FROM shops WHERE shop = 'here'").to_pylist() == [(2,)]


def test_functions_of_the_program_are_known_in_a_fork_and_after_a_swap(tmp_path):
    """One view calls a function, and statements of others need not; the fork has another one of a name."""
    with an.Session(path=tmp_path / "blue") as session:
        session.udf.register("slug", lambda text: text.lower(), "string")
        session.udf.register("mark", lambda text: f"{text}!", "string")
        session.sql("CREATE TABLE t (a STRING); INSERT INTO t VALUES ('A')")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT slug(a) AS b FROM t")
        session.sql("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM t")
        fork = session.fork(tmp_path / "green")
        assert fork.sql("SELECT slug('X') AS x, mark('X') AS y").to_pylist() == [("x", "X!")]
        fork.udf.register("mark", lambda text: f"{text}?", "string")
        fork.sql("CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT mark(a) AS n FROM t")
        session.swap(fork)
        assert session.sql("SELECT * FROM w").to_pylist() == [("A?",)]
        session.sql("INSERT INTO t VALUES ('B')")
        assert sorted(session.sql("SELECT b, slug('X') AS x FROM v").to_pylist()) == [("a", "x"), ("b", "x")]
        assert session.sql("SELECT mark('X') AS y").to_pylist() == [("X?",)]


def test_streams_go_on_where_the_fork_is(spark, tmp_path):
    files = Files(spark, tmp_path / "in")
    files.put((1, 1), (2, 2))
    with an.Session(path=tmp_path / "blue") as blue:
        follower = Follower(blue.maintain("v", N))
        follow(blue, files)
        green = blue.fork(tmp_path / "green")
        files.put((3, 3))
        follow(green, files)
        follow(blue, files)
        files.put((4, 4))
        follow(green, files)
        blue.swap(green)
        files.put((5, 5))
        assert follow(blue, files).batches == 1
        assert follower.present == rows(blue.view("v")) == Counter((n, n) for n in range(1, 6))
        assert len([*(tmp_path / "blue/streams").iterdir()]) == 1
    with an.Session(path=tmp_path / "blue") as blue:
        view = blue.maintain("v", N)
        files.put((6, 6))
        assert follow(blue, files).batches == 1
        assert rows(view) == Counter((n, n) for n in range(1, 7))


def test_forks_of_forks_and_views_that_nobody_maintains(tmp_path):
    generator = random.Random(3)
    with an.Session(path=tmp_path / "a") as a:
        view = a.maintain("totals", BLUE["totals"])
        a.maintain("log", SHOPS, contents=False)
        fill([a], generator, 2)
        sink = an.sinks.parquet(view, str(tmp_path / "out"), mode="append")
        sink.run()
        b = a.fork(tmp_path / "b")
        b.maintain("totals", GREEN["totals"], replace=True)
        c = b.fork(tmp_path / "c")
        c.maintain("totals", ORDERS.group_by("item").agg(total="min(price)"), replace=True)
        fill([c], generator, 2)
        b.swap(c)
        fill([b], generator, 1)
        wanted = rows(b.view("totals"))
        for _ in range(4):
            a.advance()
        sink.run()
    with an.Session(path=tmp_path / "a") as a:  # in which no view is maintained
        a.swap(b)
        a.advance()
        view = a.view("totals")
        assert a.views == ["totals", "log"]
        sink = an.sinks.parquet(view, str(tmp_path / "out"), mode="append")
        sink.run()
        check_sinks([sink])
        assert set(wanted) <= set(rows(view))
        fill([a], generator, 1)
        sink.run()
        check_sinks([sink])


def test_two_times(tmp_path):
    prices = an.source("prices", "item string, price long", time=("time", "day"))
    with an.Session(path=tmp_path / "blue") as blue:
        view = blue.maintain("v", prices.group_by("item").agg(n="sum(price)"))
        blue.insert("prices", [("tea", 3)], time=(0, 5))
        blue.advance(event=3)
        green = blue.fork(tmp_path / "green")
        green.insert("prices", [("tea", 4)], time=(1, 7))
        green.advance(event=4)
        blue.advance(event=5)
        with pytest.raises(InputError, match=r"advance\(event=\.\.\.\) the fork to those of the store"):
            blue.swap(green)
        green.advance(event=6)
        blue.swap(green)
        blue.advance()
        assert [rows(view, (None, day)) for day in (5, 6, 7)] == [
            Counter([("tea", 3)]),
            Counter([("tea", 3)]),
            Counter([("tea", 7)]),
        ]
        with pytest.raises(InputError):
            blue.insert("prices", [("tea", 4)], time=(blue.lower, 5))


def _swap(at: Path, fatal: int) -> None:
    with an.Session(path=at / "blue") as blue, an.Session(path=at / "green") as green:
        for name, plan in GREEN.items():
            green.maintain(name, plan)
        if fatal:
            arm(str(at), fatal)
        blue.swap(green)
    os._exit(0)


def test_killed_in_front_of_operations_on_files(quick):
    """The store is as before or has the state of the fork; sinks go on either way, each change once."""
    generator = random.Random(5)
    with an.Session(path=quick / "blue") as blue:
        views = {name: blue.maintain(name, plan) for name, plan in BLUE.items()}
        fill([blue], generator, 2)
        for sink in sinks_of(views, quick / "out"):
            sink.run()
        with blue.fork(quick / "green") as green:
            built(green)
            fill([blue, green], generator, 1)
        blue.advance()
        green_rows = None
    context, ends, fatal = multiprocessing.get_context("fork"), set(), 0
    while True:
        fatal += 13
        at = quick / f"at {fatal}"
        for name in ("blue", "green", "out"):
            shutil.copytree(quick / name, at / name)
        process = context.Process(target=_swap, args=(at, fatal))
        process.start()
        process.join()
        with an.Session(path=at / "blue") as blue:
            swapped = "new" in blue.views_stored
            ends.add(swapped)
            views = {name: blue.maintain(name, plan) for name, plan in (GREEN if swapped else BLUE).items()}
            fill([blue], random.Random(6), 2)
            sinks = sinks_of(views, at / "out")
            for sink in sinks:
                sink.run()
            check_sinks(sinks)
            actual = {name: rows(view) for name, view in views.items()}
            for name, view in views.items():
                assert rows(view) == rows(blue.maintain(f"{name} again", (GREEN if swapped else BLUE)[name]))
            if swapped:
                assert green_rows in (None, actual)
                green_rows = actual
            blue.store.vacuum(keep=1)
        assert check_store(at / "blue").problems == ()
        shutil.rmtree(at)
        if process.exitcode != -signal.SIGKILL:
            break
    assert process.exitcode == 0
    assert ends == {False, True}
    assert fatal > 30


def test_what_fails_changes_nothing(tmp_path, monkeypatch):
    with an.Session(path=tmp_path / "blue") as blue:
        views = {name: blue.maintain(name, plan) for name, plan in BLUE.items()}
        fill([blue], random.Random(1), 2)
        green = blue.fork(tmp_path / "green")
        built(green)
        fill([blue, green], random.Random(2), 1)
        before = {name: rows(view) for name, view in views.items()}
        follower = Follower(views["totals"])
        for error in (StoreError("no room"), KeyboardInterrupt()):

            def fail(*_, error=error, **__):
                raise error

            with monkeypatch.context() as patched:
                patched.setattr("altneu.store.log.CommitLog.put", fail)
                with pytest.raises(type(error)):
                    blue.swap(green)
            assert {name: rows(view) for name, view in views.items()} == before
            assert blue.views == [*BLUE]
        fill([blue], random.Random(3), 1)
        assert follower.present == rows(views["totals"])
        green.advance()
        blue.swap(green)
        blue.advance()
        assert follower.present == rows(views["totals"]) == rows(blue.maintain("again", GREEN["totals"]))


def test_refused(tmp_path):
    with an.Session(path=tmp_path / "blue") as blue, an.Session(path=tmp_path / "other") as other, an.Session() as none:
        blue.sql("CREATE TABLE t (a INT); CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        blue.sql(f"CREATE SINK s FROM v INTO PARQUET '{tmp_path}/out'; INSERT INTO t VALUES (1)")
        blue.maintain("totals", BLUE["totals"])
        blue.advance()
        green = blue.fork(tmp_path / "green")
        for session, match in ((other, "is no fork of"), (none, "has no store to fork")):
            with pytest.raises(StoreError, match=match):
                blue.swap(session)
        with pytest.raises(StoreError, match="has no store to fork"):
            none.swap(green)
        with pytest.raises(StoreError, match="is no fork of"):
            green.swap(blue)
        for wrong in (blue, "green"):
            with pytest.raises(PlanError, match="swap needs a session on a fork of this one's store"):
                blue.swap(wrong)
        green.sql(f"CREATE SINK mine FROM v INTO PARQUET '{tmp_path}/mine'")
        with pytest.raises(PlanError, match=r"the fork has the SINK mine, .* DROP SINK mine there"):
            blue.swap(green)
        green.sql("DROP SINK mine; DROP MATERIALIZED VIEW v")
        with pytest.raises(PlanError, match="the SINK s follows view 'v', which the fork does not have"):
            blue.swap(green)
        green.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM t")
        blue.sql("BEGIN; INSERT INTO t VALUES (2)")
        with pytest.raises(StatementError, match="a swap cannot run inside a transaction; COMMIT or ROLLBACK first"):
            blue.swap(green)
        blue.sql("ROLLBACK")
        green.insert("orders", [("tea", 1)])
        with pytest.raises(InputError, match=r"rows of 'orders' wait for a step in .*green: advance, or discard them"):
            blue.swap(green)
        green.discard()
        blue.insert("orders", [("tea", 1)])
        with pytest.raises(InputError, match=r"rows of 'orders' wait for a step in .*blue"):
            blue.swap(green)
        blue.advance()
        green.close()


def test_refused_while_somebody_needs_what_the_fork_does_not_retain(tmp_path):
    with an.Session(path=tmp_path / "blue") as blue:
        view = blue.maintain("totals", BLUE["totals"])
        blue.insert("orders", [("tea", 1)])
        blue.advance()
        green, subscription = blue.fork(tmp_path / "late", lease="1 second"), view.subscribe()
        time.sleep(2.5)  # until the lease of the fork has ended
        for _ in range(3):
            green.advance()
        with pytest.raises(InputError, match="a subscription still needs the changes after time"):
            blue.swap(green)
        subscription.close()
        blue.store.lease(Lease("late", None, 0, int(time.time()) + 100))
        with pytest.raises(InputError, match="late still needs the changes after time 0"):
            blue.swap(green)
        blue.store.lease(Lease("late", None, 100, int(time.time()) + 100))
        blue.swap(green)
    with an.Session(path=tmp_path / "blue") as blue, blue.fork(tmp_path / "ahead") as ahead:
        ahead.maintain("totals", BLUE["totals"])
        ahead.advance()
        with pytest.raises(StorePlanError, match="'totals' must be maintained in its session"):
            blue.swap(ahead)
