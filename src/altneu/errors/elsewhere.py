"""Names that other libraries have for what a class has under another name: said to whoever tries them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar


class NamedElsewhere:
    """A class whose missing attributes say what to use instead, where it knows their names from elsewhere.

    >>> class Door(NamedElsewhere):
    ...     _what, _instead = "a door", {"shut": "use close()"}
    >>> Door().shut
    Traceback (most recent call last):
    AttributeError: a door has no 'shut'; use close()
    """

    _what: ClassVar[str]
    _instead: ClassVar[Mapping[str, str]]

    if not TYPE_CHECKING:  # a type checker must report attributes that do not exist

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            if hasattr(kind, name):  # a property that failed: its own error is the one to see
                return object.__getattribute__(self, name)
            told = f"; {kind._instead[name]}" if name in kind._instead else ""
            raise AttributeError(f"{kind._what} has no {name!r}{told}", name=name, obj=self)
