"""Aggregates: what each takes, what type it gives, and how its final number is read from exact sums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.errors import PlanError, TypeMismatchError, UnknownColumnError, UnsupportedFunctionError
from altneu.operators.kernels.exact_sum import (
    ANYTHING,
    BIT_COUNTS,
    BITS,
    DECIMAL,
    DIGITS,
    DOUBLE,
    INTEGER,
    MINUS_INFINITIES,
    NANS,
    NULLS,
    PLUS_INFINITIES,
    PRODUCT,
    STRIDE,
    beyond,
    bits_of,
    double_sum,
    int128_of,
    magnitude_of,
    scale_divide,
)
from altneu.operators.reduce import moments
from altneu.operators.reduce.calls import Aggregate
from altneu.operators.reduce.moments import moment
from altneu.types import no_key

_SUMS = ("sum", "avg", "try_sum", "try_avg")
_BITS = ("bit_and", "bit_or", "bit_xor")
_RANKS = ("min", "max", "collect_list", "collect_set", "mode", "percentile", "percentile_disc")
FUNCTIONS = ("count", *_SUMS, *_BITS, *_RANKS, *moments.PRODUCTS)

# How a final number is made. The order matters to no one; the kernels below branch on it.
COUNT_ROWS, COUNT_VALUES, SUM_INTEGER, SUM_DECIMAL, SUM_DOUBLE, AVERAGE_DOUBLE, AVERAGE_DECIMAL = range(7)
BIT_AND, BIT_OR, BIT_XOR, MOMENT = range(7, 11)

# What a group is at a moment.
EMPTY, DATA, NEGATIVE, OVERFLOW = 0, 1, 2, 3

# What a group has a row for: some rows, any rows at all or none, sums that are not all zero.
ROWS, ANY, TOTALS = 0, 1, 2

_MOST_DIGITS = 38
_FEW = 16  # values whose marks are counted by Python, as NumPy takes longer
_BIT_COUNTS = moments.PLACE[0, 0]


def result_type(aggregate: Aggregate, schema: pa.Schema) -> pa.DataType:
    """The type of an aggregate over columns of ``schema``, as Spark types it.

    >>> schema = pa.schema([("x", pa.int32()), ("d", pa.decimal128(10, 2))])
    >>> [
    ...     str(result_type(Aggregate(f, (c,), pa.null()), schema))
    ...     for f in ("sum", "avg", "min")
    ...     for c in ("x", "d")
    ... ]
    ['int64', 'decimal128(20, 2)', 'double', 'decimal128(14, 6)', 'int32', 'decimal128(10, 2)']

    Raises:
        UnsupportedFunctionError: the function is not one of ``FUNCTIONS``.
        TypeMismatchError: the function takes no column of that type, or another number of columns.
    """
    if aggregate.function not in FUNCTIONS:
        raise UnsupportedFunctionError(f"no aggregate {aggregate.function!r}; altneu has: {', '.join(FUNCTIONS)}")
    types = [_type_of(name, schema) for name in aggregate.arguments]
    if aggregate.function == "count":
        if aggregate.distinct and not types:
            raise TypeMismatchError("count(distinct *) names no columns; name those whose distinct values it counts")
        if aggregate.distinct and (what := next(filter(None, map(no_key, types)), "")):
            raise TypeMismatchError(f"{aggregate.signature}: {what} cannot be compared; take what you need of them")
        return pa.int64()
    if len(types) != _argument_count(aggregate):
        raise TypeMismatchError(f"{aggregate.signature} takes {_argument_count(aggregate)} columns, not {len(types)}")
    if aggregate.function in _SUMS:
        return _sum_type(aggregate, types[0])
    if aggregate.function == "percentile" and pa.types.is_duration(types[0]):
        return types[0]
    if aggregate.function in (*moments.PRODUCTS, "percentile"):
        if any(t != pa.float64() for t in types):
            raise TypeMismatchError(
                f"{aggregate.signature} takes doubles, not {', '.join(map(str, types))}; cast first"
            )
        return pa.float64()
    if aggregate.function in _BITS and not pa.types.is_signed_integer(types[0]):
        raise TypeMismatchError(f"{aggregate.signature} takes a whole number, not {types[0]}; cast it first")
    if pa.types.is_map(types[0]):
        raise TypeMismatchError(f"{aggregate.signature}: maps have no order; aggregate map_keys or map_values instead")
    return pa.list_(types[0]) if aggregate.function.startswith("collect") else types[0]


def output_fields(aggregates: Sequence[Aggregate], schema: pa.Schema) -> Iterator[pa.Field]:
    """The columns ``#0``, ``#1`` … of aggregates over columns of ``schema``.

    Raises:
        UnsupportedFunctionError, TypeMismatchError: as ``result_type`` says.
    """
    return (pa.field(f"#{i}", result_type(aggregate, schema)) for i, aggregate in enumerate(aggregates))


def _argument_count(aggregate: Aggregate) -> int:
    if aggregate.function == "collect_list":
        return max(len(aggregate.options), 1)
    return 1 + max((place for factors in moments.PRODUCTS.get(aggregate.function, ()) for place in factors), default=0)


def _type_of(name: str, schema: pa.Schema) -> pa.DataType:
    index = schema.get_field_index(name)
    if index < 0:
        raise UnknownColumnError(name, schema.names)
    return schema.field(index).type


def _sum_type(aggregate: Aggregate, type_: pa.DataType) -> pa.DataType:
    kind = number_kind(type_)
    if kind == ANYTHING:
        raise TypeMismatchError(f"{aggregate.signature} takes a number, not {type_}; cast it first")
    if pa.types.is_duration(type_):
        return type_
    summed = aggregate.function in ("sum", "try_sum")
    if kind == DECIMAL:
        more = 10 if summed else 4
        scale = type_.scale + (0 if summed else 4)
        return pa.decimal128(min(type_.precision + more, _MOST_DIGITS), min(scale, _MOST_DIGITS))
    return pa.int64() if summed and kind == INTEGER else pa.float64()


def number_kind(type_: pa.DataType) -> int:
    """How values of a type are summed: INTEGER, DECIMAL or DOUBLE; ANYTHING is only counted."""
    if pa.types.is_signed_integer(type_) or pa.types.is_duration(type_):
        return INTEGER
    if pa.types.is_decimal128(type_):
        return DECIMAL
    return DOUBLE if pa.types.is_float32(type_) or pa.types.is_float64(type_) else ANYTHING


def check_names(names: Sequence[str]) -> None:
    """Refuse output columns of one name.

    Raises:
        PlanError: two columns have the same name.
    """
    for name in names:
        if names.count(name) > 1:
            raise PlanError(f"two output columns are named {name!r}; give one of them another name")


Sums = tuple[int, tuple[int, ...]]
"""What is summed of a group: a kind of sum, and the arguments, by position, whose product it is."""


def sums_of(aggregate: Aggregate, schema: pa.Schema) -> tuple[Sums, ...]:
    """What an aggregate is read from: of each argument its nulls and its sum, and then sums of products or bits.

    >>> schema = pa.schema([("x", pa.float64())])
    >>> sums_of(Aggregate("stddev_pop", ("x",), pa.float64()), schema) == (
    ...     (DOUBLE, (0,)),
    ...     (PRODUCT, (0, 0)),
    ... )
    True
    """
    if aggregate.function == "count":  # of rows on which no argument is null
        return ((ANYTHING, (0,)),) if aggregate.arguments else ()
    own: list[Sums] = []
    for place, name in enumerate(aggregate.arguments):
        summed = aggregate.function in _SUMS or aggregate.function in moments.PRODUCTS
        own.append((number_kind(_type_of(name, schema)) if summed else ANYTHING, (place,)))
    if aggregate.function in _BITS:
        own.append((BIT_COUNTS, (0, 0)))
    return (*own, *((PRODUCT, factors) for factors in moments.PRODUCTS.get(aggregate.function, ())))


# Columns of a finishing table; limits are four digits each: what no sum may reach, and what no result may reach.
HOW, KIND, BASE, FACTOR, SUM_LIMIT, RESULT_LIMIT, TRYING, BASES = 0, 1, 2, 3, 4, 8, 12, 13
TABLE_WIDTH = BASES + moments.WIDTH


def finishing_table(
    aggregates: Sequence[Aggregate], bases: Sequence[Mapping[tuple[int, ...], int]], schema: pa.Schema
) -> Ints:
    """How to read finals from sums, a line an aggregate, as ``finish_one`` takes it.

    ``bases``: for each one the first slot of what ``sums_of`` says it reads. Aggregates that are not read from sums
    get COUNT_ROWS.
    """
    table = np.zeros((len(aggregates), TABLE_WIDTH), np.int64)
    table[:, KIND] = ANYTHING
    table[:, FACTOR] = 1
    for line, aggregate, places in zip(table, aggregates, bases, strict=True):
        line[BASE] = places.get((0,), -1)
        for factors, base in places.items():
            line[BASES + moments.PLACE[factors]] = base
        if aggregate.function not in _RANKS and aggregate.arguments:
            _plan(line, aggregate, schema)
    return table


def _plan(line: Ints, aggregate: Aggregate, schema: pa.Schema) -> None:
    function, result = aggregate.function, result_type(aggregate, schema)
    line[TRYING] = function.startswith("try_")
    if function == "count":
        line[HOW] = COUNT_VALUES
    elif function in _BITS:
        line[HOW] = (BIT_AND, BIT_OR, BIT_XOR)[_BITS.index(function)]
    elif function in moments.NUMBER:
        line[HOW], line[FACTOR] = MOMENT, moments.NUMBER[function]
    else:
        type_ = _type_of(aggregate.arguments[0], schema)
        kind = line[KIND] = number_kind(type_)
        summed = function in ("sum", "try_sum")
        if kind == DECIMAL:
            line[SUM_LIMIT:RESULT_LIMIT] = _digits(10 ** min(type_.precision + 10, _MOST_DIGITS))
            line[RESULT_LIMIT:TRYING] = _digits(10**result.precision)
            line[FACTOR] = 10 ** (result.scale - type_.scale)
            line[HOW] = SUM_DECIMAL if summed else AVERAGE_DECIMAL
        elif summed:
            line[HOW] = SUM_DOUBLE if kind == DOUBLE else SUM_INTEGER
        elif pa.types.is_duration(type_):
            line[SUM_LIMIT:RESULT_LIMIT] = line[RESULT_LIMIT:TRYING] = _digits(2**63)
            line[HOW] = AVERAGE_DECIMAL
        else:
            line[HOW] = AVERAGE_DOUBLE


def _digits(number: int) -> list[int]:
    return [(number >> (32 * i)) & 0xFFFFFFFF for i in range(4)]


@compiled()
def finish_one(line: Ints, sums: Ints, count: int, magnitude: Ints) -> tuple[int, bool, int, int]:
    """Read one final: (DATA, OVERFLOW or NEGATIVE, whether it is not null, low word, high word)."""
    how, kind, base = line[HOW], line[KIND], line[BASE]
    if how == COUNT_ROWS:
        return DATA, True, count, 0
    n = count - sums[base + NULLS]
    if how == COUNT_VALUES:
        return DATA, True, n, 0
    if n == 0:
        return DATA, False, 0, 0
    if how == SUM_DOUBLE:
        return DATA, True, bits_of(double_sum(sums, base, kind, magnitude)), 0
    if how == AVERAGE_DOUBLE:
        return DATA, True, bits_of(double_sum(sums, base, kind, magnitude) / float(n)), 0
    if how == MOMENT:
        wrong, some, value = moment(line[FACTOR], line[BASES:], sums, n)
        return (NEGATIVE if wrong else DATA), some, bits_of(value), 0
    if how in (BIT_AND, BIT_OR, BIT_XOR):
        wrong, low = _bits(how, sums, line[BASES + _BIT_COUNTS] + DIGITS, n)
        return (NEGATIVE if wrong else DATA), True, low, 0
    length, negative = magnitude_of(sums, base, kind, magnitude)
    beyond_range = (OVERFLOW, True) if line[TRYING] == 0 else (DATA, False)
    if how == SUM_INTEGER:
        low, high = int128_of(magnitude, length, negative)
        if length <= 2 and (low == 0 or (low < 0) == negative):
            return DATA, True, low, 0
        return beyond_range[0], beyond_range[1], 0, 0
    if beyond(magnitude, length, line[SUM_LIMIT:RESULT_LIMIT]):
        return beyond_range[0], beyond_range[1], 0, 0
    if how == AVERAGE_DECIMAL:
        length = scale_divide(magnitude, length, line[FACTOR], n)
        if beyond(magnitude, length, line[RESULT_LIMIT:TRYING]):
            return beyond_range[0], beyond_range[1], 0, 0
    low, high = int128_of(magnitude, length, negative)
    return DATA, True, low, high


@compiled()
def _bits(how: int, sums: Ints, start: int, n: int) -> tuple[bool, int]:
    """Whether a bit counts on less than no row or on too many, and the bits that all, some or an odd number have."""
    wrong, word = False, 0
    for i in range(BITS):
        count = sums[start + i]
        wrong |= count < 0 or count > n
        if (how == BIT_AND and count == n) or (how == BIT_OR and count > 0) or (how == BIT_XOR and count & 1):
            word |= 1 << i
    return wrong, word


@compiled()
def group_state(sums: Ints, count: int, kinds: Ints, magnitude: Ints) -> int:
    """EMPTY, DATA, or NEGATIVE when the accumulations show that some row's count is below zero.

    ``sums`` holds the arguments' slots one STRIDE after the other from slot 1 on, ``kinds`` what each argument is.
    """
    if count < 0:
        return NEGATIVE
    for i in range(len(kinds)):
        base = 1 + STRIDE * i
        finite = count
        for special in (NULLS, NANS, PLUS_INFINITIES, MINUS_INFINITIES):
            if sums[base + special] < 0 or sums[base + special] > finite:
                return NEGATIVE
            finite -= sums[base + special]
        if finite == 0 and magnitude_of(sums, base, kinds[i], magnitude)[0] > 0:
            return NEGATIVE
    return DATA if count > 0 else EMPTY


@compiled()
def finals_into(
    finishing: Ints,
    kinds: Ints,
    sums: Ints,
    shown: int,
    states: Ints,
    valid: npt.NDArray[np.bool_],
    words: Ints,
    line: int,
    magnitude: Ints,
) -> None:
    """Write the group's state and finals into line ``line``."""
    if shown == TOTALS:
        count = 1  # of nothing that is counted: none of the sums is null
        states[line] = DATA if _any_sum(sums, kinds, magnitude) else EMPTY
    else:
        count = sums[0]
        states[line] = group_state(sums, count, kinds, magnitude)
    if states[line] == NEGATIVE or (states[line] == EMPTY and shown != ANY):
        return
    states[line] = DATA
    for a in range(len(finishing)):
        state, some, words[0, line, a], words[1, line, a] = finish_one(finishing[a], sums, count, magnitude)
        valid[line, a] = some
        if state != DATA:
            states[line] = NEGATIVE if state == NEGATIVE else OVERFLOW + a
            return


@compiled()
def _any_sum(sums: Ints, kinds: Ints, magnitude: Ints) -> bool:
    """Whether one of the arguments' sums is not zero, or of values that are not finite."""
    for i in range(len(kinds)):
        base = 1 + STRIDE * i
        for special in (NANS, PLUS_INFINITIES, MINUS_INFINITIES):
            if sums[base + special] != 0:
                return True
        if magnitude_of(sums, base, kinds[i], magnitude)[0] > 0:
            return True
    return False


def column_of(type_: pa.DataType, low: Ints, high: Ints, valid: npt.NDArray[np.bool_]) -> pa.Array:
    """An Arrow column from the words of its values.

    >>> column_of(
    ...     pa.decimal128(5, 2), np.array([125, 0]), np.array([0, 0]), np.array([True, False])
    ... ).to_pylist()
    [Decimal('1.25'), None]
    """
    count = low.size
    missing = valid.tolist().count(False) if count < _FEW else count - int(np.count_nonzero(valid))
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little")) if missing else None
    if type_.id == pa.lib.Type_INT64:
        return pa.Array.from_buffers(type_, count, [bitmap, pa.py_buffer(np.ascontiguousarray(low))], missing)
    words = np.ascontiguousarray(np.stack([low, high], axis=1) if pa.types.is_decimal128(type_) else low)
    if pa.types.is_signed_integer(type_):
        words = words.astype(f"i{type_.bit_width // 8}", copy=False)
    return pa.Array.from_buffers(type_, count, [bitmap, pa.py_buffer(words)], missing)
