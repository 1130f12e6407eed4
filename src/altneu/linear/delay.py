"""Delays: how a logic moves the times of the updates that come in, before anything else is done with them.

A delay is a function of time that is monotone and never goes back. On a chain it respects joins, so a delay that
follows a logic may as well come first, with the logic's own times delayed too: every logic has one slot for it.
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


@dataclass(frozen=True)
class By:
    """So many ticks later."""

    ticks: int

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
        return f"by {self.ticks}"


@dataclass(frozen=True)
class Every:
    """Up to the next multiple of so many ticks: updates come in batches of that period."""

    ticks: int

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
        return f"to every {self.ticks}"


@dataclass(frozen=True)
class DelayFunction:
    """What a Python function makes of a time: monotone, and never earlier."""

    function: Function

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
        return f"with {self.function.name}"


Part = By | Every | DelayFunction


@dataclass(frozen=True)
class Delay:
    """Delays in a row; none at all is the identity.

    Law:  ``then`` is associative, ``Delay()`` its identity (tests/laws/test_logic.py).
    """

    parts: tuple[Part, ...] = ()

    @classmethod
    def by(cls, ticks: int) -> Delay:
        """So many ticks later.

        Raises:
            PlanError: a negative number.
        """
        if ticks < 0:
            raise PlanError(f"delay(by={ticks}) would go back in time; a delay must be 0 or more ticks")
        return cls((By(ticks),)) if ticks else cls()

    @classmethod
    def every(cls, ticks: int) -> Delay:
        """Up to the next multiple.

        Raises:
            PlanError: a number below one.
        """
        if ticks < 1:
            raise PlanError(f"delay(every=...): the period must be at least 1 tick, got {ticks}")
        return cls((Every(ticks),)) if ticks > 1 else cls()

    def then(self, after: Delay) -> Delay:
        """This delay, then the other; delays by a number of ticks add up."""
        parts = list(self.parts)
        for part in after.parts:
            last = parts[-1] if parts else None
            if isinstance(part, By) and isinstance(last, By):
                parts[-1] = By(last.ticks + part.ticks)
            else:
                parts.append(part)
        return Delay(tuple(parts))

    def apply(self, times: Ints) -> Ints:
        """The delayed times.

        Shape:  int64 ``(n,)`` in and out.

        Raises:
            NotDelayed: a time cannot be delayed.
        """
        for part in self.parts:
            times = part.apply(times)
        return times

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __str__(self) -> str:
        return "delay " + ", then ".join(map(str, self.parts)) if self.parts else ""


NO_DELAY = Delay()
