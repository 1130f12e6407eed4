"""Commands to sources with a key: random ones against a dictionary of sets, in any steps."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.hashing import hash_bits
from altneu.columnar.rows import Rows
from altneu.operators.source import keyed
from altneu.operators.source.keyed import (
    CALL,
    COMMANDS,
    DELETE,
    DELETE_KEY,
    INSERT,
    INSERT_OR_UPDATE,
    KIND,
    ROW,
    changed,
    command_schema,
    conflicts,
)
from altneu.order import Antichain, Epoch
from altneu.trace.batch import Arranged, Batch, Description, Layout, find_in
from altneu.trace.spine import merge
from altneu.trace.update import Updates
from altneu.types import parse_schema
from tests.operators.support import collect, comparable

LATTICE = Epoch()
USERS = parse_schema("k long, name string, n long")
Command = tuple[int, tuple[Any, ...], int]  # kind, row, time


def commands_of(schema: pa.Schema, commands: list[Command], first: int) -> Updates:
    """Commands in the order given, each in a call of its own or a row of the one before."""
    columns = [[row[i] for _, row, _ in commands] for i in range(len(schema))]
    count = len(commands)
    controls = {KIND: [c[0] for c in commands], CALL: [(first + i) // 3 for i in range(count)]}
    controls[ROW] = [(first + i) % 3 for i in range(count)]
    rows = Rows.from_pydict({**dict(zip(schema.names, columns, strict=True)), **controls}, command_schema(schema))
    shuffled = np.random.default_rng(first).permutation(count)  # the order in which they arrive is no matter
    return Updates(rows, np.array([[c[2] for c in commands]]), np.ones(count, np.int64)).take(shuffled)


class Kept:
    """What is kept between steps, apart or folded."""

    def __init__(self, schema: pa.Schema, key: tuple[str, ...], *, folded: bool) -> None:
        self.schema, self.folded = schema, folded
        self.layout = Layout(schema, key, LATTICE)
        self.old: tuple[Batch, ...] = ()
        self.given = 0

    def step(self, commands: list[Command], upper: int) -> tuple[Updates, Updates]:
        given = commands_of(self.schema, commands, self.given)
        self.given += len(commands)
        new = changed(given, self.old, self.layout, Description.interval(LATTICE, 0, upper))
        errors = conflicts(Arranged(self.layout, self.old, new), "rows")
        self.old = (*self.old, new) if len(new) else self.old
        if self.folded and self.old:
            self.old = tuple(b for b in [merge(self.old, Antichain.of(LATTICE, upper))] if len(b))
        return new.updates(), errors


def obeyed(commands: list[Command], at: list[int]) -> dict[Any, dict[Any, tuple[Any, ...]]]:
    """What a dictionary has after commands: of each key its rows."""
    there: dict[Any, dict[Any, tuple[Any, ...]]] = {}
    for kind, row, _ in commands:
        rows = there.setdefault(comparable([row[i] for i in at]), {})
        if kind in (INSERT_OR_UPDATE, DELETE_KEY):
            rows.clear()
        if kind == DELETE:
            rows.pop(comparable(row), None)
        elif kind != DELETE_KEY:
            rows[comparable(row)] = row
    return there


def check(steps: list[list[Command]], schema: pa.Schema = USERS, key: tuple[str, ...] = ("k",)) -> None:
    """At every time what a dictionary has, in steps as they are and in one, apart and folded."""
    at = [schema.names.index(k) for k in key]
    whole = sorted((c for step in steps for c in step), key=lambda c: c[2])
    for cut, folded in ((steps, False), (steps, True), ([whole], False)):
        kept = Kept(schema, key, folded=folded)
        rows: dict[int, Counter[Any]] = {}
        errors: dict[int, Counter[Any]] = {}
        upper = 0
        for step in cut:
            upper = max([upper, *(t + 1 for _, _, t in step)])
            result, failed = kept.step(step, upper)
            for time, found in collect(result).items():
                rows.setdefault(time, Counter()).update(found)
            for time, found in collect(failed).items():
                errors.setdefault(time, Counter()).update({e[3]: n for e, n in found.items()})
        held: Counter[Any] = Counter()
        failing: Counter[Any] = Counter()
        for now in sorted({t for _, _, t in whole}):
            held.update(rows.pop(now, {}))
            failing.update(errors.pop(now, {}))
            wanted = obeyed([c for c in whole if c[2] <= now], at)
            there = [row for found in wanted.values() for row in found]
            assert {r: n for r, n in held.items() if n} == Counter(there)
            many = [row for found in wanted.values() if len(found) > 1 for row in found.values()]
            assert {r: n for r, n in failing.items() if n} == Counter(keyed.show_row(schema.names, row) for row in many)
        assert not rows
        assert not errors
        if folded:
            assert sum(map(len, kept.old)) == len(there)  # one row a row that is there, and nothing of what is gone


def random_steps(rng: random.Random, steps: int, size: int) -> list[list[Command]]:
    result, time = [], 0
    for _ in range(steps):
        step: list[Command] = []
        for _ in range(rng.randint(0, size)):
            time += rng.random() < 0.3
            row = (rng.choice([1, 2, 3, None]), rng.choice(["a", "b", None]), rng.choice([1, 2]))
            step.append((rng.choice([INSERT, INSERT, DELETE, INSERT_OR_UPDATE, DELETE_KEY]), row, time))
        time += 1
        result.append(step)
    return result


@pytest.mark.parametrize("seed", range(20))
def test_random_commands(seed):
    rng = random.Random(seed)
    check(random_steps(rng, rng.randint(1, 7), 14))


@pytest.mark.parametrize("bits", [1, 3])
def test_collisions_of_hashes_change_nothing(bits):
    for seed in range(6):
        with hash_bits(bits):
            check(random_steps(random.Random(seed), 5, 12))


@pytest.mark.parametrize("key", [("k", "name", "n"), ("n",), ("name", "k")])
def test_keys_of_any_columns(key):
    for seed in range(6):
        check(random_steps(random.Random(seed), 5, 12), key=key)


def test_a_command_reads_the_rows_of_its_keys_and_nothing_else(monkeypatch):
    """As many at a hundred times the rows."""
    read = []

    def counted(batches, hashes, keys):
        result = find_in(batches, hashes, keys)
        read.append(len(result))
        return result

    monkeypatch.setattr(keyed, "find_in", counted)
    for rows in (100, 10_000):
        kept = Kept(USERS, ("k",), folded=True)
        kept.step([(INSERT_OR_UPDATE, (i, "a", 1), 0) for i in range(rows)], 1)
        kept.step([(INSERT_OR_UPDATE, (5, "b", 1), 1), (DELETE_KEY, (7, None, None), 1), (DELETE, (8, "x", 1), 1)], 2)
    assert read == [3, 3]


def test_the_words_for_commands_are_in_the_order_of_their_numbers():
    assert [COMMANDS.index(n) for n in ("insert", "delete", "insert_or_update", "delete_key")] == [
        INSERT,
        DELETE,
        INSERT_OR_UPDATE,
        DELETE_KEY,
    ]
