"""Streams in: micro-batches of Structured Streaming, and versions of tables, become times (docs/streams_in.md)."""

from __future__ import annotations

from altneu.streams.changes import table_changes
from altneu.streams.following import Following
from altneu.streams.late import late_rows
from altneu.streams.registry import Streams
from altneu.streams.stream import Status
from altneu.streams.tables import Delta, Iceberg, delta, iceberg

__all__ = ["Delta", "Following", "Iceberg", "Status", "Streams", "delta", "iceberg", "late_rows", "table_changes"]
