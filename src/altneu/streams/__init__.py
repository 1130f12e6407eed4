"""Streams in: micro-batches of Structured Streaming, and versions of tables, become times (docs/streams_in.md)."""

from __future__ import annotations

from altneu.streams.following import Following
from altneu.streams.late import late_rows
from altneu.streams.registry import Streams
from altneu.streams.stream import Status
from altneu.streams.tables import Delta, delta

__all__ = ["Delta", "Following", "Status", "Streams", "delta", "late_rows"]
