"""What the verbs mean, over Python's Counters: the second oracle, which shares nothing with the first.

A collection is what it holds at each time of a history: a ``Held`` of a multiset of rows, and of what is known about
errors. Values are Python's, every NaN one object, -0.0 taken as 0.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import reduce
from math import fsum, isnan
from operator import or_
from typing import Any

NAN = float("nan")
MOST_ROWS = 400
MOST_COUNT = 10**9

Row = tuple[Any, ...]
Rows = Counter[Row]


class TooLargeError(Exception):
    """A program of which the answer is not worth waiting for."""


def canon(value: Any) -> Any:
    """One Python value for what is one value."""
    if isinstance(value, float):
        return NAN if isnan(value) else value or 0.0
    if isinstance(value, list | tuple):
        return tuple(map(canon, value))
    return value


def order(value: Any) -> tuple[int, Any]:
    """Null is least, NaN greatest."""
    if value is None:
        return (0, 0)
    if value is NAN:
        return (2, 0)
    return (1, value)


def row_order(row: Row) -> list[tuple[int, Any]]:
    return [order(v) for v in row]


@dataclass(frozen=True)
class Held:
    """What a collection holds at a time; ``codes`` of the errors that are surely there.

    ``unsure``: an error is upstream of something that may lose it (an error of what nobody reads may be lost), so
    nothing is said of the rows.
    """

    rows: Rows = field(default_factory=Counter)
    codes: frozenset[str] = frozenset()
    unsure: bool = False


NEGATIVE = frozenset({"NEGATIVE_MULTIPLICITY"})
CLEAN: frozenset[str] = frozenset()


class Said:
    """What an operator says at one time, while it is being found."""

    def __init__(self) -> None:
        self.rows: Rows = Counter()
        self.codes: set[str] = set()
        self.unsure = False

    def add(self, row: Iterable[Any], count: int) -> None:
        self.rows[tuple(map(canon, row))] += count

    def negative(self) -> None:
        self.codes.add("NEGATIVE_MULTIPLICITY")


def held(said: Said, inputs: Sequence[Held], keeps: bool) -> Held:
    """What an operator says, with the errors of what it reads; ``keeps``: it loses none of them."""
    rows = Counter({row: n for row, n in said.rows.items() if n})
    if len(rows) > MOST_ROWS or any(abs(n) > MOST_COUNT for n in rows.values()):
        raise TooLargeError
    below = frozenset().union(*(i.codes for i in inputs))
    unsure = said.unsure or any(i.unsure for i in inputs) or (bool(below) and not keeps)
    return Held(rows, below | said.codes, unsure)


def linear(logic: Callable[[Row, int], Iterable[tuple[Iterable[Any], int]]]) -> Callable[..., Said]:
    """An operator that takes rows one by one: to rows with counts, at a time."""

    def meaning(now: int, inputs: Sequence[Rows]) -> Said:
        said = Said()
        for row, count in inputs[0].items():
            for made, times in logic(row, now):
                said.add(made, count * times)
        return said

    return meaning


def add(_: int, inputs: Sequence[Rows]) -> Said:
    said = Said()
    for rows in inputs:
        for row, n in rows.items():
            said.rows[row] += n
    return said


def difference(after: Rows, before: Rows) -> Rows:
    return Counter({row: after[row] - before[row] for row in after.keys() | before.keys() if after[row] != before[row]})


def by_key(rows: Rows, places: Sequence[int]) -> dict[Row, list[tuple[Row, int]]]:
    groups: dict[Row, list[tuple[Row, int]]] = {}
    for row, n in rows.items():
        groups.setdefault(tuple(row[i] for i in places), []).append((row, n))
    return groups


# joins ----------------------------------------------------------------------------------------------------------------


def keys_there(rows: Rows, places: Sequence[int], said: Said) -> set[Row]:
    """The keys without a null that are there; one that is there less than not at all is an error."""
    result = set()
    for key, group in by_key(rows, places).items():
        count = sum(n for _, n in group)
        if None in key:
            said.unsure |= count < 0
        elif count > 0:
            result.add(key)
        elif count < 0:
            said.negative()
    return result


def join(left: Sequence[int], right: Sequence[int], how: str, widths: tuple[int, int], shared: Sequence[int]) -> Any:
    """Keys by their places; ``shared`` are the right columns that the output has only once, as the left ones."""
    kept = [i for i in range(widths[1]) if i not in shared]

    def meaning(_: int, inputs: Sequence[Rows]) -> Said:
        said = Said()
        others = by_key(inputs[1], right)
        for row, n in inputs[0].items():
            key = tuple(row[i] for i in left)
            for other, m in others.get(key, []) if None not in key else []:
                said.add((*row, *(other[i] for i in kept)), n * m)
        if how in ("left", "full"):
            there = keys_there(inputs[1], right, said)
            for row, n in inputs[0].items():
                if tuple(row[i] for i in left) not in there:
                    said.add((*row, *(None for _ in kept)), n)
        if how in ("right", "full"):
            there = keys_there(inputs[0], left, said)
            for other, m in inputs[1].items():
                if tuple(other[i] for i in right) not in there:
                    padded: list[Any] = [None] * widths[0]
                    for mine, theirs in zip(left, right, strict=True):
                        if theirs in shared:
                            padded[mine] = other[theirs]
                    said.add((*padded, *(other[i] for i in kept)), m)
        return said

    return meaning


def having(left: Sequence[int], right: Sequence[int], wanted: bool) -> Any:
    """Semijoin and antijoin."""

    def meaning(_: int, inputs: Sequence[Rows]) -> Said:
        said = Said()
        there = keys_there(inputs[1], right, said)
        for row, n in inputs[0].items():
            if (tuple(row[i] for i in left) in there) == wanted:
                said.add(row, n)
        return said

    return meaning


@dataclass(frozen=True)
class AsOf:
    """An as-of join by timestamps: places of keys and times, and its rule."""

    left: Sequence[int]
    right: Sequence[int]
    times: tuple[int, int]
    direction: str
    exact: bool
    tolerance: int | None
    outer: bool
    kept: Sequence[int]

    def met(self, row: Row, others: Rows) -> Row | None:
        key, at = tuple(row[i] for i in self.left), row[self.times[0]]
        if None in key or at is None:
            return None
        best = None
        for other, n in others.items():
            there = other[self.times[1]]
            if n <= 0 or there is None or tuple(other[i] for i in self.right) != key:
                continue
            rank = self._rank(at, there)
            if rank is not None:
                best = max(
                    best or (rank, row_order(other), other), (rank, row_order(other), other), key=lambda b: b[:2]
                )
        return best[2] if best else None

    def _rank(self, at: int, there: int) -> tuple[int, int] | None:
        away = abs(at - there)
        if (self.tolerance is not None and away > self.tolerance) or (away == 0 and not self.exact):
            return None
        if (self.direction == "backward" and there > at) or (self.direction == "forward" and there < at):
            return None
        return (-away, there < at)

    def pair(self, row: Row, met: Row | None) -> Row | None:
        if met is None:
            return (*row, *(None for _ in self.kept)) if self.outer else None
        return (*row, *(met[i] for i in self.kept))

    def revising(self, _: int, inputs: Sequence[Rows]) -> Said:
        said = Said()
        if any(n < 0 for n in inputs[1].values()):
            said.negative()
            said.unsure = True  # a row without key or time need not be looked at
        for row, n in inputs[0].items():
            actual = self.pair(row, self.met(row, inputs[1]))
            if actual is not None:
                said.add(actual, n)
        return said


# reductions -----------------------------------------------------------------------------------------------------------


def distinct(_: int, inputs: Sequence[Rows]) -> Said:
    said = Said()
    for row, n in inputs[0].items():
        if n > 0:
            said.add(row, 1)
        elif n < 0:
            said.negative()
    return said


def counted(_: int, inputs: Sequence[Rows]) -> Said:
    said = Said()
    for row, n in inputs[0].items():
        said.add((*row, n), 1)
    return said


def threshold(function: Callable[[int], int]) -> Any:
    def meaning(_: int, inputs: Sequence[Rows]) -> Said:
        said = Said()
        for row, n in inputs[0].items():
            said.add(row, function(n))
        return said

    return meaning


def in_groups(
    places: Sequence[int], function: Callable[[Row, list[tuple[Row, int]]], Iterable[tuple[Any, int]]]
) -> Any:
    """A function of the rows of each group, in which no row may be owed."""

    def meaning(_: int, inputs: Sequence[Rows]) -> Said:
        said = Said()
        for key, group in by_key(inputs[0], places).items():
            if any(n < 0 for _, n in group):
                said.negative()
            else:
                for row, n in function(key, group):
                    said.add(row, n)
        return said

    return meaning


def sorted_by(group: list[tuple[Row, int]], terms: Sequence[tuple[int, bool]]) -> list[Row]:
    """The rows of a group, each as often as it is there: by columns, ascending or not, and then by all of the row."""
    rows = sorted((row for row, n in group for _ in range(n)), key=row_order)
    if len(rows) > MOST_ROWS:
        raise TooLargeError
    for place, descending in reversed(terms):  # nulls are last where it descends, as the order turned round
        rows.sort(key=lambda row: order(row[place]), reverse=descending)
    return rows


def top(k: int, terms: Sequence[tuple[int, bool]]) -> Any:
    def first(_: Row, group: list[tuple[Row, int]]) -> Iterable[tuple[Row, int]]:
        return [(row, 1) for row in sorted_by(group, terms)[:k]]

    return first


Values = list[tuple[Any, int]]


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of values that are not null, each as often as it is there. ``sums``: owed values count against."""

    text: str
    type: str
    of: Callable[[Row], Any]
    value: Callable[[Values], Any]
    sums: bool


def aggregates(places: Sequence[int], wanted: Sequence[Aggregate]) -> Any:
    def meaning(_: int, inputs: Sequence[Rows]) -> Said:
        said = Said()
        groups = by_key(inputs[0], places)
        if not places:
            groups.setdefault((), [])
        for key, group in groups.items():
            values = [[(x, n) for row, n in group if (x := canon(a.of(row))) is not None] for a in wanted]
            if any(n < 0 for _, n in group) and not _owed(said, group, wanted, values):
                continue
            said.add((*key, *(a.value(v) for a, v in zip(wanted, values, strict=True))), 1)
        return said

    return meaning


def _owed(said: Said, group: list[tuple[Row, int]], wanted: Sequence[Aggregate], values: list[Values]) -> bool:
    """Whether a group in which a row is owed has a row all the same."""
    total = sum(n for _, n in group)
    if not all(a.sums for a in wanted):
        said.negative()
        said.unsure = True
        return False
    if total < 0:
        said.negative()
        return False
    endless = any(n < 0 and isinstance(x, float) and x - x != 0 for v in values for x, n in v)
    if total == 0 or endless or any(sum(n for _, n in v) <= 0 for v in values):
        said.unsure = True
        said.negative()
        return False
    return True


def listed(values: Values) -> list[Any]:
    result = sorted((x for x, n in values for _ in range(n)), key=order)
    if len(result) > MOST_ROWS:
        raise TooLargeError
    return result


def number(values: Values) -> int:
    return sum(n for _, n in values)


def total(values: Values) -> Any:
    if not values or number(values) == 0:
        return None
    if isinstance(values[0][0], float):
        return _float_sum(values)
    return sum(x * n for x, n in values)


def _float_sum(values: Values) -> float:
    special = {x for x, n in values if x in (float("inf"), float("-inf")) or x is NAN}
    if special:
        return sum(special)
    if all(n > 0 for _, n in values) and number(values) < MOST_ROWS:
        return fsum(x for x, n in values for _ in range(n))
    return float(sum(Fraction(x) * n for x, n in values))


def mean(values: Values) -> Any:
    if not values or number(values) == 0:
        return None
    if isinstance(values[0][0], Decimal):
        exact = Fraction(sum(Fraction(x) * n for x, n in values)) / number(values)
        scaled = exact * 10**6
        return (Decimal(scaled.numerator) / Decimal(scaled.denominator)).quantize(Decimal(1), ROUND_HALF_UP) / 10**6
    return float(sum(Fraction(x) * n for x, n in values) / number(values))


def median(values: Values) -> float | None:
    actual = listed(values)
    if not actual:
        return None
    middle = len(actual) // 2
    return float(actual[middle]) if len(actual) % 2 else (actual[middle - 1] + actual[middle]) / 2


def spread(values: Values, *, sample: bool, root: bool) -> float | None:
    """Variance or standard deviation, rounded as ``ROUNDED`` says."""
    actual = listed(values)
    count = len(actual) - sample
    if not actual or count == 0:
        return None
    middle = Fraction(sum(map(Fraction, actual))) / len(actual)
    exact = sum((Fraction(x) - middle) ** 2 for x in actual) / count
    return rounded(float(exact) ** 0.5 if root else float(exact))


def covariance(values: Values) -> float | None:
    pairs = [(Fraction(a), Fraction(b)) for (a, b), n in values for _ in range(n)]
    if not pairs:
        return None
    left, right = (sum(p[i] for p in pairs) / len(pairs) for i in (0, 1))
    return rounded(float(sum((a - left) * (b - right) for a, b in pairs) / len(pairs)))


ROUNDED = "round({} + 0.0000031D, 5)"  # what lies half way between two is so for no quotient of small numbers


def rounded(value: float) -> float:
    if abs(value) > 10**6:
        raise TooLargeError
    return float(Decimal(repr(value + 0.0000031)).quantize(Decimal("0.00001"), ROUND_HALF_UP))


def between(fraction: Fraction) -> Callable[[Values], float | None]:
    """``percentile``: in proportion between two values."""

    def meaning(values: Values) -> float | None:
        actual = listed(values)
        if not actual:
            return None
        place = fraction * (len(actual) - 1)
        low = int(place)
        high = min(low + 1, len(actual) - 1)
        return float(actual[low] + (place - low) * (actual[high] - actual[low]))

    return meaning


def reached(fraction: Fraction, *, descending: bool = False) -> Callable[[Values], Any]:
    """``percentile_disc``: the first value that a fraction of all is not behind."""

    def meaning(values: Values) -> Any:
        actual = sorted(listed(values), key=order, reverse=descending)
        return actual[max(-int(-fraction * len(actual) // 1), 1) - 1] if actual else None

    return meaning


def by_other(values: Values, *, greatest: bool) -> Any:
    """``max_by`` and ``min_by`` of pairs; the first values decide between equal second ones."""
    pairs = [pair for pair, _ in values]
    key = lambda pair: (order(pair[1]), order(pair[0]))  # noqa: E731
    return (max if greatest else min)(pairs, key=key)[0] if pairs else None


def joined(values: Values, between_texts: str, *, descending: bool = False) -> str | None:
    """``listagg`` of pairs of a text and what it is ordered by."""
    pairs = sorted((pair for pair, n in values for _ in range(n)), key=lambda pair: order(pair[0]))
    if len(pairs) > MOST_ROWS:
        raise TooLargeError
    pairs.sort(key=lambda pair: order(pair[1]), reverse=descending)
    return between_texts.join(text for text, _ in pairs) if pairs else None


def bits(values: Values) -> int | None:
    actual = [x for x, _ in values]
    return reduce(or_, actual) if actual else None


def mode(values: Values) -> Any:
    counts = Counter(dict(merged(values)))
    return min(counts, key=lambda x: (-counts[x], order(x))) if counts else None


def merged(values: Values) -> Values:
    counts: Counter[Any] = Counter()
    for x, n in values:
        counts[x] += n
    return [(x, n) for x, n in counts.items() if n]


def least(values: Values) -> Any:
    return min((x for x, _ in values), key=order, default=None)


def greatest(values: Values) -> Any:
    return max((x for x, _ in values), key=order, default=None)


def windows(places: Sequence[int], terms: Sequence[tuple[int, bool]], function: Callable[[list[Row], int], Any]) -> Any:
    """A window function: of the rows of a partition in order, and the place of one."""

    def of_partition(_: Row, group: list[tuple[Row, int]]) -> Iterable[tuple[Row, int]]:
        rows = sorted_by(group, terms)
        return [((*row, function(rows, i)), 1) for i, row in enumerate(rows)]

    return in_groups(places, of_partition)


# of the past ----------------------------------------------------------------------------------------------------------

History = list[Held]


def delayed(by: int | None, every: int | None) -> Callable[[Sequence[History]], History]:
    def meaning(inputs: Sequence[History]) -> History:
        """Rows come later; what fails below is an error from its own time on."""
        result: History = []
        for t, now in enumerate(inputs[0]):
            past = t - by if by is not None else t // (every or 1) * (every or 1)
            then = inputs[0][past] if past >= 0 else Held()
            result.append(Held(then.rows, now.codes, then.unsure or now.unsure))
        return result

    return meaning


def meeting(joined: Any, before: bool) -> Callable[[Sequence[History]], History]:
    """Each change of the left side with what the right side is at its time, or was right before."""

    def meaning(inputs: Sequence[History]) -> History:
        result: History = []
        seen, so_far = Counter(), Held()
        for t, (left, right) in enumerate(zip(*inputs, strict=True)):
            met = (inputs[1][t - 1] if t else Held()) if before else right
            said = joined(t, [difference(left.rows, seen), met.rows])
            for row, n in so_far.rows.items():
                said.rows[row] += n
            now = held(said, [left, right, met], keeps=False)  # errors below are there at their own times
            so_far = Held(now.rows, now.codes, now.unsure or so_far.unsure)
            result.append(so_far)
            seen = left.rows
        return result

    return meaning


def locked(rule: AsOf, before: bool) -> Callable[[Sequence[History]], History]:
    """What each copy of a left row met when it came; the first to come is the first to go."""

    def meaning(inputs: Sequence[History]) -> History:
        queues: dict[Row, list[Row | None]] = {}
        result: History = []
        seen: Rows = Counter()
        unsure = False
        for t, (left, right) in enumerate(zip(*inputs, strict=True)):
            met = (inputs[1][t - 1] if t else Held()) if before else right
            unsure |= any(n < 0 for n in met.rows.values()) or any(n < 0 for n in left.rows.values())
            unsure |= bool(left.codes or right.codes or left.unsure or right.unsure)
            for row, n in difference(left.rows, seen).items():
                queue = queues.setdefault(row, [])
                if n < 0:
                    del queue[:-n]
                elif len(queue) + n > MOST_ROWS:
                    raise TooLargeError
                else:
                    queue += [rule.pair(row, rule.met(row, met.rows))] * n
            seen = left.rows
            rows = Counter(pair for queue in queues.values() for pair in queue if pair is not None)
            result.append(Held(rows, left.codes | right.codes, unsure))
        return result

    return meaning


def timed(then: Callable[[Rows], Rows]) -> Callable[[Sequence[History]], History]:
    """What is made of the rows with the time at which each copy came; the first to come is the first to go."""

    def meaning(inputs: Sequence[History]) -> History:
        queues: dict[Row, list[int]] = {}
        result: History = []
        seen: Rows = Counter()
        unsure = False
        for t, held in enumerate(inputs[0]):
            unsure |= any(n < 0 for n in held.rows.values()) or bool(held.codes) or held.unsure
            for row, n in difference(held.rows, seen).items():
                queue = queues.setdefault(row, [])
                if n < 0:
                    del queue[:-n]
                elif len(queue) + n > MOST_ROWS:
                    raise TooLargeError
                else:
                    queue += [t] * n
            seen = held.rows
            rows = then(Counter((*row, at) for row, queue in queues.items() for at in queue))
            result.append(Held(rows, held.codes, unsure))
        return result

    return meaning


def latest(places: Sequence[int], terms: Sequence[int]) -> Callable[[Sequence[History]], History]:
    """The greatest row of each key; only of logs that grow something is said."""

    def meaning(inputs: Sequence[History]) -> History:
        result: History = []
        seen: Rows = Counter()
        grows = True
        for one in inputs[0]:
            grows &= all(n > 0 for n in difference(one.rows, seen).values()) and not one.codes and not one.unsure
            seen = one.rows
            groups = by_key(one.rows, places).values()
            best = [
                max((row for row, _ in g), key=lambda r: ([order(r[i]) for i in terms], row_order(r))) for g in groups
            ]
            result.append(Held(Counter(best), CLEAN if grows else frozenset({"?"}), not grows))
        return result

    return meaning
