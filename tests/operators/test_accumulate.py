import pickle
import random
import struct
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.columns import Stack
from altneu.columnar.hashing import hash_bits
from altneu.columnar.rows import Rows
from altneu.errors import DiffOverflowError, PlanError, SchemaError, TypeMismatchError, UnknownColumnError
from altneu.operators.kernels.bitmap import empty_set, following, insert, preceding, remove
from altneu.operators.kernels.exact_sum import (
    DECIMAL,
    DOUBLE,
    INTEGER,
    SCRATCH,
    STRIDE,
    add_value,
    beyond,
    magnitude_of,
    scale_divide,
    to_double,
)
from altneu.operators.kernels.grouping import group_rows
from altneu.operators.reduce.accumulate import MOST_ARGUMENTS, SLOT, Accumulator
from altneu.order import Epoch, Product
from altneu.trace.update import Updates
from tests.operators.support import call, updates_of

SCHEMA = pa.schema(
    [("k", pa.string()), ("j", pa.int32()), ("x", pa.int64()), ("f", pa.float64()), ("d", pa.decimal128(38, 2))]
)
CALLS = (call("count", ()), *(call("sum", (c,)) for c in "xfd"))
ACCUMULATOR = Accumulator(("k", "j"), CALLS, SCHEMA)
EPOCH = Epoch()


def slots(updates: Updates) -> Counter:
    result = Counter()
    for row, time, diff in zip(updates.rows.to_pylist(), updates.times.T.tolist(), updates.diffs.tolist(), strict=True):
        result[(row, tuple(time))] += diff
    return result


def random_updates(rng: random.Random, count: int) -> list:
    def row():
        return (
            rng.choice(["a", "b", "c", None]),
            rng.choice([1, 2, None]),
            rng.choice([None, -(2**63), 2**63 - 1, 5, -5, 2**32]),
            rng.choice([None, 0.1, -1e300, 5e-324, float("inf"), float("nan")]),
            rng.choice([None, Decimal("9" * 36 + ".99"), Decimal("-0.01")]),
        )

    return [(row(), rng.randint(0, 3), rng.choice([1, -1, 3, 2**20])) for _ in range(count)]


@pytest.mark.parametrize("bits", [2, 64])
def test_slots_of_a_sum_are_the_sum_of_slots(bits):
    rng = random.Random(1)
    with hash_bits(bits):
        for _ in range(30):
            updates = random_updates(rng, rng.randint(1, 40))
            whole = slots(ACCUMULATOR.explode(updates_of(SCHEMA, updates), EPOCH))
            assert 0 not in whole.values()
            apart = Counter()
            for update in updates:
                for slot, amount in slots(ACCUMULATOR.explode(updates_of(SCHEMA, [update]), EPOCH)).items():
                    apart[slot] += amount
            assert whole == Counter({slot: amount for slot, amount in apart.items() if amount})


def test_updates_that_cancel_leave_no_slot():
    updates = [(("a", 1, 7, 0.1, Decimal("1.25")), 3, 2), (("a", 1, 7, 0.1, Decimal("1.25")), 3, -2)]
    assert len(ACCUMULATOR.explode(updates_of(SCHEMA, updates), EPOCH)) == 0
    assert len(ACCUMULATOR.explode(updates_of(SCHEMA, []), EPOCH)) == 0


def test_more_groups_than_the_table_of_sums_holds():
    n = 60_000
    rows = Rows(SCHEMA, (
        pa.array([f"k{i % (n - 7)}" for i in range(n)]), pa.array(np.zeros(n, np.int32)), pa.array(np.arange(n)),
        pa.array(np.ones(n)), pa.array([None] * n, SCHEMA.field("d").type),
    ), n)  # fmt: skip
    result = ACCUMULATOR.explode(Updates(rows, np.zeros((1, n), np.int64), np.ones(n, np.int64)), EPOCH)
    actual = {(row[0], row[2]): diff for row, diff in zip(result.rows.to_pylist(), result.diffs.tolist(), strict=True)}
    assert len(actual) == len(result)
    assert sum(diff for (_, slot), diff in actual.items() if slot == 0) == n
    assert actual["k3", 5] == 3 + (n - 4)
    assert ("k0", 0) in actual
    assert actual["k0", 5] == n - 7


def test_every_time_coordinate_tells_groups_apart():
    lattice = Product(Epoch(), Epoch())
    rows = Rows.from_pylist([("a", 1, 2, None, None)] * 4, SCHEMA)
    times = np.array([[0, 0, 1, 0], [0, 1, 0, 1]])
    result = slots(ACCUMULATOR.explode(Updates(rows, times, np.ones(4, np.int64)), lattice))
    assert {time: n for (row, time), n in result.items() if row[2] == 0} == {(0, 0): 1, (0, 1): 2, (1, 0): 1}


def test_rows_are_grouped_by_value_and_in_order_of_first_appearance():
    schema = pa.schema([("a", pa.list_(pa.int64())), ("b", pa.struct([("c", pa.string())]))])
    rng = random.Random(2)
    for bits in (1, 2, 64):
        listed = [
            (rng.choice([None, [], [1], [1, None]]), rng.choice([None, {"c": None}, {"c": "x"}])) for _ in range(60)
        ]
        extra = [rng.randint(0, 1) for _ in listed]
        with hash_bits(bits):
            groups, first = group_rows(Rows.from_pylist(listed, schema), np.array([extra]))
        seen = {}
        expected = [seen.setdefault(repr((row, e)), len(seen)) for row, e in zip(listed, extra, strict=True)]
        assert groups.tolist() == expected
        assert [expected[i] for i in first.tolist()] == list(range(len(seen)))


def test_rows_of_one_hash_are_compared_with_its_first_one_alone(monkeypatch):
    """Whoever chooses values may choose such ones; round by round they would be compared with each other."""
    counts = []
    real = Stack.equal
    monkeypatch.setattr(Stack, "equal", lambda self, a, b: (counts.append(len(a)), real(self, a, b))[1])
    values = [0.0, -0.0, float("nan"), None, *map(float, range(1, 97))] * 2
    with hash_bits(0):
        groups, first = group_rows(
            Rows.from_pylist([(v,) for v in values], pa.schema([("x", pa.float64())])), np.zeros((0, 200), np.int64)
        )
    assert (groups.tolist(), first.tolist()) == ([*range(100)] * 2, [*range(100)])
    assert counts == [200]


def test_an_accumulator_travels():
    again = pickle.loads(pickle.dumps(ACCUMULATOR))  # noqa: S301 -- its own bytes
    updates = updates_of(SCHEMA, random_updates(random.Random(3), 20))
    assert slots(again.explode(updates, EPOCH)) == slots(ACCUMULATOR.explode(updates, EPOCH))


def test_arguments_share_their_slots():
    calls = (call("avg", ("x",)), call("sum", ("x",)), call("count", ("x",)))
    accumulator = Accumulator(("k",), calls, SCHEMA)
    result = accumulator.explode(updates_of(SCHEMA, [(("a", 1, 7, None, None), 0, 1)]), EPOCH)
    assert sorted(result.rows.column(SLOT).to_pylist()) == [0, 5]


def truncated(value: int) -> tuple[int, int]:
    """What Spark's ``%`` and ``div`` by 2^32 give."""
    sign = -1 if value < 0 else 1
    return sign * (abs(value) % 2**32), sign * (abs(value) // 2**32)


def test_partial_sums_computed_elsewhere_are_the_same_slots():
    accumulator = Accumulator(("k",), (call("count", ()), call("sum", ("x",)), call("count", ("f",))), SCHEMA)
    names = [name for name, _ in accumulator.partials()]
    assert names == ["#rows", "#nulls0", "#low0", "#high0", "#nulls1"]
    rng = random.Random(4)
    updates = [(row, 5, 1) for row, _, _ in random_updates(rng, 200)]
    lines = []
    for key in ("a", "b", "c", None):
        group = [row for row, _, _ in updates if row[0] == key]
        halves = [truncated(row[2]) for row in group if row[2] is not None]
        low, high = (sum(h[i] for h in halves) if halves else None for i in (0, 1))
        nulls = [sum(row[i] is None for row in group) for i in (2, 3)]
        lines.append((key, len(group), nulls[0], low, high, nulls[1]))
    partials = Rows.from_pylist(lines, pa.schema([("k", pa.string()), *((name, pa.int64()) for name in names)]))
    result = accumulator.from_partials(partials, (5,))
    assert slots(result) == slots(accumulator.explode(updates_of(SCHEMA, updates), EPOCH))
    with pytest.raises(SchemaError, match="#high0"):
        accumulator.from_partials(partials.select(["k", "#rows", "#nulls0", "#low0", "#nulls1"]), (5,))
    assert ACCUMULATOR.partials() is None
    with pytest.raises(PlanError, match="no exact partial sums"):
        ACCUMULATOR.from_partials(partials, (5,))


@pytest.mark.parametrize(
    ("key", "calls", "error"),
    [
        (("z",), (), UnknownColumnError),
        (("k",), (call("sum", ("z",)),), UnknownColumnError),
        (("k",), (call("sum", ("k",)),), TypeMismatchError),
        (("k",), (call("min", ("x",)),), PlanError),
        (("k",), (call("sum", ("x",), distinct=True),), PlanError),
    ],
)
def test_what_does_not_fit_is_refused_when_the_plan_is_built(key, calls, error):
    with pytest.raises(error):
        Accumulator(key, calls, SCHEMA)


def test_more_arguments_than_slots_are_refused():
    names = [f"x{i}" for i in range(MOST_ARGUMENTS + 1)]
    schema = pa.schema([(name, pa.int64()) for name in names])
    with pytest.raises(PlanError, match="at most"):
        Accumulator((), tuple(call("sum", (n,)) for n in names), schema)
    most = Accumulator((), tuple(call("sum", (n,)) for n in names[:-1]), schema)
    result = most.explode(updates_of(schema, [((2**40,) * len(names), 0, 1)]), EPOCH)
    assert max(result.rows.column(SLOT).to_pylist()) == 1 + STRIDE * (MOST_ARGUMENTS - 1) + 5


def test_a_slot_that_leaves_int64_is_fatal():
    with pytest.raises(DiffOverflowError):
        ACCUMULATOR.explode(updates_of(SCHEMA, [(("a", 1, None, None, None), 0, 2**62)] * 2), EPOCH)


def words(kind: int, value: float) -> tuple[int, int]:
    if kind == DOUBLE:
        return struct.unpack("<q", struct.pack("<d", value))[0], 0
    low, high = value & (2**64 - 1), value >> 64
    return low - 2**64 if low >= 2**63 else low, high


def random_number(rng: random.Random, kind: int) -> float:
    if kind == INTEGER:
        return rng.choice(
            [rng.randint(-(2**63), 2**63 - 1), rng.randint(-9, 9), -(2**63), 2**63 - 1, 2**32, -(2**32) + 1]
        )
    if kind == DECIMAL:
        return rng.choice([rng.randint(-(10**38) + 1, 10**38 - 1), rng.randint(-99, 99), 2**64, -(2**64), 10**38 - 1])
    bits = rng.getrandbits(64) & ~(1 << 62) if rng.random() < 0.5 else rng.getrandbits(62)
    near = [5e-324, 1.7976931348623157e308, -1.7976931348623157e308, 2.0**-1022, -(2.0**53), 0.1, 0.0]
    return rng.choice([struct.unpack("<d", struct.pack("<Q", bits))[0], rng.choice(near)])


@pytest.mark.parametrize("kind", [INTEGER, DECIMAL, DOUBLE])
def test_sums_are_those_of_exact_arithmetic(kind):
    rng = random.Random(5)
    digits, magnitude = np.zeros(8, np.int64), np.zeros(SCRATCH, np.int64)
    limit = np.array([(10**38 >> (32 * i)) & 0xFFFFFFFF for i in range(4)], np.int64)
    for _ in range(600):
        sums = np.zeros(1 + STRIDE, np.int64)
        exact = Fraction(0)
        for _ in range(rng.randint(1, 6)):
            value, diff = random_number(rng, kind), rng.choice([1, -1, 3, -7, 2**24 - 1, 2**24, 2**40 + 7, -(2**62)])
            assert not add_value(sums, 1, kind, *words(kind, value), diff, digits)
            exact += Fraction(value) * diff
        length, negative = magnitude_of(sums, 1, kind, magnitude)
        got = sum(int(magnitude[i]) << (32 * i) for i in range(length)) * (-1 if negative else 1)
        assert got == (exact * 2**1074 if kind == DOUBLE else exact)
        try:
            nearest = float(exact)
        except OverflowError:
            nearest = float("inf") if exact > 0 else float("-inf")
        assert to_double(magnitude, length, negative, kind) == nearest
        if kind != DOUBLE and length:
            assert beyond(magnitude, length, limit) == (abs(got) >= 10**38)
            divisor = rng.choice([1, 3, 7, 2**62 + 3, 2**63 - 1, rng.randint(1, 2**40)])
            length = scale_divide(magnitude, length, 10_000, divisor)
            quotient = sum(int(magnitude[i]) << (32 * i) for i in range(length))
            assert quotient == (2 * abs(got) * 10_000 + divisor) // (2 * divisor)


@pytest.mark.parametrize("size", [1, 64, 65, 5_000, 300_000])
def test_a_set_of_positions_knows_its_neighbours(size):
    rng = random.Random(6)
    bits, levels = empty_set(size)
    held = set()
    for _ in range(300):
        position, probe = rng.randrange(size), rng.randrange(size)
        if position in held:
            remove(bits, levels, position)
        else:
            insert(bits, levels, position)
        held ^= {position}
        assert following(bits, levels, probe) == min((p for p in held if p >= probe), default=-1)
        assert preceding(bits, levels, probe) == max((p for p in held if p <= probe), default=-1)
