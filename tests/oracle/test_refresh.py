"""Views that are computed anew in a step: they show, change and keep what they would by the change."""

from __future__ import annotations

import os
import random
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

import altneu as an
from altneu import Session, algorithms
from altneu.engine import recomputing
from altneu.errors import PlanError, StepFailedError
from altneu.order import Antichain
from altneu.plan.recompute import Recomputable
from altneu.runtime.local import LocalExecutor
from altneu.windows import sliding
from tests.fate import forking, killed
from tests.oracle import delta_joins_cases, killable_refresh, loops_cases, operators_cases
from tests.oracle.full import Fully
from tests.oracle.histories import random_cuts
from tests.oracle.random_plans_cases import Scene
from tests.oracle.runners import Judge, Runner, Sources, contents_of, state_left
from tests.store.support import CHILD

ALL = os.environ.get("ALTNEU_REFRESH") == "all"  # every plan on every runner, some minutes
ITEMS = an.source("items", "item string, kind string")
ORDERS = an.source("orders", "id long, item string, price long")
SHOPS = an.source("shops", "kind string, shop string")
OF_SHOPS = ORDERS.join(ITEMS, on="item").join(SHOPS, on="kind").group_by("shop").agg(n="count(*)", most="max(price)")


def some(runner: Runner, plans: Any, seed: int, quick: int, dear: int) -> list[str]:
    """The names of some plans: a different choice for each runner, few where a step is dear."""
    return (
        [*plans]
        if ALL
        else random.Random(runner.name + str(seed)).sample(
            [*plans], quick if runner.name in ("memory", "shards") else dear
        )
    )


def check(runner: Runner, judge: Judge, names: list[str], sources: Sources, cuts: list[int]) -> None:
    """What views show that are computed anew, against recomputation at every time."""
    fully = Fully()
    judge.run(fully.runner(runner, sources), sources, cuts, names)
    assert fully.recomputed


@pytest.mark.parametrize("retain", [None, "all"])
def test_every_operator(runner: Runner, retain: Any) -> None:
    times = operators_cases.TIMES
    cuts = random_cuts(random.Random(runner.name), times + 1)
    if retain is not None:
        if runner.name != "memory":
            return
        runner = Runner("retaining", lambda _: Session(retain="all", shards=2))
    # The last one is a plan of which something is computed anew, whatever is chosen.
    names = list(dict.fromkeys([*some(runner, operators_cases.PLANS, 1, 12, 3), "count, sum, avg"]))
    check(runner, operators_cases.JUDGE, names, operators_cases.SOURCES, cuts)


def test_loops(runner: Runner) -> None:
    cuts = [2, 3, loops_cases.TIMES + 1]
    check(runner, loops_cases.JUDGE, some(runner, loops_cases.PLANS, 2, 4, 1), loops_cases.SOURCES, cuts)


def test_delta_joins(runner: Runner) -> None:
    for name in some(runner, delta_joins_cases.PLANS, 3, 3, 1):
        judge = delta_joins_cases.judge_of(name)
        check(runner, judge, [name], delta_joins_cases.SOURCES, [1, 4, delta_joins_cases.TIMES + 1])


def test_random_plans_that_share_state(runner: Runner) -> None:
    for seed in range(20 if ALL else 3 if runner.name in ("memory", "shards") else 1):
        Scene(seed).check(Fully().runner(runner))


@pytest.mark.parametrize("retain", [None, 2])
def test_the_changes_are_those_by_the_change(retain: Any) -> None:
    """Updates of every step, and what is shown of the past, are equal one by one."""
    plain = Runner("plain", lambda _: Session(retain=retain, shards=2))
    for name in random.Random(5).sample([*operators_cases.PLANS], 8):
        plans = {name: operators_cases.PLANS[name]}
        given = plans, operators_cases.SOURCES, operators_cases.HISTORY, [2, 3, 5, operators_cases.TIMES + 1]
        assert Fully().runner(plain).run(*given) == plain.run(*given), name


class Shops:
    """Orders of items of kinds that shops have, in a session; what each shop sold is a view."""

    def __init__(self, session: Session, seed: int = 1, **options: Any) -> None:
        self.session, self.rng = session, random.Random(seed)
        self.view = session.maintain("v", OF_SHOPS, **options)
        self.held: dict[str, list[tuple[Any, ...]]] = {"orders": [], "items": [], "shops": []}
        self.got: Counter[Any] = Counter()
        self.view.subscribe(self.change)

    def change(self, row: Any, _time: int, diff: int) -> None:
        self.got[tuple(row)] += diff

    def load(self, n: int) -> None:
        rng = self.rng
        self.put("orders", [(i, f"i{rng.randrange(n)}", rng.randrange(100)) for i in range(4 * n)])
        self.put("items", [(f"i{i}", f"k{i % (n // 4 + 1)}") for i in range(n)])
        self.put("shops", [(f"k{i}", f"s{i % 7}") for i in range(n // 4 + 1)])

    def put(self, source: str, rows: list[tuple[Any, ...]]) -> None:
        self.session.insert(source, rows)
        self.held[source] += rows

    def take(self, source: str, share: float) -> int:
        """Retract so much of a source."""
        held = self.held[source]
        count = int(share * len(held))
        self.session.retract(source, held[:count])
        del held[:count]
        return count

    def swap(self, source: str, share: float) -> None:
        """Rows give others their last value."""
        before = self.held[source][: int(share * len(self.held[source]))]
        self.take(source, share)
        lasts = [row[-1] for row in before]
        self.put(source, [(*row[:-1], last) for row, last in zip(before, lasts[1:] + lasts[:1], strict=True)])

    def expected(self) -> Counter[Any]:
        kinds, shops = dict(self.held["items"]), dict(self.held["shops"])
        sold: dict[str, list[int]] = {}
        for _, item, price in self.held["orders"]:
            if item in kinds and kinds[item] in shops:
                sold.setdefault(shops[kinds[item]], []).append(price)
        return Counter({(shop, len(prices), max(prices)): 1 for shop, prices in sold.items()})

    def check(self) -> None:
        assert contents_of(self.view) == self.expected() == +self.got
        assert not -self.got

    def rows_in(self) -> int:
        """Rows that the operators behind the sources' arrangements have read in the last advance."""
        operators = self.session.explained("v").operators
        return sum(o.last.rows_in for o in operators if o.last and o.kind in ("join", "delta join", "reduce"))


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small a step is, both costs are estimated."""
    monkeypatch.setattr(recomputing, "LEAST_ROWS", 1)


@pytest.mark.usefixtures("looked_at")
@pytest.mark.parametrize("joins", ["binary", "delta"])
def test_the_cheaper_one_is_taken(joins: Any) -> None:
    """What a step reads is bounded by the change while that is small, and by what there is where all changes."""
    for n in (40, 4_000):
        with Session() as session:
            shops = Shops(session, joins=joins)
            shops.load(n)
            session.advance()
            shops.check()
            shops.put("orders", [(-1, "i1", 1000)])
            assert session.advance().recomputed == ()
            assert shops.rows_in() <= 12
            shops.check()
            for source in shops.held:
                shops.swap(source, 1.0)
            step = session.advance()
            assert step.recomputed == ("v",)
            assert shops.rows_in() <= 14 * n
            shops.check()
            shops.take("orders", 0.01)
            assert session.advance().recomputed == ()
            shops.check()
            told = session.explain("v")
            assert "refresh: the last large step: about" in told
            assert told.endswith("computed anew in 1 step")


@pytest.mark.usefixtures("looked_at")
def test_the_settings_are_obeyed() -> None:
    for refresh, recomputed in (("incremental", ()), ("full", ("v",))):
        with Session(shards=2) as session:
            shops = Shops(session, refresh=refresh)
            shops.load(40)
            assert session.advance().recomputed == recomputed
            assert f"refresh={refresh}" in session.explain("v")
            for source in ("orders", "items"):
                shops.swap(source, 1.0)
            assert session.advance().recomputed == recomputed
            shops.check()
            assert session.advance().recomputed == ()  # nothing has changed
            shops.put("orders", [(-1, "i1", 1000)])
            assert session.advance().recomputed == recomputed
            shops.check()
            session.maintain("v", OF_SHOPS, refresh="auto")
            shops.put("orders", [(-2, "i1", 1001)])
            assert session.advance().recomputed == ()
            shops.check()


def test_what_cannot_be_computed_anew_is_refused() -> None:
    with Session() as session:
        with pytest.raises(PlanError, match='refresh must be "auto", "incremental" or "full", got \'never\''):
            session.maintain("v", OF_SHOPS, refresh="never")  # type: ignore[arg-type]
        for plan, why in (
            (ORDERS.filter("price > 3"), "made of rows of sources one by one"),
            (OF_SHOPS.concat(SHOPS.select("shop", n="1L", most="2L")), "made of rows of sources one by one"),
        ):
            with pytest.raises(PlanError, match=f"'w' cannot be refreshed in full: .*{why}"):
                session.maintain("w", plan, refresh="full")
        with pytest.raises(PlanError, match="it has no contents"):
            session.maintain("w", OF_SHOPS, contents=False, refresh="full")
        assert session.views == []
        session.maintain("v", OF_SHOPS)
        session.maintain("the same", OF_SHOPS)
        with pytest.raises(PlanError, match="another view reads its contents"):
            session.maintain("v", OF_SHOPS, refresh="full")


def last(session: Session) -> an.Step:
    return session._engine.past.last(1)[0].step


def test_a_view_of_rows_that_are_not_stored_any_more_says_so() -> None:
    """Orders are not stored once what they are joined with is closed: keep=True of a source would not help."""
    with Session() as session:
        view = session.maintain(
            "v", ORDERS.join(ITEMS, on="item").group_by("kind").agg("max(price) as m"), refresh="full"
        )
        session.insert("items", [("tea", "drink"), ("jam", "food")])
        session.insert("orders", [(1, "tea", 3)])
        assert session.advance().recomputed == ("v",)
        session.close_source("items")
        session.insert("orders", [(2, "jam", 5)])
        assert session.advance().recomputed == ()
        assert sorted(view.to_pylist()) == [("drink", 3), ("food", 5)]
        said = session.explain("v").splitlines()[-1]
        assert "computes nothing anew (refresh=full): rows that it reads are not stored, because the sources" in said


def test_a_setting_is_kept_by_a_store_and_stands_in_sql(tmp_path: Any) -> None:
    create = "CREATE MATERIALIZED VIEW v WITH (REFRESH = {}) AS SELECT a.k, b.v FROM a JOIN b ON a.k = b.k"
    with Session(path=tmp_path) as session:
        session.sql("CREATE TABLE a (k INT)")
        session.sql("CREATE TABLE b (k INT, v INT)")
        session.sql(create.format("FULL"))
        session.sql("INSERT INTO a VALUES (1), (2)")
        session.sql("INSERT INTO b VALUES (1, 2), (2, 3)")
        assert "refresh=full" in session.explain("v")
    with Session(path=tmp_path) as session:
        session.sql("INSERT INTO a VALUES (1)")
        assert last(session).recomputed == ("v",)
        assert sorted(session.view("v").to_pylist()) == [(1, 2), (1, 2), (2, 3)]
        session.sql(create.replace("CREATE", "CREATE OR REPLACE").format("'incremental'"))
        session.sql("INSERT INTO a VALUES (2)")
        assert last(session).recomputed == ()
        with pytest.raises(PlanError, match="refresh must be"):
            session.sql(create.replace("VIEW v", "VIEW w").format("SOMETIMES"))


def test_state_is_what_it_would_be_by_the_change() -> None:
    """Views that come later find it, and steps by the change go on from it, as do other shards."""
    joined = ORDERS.join(ITEMS, on="item").join(SHOPS, on="kind")
    for seed in range(4):
        with Session(shards=2) as session:
            shops = Shops(session, seed, refresh="full")
            shops.load(12)
            session.advance()
            for step in range(3):
                shops.swap(shops.rng.choice(["orders", "items", "shops"]), shops.rng.random())
                shops.take("orders", shops.rng.random() / 2)
                session.maintain("v", OF_SHOPS, refresh=("full", "incremental")[step % 2])
                session.advance()
                shops.check()
            late = session.maintain("late", joined.group_by("kind").agg(n="count(*)"))
            session.reshard(4)
            shops.swap("items", 0.5)
            session.advance()
            shops.check()
            kinds = Counter(dict(shops.held["items"])[item] for _, item, _ in shops.held["orders"])
            assert Counter(dict(late.to_pylist())) == kinds


@pytest.mark.usefixtures("looked_at")
@pytest.mark.parametrize("retain", [None, "all"])
def test_views_that_share_what_they_are_made_of(retain: Any) -> None:
    """A loop, or a sum, that several views are made of is brought up to date once, whatever they do themselves."""
    edges = an.source("edges", "src long, dst long")
    parts = algorithms.connected_components(edges)
    degrees = edges.group_by("src").agg(n="count(*)")
    of_nodes = parts.select("component", src="node")
    plans = {
        "nodes": parts.group_by().agg(n="count(*)"),
        "parts": parts.select("component").distinct().group_by().agg(n="count(*)"),
        "largest": parts.group_by("component").agg(n="count(*)").group_by().agg(n="max(n)"),
        "degrees": degrees.group_by("n").agg(nodes="count(*)"),
        "hubs": degrees.filter("n > 2").join(of_nodes, on="src").group_by("component").agg(n="sum(n)"),
    }
    recomputed = Counter[str]()
    for seed in range(6):
        rng = random.Random(seed)
        names = rng.sample([*plans], 2 + seed % 3) if seed else ["nodes", "parts"]
        with Session(shards=2, retain=retain) as session, Session() as plain:
            held: list[tuple[int, int]] = []
            for step in range(6):
                gone = [edge for edge in held if rng.random() < (0.9, 0.1)[step % 2]]
                new = [(rng.randrange(40), rng.randrange(40)) for _ in range(30)]
                held = [edge for edge in held if edge not in gone] + new
                for name in names:
                    if not step:
                        session.maintain(name, plans[name])
                        plain.maintain(name, plans[name], refresh="incremental")
                    with suppress(PlanError):
                        session.maintain(name, plans[name], refresh=rng.choice(["auto", "incremental", "full"]))
                for one in (session, plain):
                    one.retract("edges", gone)
                    one.insert("edges", new)
                    recomputed.update(one.advance().recomputed)
                for name in names:
                    assert contents_of(session.view(name)) == contents_of(plain.view(name)), (seed, step, name)
    assert recomputed


def test_a_loop_that_another_view_is_made_of_is_not_computed_twice() -> None:
    edges = an.source("edges", "src long, dst long")
    parts = algorithms.connected_components(edges)
    with Session() as session:
        session.maintain("nodes", parts.group_by().agg(n="count(*)"))
        with pytest.raises(PlanError, match="cannot be refreshed in full: it is made of a loop that something else is"):
            session.maintain("parts", parts.select("component").distinct(), refresh="full")


@pytest.mark.parametrize("retain", [None, "all"])
def test_a_loop_of_which_a_variable_is_read_by_nobody(retain: Any) -> None:
    """What only that variable has is computed anew with the loop, and not by the change before."""
    edges, roots = an.source("edges", "src long, dst long", keep=True), an.source("roots", "node long", keep=True)
    steps = edges.distinct()

    def along(nodes: an.Collection) -> an.Collection:
        return nodes.join(steps, on={"node": "src"}).select(node="dst")

    def body(even: an.Collection, odd: an.Collection) -> tuple[an.Collection, an.Collection]:
        return along(odd).concat(roots).distinct(), along(even).distinct()

    even, _ = an.recursive(body, even=roots, odd=roots.filter("false"))
    rng = random.Random(3)
    with Session(retain=retain) as session:
        view = session.maintain("even", even, refresh="full")
        what = session._engine.refreshing.of(session._engine.plan, "even")
        assert isinstance(what, Recomputable)
        assert {*what.kept.arrangements} == {*session._engine.plan.arrangements} - what.arrangements
        session.insert("roots", [(0,)])
        held: list[tuple[int, int]] = []
        for step in range(10):
            session.maintain("even", even, refresh="incremental" if step in (4, 7, 8) else "full")
            gone, held = held[:5], [*held[5:], *((rng.randrange(6), rng.randrange(6)) for _ in range(6))]
            session.retract("edges", gone)
            session.insert("edges", held[-6:])
            session.advance()
            after = {(0, True)}
            while (more := after | {(dst, not e) for node, e in after for src, dst in held if src == node}) != after:
                after = more
            assert contents_of(view) == Counter((node,) for node, is_even in after if is_even), step


@pytest.mark.usefixtures("looked_at")
def test_delays_are_of_the_times_of_rows() -> None:
    """A sum, a join or a function of groups takes over the delay behind it, and is not computed anew for that."""
    sums = OF_SHOPS.delay(by=2)
    joined = ORDERS.join(ITEMS, on="item").delay(every=3)
    for plan in (sums, joined, ITEMS.top_k(1, "item", per="kind").delay(by=1), OF_SHOPS.distinct().delay(by=1)):
        with Session(shards=2) as session, Session() as plain:
            for name, source in (("i", ITEMS), ("o", ORDERS), ("s", SHOPS)):
                session.maintain(name, source)
                plain.maintain(name, source)
            with pytest.raises(PlanError, match="cannot be refreshed in full"):
                session.maintain("v", plan, refresh="full")
            view, same = session.maintain("v", plan), plain.maintain("v", plan, refresh="incremental")
            for step in range(6):
                for one in (session, plain):
                    if step:
                        one.retract("items", [("tea", f"k{step - 1}"), ("jam", "k0")])
                    one.insert("items", [("tea", f"k{step}"), ("jam", "k0")])
                    one.insert("shops", [(f"k{step}", f"s{step % 2}")])
                    one.insert("orders", [(step, "tea", step), (step, "jam", 7)])
                    one.advance()
                assert contents_of(view) == contents_of(same), step


def test_errors_go_where_they_came() -> None:
    """Errors that come of the change go in a step that computes them anew, and the other way round: nothing is left."""
    pairs = an.source("pairs", "a long, b long")
    plan = pairs.distinct().select("a").threshold(lambda n: n)
    rows = [(i, j) for i in range(20) for j in range(i % 3 + 1)]
    with Session(shards=3) as session:
        for come, go in (("full", "incremental"), ("incremental", "full"), ("full", "full")):
            view = session.maintain("v", plan, refresh=come)
            session.retract("pairs", rows)
            session.advance()
            assert view.errors().num_rows
            session.maintain("v", plan, refresh=go)
            session.insert("pairs", rows)
            session.advance()
            assert not [*state_left(session)]


def test_events_that_wait_count_when_they_are_due() -> None:
    """Many events, each at a time of its own, are still one step: none of them alone is a large change."""
    events = an.source("events", "src long, dst long, at long")
    n, week = 2 * recomputing.LEAST_ROWS, 4_000
    edges = sliding(events, "at", week).select("src", "dst").distinct()
    wedges = edges.join(edges, on={"dst": "src"}).select("src", last="right.dst")
    rows = [(i % 97, i * i % 89, i) for i in range(n)]
    with Session() as session:
        session.maintain("edges", edges.group_by().agg(n="count(*)"))
        view = session.maintain("wedges", wedges.group_by().agg(n="count(*)"))
        session.insert("events", rows)
        for at in (n // 2, n - n // 4):
            assert session.advance(to=at + 1).recomputed == ()
            held = {(src, dst) for src, dst, when in rows if at - week < when <= at}
            after = Counter(src for src, _ in held)
            assert view.to_pylist() == [(sum(after[dst] for _, dst in held),)]
        assert session._engine.journal.steps <= 4


def test_what_is_stored_is_not_opened_to_be_told_apart(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver opens no state that tasks have stored, neither to keep former contents nor to count what is due."""
    events = an.source("events", "item string, at long", keep=True)
    plan = sliding(events, "at", 9).distinct().join(ITEMS, on="item").group_by("kind").agg(n="count(*)")
    with Session(path=tmp_path, retain="all") as session:
        session.maintain("v", plan, refresh="full")
        session.insert("items", [("tea", "drink"), ("jam", "food")])
        session.insert("events", [("tea", i) for i in range(50)])
        session.advance(to=3)
    with Session(path=tmp_path, retain="all") as session:
        view, table, opened = session.maintain("v", plan, refresh="full"), session._engine.table, list[set[str]]()

        def watched(self: LocalExecutor, plan: Any, table: Any, *rest: Any) -> Any:
            opened.append({name for name, shard in table.live if (name, shard) in table.stored})
            return whole(self, plan, table, *rest)

        whole = LocalExecutor.step
        monkeypatch.setattr(LocalExecutor, "step", watched)
        assert sum(table.due_of(Antichain.of(table.lattice, 5)).values()) == 2
        assert not table.live
        session.advance(to=5)
        assert view.to_pylist() == [("drink", 5)]
        assert len(opened) == 4
        kept = {
            name
            for name in session._engine.plan.arrangements
            if name not in session._engine.refreshing.of(session._engine.plan, "v").arrangements
        }
        assert opened[0] == set()
        assert opened[1] <= kept


def test_a_step_with_several_times_is_several_steps() -> None:
    with Session(shards=2) as session:
        shops = Shops(session, refresh="full")
        times: list[int] = []
        shops.view.subscribe(lambda _row, time, _diff: times.append(time))
        shops.load(8)
        session.insert("orders", [(-1, "i1", 900)], time=3)
        session.insert("orders", [(-2, "i1", 901)], time=5)
        step = session.advance(to=9)
        shops.held["orders"] += [(-1, "i1", 900), (-2, "i1", 901)]
        assert step.recomputed == ("v",)
        assert sorted({*times}) == [0, 3, 5]
        shops.check()


def test_what_fails_in_between_has_not_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    with Session() as session:
        shops = Shops(session, refresh="full")
        shops.load(8)
        session.advance()
        before = contents_of(shops.view), session.lower, {**session._engine.table.live}
        shops.swap("orders", 1.0)
        steps = []

        def failing(self: LocalExecutor, plan: Any, *rest: Any) -> Any:
            steps.append(plan)
            if len(steps) == 2:
                raise OSError("the disk is full")
            return whole(self, plan, *rest)

        whole = LocalExecutor.step
        with monkeypatch.context() as patched:
            patched.setattr(LocalExecutor, "step", failing)
            with pytest.raises(StepFailedError, match="the disk is full"):
                session.advance()
        assert (contents_of(shops.view), session.lower, session._engine.table.live) == before
        assert {*session._engine.table.layouts} == {*session._engine.plan.arrangements}
        session.advance()
        shops.check()


def test_a_step_that_is_killed_is_whole_or_has_not_happened(quick: Any) -> None:
    with forking(killable_refresh.__file__, CHILD) as runs:
        assert runs(0, quick / "undisturbed") == 0
        wanted = killable_refresh.shown(quick / "undisturbed")
        kills = 0
        for seed in range(1, 3):
            kills += killed(runs, quick / str(seed), seed)
            assert killable_refresh.shown(quick / str(seed)) == wanted
        assert kills > 1
