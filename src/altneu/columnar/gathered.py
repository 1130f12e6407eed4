"""Rows of several parts at some positions, of which a column is gathered when it is read.

A function of a group often decides by few columns which of the rows that it was given come out, and of wide rows the
others are most of what there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.columns import Mask, Stack
from altneu.columnar.rows import Ints, Rows, positions_of, taken

_AT_ONCE = 64  # rows of which one column takes as long as all, if these are words


class Gathered(Rows):
    """Rows at some positions of a stack; a column is built when it is first read, and stored.

    >>> schema = pa.schema([("a", pa.string()), ("n", pa.int64())])
    >>> parts = [Rows.from_pydict({"a": ["x", "y"], "n": [1, 2]}, schema)] * 2
    >>> rows = Gathered(Stack(parts, schema), np.array([3, 0, 1]))
    >>> rows.take(np.array([1, 0])).to_pylist(), rows.equal(np.array([0, 0]), np.array([1, 2])).tolist()
    ([('x', 1), ('y', 2)], [False, True])
    """

    __slots__ = ("_built", "index", "stack")

    stack: Stack
    index: Ints
    _built: dict[int, pa.Array]

    def __init__(self, stack: Stack, index: Ints) -> None:
        put = object.__setattr__  # the class it extends is frozen
        put(self, "schema", stack.schema)
        put(self, "count", len(index))
        put(self, "stack", stack)
        put(self, "index", index)
        put(self, "_built", {})

    @classmethod
    def of(cls, rows: Rows) -> Gathered:
        """All of some rows, in their order."""
        return rows if isinstance(rows, Gathered) else cls(Stack((rows,), rows.schema), np.arange(rows.count))

    @classmethod
    def both(cls, first: Rows, second: Rows) -> Gathered:
        """Some rows and then others of the same schema; nothing is copied."""
        if not first.count or not second.count:
            return cls.of(first if first.count else second)
        parts, index, total = _parts(first)
        more, other, _ = _parts(second)
        return cls(Stack((*parts, *more), first.schema), np.concatenate([index, other + total]))

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self.schema, self.columns, self.count)

    def _column(self, place: int) -> pa.Array:
        built = self._built.get(place)
        if built is None:
            if self.count <= _AT_ONCE and not self._built and (few := self.stack.take_words(self.index)) is not None:
                self._built.update(enumerate(few))
                return few[place]
            built = self._built[place] = self.stack.take_column(place, self.index)
        return built

    @property
    def columns(self) -> tuple[pa.Array, ...]:
        """All columns, built."""
        if not self._built and self.schema.names and (few := self.stack.take_words(self.index)) is not None:
            self._built.update(enumerate(few))
            return tuple(few)
        return tuple([self._column(place) for place in range(len(self.schema))])

    def column(self, name: str) -> pa.Array:
        """The array of one column."""
        return self._column(self.schema.get_field_index(name))

    def column_at(self, name: str, index: npt.NDArray[np.integer]) -> pa.Array:
        """The values of one column at ``index``; nothing else of it is built."""
        return self.stack.take_column(self.schema.get_field_index(name), self.index[index])

    def gathered(self, name: str, positions: pa.Array) -> pa.Array:
        """The same at positions as ``positions_of`` has them."""
        return self.column_at(name, positions.to_numpy())

    def equal(self, left: Ints, right: Ints) -> Mask:
        """Whether row ``left[k]`` equals row ``right[k]``, for each k; null equals null."""
        return self.stack.equal(self.index[left], self.index[right])

    def take(self, index: npt.NDArray[np.integer]) -> Rows:
        """Rows at ``index``, in that order; columns that are built already are taken of these."""
        result = Gathered(self.stack, self.index[index])
        if self._built:
            positions = positions_of(index)
            result._built.update({place: taken(column, positions) for place, column in self._built.items()})
        return result

    def at(self, index: Ints) -> Gathered:
        """Rows at ``index``, in that order, of which no column is built yet."""
        return Gathered(self.stack, self.index[index])

    def slice(self, start: int, stop: int) -> Rows:
        """Rows ``start`` to ``stop``."""
        return Gathered(self.stack, self.index[start:stop])

    def select(self, names: Sequence[str]) -> Rows:
        """The named columns, in that order, built."""
        index = [self.schema.get_field_index(name) for name in names]
        schema = pa.schema([self.schema.field(i) for i in index])
        return Rows(schema, tuple(self._column(i) for i in index), self.count)

    def built(self) -> Rows:
        """The same as ordinary rows."""
        return Rows(self.schema, self.columns, self.count)


def _parts(rows: Rows) -> tuple[Sequence[Rows], Ints, int]:
    """Of what rows are gathered, where they are in it, and how many rows that has."""
    if isinstance(rows, Gathered):
        return rows.stack.parts, rows.index, rows.stack.total
    return (rows,), np.arange(rows.count), rows.count
