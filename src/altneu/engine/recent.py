"""What was asked for lately, remembered by key."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """What was asked for most recently, by key, so many values at most; any thread may ask."""

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
        """Remember a value, and forget the one that was not asked for longest."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self.most:
                self._values.popitem(last=False)
