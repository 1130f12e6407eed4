"""Streams in: Structured Streaming queries whose micro-batches become times of a session (docs/streams_in.md)."""

from __future__ import annotations

from altneu.streams.following import Following
from altneu.streams.late import late_rows
from altneu.streams.registry import Streams
from altneu.streams.stream import Status

__all__ = ["Following", "Status", "Streams", "late_rows"]
