"""Who follows the views of a session or a reader, and how each of them gets what has been closed."""

from __future__ import annotations

from typing import Protocol
from weakref import WeakSet


class Subscriber(Protocol):
    """A subscription, as those who deliver to it see it."""

    @property
    def name(self) -> str:
        """The view's name."""

    @property
    def pushes(self) -> bool:
        """Whether there is a function to call."""

    @property
    def closed(self) -> bool:
        """Whether nothing more is given."""

    @property
    def since(self) -> int:
        """The time after which it still needs the view's history."""

    def poll(self) -> int:
        """Give what has been closed since to the functions; the number of times that changed anything."""

    def close(self) -> None:
        """Give nothing more."""


class Subscribers:
    """The subscriptions to the views of one session or reader.

    Those that push are kept; those that are iterated live as long as somebody has them.
    """

    def __init__(self) -> None:
        self._pushed: list[Subscriber] = []
        self._pulled: WeakSet[Subscriber] = WeakSet()
        self._delivering = self._again = self._has_pulled = False

    def add(self, subscription: Subscriber) -> None:
        """Take one up."""
        if subscription.pushes:
            self._pushed.append(subscription)
        else:
            self._pulled.add(subscription)
            self._has_pulled = True

    @property
    def since(self) -> int | None:
        """The time after which any of them needs history; None when there is none."""
        if not self._pushed and not self._has_pulled:
            return None
        return min((s.since for s in (*self._pushed, *self._pulled) if not s.closed), default=None)

    @property
    def views(self) -> list[str]:
        """The views that are followed."""
        return [s.name for s in (*self._pushed, *self._pulled) if not s.closed]

    def deliver(self, note: str) -> None:
        """Give each what has been closed since.

        One that raises stays where it is, and the others get theirs; then the first error is raised, with a note. What
        a function closes itself, by a step that it takes, is given when what came before it has been.
        """
        if not self._pushed:
            return
        self._again = True
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._again:
                self._again = False
                self._deliver(note)
        finally:
            self._delivering = False

    def _deliver(self, note: str) -> None:
        failed: list[Exception] = []
        for subscription in [*self._pushed]:
            try:
                subscription.poll()
            except Exception as error:  # noqa: BLE001  # whatever a user's function raises is raised below
                note_of_error = (
                    f"altneu: raised for {subscription!r}; {note}, and the subscription delivers its time again with "
                    "the next step"
                )
                error.add_note(note_of_error)
                failed.append(error)
        self._pushed = [s for s in self._pushed if not s.closed]
        if failed:
            for other in failed[1:]:
                failed[0].add_note(f"altneu: another subscription raised too: {type(other).__name__}: {other}")
            raise failed[0]

    def end(self, view: str | None = None) -> None:
        """Close those of a view, or all."""
        for subscription in (*self._pushed, *self._pulled):
            if view is None or subscription.name == view:
                subscription.close()
        self._pushed = [s for s in self._pushed if not s.closed]
