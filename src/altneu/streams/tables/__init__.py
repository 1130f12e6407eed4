"""Tables with versions that a session follows: what each version changes, from the table's own log and files."""

from __future__ import annotations

from altneu.streams.tables.base import DIFF, Given, Part, Table, Version, seconds_of
from altneu.streams.tables.delta import Delta, delta
from altneu.streams.tables.iceberg import Iceberg, iceberg

__all__ = ["DIFF", "Delta", "Given", "Iceberg", "Part", "Table", "Version", "delta", "iceberg", "seconds_of"]
