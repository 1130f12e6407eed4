"""The latest event of each key: random logs, with and without retractions, against maxima taken in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.hashing import hash_bits
from altneu.errors import PlanError
from altneu.operators.kernels.spans import show_row
from altneu.operators.latest.events import RETRACTED_EVENT, current, events, kept_schema, latest
from altneu.order import Antichain, Epoch, Product
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.spine import merge
from altneu.trace.update import Updates
from altneu.types import parse_schema
from tests.operators.support import NAN, Step, collect, comparable, updates_of
from tests.oracle.recompute import rank

LATTICE = Epoch()
LOG = parse_schema("k long, at long, v string")


class Log:
    """Feeds steps of a log to the operator as the engine would: earlier changes as old, apart or folded."""

    def __init__(
        self, schema: pa.Schema = LOG, key: tuple[str, ...] = ("k",), order: tuple[str, ...] = ("at",), *, folded: bool
    ) -> None:
        self.schema, self.order, self.folded = schema, order, folded
        self.layout = Layout(kept_schema(schema), key, LATTICE)
        self.old: tuple[Batch, ...] = ()

    def step(self, step: Step, upper: int) -> tuple[Updates, Updates]:
        described = Description.interval(LATTICE, 0, upper)
        arrived = Batch.build(events(updates_of(self.schema, step), self.layout, None), self.layout, described)
        new = latest(Arranged(self.layout, self.old, arrived), self.order)
        if len(new):
            self.old = (*self.old, new)
        if self.folded and self.old:
            self.old = (merge(self.old, Antichain.of(LATTICE, upper)),)
        return current(new, self.schema, self.order, "latest")

    @property
    def kept(self) -> int:
        return sum(map(len, self.old))


def by_time(steps: list[tuple[Updates, Updates]]) -> tuple[dict[int, Any], dict[int, Any]]:
    """All changes by time: of the rows, and of the texts of the rows that are errors."""
    oks = [collect(rows) for rows, _ in steps]
    errors = [{t: {e[3]: n for e, n in at.items()} for t, at in collect(errs).items()} for _, errs in steps]
    return {t: at for part in oks for t, at in part.items()}, {t: at for part in errors for t, at in part.items()}


def wanted(steps: list[Step], schema: pa.Schema, key: tuple[str, ...], order: tuple[str, ...]) -> Any:
    """What ought to be there from each time on: of each key the greatest update, whether it happened or was retracted.

    With it, the row of each key that the counts of rows say is there, whatever happened to them before.
    """
    names = schema.names
    counts: Counter[Any] = Counter()
    rows: dict[Any, Any] = {}
    said: dict[Any, Any] = {}
    result = {}
    updates = [update for step in steps for update in step]

    def place(row: Any) -> Any:
        values = [row[names.index(n)] for n in (*order, *names)]
        return [(v is not None, 0 if v is None else rank(plain(v))) for v in values]

    for now in sorted({time for _, time, _ in updates}):
        net: Counter[Any] = Counter()
        for row, time, diff in updates:
            if time == now:
                rows[comparable(row)] = row
                net[comparable(row)] += diff
        counts.update(net)
        for text, diff in net.items():
            if diff:
                row = rows[text]
                group = comparable([row[names.index(n)] for n in key])
                said[group] = max(said.get(group, ([], False, None)), (place(row), diff < 0, row), key=lambda s: s[:2])
        there: dict[Any, Any] = {}
        for text, count in counts.items():
            if count > 0:
                group = comparable([rows[text][names.index(n)] for n in key])
                there[group] = max(there.get(group, ([], None)), (place(rows[text]), rows[text]), key=lambda s: s[0])
        result[now] = dict(said), {group: row for group, (_, row) in there.items()}
    return result


def plain(value: Any) -> Any:
    """Nested values as tuples, which ``rank`` knows how to compare."""
    if isinstance(value, dict):
        return tuple(plain(v) for v in value.values())
    if isinstance(value, list | tuple):
        return tuple(plain(v) for v in value)
    return int.from_bytes(value) if isinstance(value, bytes) else value


def check(
    steps: list[Step], schema: pa.Schema = LOG, key: tuple[str, ...] = ("k",), order: tuple[str, ...] = ("at",)
) -> None:
    """At every time, in steps as they are and in one, apart and folded."""
    in_one = [[update for step in steps for update in step]]
    for cut, folded in ((steps, False), (steps, True), (in_one, False)):
        log = Log(schema, key, order, folded=folded)
        uppers = np.maximum.accumulate([max((t for _, t, _ in step), default=0) + 1 for step in cut])
        oks, errors = by_time([log.step(step, int(upper)) for step, upper in zip(cut, uppers, strict=True)])
        held: Counter[Any] = Counter()
        failed: Counter[str] = Counter()
        for now, (said, there) in wanted(steps, schema, key, order).items():
            held.update(oks.pop(now, {}))
            failed.update(errors.pop(now, {}))
            good = [row for _, retracted, row in said.values() if not retracted]
            assert +held == Counter(map(comparable, good))
            assert min(held.values(), default=0) >= 0
            bad = [show_row(schema.names, row) for _, retracted, row in said.values() if retracted]
            assert +failed == Counter(bad)
            assert min(failed.values(), default=0) >= 0
            right = [there[group] for group, (_, retracted, _) in said.items() if not retracted]
            assert list(map(comparable, right)) == list(map(comparable, good))
        assert not oks
        assert not errors
        if folded:
            assert log.kept == len(said)


def random_steps(rng: random.Random, row: Any, steps: int, size: int, *, retracts: bool) -> list[Step]:
    """Steps of events of few keys, delivered twice or later on again, or taken back now and then."""
    result: list[Step] = []
    known: list[Any] = []
    time = 0
    for _ in range(steps):
        step: Step = []
        for _ in range(rng.randint(0, size)):
            time += rng.random() < 0.4
            event = rng.choice(known) if known and rng.random() < 0.3 else row(rng)
            known.append(event)
            step.append((event, time, rng.choice([-2, -1, 1, 1]) if retracts and rng.random() < 0.3 else 1))
            if rng.random() < 0.2:
                step.append((event, time, rng.choice([1, 2, -1]) if retracts else 1))
        rng.shuffle(step)
        time += 1
        result.append(step)
    return result


def event_of(rng: random.Random) -> tuple[Any, ...]:
    return rng.choice([1, 2, 3, None]), rng.choice([None, *range(8)]), rng.choice(["a", "b", None])


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("retracts", [False, True])
def test_random_logs(seed, retracts):
    rng = random.Random(seed)
    check(random_steps(rng, event_of, rng.randint(1, 8), 12, retracts=retracts))


@pytest.mark.parametrize("bits", [1, 3])
def test_collisions_of_hashes_change_nothing(bits):
    for seed in range(4):
        with hash_bits(bits):
            check(random_steps(random.Random(seed), event_of, 5, 10, retracts=True))


VALUES = {
    "string": ["", "a", "ab", "Z", "ä"],
    "double": [NAN, 0.0, -1.5, float("inf"), float("-inf"), 1e-300],
    "int": [-(2**31), -1, 0, 2**31 - 1],
    "decimal(20,3)": [Decimal("-12.345"), Decimal("0.001"), Decimal("99999999999.000")],
    "date": [date(1969, 12, 31), date(1970, 1, 1), date(2400, 2, 29)],
    "timestamp": [
        datetime(1900, 1, 1, tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(2024, 5, 6, 7, tzinfo=UTC),
    ],
    "boolean": [False, True],
    "binary": [b"\x01", b"\x7f", b"\xff"],
    "array<long>": [[], [1], [1, 2], [None], [2]],
    "struct<a: long, b: string>": [{"a": 1, "b": None}, {"a": None, "b": "x"}, {"a": 1, "b": "a"}],
}


@pytest.mark.parametrize("kind", VALUES)
def test_an_order_of_any_type(kind):
    schema = parse_schema(f"k string, at {kind}, v long")
    rng = random.Random(kind)

    def row(rng: random.Random) -> tuple[Any, ...]:
        return rng.choice("xyz"), rng.choice([None, *VALUES[kind]]), rng.choice([None, 1, 2])

    check(random_steps(rng, row, 6, 8, retracts=True), schema)


def test_several_columns_decide_and_several_are_the_key():
    schema = parse_schema("part int, at long, k string, seq long, v long")

    def row(rng: random.Random) -> tuple[Any, ...]:
        return (
            rng.choice([0, 1]),
            rng.choice([1, 2]),
            rng.choice(["a", None]),
            rng.choice([None, 1, 2]),
            rng.choice([0, 1]),
        )

    for seed in range(4):
        check(random_steps(random.Random(seed), row, 5, 10, retracts=True), schema, ("k", "part"), ("seq", "at"))
        check(random_steps(random.Random(seed), row, 5, 6, retracts=True), schema, (), ("at",))
        check(random_steps(random.Random(seed), row, 5, 6, retracts=True), schema, ("k", "at"), ("at",))


def said(*steps: Step) -> list[tuple[dict[int, Any], dict[int, Any]]]:
    """What comes of each step, by time: rows, and rows that are errors."""
    log = Log(folded=False)
    result = []
    for step in steps:
        oks, errors = by_time([log.step(step, max(t for _, t, _ in step) + 1)])
        result.append(({t: dict(rows) for t, rows in oks.items()}, errors))
    return result


OLD, NOW, NEXT = (1, 1, "old"), (1, 2, "now"), (1, 3, "next")


def test_every_time_at_which_the_greatest_changes_has_an_update():
    assert said(
        [(NOW, 4, 1), (OLD, 2, 1), (OLD, 3, 1), (NEXT, 6, 1)], [((1, 2, "new"), 7, 1), ((1, 4, None), 9, 1)]
    ) == [
        ({2: {OLD: 1}, 4: {OLD: -1, NOW: 1}, 6: {NOW: -1, NEXT: 1}}, {}),
        ({9: {NEXT: -1, (1, 4, None): 1}}, {}),
    ]


def test_what_is_late_or_comes_again_says_nothing():
    assert said([(NOW, 0, 1)], [(OLD, 1, 1), (NOW, 1, 3), (NOW, 2, 1)]) == [({0: {NOW: 1}}, {}), ({}, {})]


def test_between_equals_the_whole_row_decides():
    least, middle, most = (1, 2, None), (1, 2, "a"), (1, 2, "b")
    assert said([(most, 0, 1)], [(least, 1, 1), (middle, 2, 1)]) == [({0: {most: 1}}, {}), ({}, {})]
    assert said([(least, 0, 1)], [(most, 1, 1), (middle, 1, 1)]) == [
        ({0: {least: 1}}, {}),
        ({1: {least: -1, most: 1}}, {}),
    ]


def test_what_comes_and_goes_at_one_time_never_was():
    assert said([(NOW, 0, 1), (NEXT, 0, 1), (NEXT, 0, -1)]) == [({0: {NOW: 1}}, {})]


def test_the_current_row_retracted_is_an_error_until_a_greater_one_comes():
    text = show_row(LOG.names, NOW)
    assert said([(OLD, 0, 1), (NOW, 0, 1)], [(NOW, 1, -1)], [(NOW, 2, 1), (OLD, 2, 1)], [(NEXT, 3, 1)]) == [
        ({0: {NOW: 1}}, {}),
        ({1: {NOW: -1}}, {1: {text: 1}}),
        ({}, {}),  # it may have been there once or twice, and now it is there once or not at all
        ({3: {NEXT: 1}}, {3: {text: -1}}),
    ]


def test_a_lesser_row_retracted_changes_nothing():
    assert said([(OLD, 0, 1), (NOW, 0, 1)], [(OLD, 1, -1)], [((1, 0, "never seen"), 1, -1)]) == [
        ({0: {NOW: 1}}, {}),
        ({}, {}),
        ({}, {}),
    ]


def test_a_greater_row_retracted_before_its_insertion_is_an_error_too():
    assert said([(NOW, 0, 1)], [(NEXT, 1, -1)], [(NEXT, 2, 1)]) == [
        ({0: {NOW: 1}}, {}),
        ({1: {NOW: -1}}, {1: {show_row(LOG.names, NEXT): 1}}),
        ({}, {}),
    ]


def test_an_error_says_what_to_do():
    log = Log(folded=False)
    _, errors = log.step([(NOW, 0, -1)], 1)
    ((operator, code, message, row),) = errors.rows.to_pylist()
    assert (operator, code, row) == ("latest", RETRACTED_EVENT, '{"k": 1, "at": 2, "v": "now"}')
    assert "k=1" in message
    assert "a greater at" in message


def test_history_that_is_read_back_is_compacted_before_it_is_checked():
    """Whether a log's arrangement was merged already must not show."""
    layout = Layout(kept_schema(LOG), ("k",), LATTICE)
    updates = updates_of(LOG, [(OLD, 0, 1), (NOW, 1, 1), (NOW, 2, -1), (NEXT, 6, -1)])
    folded = events(updates, layout, Antichain.of(LATTICE, 5))
    new = latest(Arranged(layout, (), Batch.build(folded, layout, Description.interval(LATTICE, 5, 9))), ("at",))
    oks, errors = current(new, LOG, ("at",), "latest")
    assert collect(oks) == {5: {OLD: 1}, 6: {OLD: -1}}
    assert [e[3] for e in collect(errors)[6]] == [show_row(LOG.names, NEXT)]


def test_nothing_new_is_nothing_to_do():
    layout = Layout(kept_schema(LOG), ("k",), LATTICE)
    empty = Batch.empty(layout, Description.interval(LATTICE, 0, 1))
    assert latest(Arranged(layout, (), empty), ("at",)) is empty


def test_times_that_are_partially_ordered_are_refused():
    lattice = Product(Epoch(), Epoch())
    layout = Layout(kept_schema(LOG), ("k",), lattice)
    bounds = Antichain.minimum(lattice)
    with pytest.raises(PlanError, match="latest takes totally ordered times"):
        latest(Arranged(layout, (), Batch.empty(layout, Description(bounds, bounds, bounds))), ("at",))
