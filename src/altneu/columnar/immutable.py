"""Values that are made many times in a step: immutable to those who write code, and quick to make.

A frozen dataclass sets each field through ``object.__setattr__``, for which three fields take five times as long as
three assignments. ``@immutable(frozen=True)`` is a frozen dataclass to mypy, which refuses assignments, and an ordinary
one with a hash when it runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["immutable"]

if TYPE_CHECKING:
    from dataclasses import dataclass as immutable
else:
    from dataclasses import dataclass

    def immutable(*, frozen: bool, eq: bool = True, slots: bool = False) -> object:
        """As ``dataclass``; ``frozen`` must be given, for mypy."""
        assert frozen
        return dataclass(eq=eq, slots=slots, unsafe_hash=eq)
