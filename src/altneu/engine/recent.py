"""A cache of the most recently used values."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """At most ``most`` values by key, of which the least recently used one is dropped first. Threads may share it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock, self._values = threading.Lock(), OrderedDict[Any, V]()

    def get(self, key: object) -> V | None:
        """The value of a key."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: object, value: V) -> None:
        """Store a value; drop the least recently used one if there are too many."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self.most:
                self._values.popitem(last=False)
