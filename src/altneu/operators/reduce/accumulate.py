"""Accumulable aggregates: updates become additive slots, and the slots are all the state there is.

An update ``(row, time, diff)`` becomes updates ``(key columns, slot number)`` whose diffs are amounts: slot 0 takes
the diff, the slots of each argument (``exact_sum``) take its nulls and the digits of its value times the diff. Slots
are an ordinary collection, so an ordinary arrangement keeps them, consolidation adds them up, and a bulk load may
bring sums made elsewhere (``from_partials``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.hashing import Hashes, full_hashes
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.errors import DiffOverflowError, PlanError, SchemaError, UnknownColumnError
from altneu.operators.kernels.exact_sum import (
    ANYTHING,
    DECIMAL,
    DIGITS,
    DOUBLE,
    INTEGER,
    NULLS,
    PRODUCT,
    STRIDE,
    add_bits,
    add_product,
    add_value,
    bump,
    digit_count,
    slots_of_extra,
)
from altneu.operators.kernels.grouping import bucket, group_rows
from altneu.operators.reduce.aggregates import (
    check_names,
    finishing_table,
    number_kind,
    output_fields,
    result_type,
    sums_of,
)
from altneu.operators.reduce.calls import Aggregate
from altneu.order import Lattice
from altneu.order.difference import multiply
from altneu.trace.update import Updates
from altneu.types import quote_name

SLOT = "#slot"
_MOST_SLOTS = 2**15 - 1
_MOST_FACTORS = 4
MOST_ARGUMENTS = _MOST_SLOTS // STRIDE
_WORD = 1 << 32
SUMMED = 28  # digits of a decimal; Spark's sums, of 38 digits, hold 10^10 of them
_SHORT = pa.int16()
_NO_INTS = np.empty(0, np.int64)
_ONE_GROUP = np.zeros(1, np.int64), 1, _NO_INTS, np.array([0, 1])  # of one update, as ``_explode`` reads them
_NO_WORDS = np.empty((0, 0), np.int64), np.empty((0, 0), np.int64), np.empty((0, 0), np.bool_)
_TABLE_SIZE = 1 << 18  # sums that are added up at once: 2 MiB

_SIGNED = {8 * width: np.dtype(f"i{width}") for width in (1, 2, 4, 8)}

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Accumulator:
    """Explodes updates into the slots of accumulable aggregates.

    Each distinct argument column has its slots once, whichever aggregates read it: ``count(x)``, ``sum(x)`` and
    ``avg(x)`` cost what ``sum(x)`` costs. No aggregates at all (only the count of rows) serves distinct, count and
    threshold.

    >>> from altneu.order import Epoch
    >>> accumulator = Accumulator(
    ...     ("k",),
    ...     (Aggregate("sum", ("x",), pa.int64()),),
    ...     pa.schema([("k", pa.string()), ("x", pa.int64())]),
    ... )
    >>> rows = Rows.from_pylist([("a", 5), ("a", -7)], accumulator.schema)
    >>> slots = accumulator.explode(Updates(rows, np.zeros((1, 2), np.int64), np.array([1, 1])), Epoch())
    >>> sorted(zip(slots.rows.to_pylist(), slots.diffs.tolist()))
    [(('a', 0), 2), (('a', 5), -2)]

    Raises:
        PlanError: an aggregate is not accumulable, or there are more than ``MOST_ARGUMENTS`` arguments.
        TypeMismatchError: a function takes no column of that type.
    """

    key: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    schema: pa.Schema

    def __post_init__(self) -> None:
        for name in self.key:
            if self.schema.get_field_index(name) < 0:
                raise UnknownColumnError(name, self.schema.names, "group key")
        for aggregate in self.aggregates:
            if not aggregate.accumulable:
                raise PlanError(f"{aggregate.signature} cannot be kept as sums; reduce_general takes it")
            result_type(aggregate, self.schema)
        check_names(self.output_schema.names)
        if self.slots > _MOST_SLOTS:
            raise PlanError(
                f"{len(self.arguments)} aggregated columns in one group_by; at most {MOST_ARGUMENTS} fit, and fewer "
                "variances and related aggregates; use several"
            )

    @cached_property
    def arguments(self) -> tuple[str, ...]:
        """The distinct argument columns, in order of first use; argument i has its slots from ``1 + STRIDE * i`` on."""
        return tuple(dict.fromkeys(name for a in self.aggregates for name in a.arguments))

    @cached_property
    def kinds(self) -> Ints:
        """What is kept of each argument: digits of its kind, or only its nulls when nobody sums it."""
        kinds = dict.fromkeys(self.arguments, ANYTHING)
        for aggregate in self.aggregates:
            for name, (kind, _) in zip(aggregate.arguments, sums_of(aggregate, self.schema), strict=False):
                kinds[name] = kind if kinds[name] == ANYTHING else kinds[name]
        return np.array(list(kinds.values()), np.int64)

    @cached_property
    def extras(self) -> dict[tuple[int, tuple[str, ...]], int]:
        """Sums of products and counts of bits, each with its first slot: they follow those of the arguments."""
        slot = 1 + STRIDE * len(self.arguments)
        result: dict[tuple[int, tuple[str, ...]], int] = {}
        for aggregate in self.aggregates:
            for kind, factors in sums_of(aggregate, self.schema)[len(aggregate.arguments) :]:
                extra = kind, tuple(aggregate.arguments[place] for place in factors)
                if extra not in result:
                    result[extra] = slot
                    slot += slots_of_extra(kind, len(factors))
        return result

    @cached_property
    def slots(self) -> int:
        """How many slots there are to number."""
        widths = (slots_of_extra(kind, len(columns)) for kind, columns in self.extras)
        return 1 + STRIDE * len(self.arguments) + sum(widths)

    @cached_property
    def slot_hashes(self) -> Hashes:
        """For kernels: the hash of each slot's number, which is what rows of slots are sorted by within a key."""
        slots = pa.array(np.arange(self.slots, dtype=np.int16))
        return full_hashes(Rows(pa.schema([pa.field(SLOT, pa.int16(), nullable=False)]), (slots,), self.slots))

    @cached_property
    def extra_table(self) -> Ints:
        """For the kernel, a line an extra: its kind, the arguments that are its factors (-1: no more)."""
        table = np.full((len(self.extras), 1 + _MOST_FACTORS), -1, np.int64)
        for line, (kind, columns) in zip(table, self.extras, strict=True):
            line[0] = kind
            line[1 : 1 + len(columns)] = [self.arguments.index(c) for c in columns]
        return table

    @cached_property
    def _width(self) -> int:
        """Slots of one group, without the gaps between arguments."""
        own = 1 + sum(DIGITS + digit_count(kind) for kind in self.kinds.tolist())
        return own + sum(slots_of_extra(kind, len(columns)) for kind, columns in self.extras)

    @cached_property
    def finishing(self) -> Ints:
        """How the aggregates are read from the slots (``finishing_table``)."""
        return finishing_table(self.aggregates, [self._bases(a) for a in self.aggregates], self.schema)

    def _bases(self, aggregate: Aggregate) -> dict[tuple[int, ...], int]:
        bases: dict[tuple[int, ...], int] = {}
        for kind, factors in sums_of(aggregate, self.schema):
            columns = tuple(aggregate.arguments[place] for place in factors)
            own = 1 + STRIDE * self.arguments.index(columns[0])
            bases[factors] = own if len(factors) == 1 else self.extras[kind, columns] - DIGITS
        return bases

    @cached_property
    def key_schema(self) -> pa.Schema:
        """The key columns."""
        return pa.schema([self.schema.field(name) for name in self.key])

    @cached_property
    def slot_schema(self) -> pa.Schema:
        """The collection of slots: key columns, then the slot number."""
        return pa.schema([*self.key_schema, pa.field(SLOT, pa.int16(), nullable=False)])

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Key columns, then one column an aggregate."""
        return pa.schema([*self.key_schema, *output_fields(self.aggregates, self.schema)])

    def explode(self, updates: Updates, lattice: Lattice) -> Updates:
        """Turn updates into slots, already added up over equal (key, time).

        Shape:  n updates of ``schema`` in; rows of ``slot_schema`` out, no two of equal (key, slot, time), none zero.
        Cost:   O(n), no exchange, no state; run before an exchange, it sends one set of slots per (key, time).
        Law:    linear: slots of a sum are the sum of slots (tests/operators/test_accumulate.py), for diffs below 2^24
                slot by slot, beyond that in what they add up to.

        Raises:
            DiffOverflowError: a slot leaves the signed 64-bit range.
        """
        count = updates.diffs.size
        if not count:
            return Updates.empty(self.slot_schema, lattice.width)
        keys = updates.rows.select(self.key)
        if count == 1:
            grouped, first = _ONE_GROUP, _ONE_GROUP[0]
        else:
            groups, first = group_rows(keys, updates.times)
            size = max(min(first.size, _TABLE_SIZE // self._width), 1)  # as ``_range_size``
            order, ranges = _NO_INTS, np.array([0, count])
            if size < first.size:
                order, ranges = bucket(groups // size, -(-len(first) // size))
            grouped = groups, first.size, order, ranges
        words = self._words(updates.rows) if self.arguments else _NO_WORDS
        read = self.kinds, self.extra_table, self._width
        (which, numbers, amounts), overflow = _explode(grouped, updates.diffs, read, words)
        slots = numbers.astype(np.int16)
        if overflow:
            raise DiffOverflowError(_OVERFLOW)
        if count == 1 and amounts.size == 1:
            return Updates(self._slots(keys, slots), updates.times, amounts)
        positions = first[which]
        return Updates(self._slots(keys.take(positions), slots), updates.times.take(positions, axis=1), amounts)

    def not_zero(self, slots: Updates) -> Mask:
        """Which slots, of those that are left of a difference, say that some count or sum of their group differs.

        Shape:  updates of ``slot_schema``, no two of equal (key, slot, time).
        Law:    digits that are only written otherwise, as a diff of 2^24 or more has them, say nothing
                (tests/session/test_backfill.py).
        """
        numbers = whole(slots.rows.columns[-1])
        of, places = self._digits
        counts = places[numbers] < 0
        if counts.any():
            return counts
        groups, _ = group_rows(slots.rows.select(self.key), slots.times)
        sums: dict[tuple[int, int], int] = {}
        whose = [*zip(groups.tolist(), of[numbers].tolist(), strict=True)]
        for one, place, amount in zip(whose, places[numbers].tolist(), slots.diffs.tolist(), strict=True):
            sums[one] = sums.get(one, 0) + (amount << 32 * place)
        return np.array([sums[one] != 0 for one in whose], np.bool_)

    @cached_property
    def _digits(self) -> tuple[Ints, Ints]:
        """For each slot the first one of the sum whose digit it is, and the place of the digit; -1 for a count."""
        of, places = np.arange(self.slots), np.full(self.slots, -1, np.int64)
        starts = [(1 + STRIDE * i + DIGITS, digit_count(kind)) for i, kind in enumerate(self.kinds.tolist())]
        products = {e: slot for e, slot in self.extras.items() if e[0] == PRODUCT}
        starts += [(slot, slots_of_extra(kind, len(columns))) for (kind, columns), slot in products.items()]
        for start, count in starts:
            of[start : start + count] = start
            places[start : start + count] = np.arange(count)
        return of, places

    def _slots(self, keys: Rows, slots: npt.NDArray[np.int16]) -> Rows:
        column = pa.Array.from_buffers(_SHORT, slots.size, [None, pa.py_buffer(slots)], 0)
        return Rows(self.slot_schema, (*keys.columns, column), keys.count)

    def _words(self, rows: Rows) -> tuple[Ints, Ints, Mask]:
        """Low words, high words (decimals only) and validity of the arguments, one line each; there is at least one."""
        columns = [rows.column(name) for name in self.arguments]
        low = np.empty((len(columns), rows.count), np.int64)
        high = np.empty((len(columns), rows.count if (self.kinds == DECIMAL).any() else 0), np.int64)
        valid = np.empty((len(columns), rows.count if any(c.null_count for c in columns) else 0), np.bool_)
        read = {name for _, factors in self.extras for name in factors}
        for i, (column, kind) in enumerate(zip(columns, self.kinds.tolist(), strict=True)):
            words_of(column, number_kind(column.type) if self.arguments[i] in read else kind, low[i], high[i])
            if valid.shape[1]:
                valid[i] = valid_of(column)
        return low, high, valid

    def partials(self, prefix: str = "") -> tuple[tuple[str, str], ...] | None:
        """Spark SQL aggregates whose results ``from_partials`` takes, as (name, expression); None if a kind has none.

        Counts and sums of whole numbers and decimals have them; sums of floats do not add up exactly in SQL, nor do
        products. Values of decimals must be less than 10^28 units of their last digit, see ``wide``. With a
        ``prefix``, which begins the names of the columns, the names begin with it too, but for the count of rows.

        >>> accumulator = Accumulator(
        ...     ("k",),
        ...     (Aggregate("sum", ("x",), pa.int64()),),
        ...     pa.schema([("k", pa.string()), ("x", pa.int64())]),
        ... )
        >>> for name, expression in accumulator.partials():
        ...     print(name, "=", expression)
        #rows = count(1)
        #nulls0 = count_if(x is null)
        #low0 = sum(cast(x as bigint) % 4294967296)
        #high0 = sum(cast(x as bigint) div 4294967296)
        """
        if self.extras or DOUBLE in self.kinds:
            return None
        if any(pa.types.is_duration(self.schema.field(n).type) or self._scale_of(n) > SUMMED for n in self.arguments):
            return None
        results = [("#rows", "count(1)")]
        for i, name in enumerate(self.arguments):
            column = quote_name(prefix + name)
            results.append((f"{prefix}#nulls{i}", f"count_if({column} is null)"))
            if self.kinds[i] == DECIMAL:
                total = f"sum(cast({column} as decimal({SUMMED}, {self._scale_of(name)})))"
                results.append((f"{prefix}#sum{i}", total))
            if self.kinds[i] == INTEGER:
                value = f"cast({column} as bigint)"
                results.append((f"{prefix}#low{i}", f"sum({value} % {_WORD})"))
                results.append((f"{prefix}#high{i}", f"sum({value} div {_WORD})"))
        return tuple(results)

    def _scale_of(self, name: str) -> int:
        data_type = self.schema.field(name).type
        return int(data_type.scale) if pa.types.is_decimal(data_type) else 0

    @cached_property
    def wide(self) -> tuple[str, ...]:
        """The decimal arguments that may have more digits than ``partials`` adds up."""
        kinds = zip(self.arguments, self.kinds.tolist(), strict=True)
        return tuple(n for n, kind in kinds if kind == DECIMAL and self.schema.field(n).type.precision > SUMMED)

    def from_partials(self, partials: Rows, time: Sequence[int], diffs: Ints | None = None) -> Updates:
        """Slots at one time from sums made elsewhere, a row a group: key columns and those that ``partials`` names.

        With ``diffs`` each row of a group was there so often.

        Raises:
            PlanError: the aggregates have no partial sums.
            SchemaError: a column is missing.
            DiffOverflowError: a sum times its diff leaves the signed 64-bit range.
        """
        wanted = self.partials()
        if wanted is None:
            raise PlanError("floating-point numbers and products have no exact partial sums; explode the rows instead")
        for name in (*self.key, *(n for n, _ in wanted)):
            if partials.schema.get_field_index(name) < 0:
                raise SchemaError(
                    f"partial sums lack the column {name!r}; make them with the expressions of Accumulator.partials"
                )
        keys = partials.select(self.key)
        positions, slots, amounts = [], [], []
        for name, _ in wanted:
            first, column = _slot_of_partial(name), partials.column(name).fill_null(0)
            for place, sums in enumerate(_digits_of(column) if name.startswith("#sum") else [whole(column)]):
                amount = sums if diffs is None else multiply(sums, diffs)
                at = np.flatnonzero(amount)
                positions.append(at)
                slots.append(np.full(len(at), first + place, np.int16))
                amounts.append(amount[at])
        where = np.concatenate(positions)
        times = np.repeat(np.array(time, np.int64).reshape(-1, 1), len(where), axis=1)
        return Updates(self._slots(keys.take(where), np.concatenate(slots)), times, np.concatenate(amounts))


@dataclass(frozen=True)
class TotalAccumulator(Accumulator):
    """The same without counts of rows and of nulls: the slots of a group are its sums, and nothing where all are zero.

    So they are an abelian group, the free one over digits, in which updates of any sign add up and cancel.
    """

    def explode(self, updates: Updates, lattice: Lattice) -> Updates:
        """The slots of the sums alone."""
        return self._of_sums(super().explode(updates, lattice))

    def from_partials(self, partials: Rows, time: Sequence[int], diffs: Ints | None = None) -> Updates:
        """The same of sums that were made elsewhere."""
        return self._of_sums(super().from_partials(partials, time, diffs))

    def _of_sums(self, slots: Updates) -> Updates:
        numbers = whole(slots.rows.columns[-1])
        counts = (numbers == 0) | ((numbers - 1) % STRIDE == NULLS)
        return slots.filter(~counts) if counts.any() else slots


_OVERFLOW = (
    "a sum left the signed 64-bit range of a slot: more than 2^31 rows of one group, or counts beyond 2^63; "
    "the step is not committed. Group by one column more, and add the groups up in a second step"
)


def _slot_of_partial(name: str) -> int:
    if name == "#rows":
        return 0
    part = name.rstrip("0123456789")
    offset = {"#nulls": NULLS, "#low": DIGITS, "#high": DIGITS + 1, "#sum": DIGITS}[part]
    return 1 + STRIDE * int(name[len(part) :]) + offset


def _digits_of(column: pa.Array) -> list[Ints]:
    """The digits of decimals of 128 bits, the last one with the sign."""
    low, high = np.empty(len(column), np.int64), np.empty(len(column), np.int64)
    words_of(column, DECIMAL, low, high)
    return [low & _WORD - 1, (low >> 32) & _WORD - 1, high & _WORD - 1, high >> 32]


def valid_of(column: pa.Array) -> Mask:
    """Which values are not null."""
    return np.asarray(column.is_valid(), np.bool_)


def whole(column: pa.Array) -> Ints:
    """A signed integer column as int64; the value under a null is undefined."""
    data, start, count = column.buffers()[1], column.offset, len(column)
    if data is None:
        return np.zeros(count, np.int64)
    type_ = _SIGNED[column.type.bit_width]
    return np.frombuffer(data, type_, count, start * type_.itemsize).astype(np.int64, copy=False)


def words_of(column: pa.Array, kind: int, low: Ints, high: Ints) -> None:
    """Write the bits of a number column: low words, and high words of decimals."""
    if kind == INTEGER:
        low[:] = whole(column)
    elif kind == DECIMAL:
        words = _buffer(column, np.dtype(np.int64), 2).reshape(-1, 2)
        low[:], high[:] = words[:, 0], words[:, 1]
    elif kind == DOUBLE:
        values = _buffer(column, np.dtype(f"f{column.type.bit_width // 8}"))
        low[:] = values.astype(np.float64, copy=False).view(np.int64)


def _buffer(column: pa.Array, type_: np.dtype[np.generic], words: int = 1) -> npt.NDArray[np.generic]:
    data = column.buffers()[1]
    if data is None:
        return np.zeros(words * len(column), type_)
    start = column.offset * words
    return np.frombuffer(data, type_)[start : start + len(column) * words]


@compiled()
def _explode(grouped: Any, diffs: Ints, read: Any, words: tuple[Ints, Ints, Mask]) -> tuple[Ints, bool]:
    """Add up the slots of each group: lines group, slot and amount of every slot that is not zero; overflow seen.

    Groups are taken in ranges whose dense table of sums stays in the processor's cache, rows of a range in their own
    order.
    """
    groups, count, order, ranges = grouped
    kinds, extras, width = read
    low, high, valid = words
    bases = np.ones(len(kinds) + 1, np.int64)
    for a in range(len(kinds)):
        bases[a + 1] = bases[a] + DIGITS + digit_count(kinds[a])
    size = _range_size(count, width)
    sums, digits = np.zeros(size * width, np.int64), np.zeros(8, np.int64)
    room = count * (1 + 2 * len(kinds)) + width
    out = np.empty((3, room), np.int64)
    result = 0
    overflow = False
    for r in range(len(ranges) - 1):
        for p in range(ranges[r], ranges[r + 1]):
            i = order[p] if len(order) > 0 else p
            line = (groups[i] - r * size) * width
            overflow |= bump(sums, line, diffs[i])
            for a in range(len(kinds)):
                if valid.shape[1] > 0 and not valid[a, i]:
                    overflow |= bump(sums, line + bases[a] + NULLS, diffs[i])
                else:
                    upper = high[a, i] if high.shape[1] > 0 else 0
                    overflow |= add_value(sums, line + bases[a], kinds[a], low[a, i], upper, diffs[i], digits)
            if len(extras) > 0:
                overflow |= _add_extras(sums, line + bases[-1], extras, low[:, i], valid, i, diffs[i])
        for g in range(r * size, min((r + 1) * size, count)):
            if result + width > out.shape[1]:
                more = np.empty((3, 2 * out.shape[1]), np.int64)
                more[:, :result] = out[:, :result]
                out = more
            result = _emit(sums, (g - r * size) * width, bases, width, g, out, result)
    return out[:, :result], overflow


@compiled()
def _add_extras(sums: Ints, start: int, extras: Ints, words: Ints, valid: Mask, i: int, diff: int) -> bool:
    """Add row ``i`` to the sums of products and the counts of bits; a product with a null is none."""
    overflow = False
    for e in range(len(extras)):
        kind, many, some = extras[e, 0], 0, True
        factors = np.empty(extras.shape[1] - 1, np.int64)
        while many < len(factors) and extras[e, 1 + many] >= 0:
            a = extras[e, 1 + many]
            some &= valid.shape[1] == 0 or valid[a, i]
            factors[many] = words[a]
            many += 1
        if some:
            if kind == PRODUCT:
                overflow |= add_product(sums, start, factors[:many], diff)
            else:
                overflow |= add_bits(sums, start, factors[0], diff)
        start += slots_of_extra(kind, many)
    return overflow


@compiled()
def _range_size(count: int, width: int) -> int:
    return max(min(count, _TABLE_SIZE // width), 1)


@compiled()
def _emit(
    sums: Ints,
    line: int,
    bases: Ints,
    width: int,
    g: int,
    out: Ints,
    count: int,
) -> int:
    """Write the nonzero sums of one group and set them back to zero; the extras follow the last argument's slots."""
    argument = -1
    for at in range(width):
        if argument + 1 < len(bases) and at == bases[argument + 1]:
            argument += 1
        if sums[line + at] != 0:
            out[0, count], out[2, count] = g, sums[line + at]
            out[1, count] = 0 if argument < 0 else 1 + STRIDE * argument + at - bases[argument]
            sums[line + at] = 0
            count += 1
    return count
