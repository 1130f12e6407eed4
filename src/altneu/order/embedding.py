"""Times of one's own: partial orders that are not products, laid out on the coordinates that sources have.

Sources, stores and compiled code know products of whole numbers. That is enough for every lattice that can be laid out
on chains: a map into tuples of whole numbers under which one time is at or before another exactly when its tuple is so
in each place, and under which the least upper bound of two times goes to the greater number in each place. An
accumulation asks for the order alone, and the times at which a group may change are least upper bounds, so whatever
altneu computes of the tuples is what it would compute of the times.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from numbers import Integral
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.errors import TimeRangeError

_T = TypeVar("_T")
_E = TypeVar("_E", bound=Hashable)
_MOST = 2**62  # of a coordinate: moments double it

MAX_TIMES = 1024
"""Elements that a ``FiniteLattice`` may have: laying them out compares each with each."""


class Embedding(ABC, Generic[_T]):
    """Times of a kind of one's own, as tuples of whole numbers: the coordinates of a source with several times.

    A subclass says how many coordinates there are and has ``encode`` and ``decode``. ``encode`` must keep the order and
    least upper bounds: ``a`` is at or before ``b`` exactly when each coordinate of ``a`` is at most that of ``b``, and
    the least upper bound of ``a`` and ``b`` has the greater of each coordinate. ``altneu.testing.assert_time_laws``
    tests this. The least time, if there is one, has the coordinates 0.

    >>> import altneu as an
    >>> class Versions(Embedding):
    ...     '''Version vectors of two replicas, such as {"a": 3, "b": 1}.'''
    ...
    ...     coordinates = 2
    ...
    ...     def encode(self, time):
    ...         return time.get("a", 0), time.get("b", 0)
    ...
    ...     def decode(self, coordinates):
    ...         return dict(zip("ab", coordinates, strict=True))
    >>> versions = Versions("version")
    >>> notes = an.source("notes", "text string", time=("known", *versions.names))
    >>> with an.Session() as session:
    ...     count = session.maintain("count", notes.group_by().agg(n="count(*)"))
    ...     session.insert("notes", [("at home",)], time=(None, *versions.encode({"a": 1})))
    ...     session.insert("notes", [("at work",)], time=(None, *versions.encode({"b": 1})))
    ...     _ = session.advance()
    ...     [
    ...         count.to_pylist(at=(None, *versions.encode(v)))
    ...         for v in ({"a": 7}, {"b": 1}, {"a": 1, "b": 1})
    ...     ]
    [[(1,)], [(1,)], [(2,)]]
    >>> versions.join({"a": 1}, {"b": 1})
    {'a': 1, 'b': 1}
    """

    coordinates: int

    def __init__(self, name: str = "time") -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the coordinates, for ``an.source(..., time=("known", *names))``."""
        if self.coordinates == 1:
            return (self.name,)
        return tuple(f"{self.name}_{number}" for number in range(1, self.coordinates + 1))

    @abstractmethod
    def encode(self, time: _T) -> tuple[int, ...]:
        """The coordinates of a time, whole numbers from 0 to 2^62 - 1."""

    @abstractmethod
    def decode(self, coordinates: Sequence[int]) -> _T:
        """The time of coordinates that ``encode`` gives."""

    def less_equal(self, a: _T, b: _T) -> bool:
        """Whether ``a`` is at or before ``b``."""
        return all(x <= y for x, y in zip(self.encode(a), self.encode(b), strict=True))

    def join(self, a: _T, b: _T) -> _T:
        """The least time at or beyond both."""
        return self.decode([max(x, y) for x, y in zip(self.encode(a), self.encode(b), strict=True)])

    def columns(self, times: Iterable[_T] | pa.Array | pa.ChunkedArray) -> list[pa.Array]:
        """The coordinates of many times, a column of bigint for each: what ``insert(..., time=...)`` takes by name.

        >>> Lexicographic("part", 100).columns([(0, 7), (2, 1)])[0].to_pylist()
        [7, 201]
        """
        given = times.to_pylist() if isinstance(times, (pa.Array, pa.ChunkedArray)) else times
        lines = [self.encode(time) for time in given]
        return [pa.array([line[place] for line in lines], pa.int64()) for place in range(self.coordinates)]


class Lexicographic(Embedding[tuple[int, ...]]):
    """Tuples of whole numbers, of which the first place that differs decides: one coordinate.

    ``bounds`` are the numbers of values of every place after the first: ``Lexicographic("at", 60, 1000)`` has triples
    ``(minute, second, millisecond)``.

    Raises:
        TimeRangeError: a bound is below 1; a time has other places, a negative number or one at or beyond its bound,
            or is beyond 2^62 in all.

    >>> at = Lexicographic("at", 60)
    >>> at.encode((2, 3)), at.decode((123,)), at.names
    ((123,), (2, 3), ('at',))
    >>> at.encode((2, 60))
    Traceback (most recent call last):
    altneu.errors.TimeRangeError: place 2 of the time (2, 60) must be a whole number from 0 to 59, got 60
    """

    coordinates = 1

    def __init__(self, name: str, *bounds: int) -> None:
        super().__init__(name)
        for bound in bounds:
            if not _is_whole(bound) or bound < 1:
                raise TimeRangeError(f"the number of values of a place must be a whole number from 1 on, got {bound!r}")
        self.bounds = tuple(map(int, bounds))
        size = math.prod(self.bounds)
        self._bounds = (-(-_MOST // size), *self.bounds)

    def __repr__(self) -> str:
        return f"Lexicographic({', '.join(map(repr, (self.name, *self.bounds)))})"

    def encode(self, time: tuple[int, ...]) -> tuple[int, ...]:
        """The time as one number."""
        if type(time) is not tuple or len(time) != len(self._bounds):
            raise TimeRangeError(f"a time of {self!r} must be a tuple of {len(self._bounds)} numbers, got {time!r}")
        result = 0
        for place, (value, bound) in enumerate(zip(time, self._bounds, strict=True), 1):
            if not _is_whole(value) or not 0 <= value < bound:
                what = f"place {place} of the time {time!r}"
                raise TimeRangeError(f"{what} must be a whole number from 0 to {bound - 1:,}, got {value!r}")
            result = result * bound + int(value)
        if result >= _MOST:
            raise TimeRangeError(f"the time {time!r} of {self!r} must be below 2^62 as one number")
        return (result,)

    def decode(self, coordinates: Sequence[int]) -> tuple[int, ...]:
        """The places of a number."""
        (number,) = coordinates
        places = []
        for bound in reversed(self.bounds):
            number, place = divmod(int(number), bound)
            places.append(place)
        return (int(number), *reversed(places))


class FiniteLattice(Embedding[_E]):
    """The times of a finite lattice, given by its elements and its order.

    ``less_equal(a, b)`` says whether ``a`` is at or before ``b``. Every two elements must have a least upper bound, and
    there must be a least element. The number of coordinates is the least that chains can do with.

    An element is told by the *meet-irreducible* elements that are not at or beyond it (those with one element directly
    above them): a lesser element has fewer of them, and a least upper bound has those of both. Of a chain of
    meet-irreducibles, an element has an initial segment, so that its length is enough. The least number of chains that
    cover them is found by a matching (Dilworth's theorem; Fulkerson 1956).

    Cost:   once O(n³) for n elements, at most 1024, vectorised; then a look-up in a dictionary for each time.

    Raises:
        TimeRangeError: there are no or too many elements, one occurs twice or is not hashable, the order is not a
            partial order, or two elements have no least upper bound; an element is not one of the lattice.

    >>> import altneu as an
    >>> diamond = {"draft": "", "legal": "l", "tax": "t", "final": "lt"}  # two reviews, in any order
    >>> state = FiniteLattice("state", diamond, lambda a, b: {*diamond[a]} <= {*diamond[b]})
    >>> state.coordinates, [state.encode(s) for s in diamond]
    (2, [(0, 0), (0, 1), (1, 0), (1, 1)])
    >>> figures = an.source("figures", "what string, amount long", time=("known", *state.names))
    >>> with an.Session() as session:
    ...     total = session.maintain("total", figures.group_by().agg(amount="sum(amount)"))
    ...     session.insert("figures", [("sales", 100)], time=(None, *state.encode("draft")))
    ...     session.insert("figures", [("duty", -8)], time=(None, *state.encode("tax")))
    ...     session.insert("figures", [("claim", -5)], time=(None, *state.encode("legal")))
    ...     _ = session.advance()
    ...     {s: total.to_pylist(at=(None, *state.encode(s)))[0][0] for s in diamond}
    {'draft': 100, 'legal': 95, 'tax': 92, 'final': 87}
    """

    def __init__(self, name: str, elements: Iterable[_E], less_equal: Callable[[_E, _E], bool]) -> None:
        super().__init__(name)
        self.elements = tuple(elements)
        count = len(self.elements)
        if not 1 <= count <= MAX_TIMES:
            raise TimeRangeError(f"a finite lattice must have 1 to {MAX_TIMES:,} elements, got {count:,}")
        try:
            different = len({*self.elements})
        except TypeError as error:
            raise TimeRangeError(f"the elements of a lattice must be hashable: {error}") from None
        if different < count:
            twice = next(e for e in self.elements if self.elements.count(e) > 1)
            raise TimeRangeError(f"each element of a lattice must be given once, got {twice!r} twice")
        order = np.array([[bool(less_equal(a, b)) for b in self.elements] for a in self.elements], np.bool_)
        self._check(order)
        codes = _coordinates(order)
        self.coordinates = codes.shape[1]
        self._codes: dict[_E, tuple[int, ...]] = {
            element: tuple(code) for element, code in zip(self.elements, codes.tolist(), strict=True)
        }
        self._elements = {code: element for element, code in self._codes.items()}

    def __repr__(self) -> str:
        return f"FiniteLattice({self.name!r}, {len(self.elements)} elements)"

    def encode(self, time: _E) -> tuple[int, ...]:
        """The coordinates of an element."""
        try:
            return self._codes[time]
        except (KeyError, TypeError):
            raise TimeRangeError(f"{time!r} is not an element of {self!r}") from None

    def decode(self, coordinates: Sequence[int]) -> _E:
        """The element of coordinates."""
        code = tuple(int(c) for c in coordinates)
        if code not in self._elements:
            raise TimeRangeError(f"{code} are not the coordinates of an element of {self!r}")
        return self._elements[code]

    def _check(self, order: npt.NDArray[np.bool_]) -> None:
        """That it is a lattice: a finite partial order with a least element and least upper bounds."""
        shown = self.elements
        if not order.diagonal().all():
            a = int(np.flatnonzero(~order.diagonal())[0])
            raise TimeRangeError(f"an order must be reflexive: {shown[a]!r} is not at or before itself")
        both = order & order.T & ~np.eye(len(order), dtype=np.bool_)
        if both.any():
            a, b = np.argwhere(both)[0]
            raise TimeRangeError(f"an order must be antisymmetric: {shown[a]!r} and {shown[b]!r} are before each other")
        beyond = (order.astype(np.float32) @ order.astype(np.float32) > 0) & ~order
        if beyond.any():
            a, c = np.argwhere(beyond)[0]
            b = int(np.flatnonzero(order[a] & order[:, c])[0])
            raise TimeRangeError(
                f"an order must be transitive: {shown[a]!r} is before {shown[b]!r} and that before {shown[c]!r}, but "
                f"{shown[a]!r} is not before {shown[c]!r}"
            )
        if not order.all(axis=1).any():
            raise TimeRangeError("a lattice must have a least element, which is before all others, and there is none")
        above = order.sum(axis=1)  # how many are at or beyond each
        for a in range(len(order)):
            shared = order[a] & order[a + 1 :]  # of each later element: what is at or beyond both
            found = shared.sum(axis=1)
            # the least upper bound is the one bound with as many elements beyond it as there are bounds
            has = (shared & (above == found[:, None])).any(axis=1)
            if not has.all():
                b = a + 1 + int(np.flatnonzero(~has)[0])
                raise TimeRangeError(
                    f"two elements of a lattice must have a least upper bound: {shown[a]!r} and {shown[b]!r} have none"
                )


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _coordinates(order: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Of each element, of each chain of meet-irreducibles, how many are not at or beyond it; at least one column."""
    strict = order & ~np.eye(len(order), dtype=np.bool_)
    paths = strict.astype(np.float32) @ strict.astype(np.float32)
    covers = strict & (paths == 0)
    irreducible = np.flatnonzero(covers.sum(axis=1) == 1)
    codes = [(~order[:, chain]).sum(axis=1) for chain in _chains(strict[np.ix_(irreducible, irreducible)], irreducible)]
    return np.stack(codes or [np.zeros(len(order), np.int64)], axis=1).astype(np.int64)


def _chains(strict: npt.NDArray[np.bool_], members: npt.NDArray[np.int64]) -> list[list[int]]:
    """The least number of chains that cover a partial order: a greatest matching of each with one that follows it."""
    before: dict[int, int] = {}  # of each that has one, the one before it in its chain
    after: dict[int, int] = {}
    for start in range(len(strict)):
        came: dict[int, int] = {}  # the path on which each was reached
        waiting = [start]
        while waiting:
            lower = waiting.pop()
            for upper in np.flatnonzero(strict[lower]).tolist():
                if upper not in came:
                    came[upper] = lower
                    if upper in before:
                        waiting.append(before[upper])
                        continue
                    _turn(upper, came, before, after)
                    waiting.clear()
                    break
    result = []
    for first in range(len(strict)):
        if first not in before:
            chain = [first]
            while chain[-1] in after:
                chain.append(after[chain[-1]])
            result.append([int(members[place]) for place in chain])
    return result


def _turn(upper: int | None, came: dict[int, int], before: dict[int, int], after: dict[int, int]) -> None:
    """Match along a path that ends in one without a partner: each on it with the next, and no longer with the last."""
    while upper is not None:
        lower = came[upper]
        freed = after.get(lower)
        before[upper], after[lower] = lower, upper
        upper = freed
