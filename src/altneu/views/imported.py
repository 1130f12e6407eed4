"""Imports: a view of one session or store as a source of another session, which follows it time by time."""

from __future__ import annotations

import hashlib

from altneu.cdc.feed import Session, advance
from altneu.collections.collection import Collection
from altneu.collections.declaring import source
from altneu.engine.history import Step
from altneu.engine.reading import OnErrors, check_on_errors, updates_table
from altneu.errors import InputError, PlanError
from altneu.order import Epoch
from altneu.plan import ir
from altneu.store import lease_seconds
from altneu.trace.update import Updates, consolidate
from altneu.views.reader import StoreReadings
from altneu.views.view import View, followed, state_of

_TIME, _DIFF = "#time", "#diff"


class Imported:
    """A source that has the rows of a view of another session, or of a store; ``session.source_from`` makes one.

    ``collection`` is the source, for views of the importing session; ``advance`` brings that session up to the view's
    frontier. Times are those of the view: what was before the import began is one snapshot, at ``view.since``, and the
    changes since then come each at its own time. ``an.cdc.advance(session, imported, feed, ...)`` advances a session
    with several imports and feeds together.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        view: View,
        *,
        began: bool,
        keep: bool,
        errors: OnErrors,
        lease: float | str,
        importer: str,
    ) -> None:
        if view.coordinates is not None:
            raise PlanError(
                f"view {view.name!r} has {ir.times_named(view.coordinates)}, and an import follows one clock; "
                "insert its changes() into a source with as many times"
            )
        check_on_errors(errors, PlanError)
        lease_seconds(lease)  # or refused before anything is held
        self.name, self.view = name, view
        self.collection: Collection = source(name, view.schema, keep=keep)
        self._session, self._followed, self._readings = session, followed(view), state_of(view)
        self._errors, self._lease = errors, lease
        self._began, self._lower, self._closed = began, session.lower, False
        digest = hashlib.blake2b(f"{importer}\0{name}\0{view.name}".encode(), digest_size=12).hexdigest()
        self._holder = f"import-{digest}"
        self._start = max(self._followed.known.since, self._lower)  # that of the snapshot, if it has to begin with one
        self._readings.subscribers.add(self)
        self._hold()

    def __repr__(self) -> str:
        return f"Imported({self.name!r} from {self.view!r}, complete up to {self._lower})"

    @property
    def frontier(self) -> int:
        """The time before which the view is complete."""
        return self._followed.known.lower

    def advance(self) -> Step | None:
        """Bring the importing session up to the view's frontier; None if it is there. See ``altneu.cdc.advance``.

        A reader of a store is refreshed first.

        Raises:
            HistoryGoneError: changes that are missing here are compacted already: the import was not advanced for
                longer than its ``lease``.
            ViewHasErrorsError: the view has errors at the last closed time, unless ``errors="ignore"``.
            InputError: the importing session has closed times without the import. Errors of ``Session.advance``, too.
        """
        return advance(self._session, self)

    # what ``advance`` asks --------------------------------------------------------------------------------------------

    def attach(self, session: Session) -> None:
        """Check that this session imports it, and has closed no time without it.

        Raises:
            InputError: it does not, or has.
        """
        if session is not self._session:
            raise InputError(f"source {self.name!r} is imported by another session; call source_from of this one")
        if session.lower > self._lower:
            raise InputError(
                f"the session has closed the times before {session.lower}, but {self.name!r} has given it only those "
                f"before {self._lower}: advance it by its imports, imported.advance() or an.cdc.advance(session, …)"
            )

    def refresh(self) -> None:
        """Of a store, go to its last commit."""
        if isinstance(self._readings, StoreReadings):
            self._readings.refresh()

    def give(self, session: Session, before: int) -> None:
        """Insert the updates before a time that the session does not have."""
        with self._followed.lock:
            updates = self._missing(before)
            if self._errors == "raise":
                self.view.raise_errors(self._followed.known.readable(before - 1))
        if len(updates):
            session.insert(self.name, updates_table(updates, (_TIME,), _DIFF), time=_TIME, diff=_DIFF)

    def _missing(self, before: int) -> Updates:
        if self._began or self._followed.changes_only:
            return self._followed.updates(self._lower, before)
        first = max(self._start, self._followed.known.since)
        if first >= before:
            raise InputError(
                f"{self.name!r} can be imported from time {first} on, and the session would advance to {before} only, "
                f"because its other feeds are complete no further; advance these beyond {first} first"
            )
        parts = [self._followed.snapshot(first), self._followed.updates(first + 1, before)]
        return consolidate(Updates.concat(parts, self.view.schema, 1), Epoch())

    def close(self, before: int | None = None) -> None:
        """The session has the updates before a time; without one: stop importing, and hold no more history."""
        if before is None:
            self._closed = True
            return
        self._lower, self._began = before, True
        self._hold()

    def _hold(self) -> None:
        self._followed.hold(self._holder, self.since, self._lease)

    # a subscriber, as the view's session sees it ---------------------------------------------------------------------

    @property
    def pushes(self) -> bool:
        """Nothing is called."""
        return False

    @property
    def closed(self) -> bool:
        """Whether it holds no more history."""
        return self._closed

    @property
    def since(self) -> int:
        """The time after which it still needs the view's history."""
        return max(self._lower - 1, 0) if self._began else self._start

    def poll(self) -> int:
        """Nothing: ``advance`` asks."""
        return 0
