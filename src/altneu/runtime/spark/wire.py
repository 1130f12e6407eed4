"""Messages on their way: rows between the tasks of one job, references to what is in the store for what runs later.

Rows are ``(shard, port, payload)``, whose payloads are Arrow IPC streams. Ports from 0 on are channels of the plan. A
``META`` row tells the driver what a stage made in a shard; a ``SEED`` row makes sure that every shard's task has a row,
so that due work runs where nothing arrives. After a long payload come ``FILLER`` rows, which are empty: Spark hands
rows to Python a number at a time, and to have it count their bytes, too, takes it longer than to write them.
"""

from __future__ import annotations

import json
import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.base import ArrangementState, Message, Region, Snapshot
from altneu.order import Antichain
from altneu.plan.physical import Channel, Plan
from altneu.runtime.files import Files, from_ipc, to_ipc
from altneu.runtime.outcome import Sent
from altneu.runtime.packed import Packed, unpacked
from altneu.runtime.spill import bytes_of
from altneu.runtime.state import Names, WriteData, updates_from_batch, updates_to_batch
from altneu.runtime.stored import MessageRef
from altneu.trace.batch import Arranged, Batch, Block, Description, Layout, LazyBatch
from altneu.trace.merging import merge
from altneu.trace.records import batch_of_records, records_of
from altneu.trace.update import Updates

META, SEED, FILLER = -1, -2, -3
RECORD_ROWS = 1 << 12  # rows that Spark hands to Python at a time
RECORD_BYTES = 16 << 20  # what they should take up at most: on their way they are there several times
SCHEMA = pa.schema([("shard", pa.int32()), ("port", pa.int32()), ("payload", pa.binary())])
SPARK_SCHEMA = "shard int, port int, payload binary"
_BLOB = 4 << 20  # bytes of a message's rows that travel as one value: Spark copies each several times
_BYTES = 8 << 20  # a record batch of messages is sent when it holds so much
_FILLED = RECORD_BYTES // RECORD_ROWS  # bytes of a payload that count as a row

Row = tuple[int, int, bytes]


def encode(shard: int, number: int, message: Message | MessageRef | Packed) -> Iterator[Row]:
    """A message as rows, large ones cut. A reference names the segment that holds an arrangement's new batch."""
    if isinstance(message, MessageRef):
        yield shard, number, json.dumps(message.to_json()).encode()
        return
    if isinstance(message, Arranged):
        batches = records_of(message.new)
        yield shard, number, to_ipc(batches, batches[0].schema)
        return
    size = message.nbytes if isinstance(message, Packed) else bytes_of(message)
    rows = max(_BLOB * len(message) // max(size, 1), 1)
    for start in range(0, max(len(message), 1), rows):
        stop = min(start + rows, len(message))
        part = message if stop - start == len(message) else message.slice(start, stop)
        yield shard, number, (part if isinstance(part, Packed) else Packed.of(part)).to_bytes()


def given_to(plan: Plan, number: int, given: Collection[str]) -> bool:
    """Whether a channel carries an arrangement that is read whole and as new: it need not travel."""
    operation = plan.nodes[plan.channels[number].port.node].operation
    return isinstance(operation, ArrangeOp) and operation.arrangement in given


def decode(
    plan: Plan, number: int, payload: bytes, snapshot: Snapshot, region: Region, given: Collection[str], files: Files
) -> Arranged | Packed:
    """The message that a payload holds; an arrangement's old batches are opened from the snapshot.

    A given arrangement has no old batches: what there is is new. A long new batch is in a segment, which the payload
    names.
    """
    channel = plan.channels[number]
    if given_to(plan, number, given):
        return _given(plan, channel, snapshot, region)
    if not channel.arranged:
        return Packed.from_bytes(payload, channel.schema)
    layout, state = _arrangement(plan, channel, snapshot)
    old = () if state is None else state.spine.batches
    if payload[:1] == b"{":
        ref = MessageRef.from_json(json.loads(payload))
        assert ref.data is not None
        return Arranged(layout, old, files.lazy(layout, region.inside(layout.lattice), ref.rows, ref.data))
    return Arranged(layout, old, _new(layout, region, from_ipc(payload)))


def _given(plan: Plan, channel: Channel, snapshot: Snapshot, region: Region) -> Arranged:
    layout, state = _arrangement(plan, channel, snapshot)
    assert state is not None
    return Arranged(layout, (), whole_of(state, region.inside(layout.lattice).since))


def _arrangement(plan: Plan, channel: Channel, snapshot: Snapshot) -> tuple[Layout, ArrangementState | None]:
    operation = plan.nodes[channel.port.node].operation
    assert isinstance(operation, ArrangeOp)
    return operation.layout, snapshot.get(operation.arrangement)


def whole_of(state: ArrangementState, since: Antichain) -> Batch:
    """All updates of an arrangement as one batch, merged when and as far as it is looked at."""
    batches = state.spine.batches
    if not batches:
        return state.spine.merged(since)
    descriptions = [batch.description for batch in batches]
    for description in descriptions:
        since = since.join(description.since)
    rows, size = sum(map(len, batches)), sum(batch.bytes_as_rows for batch in batches)

    def part(lower: int, upper: int) -> tuple[Block, ...]:
        return merge([batch.between(lower, upper) for batch in batches], since).blocks

    description = Description(descriptions[0].lower, descriptions[-1].upper, since)
    return LazyBatch(state.spine.layout, description, rows, size, part, exact=False)


def _updates(plan: Plan, channel: Channel, batches: Iterable[pa.RecordBatch]) -> Updates:
    width = plan.lattice_of(channel.port.node).width
    return Updates.concat([updates_from_batch(b, channel.schema, width) for b in batches], channel.schema, width)


def _new(layout: Layout, region: Region, batches: Iterable[pa.RecordBatch]) -> Batch:
    return batch_of_records(layout, region.inside(layout.lattice), batches)


def written(
    plan: Plan, given: Collection[str], sent: Iterable[Sent], names: Names, write: WriteData
) -> Iterator[tuple[int, int, MessageRef]]:
    """Messages by name: what one channel carries to several shards is written once, a record batch for each."""
    together: dict[int, list[tuple[int, Updates]]] = defaultdict(list)
    for shard, number, message in sent:
        if isinstance(message, MessageRef):
            yield shard, number, message
        elif isinstance(message, Updates | Packed):
            together[number].append((shard, unpacked(message)))
        elif given_to(plan, number, given):
            yield shard, number, MessageRef(rows_in(message))
        else:
            old = tuple(names.of(batch) for batch in message.old if len(batch))
            yield shard, number, MessageRef(len(message.new), names.of(message.new)["data"], old=old)
    for number, parts in together.items():
        batches = [updates_to_batch(updates) for _, updates in parts]
        schema = batches[0].schema
        data = write([pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in batches], schema)
        for i, (shard, updates) in enumerate(parts):
            yield shard, number, MessageRef(len(updates), data, part=i)


def open_message(plan: Plan, number: int, ref: MessageRef, snapshot: Snapshot, region: Region, files: Files) -> Message:
    """The message that a reference names; rows are read where they are touched."""
    channel = plan.channels[number]
    if ref.data is None:
        return _given(plan, channel, snapshot, region)
    if ref.part is not None:
        return _updates(plan, channel, [files.open_part(ref.data, ref.part)])
    layout, _ = _arrangement(plan, channel, snapshot)
    old = tuple(files.batch(layout, batch) for batch in ref.old or ())
    return Arranged(layout, old, files.lazy(layout, region.inside(layout.lattice), ref.rows, ref.data))


def rows_in(message: Message | MessageRef | Packed) -> int:
    """Updates that a message brings."""
    if isinstance(message, MessageRef):
        return message.rows
    return message.new.rows_at_most if isinstance(message, Arranged) else len(message)


def pack(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Rows as record batches of bounded size, with fillers, so that a number of them is bounded in bytes."""
    waiting: list[Row] = []
    size = 0
    for row in rows:
        waiting.append(row)
        waiting += [(row[0], FILLER, b"")] * (len(row[2]) // _FILLED)
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
    """The rows of record batches, one after the other: payloads are copied out of what Spark sends."""
    for batch in batches:
        shards, ports = (np.asarray(batch.column(i)) for i in range(2))
        payloads = batch.column(2)
        at = np.flatnonzero(ports != FILLER)
        for i, shard, port in zip(at.tolist(), shards[at].tolist(), ports[at].tolist(), strict=True):
            yield shard, port, payloads[i].as_py()


def pack_meta(meta: Mapping[str, object], blobs: dict[str, bytes]) -> bytes:
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
