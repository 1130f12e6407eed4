"""What a kind of fault came to."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Findings:
    """Counts of one kind of fault: ``runs`` made, ``struck`` those in which it happened, and what came out wrong."""

    kind: str
    runs: int = 0
    struck: int = 0
    noted: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *, struck: bool, differences: list[str], **noted: int) -> None:
        """One run more."""
        with self._lock:
            self.runs += 1
            self.struck += struck
            self.noted.update(noted)
            self.differences += differences

    @property
    def notes(self) -> str:
        """What else was counted."""
        return ", ".join(f"{count:,} {what.replace('_', ' ')}" for what, count in self.noted.items() if count)
