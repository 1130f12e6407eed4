"""Arrays as offsets and elements: the moves that the functions on arrays and maps are made of.

Arrow keeps the elements of all rows in one array, so a function on arrays is a function on elements with the number
of their row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.columnar.canonical import canonical
from altneu.errors import TooWideError
from altneu.expressions.limits import MOST_BYTES
from altneu.expressions.vector import Mask, Values, both_valid, validity


class Lists(NamedTuple):
    """Elements of n arrays.

    Shape:  ``offsets`` n + 1 places, so that row i has ``elements[offsets[i] : offsets[i + 1]]``; null rows have
    none. ``valid`` is None
            when no row is null.
    """

    offsets: Values
    elements: pa.Array
    valid: Mask | None

    @property
    def lengths(self) -> Values:
        """Number of elements of every row."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> Values:
        """The row of every element."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.lengths)

    @property
    def places(self) -> Values:
        """The place of every element within its row, from zero."""
        return np.arange(len(self.elements)) - np.repeat(self.offsets[:-1], self.lengths)


def explode(array: pa.Array) -> Lists:
    """Take a list or map array apart (a map's elements are structs of key and value)."""
    valid = validity(array)
    count = len(array)
    if count == 0:
        raw = np.zeros(1, np.int64)
    else:
        raw = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + count + 1].astype(np.int64)
    lengths = np.diff(raw)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    if pa.types.is_map(array.type):
        array = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
    return Lists(offsets_of(lengths), array.flatten(), valid)


def offsets_of(lengths: Values) -> Values:
    """Offsets of rows of given lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _small_offsets(lengths: Values) -> pa.Array:
    """Offsets as Arrow has them, in 32 bits."""
    offsets = offsets_of(lengths)
    if offsets[-1] > MOST_BYTES:
        raise TooWideError(f"{len(lengths)} rows have {offsets[-1]} elements in one column; evaluate fewer at a time")
    return pa.array(offsets.astype(np.int32), pa.int32())


def implode(
    lengths: Values, elements: pa.Array, valid: Mask | None, element_type: pa.DataType | None = None
) -> pa.Array:
    """Put a list array together; null rows have length zero."""
    kind = T.list_type(elements.type if element_type is None else element_type)
    offsets = _small_offsets(lengths)
    mask = None if valid is None else pa.array(~valid)
    return pa.ListArray.from_arrays(offsets, elements, type=kind, mask=mask)


def implode_map(lengths: Values, keys: pa.Array, items: pa.Array, valid: Mask | None, kind: pa.DataType) -> pa.Array:
    """Put a map array together, the entries in the order of their keys."""
    offsets = _small_offsets(lengths)
    mask = None if valid is None else pa.array(~valid)
    return canonical(pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask))


def keep(lists: Lists, mask: Mask) -> pa.Array:
    """The arrays with only those elements whose mask is true."""
    lengths = np.bincount(lists.rows[mask], minlength=len(lists.offsets) - 1)
    return implode(lengths, lists.elements.filter(pa.array(mask)), lists.valid)


def element_at(lists: Lists, index: Values) -> pa.Array:
    """Element at each row's own index from zero; null where there is none."""
    inside = (index >= 0) & (index < lists.lengths)
    place = np.where(inside, lists.offsets[:-1] + index, 0)
    return lists.elements.take(pa.array(place, mask=~inside))


def any_per_row(lists: Lists, mask: Mask) -> Mask:
    """Rows that have an element whose mask is true."""
    return np.bincount(lists.rows[mask], minlength=len(lists.offsets) - 1) > 0


def first_per_row(lists: Lists, mask: Mask) -> Values:
    """Place, from zero, of each row's first element whose mask is true; -1 without one."""
    result = np.full(len(lists.offsets) - 1, -1, np.int64)
    hits = np.flatnonzero(mask)[::-1]
    result[lists.rows[hits]] = lists.places[hits]
    return result


def first_of_each(rows: Values, ranks: Values) -> Mask:
    """Mask of elements that are the first in their row of their value, given by rank."""
    order = np.lexsort((np.arange(len(rows)), ranks, rows))
    first = np.ones(len(rows), np.bool_)
    first[1:] = (rows[order][1:] != rows[order][:-1]) | (ranks[order][1:] != ranks[order][:-1])
    mask = np.empty(len(rows), np.bool_)
    mask[order] = first
    return mask


def concat_arrays(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """Each row's arrays one after another; null when one is null."""
    taken = [explode(p) for p in parts]
    valid: Mask | None = None
    for lists in taken:
        valid = both_valid(valid, lists.valid)
    lengths = np.stack([lists.lengths for lists in taken], axis=1)
    if valid is not None:
        lengths = np.where(valid[:, None], lengths, 0)
    stacked = pa.concat_arrays([lists.elements for lists in taken])
    bases = np.cumsum([0, *(len(lists.elements) for lists in taken)])[:-1]
    starts = (np.stack([lists.offsets[:-1] for lists in taken], axis=1) + bases).reshape(-1)
    flat = lengths.reshape(-1)
    index = np.repeat(starts - np.concatenate([[0], np.cumsum(flat)[:-1]]), flat) + np.arange(flat.sum())
    return implode(lengths.sum(axis=1), stacked.take(pa.array(index)), valid, kind.value_type)


def aligned(parts: Sequence[Lists]) -> tuple[Values, list[pa.Array], Mask | None]:
    """Arrays beside each other, as long as the longest of their row: lengths, elements, and which rows have all."""
    valid: Mask | None = None
    for lists in parts:
        valid = both_valid(valid, lists.valid)
    lengths = np.maximum.reduce([lists.lengths for lists in parts])
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    places = np.arange(len(rows)) - np.repeat(offsets_of(lengths)[:-1], lengths)
    columns = []
    for lists in parts:
        there = places < lists.lengths[rows]
        columns.append(lists.elements.take(pa.array(np.where(there, lists.offsets[rows] + places, 0), mask=~there)))
    return lengths, columns, valid


def reversed_lists(xs: pa.Array) -> pa.Array:
    """Elements of every array in reverse."""
    lists = explode(xs)
    last = np.repeat(lists.offsets[1:] - 1, lists.lengths)
    return implode(lists.lengths, lists.elements.take(pa.array(last - lists.places)), lists.valid)


def compacted(xs: pa.Array) -> pa.Array:
    """Arrays without their nulls."""
    lists = explode(xs)
    return keep(lists, np.asarray(lists.elements.is_valid()))
