"""The order of values, for any type that has one: as int64 codes that compare as the values do, and as words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from altneu.columnar.columns import Kind, children, is_valid, load8, load32, raw
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled

Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
Order = tuple[str, bool, bool]  # column, descending, nulls first

_LOW_BITS = np.int64(2**63 - 1)
SIGN = np.uint64(1 << 63)
_WHOLE = frozenset(getattr(pa.lib, f"Type_{sign}INT{bits}") for sign in ("", "U") for bits in (8, 16, 32, 64))
_NUMBERS = _WHOLE | {pa.lib.Type_FLOAT, pa.lib.Type_DOUBLE}  # of which codes are words, but for a bit


def codes(column: pa.Array) -> Ints:
    """One int64 a value, ordered as the values are (NaN greatest); what stands at a null means nothing.

    Maps compare as the lists of their entries: SQL gives them no order, but ties between rows are decided by it.

    Cost:   O(n) for numbers, dates, times and booleans; one sort for the rest.

    >>> ranked = codes(pa.array([1.5, float("nan"), -2.0, float("inf")]))
    >>> np.argsort(ranked).tolist()
    [2, 0, 3, 1]
    """
    type_ = column.type
    if type_.id in _WHOLE:  # most of what is put in order
        return np.asarray(_filled(column, 0).to_numpy(zero_copy_only=False), np.int64)
    if pa.types.is_floating(type_):
        bits = _filled(column, 0.0).to_numpy(zero_copy_only=False).astype(np.float64).view(np.int64)
        return np.where(bits < 0, bits ^ _LOW_BITS, bits)
    if pa.types.is_boolean(type_):
        return np.asarray(_filled(column, False).to_numpy(zero_copy_only=False), np.int64)
    if pa.types.is_temporal(type_):
        words = pa.int32() if type_.bit_width == 32 else pa.int64()
        return codes(column.view(words))
    if pa.types.is_struct(type_):
        fields = [column.field(i) for i in range(type_.num_fields)]
        lines = [line for field in fields for line in sort_lines(field, descending=False, nulls_first=True)]
        return dense(lines, len(column))
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        return _list_codes(column)
    if pa.types.is_null(type_):
        return np.zeros(len(column), np.int64)
    return pc.rank(column, "ascending", tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)


def _filled(column: pa.Array, value: object) -> pa.Array:
    return column.fill_null(value) if column.null_count else column


def dense(lines: Sequence[Ints], count: int) -> Ints:
    """Ranks of positions by several lines of keys, the first line weighing most; equal keys share a rank."""
    if not lines:
        return np.zeros(count, np.int64)
    order, ranks = np.lexsort(lines[::-1]), np.zeros(count, np.int64)
    ranks[order[1:]] = np.logical_or.reduce([line[order[1:]] != line[order[:-1]] for line in lines]).cumsum()
    return ranks


def _list_codes(column: pa.Array) -> Ints:
    """Lists compare element by element, nulls first, and a list is less than one it begins."""
    offsets, parts = children(column)
    lines = [line for part in parts for line in sort_lines(part, descending=False, nulls_first=True)]
    inner = dense(lines, len(parts[0])).tolist()
    keys = [tuple(inner[a:b]) for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    rank = {key: i for i, key in enumerate(sorted(set(keys)))}
    return np.array([rank[key] for key in keys], np.int64)


def sort_lines(column: pa.Array, *, descending: bool, nulls_first: bool) -> list[Ints]:
    """Lines of keys for a lexicographic sort: one that puts nulls in their place when there are any, and the codes."""
    line = codes(column)
    if descending:
        line = ~line
    if not column.null_count:
        return [line]
    null = np.asarray(column.is_null(), np.bool_)
    line = np.where(null, 0, line)
    return [(~null if nulls_first else null).astype(np.int64), line]


def whole_order(rows: Rows, order: Sequence[Order] = ()) -> list[Ints]:
    """Lines of keys by ``order``, ties decided by every column in turn, ascending, nulls first."""
    named = {name for name, _, _ in order}
    rest: list[Order] = [(name, False, True) for name in rows.schema.names if name not in named]
    return [
        line
        for name, descending, nulls_first in [*order, *rest]
        for line in sort_lines(rows.column(name), descending=descending, nulls_first=nulls_first)
    ] or [np.zeros(rows.count, np.int64)]


def order_text(order: Sequence[Order]) -> str:
    """An order as a reader writes it; what is not said is ascending, and nulls are where Spark puts them.

    >>> order_text((("at", False, True), ("v", True, True)))
    'at, v desc nulls first'
    """
    return ", ".join(
        name + " desc" * descending + (f" nulls {'first' if first else 'last'}" if first == descending else "")
        for name, descending, first in order
    )


def order_words(column: pa.Array, *, descending: bool = False, nulls_first: bool = True) -> Words:
    """One unsigned word a value: of two values with different words, the lesser word's comes first in the order.

    Integers, dates, timestamps, booleans and floats that are not null have equal words only where they are equal. Of
    strings and binary the first 8 bytes count, of structs the first field, decimals beyond 64 bits share a word, lists
    and maps all do, and nulls have the first or the last word, which a value may have, too.

    Cost:   O(n).
    Law:    tests/laws/test_ordered.py (against ``sort_lines``).

    >>> (
    ...     order_words(pa.array([-1, 0, 5])).argsort().tolist(),
    ...     order_words(pa.array(["b", None, "a"])).argsort().tolist(),
    ... )
    ([0, 1, 2], [1, 2, 0])
    """
    words = _words(column)
    if descending:
        words = ~words
    if column.null_count:
        null = np.asarray(column.is_null(), np.bool_)
        words = np.where(null, np.uint64(0) if nulls_first else ~np.uint64(0), words)
    return words


def has_exact_words(kind: pa.DataType) -> bool:
    """Whether values that are not null have equal words only where they are equal."""
    return kind.id in _NUMBERS or pa.types.is_temporal(kind) or pa.types.is_boolean(kind)


def _words(column: pa.Array) -> Words:
    """Words of values in ascending order; what stands at a null means nothing."""
    type_ = column.type
    if type_.id in _NUMBERS:
        return codes(column).view(np.uint64) ^ SIGN
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return _leading_bytes(*raw(column, Kind.BYTES), len(column))
    if pa.types.is_decimal(type_):
        halves = np.frombuffer(column.buffers()[1], np.int64, 2 * len(column), 16 * column.offset).reshape(-1, 2)
        low, high = halves[:, 0], halves[:, 1]
        most = np.where(high < 0, np.iinfo(np.int64).min, np.iinfo(np.int64).max)
        return np.where(high == low >> np.int64(63), low, most).view(np.uint64) ^ SIGN
    if pa.types.is_struct(type_) and type_.num_fields:
        return order_words(column.field(0))
    if pa.types.is_nested(type_) or pa.types.is_null(type_):
        return np.zeros(len(column), np.uint64)
    return codes(column).view(np.uint64) ^ SIGN


@compiled()
def _leading_bytes(data: int, valid: int, offsets: int, offset: int, count: int) -> Words:
    words = np.zeros(count, np.uint64)
    for i in range(count):
        if not is_valid(valid, i + offset):
            continue
        start, stop = load32(offsets + 4 * (i + offset)), load32(offsets + 4 * (i + offset + 1))
        word = np.uint64(0)
        for byte in range(8):
            word <<= np.uint64(8)
            if start + byte < stop:
                word |= np.uint64(load8(data + start + byte))
        words[i] = word
    return words
