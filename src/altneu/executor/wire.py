"""Messages between Spark tasks: rows ``(shard, port, payload)`` whose payloads are Arrow IPC streams.

Ports from 0 on are channels of the plan. A ``META`` row tells the driver what a stage made in a shard; a ``SEED`` row
makes sure that every shard's task has a row, so that due work runs where nothing arrives.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.batch import Arranged, Batch, Description
from altneu.executor.base import ArrangementState, Message, Region, Snapshot
from altneu.executor.state import from_ipc, to_ipc, updates_from_batch, updates_to_batch
from altneu.physical import ArrangeOp, Channel, Plan
from altneu.update import Updates

META, SEED = -1, -2
SCHEMA = pa.schema([("shard", pa.int32()), ("port", pa.int32()), ("payload", pa.binary())])
SPARK_SCHEMA = "shard int, port int, payload binary"
_ROWS = 1 << 20  # a message of more rows is cut: one binary value must stay far below 2 GiB
_BYTES = 64 << 20  # a record batch of messages is sent when it holds so much

Row = tuple[int, int, bytes]


def encode(shard: int, number: int, message: Message) -> Iterator[Row]:
    """A message as rows, large ones cut."""
    if isinstance(message, Arranged):
        batches = message.new.to_record_batches()
        yield shard, number, to_ipc(batches, batches[0].schema)
        return
    for start in range(0, max(len(message), 1), _ROWS):
        stop = min(start + _ROWS, len(message))
        part = message if stop - start == len(message) else message.take(np.arange(start, stop))
        batch = updates_to_batch(part)
        yield shard, number, to_ipc([batch], batch.schema)


def given_to(plan: Plan, number: int, given: Collection[str]) -> bool:
    """Whether a channel carries an arrangement that is read whole and as new: it need not travel."""
    operation = plan.nodes[plan.channels[number].port.node].operation
    return isinstance(operation, ArrangeOp) and operation.arrangement in given


def decode(
    plan: Plan, number: int, payload: bytes, snapshot: Snapshot, region: Region, given: Collection[str] = ()
) -> Message:
    """The message that a payload holds; an arrangement's old batches are opened from the snapshot.

    A given arrangement has no old batches: what there is is new.
    """
    channel = plan.channels[number]
    if given_to(plan, number, given):
        return _given(plan, channel, snapshot, region)
    batches = from_ipc(payload)
    if not channel.arranged:
        width = plan.lattice_of(channel.port.node).width
        parts = [updates_from_batch(b, channel.schema, width) for b in batches]
        return Updates.concat(parts, channel.schema, width)
    operation = plan.nodes[channel.port.node].operation
    assert isinstance(operation, ArrangeOp)
    state: ArrangementState | None = snapshot.get(operation.arrangement)
    description = Description(region.lower, region.upper, region.since)
    new = Batch.from_record_batches(operation.layout, description, batches)
    return Arranged(operation.layout, () if state is None else state.spine.batches, new)


def _given(plan: Plan, channel: Channel, snapshot: Snapshot, region: Region) -> Arranged:
    operation = plan.nodes[channel.port.node].operation
    assert isinstance(operation, ArrangeOp)
    return Arranged(operation.layout, (), snapshot[operation.arrangement].spine.merged(region.since))


def pack(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Rows as record batches of bounded size."""
    waiting: list[Row] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row[2])
        if size > _BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """The rows of record batches."""
    for batch in batches:
        yield from zip(*(c.to_pylist() for c in batch.columns), strict=True)


def pack_meta(meta: dict[str, Any], blobs: dict[str, bytes]) -> bytes:
    """What a stage tells the driver: JSON, then the small batches it made."""
    head = json.dumps({**meta, "blobs": {n: len(b) for n, b in blobs.items()}}).encode()
    return b"".join([struct.pack("<Q", len(head)), head, *blobs.values()])


def unpack_meta(payload: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What ``pack_meta`` packed."""
    (size,) = struct.unpack_from("<Q", payload)
    at = 8 + size
    meta = json.loads(payload[8:at])
    blobs = {}
    for name, length in meta.pop("blobs").items():
        blobs[name] = payload[at : at + length]
        at += length
    return meta, blobs
