"""Values that are made many times in a step: immutable to those who write code, and quick to make.

A frozen dataclass sets each field through ``object.__setattr__``, for which three fields take five times as long as
three assignments. ``@immutable(frozen=True)`` is a frozen dataclass to mypy, which refuses assignments, and an ordinary
one with a hash when it runs.

``lazy`` is ``functools.cached_property`` without the lock that it takes up to Python 3.11, which costs more than most
of what is computed. Two threads may compute a value twice; values are immutable, so it does not matter which remains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["immutable", "lazy"]

if TYPE_CHECKING:
    from dataclasses import dataclass as immutable
    from functools import cached_property as lazy
else:
    from dataclasses import dataclass

    class lazy:  # noqa: N801  # as a decorator is named
        """An attribute that is computed when it is first read, and then stored with the object."""

        def __init__(self, function: object) -> None:
            self.function, self.__doc__ = function, function.__doc__

        def __set_name__(self, _owner: type, name: str) -> None:
            self.name = name

        def __get__(self, instance: object, owner: type | None = None) -> object:
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.function(instance)
            return value

    def immutable(*, frozen: bool, eq: bool = True, slots: bool = False) -> object:
        """As ``dataclass``; ``frozen`` must be given, for mypy."""
        assert frozen
        return dataclass(eq=eq, slots=slots, unsafe_hash=eq)
