"""Tables with versions that a session follows: what each version changes, from the table's own log and files."""

from __future__ import annotations

from altneu.streams.tables.base import DIFF, Given, Part, Table, Version, seconds_of
from altneu.streams.tables.delta import Delta, delta

__all__ = ["DIFF", "Delta", "Given", "Part", "Table", "Version", "delta", "seconds_of"]
