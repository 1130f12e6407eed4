"""The common part of all sinks: a mark that moves with the data, and recovery when history is no longer retained."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, NoReturn

import numpy as np
from pyarrow import types as pt

from altneu.columnar.rows import Rows
from altneu.engine.reading import check_on_errors
from altneu.engine.subscription import Subscription
from altneu.errors import HistoryGoneError, SinkError, UnknownColumnError
from altneu.errors.nearest import listed
from altneu.order import Epoch
from altneu.runtime.read import negatives
from altneu.store import LocalFolder, lease_seconds, root_of
from altneu.trace.update import Updates, consolidate
from altneu.types import type_name
from altneu.views.view import followed

if TYPE_CHECKING:
    from altneu.engine.reading import OnErrors
from altneu.views.view import View

Mode = Literal["append", "upsert", "merge", "rows"]
MODES: tuple[Mode, ...] = ("append", "upsert", "merge")


@dataclass(frozen=True)
class Mark:
    """The progress of a target: it has all changes of a store's view before ``frontier``.

    Shape:  ``store`` is the id of the view's history: of the store (of a session in memory its own) and the commit that
            added the view.
    """

    store: str
    view: str
    frontier: int


@contextmanager
def sole_writer(sink: Sink, folder: LocalFolder, before: Mark | None) -> Iterator[None]:
    """Write to the folder of a sink, whose mark is still ``before``, while no other process does.

    Raises:
        SinkError: another process has written since.
        StoreLockedError: another process writes at the moment.
    """
    lock = folder.child("_lock")
    lock.make()
    writer = lock.writer()  # one at a time: of two the second is told so
    try:
        if sink.mark() != before:
            raise SinkError(f"{sink.where} was written by another process meanwhile; run again")
        yield
    finally:
        writer.release()


class Sink(ABC):
    """Keeps an external target equal to a view, exactly once: data and mark are updated atomically.

    ``run`` applies the view's changes since the mark. If their history is no longer retained, or the target followed
    another store, it applies the difference of the whole contents instead. Between runs the session retains the history
    after the mark, for as long as the sink's ``lease``.

    A view without contents has changes only. While all of them are still retained, as before the second step, a new
    target gets all of them; afterwards it begins with those after its first ``run``, which is possible with
    ``mode="append"`` alone. Changes that are lost because a target was not run for longer than its lease cannot be
    recovered: ``run`` raises a SinkError.

    Law:    a sink that is killed anywhere and run again ends equal to the view (tests/sinks/test_kill.py).
    """

    modes: ClassVar[tuple[Mode, ...]] = MODES
    """What ``mode`` may be."""

    def __init__(self, view: View, mode: Mode, key: Sequence[str], errors: OnErrors, lease: float | str) -> None:
        key = several(key)
        if mode not in self.modes:
            raise SinkError(f"mode must be one of {', '.join(map(repr, self.modes))}, got {mode!r}")
        if (mode == "upsert") != bool(key):
            raise SinkError(
                'mode="upsert" needs the columns that identify a row: key=["id"]'
                if mode == "upsert"
                else f'key={list(key)!r} is for mode="upsert"; mode={mode!r} compares whole rows'
            )
        for name in key:
            if name not in view.schema.names:
                raise UnknownColumnError(name, view.schema.names, f"the key of a sink of view {view.name}")
        check_on_errors(errors, SinkError)
        lease_seconds(lease)  # or refused now, and not after the first run
        self.view, self.followed, self.mode, self.key, self.errors, self.lease = (
            view,
            followed(view),
            mode,
            tuple(key),
            errors,
            lease,
        )

    @property
    @abstractmethod
    def where(self) -> str:
        """The target, as messages name it."""

    @property
    def identity(self) -> str:
        """An id of the target, by which each target has a lease of its own."""
        return self.where

    @abstractmethod
    def mark(self) -> Mark | None:
        """The mark of the target; None for a target without data."""

    @abstractmethod
    def contents(self) -> Updates:
        """The rows of the target, each with its count."""

    @abstractmethod
    def apply(self, updates: Updates, before: Mark | None, after: Mark) -> None:
        """Bring the target from one mark to another, atomically.

        ``updates`` are changes at their times; in other modes than "append" they are consolidated at one time.
        """

    def run(self) -> int:
        """Bring the target to the last closed time; returns the number of changes applied.

        Raises:
            ViewHasErrorsError: the view has errors, so that its contents may be wrong.
            SinkError: the target is ahead of the view, or its rows are not those that it should have; it is left as it
                is.
        """
        with self.followed.lock:
            end, before = self.followed.known.lower, self.mark()
            if end == 0:
                if self.followed.changes_only:  # nothing but its history would tell of the first steps
                    self._hold(0)
                return 0
            self._check(before, end)
            after = Mark(self.followed.history_id, self.view.name, end)
            if before == after:
                return 0
            self._check_errors(end - 1)
            updates = self._missing(before, end)
            if self.mode != "append":
                updates = self._net(updates)
            self.apply(updates, before, after)
            self._hold(end)
            return len(updates)

    def attach(self) -> Subscription:
        """Run after every commit from now on, until ``close()`` of the returned object.

        ``advance`` raises the target's errors after its step is committed; the next step tries again.
        """
        self.run()
        return self.view.subscribe(on_time_end=self._run_for, snapshot=False)

    def _run_for(self, time: int) -> None:
        self.run()

    def _check(self, before: Mark | None, end: int) -> None:
        mine = Mark(self.followed.history_id, self.view.name, end)
        if before is None:
            return
        if before.view != mine.view:
            raise SinkError(f"{self.where} holds view {before.view!r}, not {mine.view!r}; choose another target")
        if root_of(before.store) in self.followed.forked_from:
            raise SinkError(
                f"{self.where} is written by the store of which this one is a fork; choose another target, or swap the "
                "fork in (session.swap), and the target goes on"
            )
        if self.mode == "append" and before.store != mine.store:
            raise SinkError(
                f"{self.where} holds the changes of another store, or of another view with this name; choose another "
                "target"
            )
        if before.store == mine.store and before.frontier > end:
            raise SinkError(
                f"{self.where} has the changes up to time {before.frontier - 1}, but the view has only those up to "
                f"{end - 1}: the store is an older copy; open the right one, or empty the target"
            )

    def _check_errors(self, time: int) -> None:
        if self.errors == "raise":
            at = self.followed.known.readable(time)
            self.view.raise_errors(at)

    def _missing(self, before: Mark | None, end: int) -> Updates:
        """The updates that the target lacks: the changes since its mark, or the difference of the whole contents."""
        if before is None and self.followed.changes_only:
            return self._first_changes(end)
        if before is None:
            return self.followed.snapshot(end - 1)
        if before.store == self.followed.history_id:
            try:
                return self.followed.updates(before.frontier, end)
            except HistoryGoneError:
                pass  # the present contents of the target are enough
        if self.followed.changes_only:
            raise SinkError(
                f"{self.where} has the changes of view {self.view.name!r} up to time {before.frontier - 1}. The later "
                "ones are gone, or belong to another store, and the view is maintained with contents=False, so altneu "
                "cannot compute what is missing; choose an empty target, and give the sink a longer lease="
            )
        there, expected = self.contents(), self.followed.snapshot(end - 1)
        if len(expected.times) > 1:
            raise SinkError(
                f"the history of view {self.view.name!r} since time {before.frontier - 1} is gone. The view has two "
                f"times, so it cannot be compared with {self.where}; empty the target, and give the sink a longer "
                "lease="
            )
        removed = Updates(there.rows, np.full((1, len(there)), end - 1, np.int64), -there.diffs)
        return consolidate(Updates.concat([expected, removed], expected.schema, 1), Epoch())

    def _first_changes(self, end: int) -> Updates:
        """The first updates of a new target of a view without contents: all of its changes, or no past ones."""
        if self.followed.known.distinguishes(0):
            return self.followed.updates(0, end)
        if self.mode != "append":
            raise SinkError(
                f"view {self.view.name!r} is maintained with contents=False, and its first changes are gone, so a "
                f"table with mode={self.mode!r} cannot be made equal to the view. Use mode='append', which begins with "
                "the changes from now on, or attach the sink before the first step"
            )
        return self.followed.updates(end, end)

    def _net(self, updates: Updates) -> Updates:
        if len(updates.times) > 1:
            raise SinkError(
                f'view {self.view.name!r} has several times, so it has no single table to write; use mode="append"'
            )
        at_once = Updates(updates.rows, np.zeros((1, len(updates)), np.int64), updates.diffs)
        return consolidate(at_once, Epoch())

    def refuse_key(self, keys: Rows) -> NoReturn:
        """Refuse a key that several rows have: the first of ``keys``."""
        key = dict(zip(self.key, keys.to_pylist()[0], strict=True))
        raise SinkError(
            f"view {self.view.name!r} has several rows of key {key}; choose a key that identifies each row, or "
            'mode="merge"'
        )

    def _hold(self, frontier: int) -> None:
        digest = hashlib.blake2b(f"{self.identity}\0{self.view.name}".encode(), digest_size=12).hexdigest()
        self.followed.hold(f"sink-{digest}", max(frontier - 1, 0), self.lease)


def several(columns: str | Sequence[str]) -> tuple[str, ...]:
    """Columns, of which one may be given by its name alone.

    >>> several("day"), several(["day", "hour"])
    (('day',), ('day', 'hour'))
    """
    return (columns,) if isinstance(columns, str) else tuple(columns)


def check_partitions(view: View, names: Sequence[str]) -> None:
    """Refuse columns by which a table cannot be partitioned.

    Raises:
        SinkError: one is no column of the view, or of a type whose values are not written in the names of partitions.
    """
    for name in names:
        if name not in view.schema.names:
            raise SinkError(
                f"partition_by names {name!r}, which is no column of view {view.name!r}; its columns are: "
                f"{listed(name, view.schema.names)}"
            )
    for name in names:
        kind = view.schema.field(name).type
        if pt.is_nested(kind) or pt.is_floating(kind) or pt.is_binary(kind):
            raise SinkError(
                f"partition_by names {name!r} of view {view.name!r}, which is {type_name(kind)}; a partition's "
                "column must be a string, a whole number, a decimal, a boolean, a date or a timestamp"
            )


def refuse_negative(contents: Updates, view: str) -> None:
    """Refuse contents in which a row has a negative count.

    Raises:
        SinkError: one has; the message names the first.
    """
    bad = negatives(contents, view)
    if bad is not None:
        _, _, message, row = bad.rows.slice(0, 1).to_pylist()[0]
        raise SinkError(f"view {view!r} has a row that cannot be in a table: {message} (row {row})")
