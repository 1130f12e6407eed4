"""Feeding the sources that statements define: batches once, streams up to their current end, and refreshes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from altneu.engine.engine import Engine
from altneu.engine.replace import replace
from altneu.errors import AltneuError, StatementError
from altneu.sql.statements.defined import Defined, Definitions
from altneu.sql.statements.origins import batch_of, frame_of, needs_spark, stamped, table_of
from altneu.sql.statements.tree import FOLLOWED, TABLES, CreateSource
from altneu.streams import Following, Streams

if TYPE_CHECKING:
    from altneu.streams.stream import OnStep

_BY_STREAM = {"WATERMARK": "watermark", "LATE": "late", "MAX_ROWS": "max_rows", "RESTART": "restart"}


class Feeds:
    """The sources of a session that files, tables and streams feed.

    A batch is inserted as soon as a view reads its source, and counts with the next step; when a commit has it, it is
    not read again. A stream is taken as far as it is by the first step, and then when it is followed or refreshed.
    """

    def __init__(self, engine: Engine, streams: Streams, known: Definitions) -> None:
        self._streams = streams
        self._engine, self._known = engine, known
        self._drained: set[str] = set()
        self._draining = threading.Lock()  # one thread does, and others wait for what it takes
        self.followings: list[Following] = []

    def live(self, *kinds: str) -> list[Defined]:
        """The sources of some kinds of origin that views read."""
        sources = [d for d in self._known.all.values() if d.kind == "SOURCE" and d.error is None]
        return [d for d in sources if d.stated(CreateSource).origin.kind in kinds and d.name in self._engine.sources]

    def insert(self, *, noted: bool = False) -> None:
        """Insert the rows of batch sources that views have begun to read.

        With ``noted`` an error in reading one is recorded, and fails the next step instead of this statement.
        """
        filled = self._engine.sources_filled
        for source in self.live("file", "table"):
            try:
                if not source.fed and source.name not in filled:
                    self._insert(source)
                source.fed = True
            except AltneuError as error:
                if not noted:
                    raise
                error.add_note(
                    f"altneu: SOURCE {source.name} of this store could not be read: remove the cause and open the "
                    f"store again, or DROP SOURCE {source.name} CASCADE"
                )
                source.error = error

    def _insert(self, source: Defined) -> None:
        statement = source.stated(CreateSource)
        data, options = self._stamped(source, batch_of(statement, source.raw, self._engine.spark))
        self._engine.insert(source.name, data, **options)

    def _stamped(self, source: Defined, data: Any) -> tuple[Any, dict[str, Any]]:
        """The rows with columns for their times and diffs, and the options of ``insert`` that name these."""
        statement = source.stated(CreateSource)
        texts = {f"time{i}": text for i, (text, _) in enumerate(statement.times) if text is not None}
        if statement.diff is not None and not statement.diff.lstrip("-").isdigit():
            texts["diff"] = statement.diff
        if self._engine.spark is not None:
            data, names = stamped(data, texts)
        else:
            names = {what: text.strip("`") for what, text in texts.items()}
            for text in names.values():
                if text not in data.column_names:
                    raise StatementError(
                        f"source {source.name!r}: without Spark, TIME and DIFF must be columns, but {text!r} is not "
                        f"among {', '.join(data.column_names)}"
                    )
        options: dict[str, Any] = _extra(statement)
        if statement.times:
            times = tuple(names.get(f"time{i}") for i in range(len(statement.times)))
            options["time"] = times if len(times) == 2 else times[0]
        if statement.diff is not None:
            options["diff"] = names.get("diff") or int(statement.diff)
        return data, options

    # streams --------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Take each stream that a view reads up to its current end, once a session."""
        if not self._undrained():
            return
        if self._engine.lock.is_mine:  # which following refuses, saying why
            self._drain(self._undrained())
            return
        with self._draining:
            self._drain(self._undrained())

    def _undrained(self) -> list[Defined]:
        kinds = FOLLOWED if self._engine.spark is not None else TABLES  # without Spark a store shows what it has
        return [s for s in self.live(*kinds) if s.name not in self._drained]

    def _drain(self, sources: list[Defined]) -> None:
        if not sources:
            return
        with self.follow(sources, available_now=True) as following:
            following.wait()
        self._drained |= {s.name for s in sources}

    def follow(
        self,
        sources: list[Defined],
        *,
        available_now: bool = False,
        trigger: str | None = None,
        on_step: OnStep | None = None,
    ) -> Following:
        """Follow streams together: each knows the times of all others."""
        given = {s.name: self._followed(s.stated(CreateSource), s.raw) for s in sources}
        options: dict[str, dict[str, Any]] = {}
        for source in sources:
            for option, value in _follow_options(source.stated(CreateSource)).items():
                options.setdefault(option, {})[source.name] = value
        following = self._streams.follow(
            given,
            _checkpoint([s for s in sources if s.stated(CreateSource).origin.kind == "stream"]),
            {**options, "on_step": on_step},
            available_now=available_now,
            trigger=trigger,
        )
        if not available_now:
            self._drained |= {s.name for s in sources}
        self.followings = [f for f in self.followings if f.active] + [following]
        return following

    def _followed(self, statement: CreateSource, raw: str) -> Any:
        """The stream or the table of a source."""
        if statement.origin.kind in TABLES:
            return table_of(statement)
        if self._engine.spark is None:
            raise StatementError(needs_spark(statement))
        return frame_of(statement, raw, self._engine.spark)

    def stop(self, name: str) -> None:
        """Stop following a stream, if it is followed."""
        for following in self.followings:
            if name in following.status:
                following.stop()
        self._drained.discard(name)

    @property
    def followed(self) -> set[str]:
        """The streams that are followed just now."""
        return {name for following in self.followings for name, s in following.status.items() if s.active}

    # refresh --------------------------------------------------------------------------------------------------------

    def refresh(self, source: Defined) -> None:
        """Take the new rows of a source: a stream up to its current end; of a batch with kept rows, the difference.

        Raises:
            StatementError: new rows cannot be recognised.
        """
        statement = source.stated(CreateSource)
        if source.name not in self._engine.sources:
            return  # what nothing reads is not taken
        if statement.origin.is_followed:
            if source.name not in self.followed:
                self._drain([source])
            return
        if statement.origin.kind == "insert":
            raise StatementError(f"{source.name!r} gets its rows by INSERT, so there is nothing to read again")
        if not source.fed:
            self.insert()
            return
        if source.view is None or statement.envelope.kind != "none" or statement.times or statement.diff:
            raise StatementError(
                f"source {source.name!r} is read only once. REFRESH finds new rows by comparing them with the stored "
                "rows: declare the source with KEEP, and without ENVELOPE, TIME and DIFF; FROM STREAM reads new files"
            )
        rows = batch_of(statement, source.raw, self._engine.spark)
        replace(self._engine, source.name, rows, **_extra(statement))


def _extra(statement: CreateSource) -> dict[str, Any]:
    """Columns that are declared are a choice of those that rows have; otherwise all of these are the source's."""
    return {"extra": "error" if statement.columns is None and statement.raw is None else "ignore"}


def _follow_options(statement: CreateSource) -> dict[str, Any]:
    """The options of ``follow`` for one stream."""
    options = _extra(statement) | {
        name: statement.options[word] for word, name in _BY_STREAM.items() if word in statement.options
    }
    if statement.times:
        times = tuple(text for text, _ in statement.times)
        options["time"] = times if len(times) == 2 else times[0]
    if statement.diff is not None:
        number = statement.diff.lstrip("-").isdigit()
        options["diff"] = int(statement.diff) if number else statement.diff
    return options


def _checkpoint(sources: list[Defined]) -> str | None:
    checkpoints = {s.stated(CreateSource).options.get("CHECKPOINT") for s in sources}
    if len(checkpoints) > 1:
        raise StatementError(
            "streams that are followed together must have the same CHECKPOINT, but "
            f"{', '.join(s.name for s in sources)} have {', '.join(map(str, sorted(map(str, checkpoints))))}"
        )
    checkpoint: str | None = checkpoints.pop() if checkpoints else None
    return checkpoint
