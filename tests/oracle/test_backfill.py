"""Rows given again: right ones fill any late view, wrong ones are refused wherever a view could show the difference."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from altneu import Session
from altneu.errors import InputError
from altneu.plan import ir
from altneu.plan.rewrite import optimise
from tests.oracle.histories import History, accumulated, random_history
from tests.oracle.queries import SOURCES, TABLES, queries
from tests.oracle.recompute import Errors, Multiset, recompute
from tests.oracle.runners import contents_of, errors_of, table_of, unlike

PLANS = queries()
TIMES = 5
ARRIVAL = (ir.Latest, ir.Moments)


def plain(name: str) -> bool:
    """Whether a late view is what it would have been: that of a delay, of changes and of arrivals need not be."""
    nodes = [*ir.walk(PLANS[name].node)]
    return not any(isinstance(n, ARRIVAL) or (isinstance(n, ir.Linear) and n.logic.delay) for n in nodes)


def checked(name: str) -> bool:
    """Whether all that a view keeps first of a source is made of that source alone, so that it can be compared."""
    nodes = [*ir.walk(PLANS[name].node)]
    return plain(name) and not any(isinstance(n, ir.Concat | ir.Result | ir.AsOf) for n in nodes)


LATE = [name for name in PLANS if plain(name)]
FIRST = [name for name in LATE if checked(name)]


class Life:
    """A session in which views come late: memory or a store that is opened again and again, some shards."""

    def __init__(self, seed: int, folder) -> None:
        self.rng = random.Random(seed)
        self.history: History = random_history(self.rng, TABLES, 4, TIMES, 3)
        self.path = folder / f"{seed}" if self.rng.random() < 0.5 else None
        self.session = Session(path=self.path, shards=self.rng.choice([1, 3]), memory=self.rng.choice([None, "1m"]))
        self.views: dict[str, object] = {}

    def maintain(self, name: str) -> None:
        self.views[name] = self.session.maintain(name, PLANS[name])

    def advance(self, to: int) -> None:
        lower = self.session.lower
        for source in self.session.sources:
            part = [u for u in self.history[source] if lower <= u[1] < to]
            self.session.insert(source, table_of(part, SOURCES[source]), time="time", diff="diff")
        self.session.advance(to=to)

    def reopened(self) -> None:
        if self.path is not None:
            self.session.close()
            self.session = Session(path=self.path)
            for name in self.views:
                self.maintain(name)

    def held(self, time: int) -> dict[str, Multiset]:
        return {source: accumulated(updates, time) for source, updates in self.history.items()}

    def meaning(self, name: str, held: dict[str, Multiset]) -> tuple[Multiset, Errors]:
        return recompute(optimise(PLANS[name].node), held, self.session.lower - 1, self.held)

    def check(self) -> None:
        for name, view in self.views.items():
            wanted, errors = self.meaning(name, self.held(self.session.lower - 1))
            wrong = unlike(contents_of(view), Counter({row: n for row, n in wanted.items() if n > 0}))
            assert not wrong, f"{name} (found, wanted): {wrong}"
            if all(n > 0 for n in wanted.values()):
                assert errors_of(view) == errors, name

    def state(self):
        """All that a refusal leaves as it is."""
        session = self.session
        shown = {name: contents_of(view) for name, view in self.views.items()}
        sizes = {name: rows for name, (rows, _) in session._engine.table.sizes().items()}
        return (
            session.store.number,
            session.lower,
            session.sources,
            session._engine.plan,
            session._engine.journal.kept,
            sizes,
            shown,
        )

    def give(self, source: str, rows: Multiset) -> None:
        """Rows in one of the forms that they may have."""
        table = table_of([(row, 0, n) for row, n in rows.items()], SOURCES[source]).drop("time")
        given = table if self.rng.random() < 0.5 else table.to_pylist()
        self.session.backfill(source, given, diff="diff")

    def wrong(self, source: str, rows: Multiset) -> Multiset:
        """Rows of which one is more or less, or is another."""
        counts = Counter(rows)
        row = TABLES[source](self.rng, self.rng.randrange(4))
        there = self.rng.choice([*rows]) if rows else row
        match self.rng.randrange(3):
            case 0:
                counts[there] -= 1
            case 1:
                counts[row] += 1
            case 2:
                counts[there] -= 1
                counts[row] += 1
        return Counter({r: n for r, n in counts.items() if n})


@pytest.mark.parametrize("seed", range(8))
def test_late_views_of_rows_given_again(seed, tmp_path):
    life = Life(seed, tmp_path)
    for name in life.rng.sample(FIRST, 3):
        life.maintain(name)
    life.advance(2)
    life.advance(3)
    life.reopened()
    for source in [*life.session.sources]:
        now = life.held(2)[source]
        for _ in range(4):
            try_wrong(life, source, now, life.wrong(source, now))
        life.give(source, now)
        life.give(source, now)  # what is kept is compared, and that is all
    life.reopened()
    if life.rng.random() < 0.3:
        life.session.reshard(life.session.shards * 2)
    able = [name for name in LATE if {*sources_of(name)} <= {*life.session.sources}]
    for name in life.rng.sample(able, min(6, len(able))):
        life.maintain(name)
    life.check()
    life.advance(4)
    life.reopened()
    life.advance(TIMES)
    life.check()
    life.session.close()


def sources_of(name: str) -> list[str]:
    return [n.name for n in ir.walk(PLANS[name].node) if isinstance(n, ir.Source)]


def try_wrong(life: Life, source: str, right: Multiset, wrong: Multiset) -> None:
    """They are refused and nothing has changed; or no view shows anything else with them."""
    if wrong == right:
        return
    before = life.state()
    if (error := refused(life, source, wrong)) is not None:
        assert f"source '{source}'" in str(error)
        assert life.state() == before
        life.check()
        return
    for name in life.views:
        if source in sources_of(name):
            right_rows, wrong_rows = (life.meaning(name, {**life.held(2), source: rows})[0] for rows in (right, wrong))
            assert not unlike(right_rows, wrong_rows), f"{name} tells them apart"
    life.session.drop_source(source)


def refused(life: Life, source: str, rows: Multiset) -> InputError | None:
    try:
        life.give(source, rows)
    except InputError as error:
        return error
    return None


def test_wrong_rows_are_found_by_most_plans(tmp_path):
    """Else the test above would say nothing."""
    actual = tried = 0
    for seed in range(100, 106):
        life = Life(seed, tmp_path)
        for name in life.rng.sample(FIRST, 2):
            life.maintain(name)
        life.advance(3)
        for source in [*life.session.sources]:
            now = life.held(2)[source]
            for _ in range(4):
                tried += 1
                if refused(life, source, life.wrong(source, now)):
                    actual += 1
                else:
                    life.session.drop_source(source)
        life.session.close()
    assert actual > tried / 3
    assert len(LATE) > len(FIRST) > 20
