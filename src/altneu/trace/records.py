"""Batches as Arrow record batches, one for each block: how segments, blobs and messages hold them.

There are two forms. Short batches are *plain*: a row for each update, of the payload columns and then the control
columns. In longer ones a block is *packed*: it is one row, in which each column of numbers is the bytes of its codes
(``altneu.columnar.narrow``), as wide as this block needs, and every other column a list. A mapped file is read in place
in both forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.narrow import Narrow, NarrowRows, stored_columns
from altneu.columnar.rows import Ints, Rows
from altneu.errors import StoreCorruptError
from altneu.trace.batch import CONTROL, Batch, Block, Description, Layout, PackedBlock, packed

_COLLISIONS = b"altneu.collisions"
_WIDTHS = {1: "|u1", 2: "<u2", 4: "<u4", 8: "<i8"}
_HASH, _ROWS, _FREE, _LEAST, _CODES = (CONTROL + name for name in ("key_hash", "rows", "one_key", "least", "codes"))
_VALUE_HASH = 1  # the place of the value hashes among the lines of a block


def records_of(batch: Batch) -> list[pa.RecordBatch]:
    """One record batch for each block, all of one schema; packed if one block is, else nothing is copied."""
    if any(isinstance(block, PackedBlock) for block in batch.blocks):
        return packed_records(batch)
    schema = _plain_schema(batch.layout, [i for i, b in enumerate(batch.blocks) if not b.collision_free])
    return [_plain(block, schema) for block in batch.blocks]


def packed_records(batch: Batch) -> list[pa.RecordBatch]:
    """The same, packed however short the blocks are, so that the parts of a batch have one schema."""
    schema = packed_schema(batch.layout)
    return [_packed(packed(block, 1), schema) for block in batch.blocks]


def batch_of_records(layout: Layout, description: Description, records: Iterable[pa.RecordBatch]) -> Batch:
    """The batch that ``records_of`` was given; its arrays are views of the record batches' buffers.

    Raises:
        StoreCorruptError: the columns are not those of the layout.
    """
    return Batch(layout, description, blocks_of_records(layout, records))


def blocks_of_records(layout: Layout, records: Iterable[pa.RecordBatch], first: int = 0) -> tuple[Block, ...]:
    """The blocks that record batches hold, of which the ``first`` so many are left out.

    Raises:
        StoreCorruptError: the columns are not those of the layout.
    """
    plain, narrow = _plain_schema(layout).names, packed_schema(layout).names
    blocks: list[Block] = []
    for number, record in enumerate(records, first):
        if record.schema.names == narrow:
            blocks.append(_packed_block(record, layout))
        elif record.schema.names == plain:
            blocks.append(_plain_block(number, record, layout))
        else:
            raise StoreCorruptError(
                f"a stored batch has the columns {record.schema.names}, not those of its arrangement "
                f"({plain}); restore the store from a copy, or build it again from its sources"
            )
    return tuple(block for block in blocks if len(block))


def rows_schema(stored: pa.Schema) -> pa.Schema:
    """The columns of a batch's rows, as the schema of its record batches tells them."""
    fields = [field for field in stored if not field.name.startswith(CONTROL)]
    if stored.get_field_index(_ROWS) >= 0:
        fields = [field.type.value_field.with_name(field.name) for field in fields]
    return pa.schema(fields)


# plain ----------------------------------------------------------------------------------------------------------------


def _plain_schema(layout: Layout, colliding: Sequence[int] = ()) -> pa.Schema:
    """The payload columns, ``#key_hash``, ``#value_hash``, ``#time0`` ... and ``#diff``.

    The metadata names the blocks that hold colliding keys.
    """
    hashes = [pa.field(CONTROL + name, pa.uint64(), nullable=False) for name in ("key_hash", "value_hash")]
    names = [f"time{i}" for i in range(layout.lattice.width)] + ["diff"]
    words = [pa.field(CONTROL + name, pa.int64(), nullable=False) for name in names]
    collisions = ",".join(map(str, colliding))
    return pa.schema([*layout.schema, *hashes, *words], {_COLLISIONS: collisions.encode()})


def _plain(block: Block, schema: pa.Schema) -> pa.RecordBatch:
    payload = block.layout.join(block.keys, block.values).columns
    words = [block.key_hash, block.value_hash, *block.times, block.diffs]
    types = [pa.uint64()] * 2 + [pa.int64()] * (len(words) - 2)
    buffers = [pa.py_buffer(np.ascontiguousarray(w)) for w in words]
    control = [pa.Array.from_buffers(t, len(block), [None, b]) for t, b in zip(types, buffers, strict=True)]
    return pa.RecordBatch.from_arrays([*payload, *control], schema=schema)


def _plain_block(number: int, record: pa.RecordBatch, layout: Layout) -> Block:
    payload = len(layout.schema)
    keys, values = layout.split(Rows(layout.schema, tuple(record.columns[:payload]), record.num_rows))
    words = [_words(column) for column in record.columns[payload:]]
    colliding = (record.schema.metadata or {}).get(_COLLISIONS, b"").decode().split(",")
    control = (words[0], words[1], _stack_times(words[2:-1]), words[-1])
    return Block(layout, keys, values, *control, str(number) not in colliding)


class _Words:
    """Numbers somewhere in memory as NumPy's array interface describes them."""

    def __init__(self, owner: Any, address: int, count: int, text: str) -> None:
        self.owner = owner  # of the memory
        self.__array_interface__ = {"data": (address, False), "shape": (count,), "typestr": text, "version": 3}


def _view(owner: Any, address: int, count: int, text: str) -> Any:
    """A view of numbers.

    Nothing writes to the words of a block, and those in a file cannot be written to. Numba has another type for arrays
    that say so, and would compile each kernel once for blocks in memory and once for those in files.
    """
    return np.asarray(_Words(owner, address, count, text))


def _words(column: pa.Array) -> Any:
    text = "<u8" if pa.types.is_uint64(column.type) else "<i8"
    return _view(column, column.buffers()[1].address + 8 * column.offset, len(column), text)


def _stack_times(lines: list[Ints]) -> Ints:
    """Lines of times as one (width, n) array, a view where they lie evenly apart, as in an IPC file."""
    if len(lines) == 1:
        return lines[0].reshape(1, -1)
    places = [line.ctypes.data for line in lines]
    step = places[1] - places[0]
    if step > 0 and all(place == places[0] + i * step for i, place in enumerate(places)):
        shape, strides = (len(lines), len(lines[0])), (step, 8)
        return np.lib.stride_tricks.as_strided(lines[0], shape, strides)
    return np.stack(lines)


# packed ---------------------------------------------------------------------------------------------------------------


def packed_schema(layout: Layout) -> pa.Schema:
    """The schema of ``packed_records``.

    For each payload column a list; the first key hash, the number of rows, whether a run of equal key hashes holds one
    key; the least numbers of the lines, and for each line its codes. Lines are the payload columns and then the key
    hashes, the value hashes, the diffs and each line of the times. Of a column that is in its list the codes are null;
    so are those of value hashes that are the codes of the first column of the order.
    """
    lines = len(layout.schema) + 3 + layout.lattice.width
    return pa.schema(
        [
            *[pa.field(field.name, pa.list_(field.with_name("item"))) for field in layout.schema],
            pa.field(_HASH, pa.uint64(), nullable=False),
            pa.field(_ROWS, pa.int64(), nullable=False),
            pa.field(_FREE, pa.bool_(), nullable=False),
            pa.field(_LEAST, pa.list_(pa.int64()), nullable=False),
            *[pa.field(f"{_CODES}{i}", pa.binary()) for i in range(lines)],
        ]
    )


def _packed(block: Block, schema: pa.Schema) -> pa.RecordBatch:
    assert isinstance(block, PackedBlock)
    layout, rows = block.layout, len(block)
    stored = (*stored_columns(block.keys), *stored_columns(block.values))
    places = {name: place for place, name in enumerate((*layout.key, *layout.values))}
    columns = [stored[places[field.name]] for field in layout.schema]
    lists, lines = [], list[Narrow | None]()
    for column, field in zip(columns, schema, strict=False):
        if isinstance(column, Narrow):
            lists.append(pa.nulls(1, field.type))
            lines.append(column)
        else:
            lists.append(pa.ListArray.from_arrays(pa.array([0, rows], pa.int32()), column, type=field.type))
            lines.append(None)
    lines += block.lines
    own = [pa.nulls(1, pa.binary()) if line is None else _binary(line.codes) for line in lines]
    words, first_line = block.lines[_VALUE_HASH], lines[_first_of_order(layout)] if layout.order else None
    if first_line is not None and words.codes is not None and words.codes is first_line.codes:
        own[len(columns) + _VALUE_HASH] = pa.nulls(1, pa.binary())
    least = pa.array([[0 if line is None else line.least for line in lines]], pa.list_(pa.int64()))
    first = pa.array([block.table[0, 2].view(np.uint64)], pa.uint64())
    numbers = [first, pa.array([rows], pa.int64()), pa.array([block.collision_free]), least]
    return pa.RecordBatch.from_arrays([*lists, *numbers, *own], schema=schema)


def _first_of_order(layout: Layout) -> int:
    """The place in the schema of the column by which values are ordered first."""
    return int(layout.schema.get_field_index(layout.order[0][0]))


def _binary(codes: Any) -> pa.Array:
    """Codes as the bytes of one value. Numbers that are all the same have no codes, and the value is empty."""
    data = b"" if codes is None else np.ascontiguousarray(codes).view(np.uint8)
    offsets = pa.py_buffer(np.array([0, len(data)], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(data)], 0)


def _packed_block(record: pa.RecordBatch, layout: Layout) -> Block:
    payload = len(layout.schema)
    _, counted, free, least = record.columns[payload : payload + 4]
    rows = counted[0].as_py()
    codes = record.columns[payload + 4 :]
    lines = [
        None if column.null_count else Narrow(number, _codes(column, rows), rows)
        for column, number in zip(codes, least.values.to_pylist(), strict=True)
    ]
    stored = [record.column(i).values if line is None else line for i, line in zip(range(payload), lines, strict=False)]
    control = lines[payload:]
    if control[_VALUE_HASH] is None:  # its codes are those of the first column of the order
        words = least.values[payload + _VALUE_HASH].as_py()
        control[_VALUE_HASH] = Narrow(words, stored[_first_of_order(layout)].codes, rows)
    keys, values = (
        _rows(schema, [stored[layout.schema.get_field_index(name)] for name in schema.names], rows)
        for schema in (layout.key_schema, layout.value_schema)
    )
    whole = tuple([line for line in control if line is not None])
    return PackedBlock(layout, (keys, values), whole, collision_free=free[0].as_py())


def _rows(schema: pa.Schema, stored: Sequence[Narrow | pa.Array], count: int) -> Rows:
    kind = NarrowRows if any(isinstance(column, Narrow) for column in stored) else Rows
    return kind(schema, tuple(stored), count)


def _codes(column: pa.Array, rows: int) -> Any:
    _, offsets, data = column.buffers()
    start, stop = np.frombuffer(offsets, np.int32, 2, 4 * column.offset).tolist()
    if start == stop:
        return None
    width, left = divmod(stop - start, rows)
    if left or width not in _WIDTHS:
        raise StoreCorruptError(f"a stored block has {stop - start} bytes of codes for {rows} rows; restore the store")
    return _view(column, data.address + start, rows, _WIDTHS[width])
