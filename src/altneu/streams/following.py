"""The object that ``session.follow`` returns."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from altneu.errors import StreamError
from altneu.streams.stream import Status, Stream

if TYPE_CHECKING:
    import threading

    from pyspark.sql.streaming.query import StreamingQuery


class Following:
    """Streams that a session follows; as a context manager it stops them at its end."""

    def __init__(self, streams: Sequence[Stream], changed: threading.Condition) -> None:
        self._streams, self._changed = list(streams), changed

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Following({'; '.join(stream.title for stream in self._streams)})"

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all streams have ended; False if they have not within ``timeout`` seconds.

        Raises:
            StreamError: a stream has stopped with an error; the others continue.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.error is not None or not self.active, timeout)
        if self.error is not None:
            raise self.error
        return not self.active

    def stop(self) -> None:
        """Stop every stream, each after its current micro-batch; a second call has no effect."""
        for stream in self._streams:
            stream.stop()

    @property
    def active(self) -> bool:
        """Whether any of the streams is running."""
        return any(stream.active for stream in self._streams)

    @property
    def error(self) -> StreamError | None:
        """The error of the first stream that stopped with one."""
        return next((stream.error for stream in self._streams if stream.error is not None), None)

    @property
    def status(self) -> dict[str, Status]:
        """The status of each stream, by name."""
        return {stream.name: stream.status for stream in self._streams}

    @property
    def queries(self) -> dict[str, StreamingQuery]:
        """Spark's queries by name, for their progress and ``processAllAvailable()``."""
        return {stream.name: stream.query for stream in self._streams if stream.query is not None}
