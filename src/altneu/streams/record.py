"""The position of a stream: a record that is committed together with the rows up to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Self, cast

from altneu.errors import StreamError
from altneu.runtime.stored import StoredStream

REWIND = "rewind"


@dataclass(frozen=True)
class Record:
    """The position of a stream, as the store has it.

    ``query`` is the id of Spark's checkpoint, ``batch`` the last micro-batch of which any piece was committed, ``plan``
    a checksum of Spark's plan of it. ``piece`` of ``of`` was its last piece. ``rows`` and ``late`` are counts over all
    batches; ``seen`` is the greatest time of a row, ``whole`` the same over complete batches, and ``delay`` the
    watermark's delay, None if rows have no times of their own.

    >>> Record().step("q", 0, "p", restart=None)
    (0, None)
    >>> taken = Record("q", 0, "p")
    >>> taken.step("q", 0, "p", restart=None) is None, taken.step("q", 1, "r", restart=None)
    (True, (0, None))
    """

    query: str | None = None
    batch: int = -1
    plan: str | None = None
    piece: int = 0
    of: int = 1
    rows: int = 0
    late: int = 0
    seen: int | None = None
    whole: int | None = None
    delay: int | None = None

    @classmethod
    def from_json(cls, value: StoredStream) -> Self:
        """The record from the result of ``to_json``."""
        return cls(**value)

    def to_json(self) -> StoredStream:
        """The record as the store keeps it."""
        return cast(StoredStream, asdict(self))

    @property
    def mark(self) -> str:
        """The value of ``follow(restart=...)`` that refers to exactly this state."""
        return "nothing" if self.query is None else f"{self.query}/{self.batch}"

    @property
    def frontier(self) -> int | None:
        """The time before which no row is expected; None before the first row."""
        return None if self.whole is None or self.delay is None else self.whole - self.delay

    @property
    def due(self) -> int:
        """The next batch: the last one if it is incomplete, else the one after it."""
        return 0 if self.query is None else self.batch + self.is_whole

    @property
    def is_whole(self) -> bool:
        """Whether all pieces of the last batch are committed."""
        return self.piece + 1 == self.of

    def after(self, query: str, batch: int, plan: str, piece: int, of: int) -> Self:
        """The record after a piece whose rows are counted already."""
        done = replace(self, query=query, batch=batch, plan=plan, piece=piece, of=of)
        return replace(done, whole=done.seen) if done.is_whole else done

    def step(
        self, query: str, batch: int, plan: str, restart: str | None, before: str | None = None
    ) -> tuple[int, int | None] | None:
        """The first piece to take of a batch from Spark, and the number of pieces if it was split before.

        None if the batch is complete: Spark repeats a batch whose end it did not record. ``before`` is the plan of the
        batch before it, if known.

        Raises:
            StreamError: Spark's checkpoint and the store do not belong together, or no longer.
        """
        if query == self.query and batch == self.batch and plan == self.plan:
            return None if self.is_whole else (self.piece + 1, self.of)
        follows = query == (self.query or query) and batch == self.batch + 1 and self.is_whole
        if follows and (before is None or self.query is None or before == self.plan):
            return 0, None
        if restart is not None and restart == self.mark:
            return 0, None
        raise StreamError(f"{self._mismatch(query, batch)}. Nothing of it was taken.")

    def check_done(self, done: int | None, restart: str | None) -> None:
        """Refuse a checkpoint in which a batch is done that the store does not have.

        Raises:
            StreamError: the store is older than the checkpoint.
        """
        if done is not None and done > self.batch and restart != self.mark:
            raise StreamError(f"{self._mismatch(self.query or '', done + 1)}. Nothing of it was taken.")

    def _mismatch(self, query: str, batch: int) -> str:
        again = (
            "Restore the checkpoint and the store together, from copies of the same moment. Or start afresh: "
            f"restart={self.mark!r} treats all that this query reads from here on as new rows (choose where the source "
            "begins, or retract its stored rows)"
        )
        if self.query is None:
            return (
                f"Spark's checkpoint continues with batch {batch}, but the store has no batch before it: the store "
                f"is new, or older than the checkpoint. With restart={REWIND!r} the checkpoint is set back to its "
                f"first batch, if it still has it. {again}"
            )
        had = f"the store has the batches up to {self.batch} of the query {self.query}"
        if query != self.query:
            return (
                f"{had}, but this is another query, {query}: its checkpoint is new, or that of another query. {again}"
            )
        if batch == self.batch + 1 and self.is_whole:
            return (
                f"{had}, but batch {self.batch} of Spark's checkpoint is a different one: checkpoint and store are "
                f"copies that have diverged. {again}"
            )
        if batch > self.batch:
            return (
                f"{had}, but Spark continues with batch {batch}: the store was restored from an older copy. "
                f"With restart={REWIND!r} the checkpoint is set back to the store, and Spark reads the missing batches "
                "again"
            )
        return (
            f"{had}, but Spark has planned batch {batch} again: its checkpoint was restored from an older copy, or has "
            f"lost its last files. {again}"
        )


def target(records: Iterable[Record], lower: int) -> int:
    """The time up to which a session may advance after a batch: by one tick, or as far as all watermarks allow.

    >>> target([Record(whole=9, delay=2), Record(whole=8, delay=0)], 5)
    7
    >>> target([Record(whole=9, delay=2), Record(delay=0)], 5)
    5
    >>> target([Record()], 5)
    6
    """
    timed = [record for record in records if record.delay is not None]
    if not timed:
        return lower + 1
    reached = [record.frontier for record in timed if record.frontier is not None]
    return max(lower, min(reached)) if len(reached) == len(timed) else lower
