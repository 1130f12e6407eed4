"""Changes of a view as a stream: offsets are frontiers of the session, so the same range gives the same rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from altneu.columnar.rows import Ints
from altneu.errors import HistoryGoneError, ReadError
from altneu.views.reader import StoreReadings
from altneu.views.view import View
from pyspark_altneu.options import Options
from pyspark_altneu.parts import changed_parts, check_errors, shape_of
from pyspark_altneu.rows import Part, read_part

_NOTHING = -1  # the frontier of a query that has seen nothing, not even a snapshot


class ChangeReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The changes of a view between frontiers, as batches for Spark; the first one has a snapshot.

    An offset ``{"frontier": f, "store": id}`` says that Spark has received all changes of that store before ``f``. The
    lease keeps the history after the last offset that Spark has committed; it is renewed while the query runs, and
    runs out when it has been stopped for longer.
    """

    def __init__(self, options: Options) -> None:
        if options.mode != "changes":  # Spark asks for columns before it tells whether they are those of a stream
            raise ReadError('a stream is of changes: add .option("mode", "changes")')
        if options.since is not None or options.until is not None:
            raise ReadError('options "since" and "until" are of batch reads; a stream begins at "startingTime"')
        self.options = options
        self._opened: StoreReadings | None = None
        self._target: int | None = None  # of a query that takes what is available now

    # what Spark asks ------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's names, here and below
        """The offset before any change; an option, or else the first batch, decides the time of the snapshot."""
        return {"frontier": _NOTHING}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of rows in a batch, from the options."""
        return ReadAllAvailable() if self.options.max_rows is None else ReadMaxRows(self.options.max_rows)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next batch: the frontier, or an earlier time because of the limit; only whole times."""
        reader, begin = self._reader, int(start["frontier"])
        reader.refresh()
        end = reader.lower if self._target is None else min(reader.lower, self._target)
        first = self.options.starting_time
        self._check(start)
        if end <= (begin if begin >= 0 else (0 if first is None else first)):
            end = begin  # there is nothing new
        elif begin >= 0:
            end = self._limited(begin, end, limit.max_rows if isinstance(limit, ReadMaxRows) else None)
        offset: dict[str, Any] = {"frontier": end, "store": reader.history_id(self.options.view)}
        if begin >= 0 or first is not None:
            self._hold(begin if begin >= 0 else first + 1)  # type: ignore[operator]
        elif end >= 0 and reader.view(self.options.view).changes_only:
            offset |= {"from": 0 if reader.known(self.options.view).distinguishes(0) else end}
            self._hold(offset["from"])
        else:
            self._hold(end)
        return start if end == begin else offset

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The frontier, for the query's progress."""
        reader = self._opened
        return None if reader is None else {"frontier": reader.lower, "store": reader.history_id(self.options.view)}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to the present frontier and no further."""
        self._reader.refresh()
        self._target = self._reader.lower

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Parts of one batch; a batch that is planned again after a crash has the same rows."""
        reader, options = self._reader, self.options
        low, high = int(start["frontier"]), int(end["frontier"])
        if high > reader.lower:
            reader.refresh()
        self._check(start)
        self._check(end)
        view = reader.view(options.view)
        if high <= low:
            return []
        try:
            if low >= 0:
                return changed_parts(options, reader, view, low, high)
            return self._first_parts(reader, view, high, end.get("from"))
        except HistoryGoneError as error:
            raise HistoryGoneError(
                f"{error}. The query was stopped for longer than its lease of {options.lease}: start it with a new "
                'checkpoint (it begins with a snapshot), and with .option("lease", ...) if it may stop for so long'
            ) from error

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one part."""
        assert isinstance(partition, Part)
        return read_part(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Release the history before this offset, which Spark will not request again."""
        self._hold(int(end["frontier"]))

    def stop(self) -> None:
        """Keep the lease until it expires, because the query may be started again."""
        if self._opened is not None:
            self._opened.close(keep=True)

    # ----------------------------------------------------------------------------------------------------------------

    @property
    def _reader(self) -> StoreReadings:
        if self._opened is None:  # nothing more is folded until it is known what the query needs
            self._opened = self.options.open(lease=self.options.lease, since=0)
        return self._opened

    def _check(self, offset: dict[str, Any]) -> None:
        """Refuse an offset that belongs to another history than that of the store."""
        reader, frontier = self._reader, int(offset["frontier"])
        history = reader.history_id(self.options.view)
        if frontier >= 0 and (frontier > reader.lower or offset["store"] != history):
            raise ReadError(
                f"the query has been given times before {frontier} by store {offset['store']}; in {self.options.path} "
                f"there is store {history} at {reader.lower}: another one, an older copy, it went back to an earlier "
                "commit after damage, or the view was dropped and made anew. Start the query with a new checkpoint"
            )

    def _hold(self, frontier: int) -> None:
        """Retain the history that a batch from ``frontier`` on needs."""
        if frontier >= 0:
            self._reader.hold(max(frontier - 1, 0))

    def _first_parts(self, reader: StoreReadings, view: View, end: int, start: int | None) -> list[Part]:
        """The first batch: a snapshot, and the changes after it up to ``end``.

        Of a view without contents there are changes alone, from ``start`` on, which its offset says: all of them where
        they are all known, else those to come.
        """
        options = self.options
        at = end - 1 if options.starting_time is None else options.starting_time
        parts = changed_parts(options, reader, view, at + 1 if start is None else start, end)
        if not view.changes_only if options.snapshot is None else options.snapshot:
            check_errors(options, reader, view, at + 1)
            shape = shape_of(options, view, changes=True)
            parts += [Part(shape, piece, (at,)) for piece in reader.pieces(view.name, at)]
        return parts

    def _limited(self, start: int, end: int, most_rows: int | None) -> int:
        """The end of a batch of whole times within the limits of rows and times; it has at least one time."""
        most_times = self.options.max_times
        if most_rows is None and most_times is None:
            return end
        times = self._times(start, end)
        distinct, counts = np.unique(times, return_counts=True)
        if most_rows is not None:
            fitting = int(np.searchsorted(np.cumsum(counts), most_rows, side="right"))
            most_times = fitting if most_times is None else min(fitting, most_times)
        most = max(most_times or 0, 1)
        return end if len(distinct) <= most else int(distinct[most])

    def _times(self, start: int, end: int) -> Ints:
        changed = self._reader.changed(self.options.view, start, end)
        times = [piece.changes(low, high).times[0] for piece, low, high in changed]
        return np.concatenate(times) if times else np.empty(0, np.int64)
