"""Lattices of times over int64 columns.

A lattice is an immutable, hashable, picklable value. Its times are held in arrays of shape ``(width, n)``, one line per
column and one time per position, and every operation acts on all positions at once; ``(width, 1)`` broadcasts against
``(width, n)``. Two times are equal exactly when all their columns are.

=================================== ======================================== ============ ==============
lattice                             columns                                  ``is_total`` ``is_columnwise``
=================================== ======================================== ============ ==============
``Epoch()``                         the epoch                                yes          yes
``AltNeu(T)``, T total              ``2 * t + flag``, one column             yes          yes
``AltNeu(T)``, T partial            the columns of T, then the flag          no           no
``Product(T1, T2, ...)``            the columns of T1, then of T2, ...       one factor   if every T is
=================================== ======================================== ============ ==============

*Columnwise* lattices are products of chains: ``<=`` holds when it holds in every column, join and meet are the greater
and the lesser of each column, and the lattice is distributive. ``AltNeu`` over a partial order is a lattice but not
distributive, so nothing here or above may rely on distributivity for it.

A time is never compared by ``<`` or ``<=``: on a partial order these would be read as a total one. The linear extension
(``sort_keys``) is a total order that agrees with the partial one; it serves sorting and nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from altneu.errors import TimeRangeError

Times = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Moment:
    """One of the two moments of a time: ``alt(t)``, then ``neu(t)``. The Python form of a time of ``AltNeu``.

    >>> neu((0, 1)), alt(3) == Moment(3, is_neu=False)
    (neu((0, 1)), True)
    """

    time: object
    is_neu: bool

    def __repr__(self) -> str:
        return f"{'neu' if self.is_neu else 'alt'}({self.time!r})"


def alt(time: object) -> Moment:
    """The earlier moment of ``time``."""
    return Moment(time, is_neu=False)


def neu(time: object) -> Moment:
    """The later moment of ``time``."""
    return Moment(time, is_neu=True)


class Lattice(ABC):
    """A partial order of times with join, meet and a least element.

    The methods here serve every columnwise lattice; the others override ``_less_equal``, ``_join`` and ``_meet``.

    Shape:  every ``a``, ``b`` and ``times`` is int64 ``(width, n)``; ``n`` may be 1 on either side (broadcast).
    Cost:   O(n) vectorised; one to three microseconds for a few times of a total order.
    Law:    partial order, least upper bound, greatest lower bound, linear extension (tests/laws/test_order.py).
    """

    width: int
    is_total: bool
    is_columnwise: bool

    def __hash__(self) -> int:
        """Of the repr, which says all that makes lattices equal; worked out once, for plans are asked by it."""
        value: int | None = self.__dict__.get("_hash")
        if value is None:
            value = hash(repr(self))
            self.__dict__["_hash"] = value
        return value

    def __getstate__(self) -> dict[str, object]:
        """Without derived attributes, which another process computes again."""
        return {name: value for name, value in self.__dict__.items() if not name.startswith("_")}

    def less_equal(self, a: Times, b: Times) -> Mask:
        """``a <= b`` in the partial order, position by position, as bool ``(n,)``."""
        if self.is_total:
            mask: Mask = a[0] <= b[0]
            return mask
        if self.is_columnwise:
            return np.asarray((a <= b).all(axis=0))
        return self._less_equal(a, b)

    def less_than(self, a: Times, b: Times) -> Mask:
        """``a <= b`` and ``a != b``, position by position."""
        if self.is_total:
            mask: Mask = a[0] < b[0]
            return mask
        differ: Mask = (a != b).any(axis=0)
        return self.less_equal(a, b) & differ

    def equal(self, a: Times, b: Times) -> Mask:
        """The same time on both sides, position by position."""
        return np.asarray((a == b).all(axis=0))

    def join(self, a: Times, b: Times) -> Times:
        """The least upper bound, position by position, as ``(width, n)``."""
        return np.maximum(a, b) if self.is_columnwise else self._join(a, b)

    def meet(self, a: Times, b: Times) -> Times:
        """The greatest lower bound, position by position, as ``(width, n)``."""
        return np.minimum(a, b) if self.is_columnwise else self._meet(a, b)

    def sort_keys(self, times: Times) -> tuple[Times, ...]:
        """The linear extension as int64 columns, the most significant FIRST (``np.lexsort`` wants the reverse).

        Law:    t <= s and t != s imply that t sorts strictly before s; different times never tie.
        """
        return tuple(times)

    def minimum(self) -> Times:
        """The least time, as ``(width, 1)``."""
        return np.zeros((self.width, 1), np.int64)

    def maximum(self) -> Times:
        """The greatest time the columns can hold, as ``(width, 1)``."""
        return np.full((self.width, 1), LARGEST, np.int64)

    def from_pylist(self, values: Iterable[object]) -> Times:
        """Python values as times ``(width, n)``.

        Raises:
            TimeRangeError: a value is not a time of this lattice.
        """
        columns = [self.encode(value) for value in values]
        return np.array(columns, np.int64).reshape(len(columns), self.width).T

    def from_python(self, value: object) -> Times:
        """One Python value as a time ``(width, 1)``: an int, a tuple, ``alt(t)`` or ``neu(t)``, as the lattice nests.

        Raises:
            TimeRangeError: the value is not a time of this lattice.
        """
        return np.array(self.encode(value), np.int64).reshape(self.width, 1)

    def to_pylist(self, times: Times) -> list[object]:
        """Times ``(width, n)`` as Python values."""
        return [self.decode(column) for column in zip(*times.tolist(), strict=True)]

    def to_python(self, time: Times) -> object:
        """One time, ``(width,)`` or ``(width, 1)``, as a Python value."""
        return self.decode(tuple(time.reshape(self.width).tolist()))

    def format(self, time: Times) -> str:
        """One time as text for messages."""
        return repr(self.to_python(time))

    def _less_equal(self, a: Times, b: Times) -> Mask:
        raise NotImplementedError(f"{self!r} is columnwise")

    def _join(self, a: Times, b: Times) -> Times:
        raise NotImplementedError(f"{self!r} is columnwise")

    def _meet(self, a: Times, b: Times) -> Times:
        raise NotImplementedError(f"{self!r} is columnwise")

    @abstractmethod
    def encode(self, value: object) -> tuple[int, ...]:
        """One Python value as columns."""

    @abstractmethod
    def decode(self, columns: tuple[int, ...]) -> object:
        """Columns as one Python value."""


@dataclass(frozen=True)
class Epoch(Lattice):
    """The natural numbers in their order: ticks, batches, steps.

    >>> Epoch().to_pylist(Epoch().join(Epoch().from_pylist([1, 5]), Epoch().from_python(3)))
    [3, 5]
    """

    __hash__ = Lattice.__hash__  # which a dataclass would replace

    width: int = field(default=1, init=False, repr=False, compare=False)
    is_total: bool = field(default=True, init=False, repr=False, compare=False)
    is_columnwise: bool = field(default=True, init=False, repr=False, compare=False)

    def encode(self, value: object) -> tuple[int, ...]:
        """A whole number that is not negative, as itself."""
        is_whole = value.__class__ is int or (isinstance(value, (int, np.integer)) and not isinstance(value, bool))
        if not is_whole or not 0 <= value <= LARGEST:  # type: ignore[operator]  # mypy does not see the first test
            raise TimeRangeError(f"an epoch must be a whole number from 0 to 2^63 - 1, got {value!r}")
        return (int(value),)  # type: ignore[call-overload]

    def decode(self, columns: tuple[int, ...]) -> object:
        """The epoch as an int."""
        return columns[0]


@dataclass(frozen=True, init=False)
class Product(Lattice):
    """Tuples of times, ordered when every coordinate is.

    >>> plane = Product(Epoch(), Epoch())
    >>> a, b = plane.from_python((0, 1)), plane.from_python((1, 0))
    >>> bool(plane.less_equal(a, b)[0]), bool(plane.less_equal(b, a)[0])
    (False, False)
    >>> plane.format(plane.join(a, b)), plane.format(plane.meet(a, b))
    ('(1, 1)', '(0, 0)')
    """

    __hash__ = Lattice.__hash__  # which a dataclass would replace

    factors: tuple[Lattice, ...]
    width: int = field(repr=False, compare=False)
    is_total: bool = field(repr=False, compare=False)
    is_columnwise: bool = field(repr=False, compare=False)

    def __init__(self, *factors: Lattice) -> None:
        if not factors or not all(isinstance(factor, Lattice) for factor in factors):
            raise TypeError(f"Product needs one or more lattices, such as Product(Epoch(), Epoch()), got {factors!r}")
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "width", sum(factor.width for factor in factors))
        object.__setattr__(self, "is_total", len(factors) == 1 and factors[0].is_total)
        object.__setattr__(self, "is_columnwise", all(factor.is_columnwise for factor in factors))

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.factors))})"

    def coordinate(self, times: Times, index: int) -> Times:
        """The columns of factor ``index``, as times of that factor (a view)."""
        start = sum(factor.width for factor in self.factors[:index])
        return times[start : start + self.factors[index].width]

    def _less_equal(self, a: Times, b: Times) -> Mask:
        return np.logical_and.reduce(
            [f.less_equal(self.coordinate(a, i), self.coordinate(b, i)) for i, f in enumerate(self.factors)]
        )

    def _join(self, a: Times, b: Times) -> Times:
        return np.concatenate(
            [f.join(self.coordinate(a, i), self.coordinate(b, i)) for i, f in enumerate(self.factors)]
        )

    def _meet(self, a: Times, b: Times) -> Times:
        return np.concatenate(
            [f.meet(self.coordinate(a, i), self.coordinate(b, i)) for i, f in enumerate(self.factors)]
        )

    def maximum(self) -> Times:
        """The greatest times of all factors."""
        return np.concatenate([factor.maximum() for factor in self.factors])

    def encode(self, value: object) -> tuple[int, ...]:
        """A tuple with one value a factor, as the columns of all."""
        if not isinstance(value, (tuple, list)) or len(value) != len(self.factors):
            raise TimeRangeError(f"a time of {self!r} must be a tuple of {len(self.factors)}, got {value!r}")
        return tuple(c for factor, part in zip(self.factors, value, strict=True) for c in factor.encode(part))

    def decode(self, columns: tuple[int, ...]) -> object:
        """A tuple with one value a factor."""
        parts, start = [], 0
        for factor in self.factors:
            parts.append(factor.decode(columns[start : start + factor.width]))
            start += factor.width
        return tuple(parts)


@dataclass(frozen=True, init=False)
class Rounds(Product):
    """The times of ``outer`` inside ``depth`` loops: with a round for each, the outermost first.

    >>> Rounds(Epoch(), 2).to_pylist(Rounds(Epoch(), 2).minimum())
    [(0, 0, 0)]
    """

    __hash__ = Lattice.__hash__  # which a dataclass would replace

    outer: Lattice
    depth: int

    def __init__(self, outer: Lattice, depth: int) -> None:
        super().__init__(outer, *[Epoch()] * depth)
        object.__setattr__(self, "outer", outer)
        object.__setattr__(self, "depth", depth)

    def __repr__(self) -> str:
        return f"Rounds({self.outer!r}, {self.depth})"


def outside(lattice: Lattice) -> tuple[Lattice, int]:
    """The times outside all loops, and how many loops there are."""
    return (lattice.outer, lattice.depth) if isinstance(lattice, Rounds) else (lattice, 0)


@dataclass(frozen=True, init=False)
class AltNeu(Lattice):
    """Two moments for every time of ``inner``, ``alt(t) < neu(t)``, which no other time can tell apart.

    Over a total order a moment is one column, ``2 * t + flag``, and the order is total again; the packed time must fit
    int64, so inner columns end at 2^62 - 1. Over a partial order the flag is a column of its own, and the
    lattice is not distributive: alt(0, 1) v (neu(0, 1) ^ alt(1, 0)) is alt(0, 1), but
    (alt(0, 1) v neu(0, 1)) ^ (alt(0, 1) v alt(1, 0)) is neu(0, 1).

    >>> moments = AltNeu(Product(Epoch(), Epoch()))
    >>> a, b = moments.from_python(neu((0, 1))), moments.from_python(alt((1, 0)))
    >>> moments.format(moments.join(a, b)), moments.format(moments.meet(a, b))
    ('alt((1, 1))', 'neu((0, 0))')
    >>> AltNeu(Epoch()).from_pylist([alt(3), neu(3), (3, True)]).tolist()
    [[6, 7, 7]]
    """

    __hash__ = Lattice.__hash__  # which a dataclass would replace

    inner: Lattice
    width: int = field(repr=False, compare=False)
    is_total: bool = field(repr=False, compare=False)
    is_columnwise: bool = field(repr=False, compare=False)

    def __init__(self, inner: Lattice) -> None:
        if not isinstance(inner, Lattice):
            raise TypeError(f"AltNeu needs a lattice, such as AltNeu(Epoch()), got {inner!r}")
        object.__setattr__(self, "inner", inner)
        object.__setattr__(self, "width", inner.width + (0 if inner.is_total else 1))
        object.__setattr__(self, "is_total", inner.is_total)
        object.__setattr__(self, "is_columnwise", inner.is_total)

    def __repr__(self) -> str:
        return f"AltNeu({self.inner!r})"

    def alt(self, times: Times) -> Times:
        """The earlier moments of times of ``inner``.

        Raises:
            TimeRangeError: a time does not fit the packed form.
        """
        return self.moments(times, 0)

    def neu(self, times: Times) -> Times:
        """The later moments of times of ``inner``.

        Raises:
            TimeRangeError: a time does not fit the packed form.
        """
        return self.moments(times, 1)

    def unwrap(self, moments: Times) -> Times:
        """The times of ``inner`` whose moments these are."""
        return moments >> 1 if self.is_total else moments[:-1]

    def is_neu(self, moments: Times) -> Mask:
        """Whether each moment is the later one of its time, as bool ``(n,)``."""
        mask: Mask = ((moments[0] & 1) if self.is_total else moments[-1]) != 0
        return mask

    def moments(self, times: Times, is_neu: int | npt.NDArray[np.integer | np.bool_]) -> Times:
        """Moments of times of ``inner``: the later one where ``is_neu`` is 1, the earlier one where it is 0.

        Raises:
            TimeRangeError: a time does not fit the packed form.
        """
        flag = np.asarray(is_neu, np.int64)
        if not self.is_total:
            return np.concatenate([times, np.broadcast_to(flag, (1, times.shape[1]))])
        packed = times << 1
        if ((packed >> 1) != times).any():
            raise TimeRangeError(
                f"a time of {self.inner!r} is too large for {self!r}, which packs a flag beside it; "
                "keep times below 2^62, halved again for every further AltNeu"
            )
        return packed | flag

    def _less_equal(self, a: Times, b: Times) -> Mask:
        s, t = a[:-1], b[:-1]
        return np.where((s == t).all(axis=0), a[-1] <= b[-1], self.inner.less_equal(s, t))

    def _join(self, a: Times, b: Times) -> Times:
        s, t = a[:-1], b[:-1]
        u = self.inner.join(s, t)
        flag = ((u == s).all(axis=0) & (a[-1] != 0)) | ((u == t).all(axis=0) & (b[-1] != 0))
        return np.concatenate([u, flag[None].astype(np.int64)])

    def _meet(self, a: Times, b: Times) -> Times:
        s, t = a[:-1], b[:-1]
        u = self.inner.meet(s, t)
        flag = ((u != s).any(axis=0) | (a[-1] != 0)) & ((u != t).any(axis=0) | (b[-1] != 0))
        return np.concatenate([u, flag[None].astype(np.int64)])

    def maximum(self) -> Times:
        """The later moment of the greatest time."""
        if self.is_total:
            return super().maximum()
        return self.moments(self.inner.maximum(), 1)

    def encode(self, value: object) -> tuple[int, ...]:
        """``alt(t)``, ``neu(t)`` or ``(t, flag)``, packed over a total order, else with the flag last."""
        if isinstance(value, Moment):
            time, flag = value.time, value.is_neu
        elif isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(value[1], (bool, np.bool_)):
            time, flag = value
        else:
            raise TimeRangeError(f"a time of {self!r} must be alt(t), neu(t) or (t, flag), got {value!r}")
        columns = self.inner.encode(time)
        if not self.is_total:
            return (*columns, int(flag))
        packed = 2 * columns[0] + int(flag)
        if packed > LARGEST:
            raise TimeRangeError(f"{value!r} does not fit {self!r}, which packs a flag beside the time in 64 bits")
        return (packed,)

    def decode(self, columns: tuple[int, ...]) -> object:
        """A ``Moment``."""
        inner = (columns[0] >> 1,) if self.is_total else columns[:-1]
        flag = columns[0] & 1 if self.is_total else columns[-1]
        return Moment(self.inner.decode(inner), bool(flag))
