"""Delays: how a logic moves the times of the updates that come in, before anything else is done with them.

A delay is a function of time that is monotone and never goes back. On a chain it respects joins, so a delay that
follows a logic may as well come first, with the logic's own times delayed too: every logic has one slot for it. With
two times the same holds if each is delayed by itself. A function of both may not respect joins, and what it makes of
the end of a row need not be about the event time at which the row ends: it stays behind logic that makes times.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from altneu.columnar.rows import Ints
from altneu.errors import ImpureFunctionError, PlanError
from altneu.linear.function import Function

NEVER = 2**63 - 1
"""The time that no frontier passes: an update that would be retracted then is never retracted."""


class NotDelayed(Exception):  # noqa: N818 -- a signal to the operator, which makes error rows of it
    """A delay cannot be applied to times; ``index`` are their positions, ``message`` the reason."""

    def __init__(self, index: Ints, message: str) -> None:
        super().__init__(message)
        self.index, self.message = index, message


KNOWN, EVENT = 0, 1
"""The coordinates of times: the session's time, and the event time of collections with two."""


@dataclass(frozen=True)
class By:
    """So many ticks later."""

    ticks: int
    coordinate: int = KNOWN

    def apply(self, times: Ints) -> Ints:
        """The delayed times; ``NEVER`` stays.

        Raises:
            NotDelayed: a time leaves 64 bits.
        """
        late = (times > NEVER - 1 - self.ticks) & (times != NEVER)
        if late.any():
            raise NotDelayed(
                np.flatnonzero(late), f"the time {times[late][0]} delayed by {self.ticks} is beyond 64 bits"
            )
        return np.where(times == NEVER, times, times + self.ticks)

    def __str__(self) -> str:
        return f"{_TITLES[self.coordinate]}by {self.ticks}"


@dataclass(frozen=True)
class Every:
    """Up to the next multiple of so many ticks: updates come in batches of that period."""

    ticks: int
    coordinate: int = KNOWN

    def apply(self, times: Ints) -> Ints:
        """The delayed times; ``NEVER`` stays.

        Raises:
            NotDelayed: a time leaves 64 bits.
        """
        over = (-times) % self.ticks
        late = (times > NEVER - 1 - over) & (times != NEVER)
        if late.any():
            raise NotDelayed(
                np.flatnonzero(late), f"the multiple of {self.ticks} after the time {times[late][0]} is beyond 64 bits"
            )
        return np.where(times == NEVER, times, times + over)

    def __str__(self) -> str:
        return f"{_TITLES[self.coordinate]}to every {self.ticks}"


@dataclass(frozen=True)
class DelayFunction:
    """What a Python function makes of a time: monotone, and never earlier."""

    function: Function
    coordinate: int = KNOWN

    def apply(self, times: Ints) -> Ints:
        """The delayed times, the function called once for each distinct one; ``NEVER`` stays.

        Raises:
            NotDelayed: it raised, went back in time, or is not monotone on these times.
        """
        distinct, inverse = np.unique(times, return_inverse=True)
        delayed = distinct.copy()
        for i, time in enumerate(distinct.tolist()):
            if time == NEVER:
                continue
            try:
                later = self.function.call(time)
            except ImpureFunctionError:
                raise
            except Exception as error:
                raise NotDelayed(
                    np.flatnonzero(inverse == i), f"{self.function.name}({time}) raised {type(error).__name__}: {error}"
                ) from error
            problem = self._problem(time, later, int(delayed[i - 1]) if i else 0)
            if problem:
                raise NotDelayed(np.flatnonzero(inverse == i), problem)
            delayed[i] = later
        return delayed[inverse.reshape(-1)]

    def _problem(self, time: int, later: object, before: int) -> str:
        name = self.function.name
        if not isinstance(later, int | np.integer) or isinstance(later, bool):
            return f"{name}({time}) gave {later!r}, which is no time"
        if later < time:
            return f"{name}({time}) gave {later}: a delay never goes back"
        if later >= NEVER:
            return f"{name}({time}) gave {later}, which is beyond 64 bits"
        return f"{name} is not monotone: {time} goes to {later}, an earlier time to {before}" if later < before else ""

    def __str__(self) -> str:
        return f"{_TITLES[self.coordinate]}with {self.function.name}"


@dataclass(frozen=True)
class DelayBoth:
    """What a Python function makes of both times together: monotone, and at or beyond them."""

    function: Function
    coordinate: None = None

    def move(self, times: Ints) -> Ints:
        """The delayed times, the function called once for each distinct pair.

        Shape:  int64 ``(width, n)`` in and out, of which the first two lines are changed.
        Cost:   O(m log m) for m distinct pairs.

        Raises:
            NotDelayed: it raised, went back in time, or is not monotone on these times.
        """
        pairs, inverse = np.unique(times[:2], axis=1, return_inverse=True)
        inverse, later = inverse.reshape(-1), pairs.copy()
        reached = _Greatest(pairs[EVENT])
        for i, pair in enumerate(zip(*pairs.tolist(), strict=True)):  # by the first time, then by the second
            try:
                made = self.function.call(pair)
            except ImpureFunctionError:
                raise
            except Exception as error:
                text = f"{self.function.name}({pair}) raised {type(error).__name__}: {error}"
                raise NotDelayed(np.flatnonzero(inverse == i), text) from error
            problem = self._problem(pair, made) or self._not_monotone(pair, made, reached.up_to(pair[EVENT]))
            if problem:
                raise NotDelayed(np.flatnonzero(inverse == i), problem)
            later[:, i] = made
            reached.add(pair[EVENT], made)
        return np.concatenate([later[:, inverse], times[2:]])

    def _problem(self, pair: tuple[int, ...], made: object) -> str:
        said = f"{self.function.name}({pair}) gave {made!r}"
        if not isinstance(made, tuple) or len(made) != len(pair):
            return f"{said}, which is not a tuple of two times"
        if any(not isinstance(time, int | np.integer) or isinstance(time, bool) for time in made):
            return f"{said}, one of which is not a time"
        if any(time < before for time, before in zip(made, pair, strict=True)):
            return f"{said}: a delay never goes back, in either time"
        return f"{said}, which is beyond 64 bits" if max(made) > NEVER else ""

    def _not_monotone(self, pair: tuple[int, ...], made: tuple[int, ...], before: tuple[int, int]) -> str:
        """What it made of lesser pairs has to be less, in each time; ``before`` has the greatest of these."""
        if all(time >= least for time, least in zip(made, before, strict=True)):
            return ""
        return f"{self.function.name} is not monotone: {pair} goes to {made}, and earlier pairs up to {before}"

    def __str__(self) -> str:
        return f"both with {self.function.name}"


class _Greatest:
    """The greatest first and second time that pairs up to an event time went to; a Fenwick tree.

    Source: Fenwick, *A New Data Structure for Cumulative Frequency Tables*, 1994.
    """

    def __init__(self, events: Ints) -> None:
        self.events = np.unique(events)
        self.tree = [(0, 0)] * (len(self.events) + 1)

    def up_to(self, event: int) -> tuple[int, int]:
        """Of the pairs added so far that are not about a later event time."""
        at, found = int(self.events.searchsorted(event)) + 1, (0, 0)
        while at > 0:
            found = max(found[0], self.tree[at][0]), max(found[1], self.tree[at][1])
            at -= at & -at
        return found

    def add(self, event: int, made: tuple[int, ...]) -> None:
        """What a pair went to."""
        at = int(self.events.searchsorted(event)) + 1
        while at < len(self.tree):
            self.tree[at] = max(self.tree[at][0], int(made[0])), max(self.tree[at][1], int(made[1]))
            at += at & -at


Part = By | Every | DelayFunction | DelayBoth
_TITLES = ("", "event times ")


@dataclass(frozen=True)
class Delay:
    """Delays in a row; none at all is the identity.

    Law:  ``then`` is associative, ``Delay()`` its identity (tests/laws/test_logic.py).
    """

    parts: tuple[Part, ...] = ()

    @classmethod
    def by(cls, ticks: int, coordinate: int = KNOWN) -> Delay:
        """So many ticks later.

        Raises:
            PlanError: a negative number.
        """
        if ticks < 0:
            raise PlanError(f"delay(by={ticks}) would go back in time; a delay must be 0 or more ticks")
        return cls((By(ticks, coordinate),)) if ticks else cls()

    @classmethod
    def every(cls, ticks: int, coordinate: int = KNOWN) -> Delay:
        """Up to the next multiple.

        Raises:
            PlanError: a number below one.
        """
        if ticks < 1:
            raise PlanError(f"delay(every=...): the period must be at least 1 tick, got {ticks}")
        return cls((Every(ticks, coordinate),)) if ticks > 1 else cls()

    def then(self, after: Delay) -> Delay:
        """This delay, then the other; delays by a number of ticks add up."""
        parts = list(self.parts)
        for part in after.parts:
            last = parts[-1] if parts else None
            if isinstance(part, By) and isinstance(last, By) and part.coordinate == last.coordinate:
                parts[-1] = By(last.ticks + part.ticks, part.coordinate)
            else:
                parts.append(part)
        return Delay(tuple(parts))

    @property
    def is_of_both(self) -> bool:
        """Whether a function of both times is in it, which has to come after what makes times."""
        return any(isinstance(part, DelayBoth) for part in self.parts)

    @property
    def moves_events(self) -> bool:
        """Whether event times are delayed, so that there have to be some."""
        return any(part.coordinate != KNOWN for part in self.parts)

    def apply(self, times: Ints, coordinate: int = KNOWN) -> Ints:
        """The delayed times of one coordinate, for a delay that has no part of both.

        Shape:  int64 ``(n,)`` in and out.

        Raises:
            NotDelayed: a time cannot be delayed.
        """
        for part in self.parts:
            assert not isinstance(part, DelayBoth), part
            if part.coordinate == coordinate:
                times = part.apply(times)
        return times

    def move(self, times: Ints) -> Ints:
        """The delayed times, whole.

        Shape:  int64 ``(width, n)`` in and out; event times, if there are any, are the second line.

        Raises:
            NotDelayed: a time cannot be delayed.
        """
        times = times.copy()
        for part in self.parts:
            if isinstance(part, DelayBoth):
                times = part.move(times)
            elif part.coordinate < len(times):  # where only rows matter there may be one time
                times[part.coordinate] = part.apply(times[part.coordinate])
        return times

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __str__(self) -> str:
        return "delay " + ", then ".join(map(str, self.parts)) if self.parts else ""


NO_DELAY = Delay()
