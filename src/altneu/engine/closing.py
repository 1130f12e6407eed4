"""What is closed at the end of a ``with``."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """A thing with ``close()``, which the end of its ``with`` calls, whatever happened inside.

    >>> class Door(Closing):
    ...     def close(self):
    ...         print("closed")
    >>> with Door():
    ...     print("inside")
    inside
    closed
    """

    def close(self) -> None:
        """Let go of it; twice is once."""
        raise NotImplementedError(type(self).__name__)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
