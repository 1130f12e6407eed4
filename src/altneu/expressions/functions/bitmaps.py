"""Bitmaps of 32768 bits, as binary of 4096 bytes: made of places, joined and counted."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa

from altneu.expressions.each import RowFailure, each
from altneu.expressions.functions.bits import scalar
from altneu.expressions.registry import Out

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

_SIZE = 4096


def _padded(bitmaps: list[bytes], filling: bytes) -> list[int]:
    return [int.from_bytes(b[:_SIZE] + filling * (_SIZE - len(b)), "big") for b in bitmaps]


@scalar("bitmap_of(places array<bigint>) -> binary", fails=True)
def bitmap_of(call: Call, places: pa.Array) -> Out:
    """The bitmap with the bits at these places, from 0 to 32767. `bitmap_construct_agg` is that of a group's places."""

    def made(listed: list[int | None]) -> bytes:
        out = bytearray(_SIZE)
        for place in listed:
            if place is not None:
                if not 0 <= place < 8 * _SIZE:
                    raise RowFailure(
                        "INVALID_BITMAP_POSITION", f"the place of a bit must be from 0 to 32767, got {place}"
                    )
                out[place // 8] |= 1 << place % 8
        return bytes(out)

    return each(call, made, places)


@scalar("bitmap_or(bitmaps array<binary>) -> binary")
def bitmap_or(call: Call, bitmaps: pa.Array) -> Out:
    """The bits that are in some bitmap of an array. `bitmap_or_agg` is that of a group's bitmaps."""

    def joined(listed: list[bytes | None]) -> bytes:
        known = _padded([b for b in listed if b is not None], b"\x00")
        return reduce(int.__or__, known, 0).to_bytes(_SIZE, "big")

    return each(call, joined, bitmaps)


@scalar("bitmap_and(bitmaps array<binary>) -> binary")
def bitmap_and(call: Call, bitmaps: pa.Array) -> Out:
    """The bits that are in all bitmaps of an array. `bitmap_and_agg` is that of a group's bitmaps."""

    def joined(listed: list[bytes | None]) -> bytes:
        known = _padded([b for b in listed if b is not None], b"\x00")
        return reduce(int.__and__, known, (1 << 8 * _SIZE) - 1).to_bytes(_SIZE, "big")

    return each(call, joined, bitmaps)
