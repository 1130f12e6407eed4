"""The base of objects that the end of a ``with`` closes."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    """An object with ``close()``, which the end of its ``with`` always calls.

    >>> class Door(Closing):
    ...     def close(self):
    ...         print("closed")
    >>> with Door():
    ...     print("inside")
    inside
    closed
    """

    def close(self) -> None:
        """Release it; a second call has no effect."""
        raise NotImplementedError(type(self).__name__)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
