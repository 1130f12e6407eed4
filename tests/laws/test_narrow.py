"""Narrow columns and packed blocks: in fewer bytes, every row, hash, time and diff is what it was."""

from __future__ import annotations

import pickle
from datetime import datetime
from decimal import Context, Decimal
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from altneu.columnar import few
from altneu.columnar.columns import Stack
from altneu.columnar.hashing import hash_rows
from altneu.columnar.lookup import first_word, word_stretch
from altneu.columnar.narrow import NarrowRows, narrow_rows, narrowed, narrowed_words, stored_columns, whole
from altneu.columnar.ranking import order_text, order_words
from altneu.columnar.rows import Rows
from altneu.errors import StoreCorruptError
from altneu.order import Antichain, Epoch, Rounds
from altneu.runtime.files import from_ipc, to_ipc
from altneu.trace import batch as batches
from altneu.trace.batch import Batch, Description, Layout, PackedBlock, find_in
from altneu.trace.merging import merge
from altneu.trace.records import batch_of_records, packed_records, packed_schema, records_of, rows_schema
from altneu.trace.update import Updates

WIDE = st.integers(-(2**63), 2**63 - 1)
SOME = st.one_of(st.integers(0, 3), st.integers(-200, 200), st.integers(2**40, 2**40 + 70_000), WIDE)
DECIMAL = pa.decimal128(18, 2)
TYPES = (pa.int64(), pa.int64(), pa.string(), pa.int16(), DECIMAL)
SCHEMA = pa.schema(
    [("a", pa.int64()), ("b", pa.timestamp("us")), ("c", pa.string()), ("d", pa.int16()), ("e", DECIMAL)]
)
CENTS = st.one_of(st.integers(-(10**18) + 1, 10**18 - 1), st.integers(-(2**33), 2**33), st.integers(-300, 300)).map(
    lambda cents: Decimal(cents).scaleb(-2, Context(prec=18))
)


@given(st.lists(SOME, min_size=1, max_size=20), st.data())
def test_a_narrow_column_is_what_it_was(numbers, data):
    words = np.array(numbers, np.int64)
    actual = narrowed(words)
    reach = max(numbers) - min(numbers)
    assert (actual is None) == (reach >= 2**32)
    if actual is not None:
        assert actual.words().tolist() == numbers
        assert actual.nbytes == len(numbers) * next(n for n in (0, 1, 2, 4) if reach < 256**n)
        some = np.array(data.draw(st.lists(st.integers(0, len(numbers) - 1))), np.int64)
        assert actual.at(some).words().tolist() == [numbers[i] for i in some]
        assert actual.at(slice(1, 3)).words().tolist() == numbers[1:3]


@given(st.lists(SOME, min_size=1, max_size=20), st.booleans(), SOME, SOME)
def test_narrow_words_are_found_where_they_are(numbers, descending, low, high):
    column = narrowed(np.array(numbers, np.int64))
    all_words = order_words(pa.array([*numbers, low, high], pa.int64()), descending=descending)
    words, (first, last) = all_words[:-2], np.sort(all_words[-2:])
    actual = narrowed_words(words.view(np.int64), column)
    assert (actual is None) == (column is None)
    if actual is not None:
        assert (actual.words().view(np.uint64) == words).all()
        assert actual.at(slice(1, 3)).words().view(np.uint64).tolist() == words[1:3].tolist()
        assert descending or actual.codes is column.codes
    words = np.sort(words)
    for line in (whole(words), narrowed_words(words.view(np.int64), None)):
        if line is not None:
            lines, n = np.array([line.line], np.int64), len(words)
            assert first_word(lines, 0, 0, n, first) == np.searchsorted(words, first)
            assert word_stretch(lines, 0, 0, n, first, last) == (
                np.searchsorted(words, first),
                np.searchsorted(words, last, side="right"),
            )


@given(
    st.lists(
        st.tuples(SOME, st.one_of(st.none(), SOME), st.sampled_from(["x", None]), st.integers(0, 9), CENTS), min_size=1
    )
)
def test_narrow_rows_are_what_they_were(rows):
    columns = [pa.array(c, t) for c, t in zip(zip(*rows, strict=True), TYPES, strict=True)]
    given_rows = Rows(SCHEMA, tuple(c.cast(t) for c, t in zip(columns, SCHEMA.types, strict=True)), len(rows))
    actual = narrow_rows(given_rows)
    index = np.arange(len(rows))[::-1]
    for made, wanted in [
        (actual.columns, given_rows.columns),
        (actual.take(index).columns, given_rows.take(index).columns),
        (actual.slice(1, len(rows)).columns, given_rows.slice(1, len(rows)).columns),
        (actual.built().columns, given_rows.columns),
        (pickle.loads(pickle.dumps(actual)).columns, given_rows.columns),  # noqa: S301 -- what was dumped here
        (actual.select(["c", "a"]).columns, given_rows.select(["c", "a"]).columns),
    ]:
        assert all(a.equals(b) for a, b in zip(made, wanted, strict=True))
    with patch("altneu.columnar.columns.FEW", 0):
        both = Stack([actual, given_rows, actual.slice(0, 1)], SCHEMA)
        some = np.array([0, len(rows), 2 * len(rows), len(rows) - 1])
        assert both.equal(some[:3], some[[1, 2, 0]]).all()
        everything = pa.concat_arrays([given_rows.columns[0]] * 2 + [given_rows.columns[0][:1]])
        assert both.take(some).columns[0].equals(everything.take(pa.array(some)))


@given(
    st.lists(
        st.lists(st.one_of(st.none(), st.lists(st.integers(0, 3), max_size=2)), min_size=1, max_size=9), min_size=2
    ),
    st.data(),
)
def test_few_rows_of_nested_columns_are_taken_of_their_parts(parts, data):
    """In any order, one row several times, some parts not at all, or no row."""
    schema = pa.schema([("n", pa.list_(pa.int64())), ("s", pa.struct([("x", pa.int64())]))])
    rows = [
        Rows(
            schema, (pa.array(part, schema.types[0]), pa.array([{"x": len(v or "")} for v in part], schema.types[1])), n
        )
        for part, n in zip(parts, map(len, parts), strict=True)
    ]
    every = [value for part in parts for value in part]
    some = np.array(data.draw(st.lists(st.integers(0, len(every) - 1))), np.int64)
    with patch("altneu.columnar.columns.FEW", 0):
        taken = Stack(rows, schema).take(some)
        assert taken.to_pylist() == [(every[i], {"x": len(every[i] or "")}) for i in some.tolist()]
        same = Stack(rows, schema).equal(some, some[::-1].copy())
    assert same.tolist() == [every[i] == every[j] for i, j in zip(some.tolist(), some[::-1].tolist(), strict=True)]


LAYOUTS = [
    Layout(pa.schema([("k", pa.int64()), ("v", pa.int64())]), key, lattice, order)
    for key, order in [
        (("k",), ()),
        (("v", "k"), ()),
        ((), ()),
        (("k",), (("v", False, True),)),
        ((), (("k", True, False),)),
    ]
    for lattice in (Epoch(), Rounds(Epoch(), 1))
]


def random_batch(layout, seed, first, rows=3000):
    pick = np.random.default_rng(seed)
    columns = tuple(pa.array(pick.integers(-50, reach, rows)) for reach in (50, 100_000))
    times = np.stack([np.full(rows, first), *[pick.integers(0, 4, rows)] * (layout.lattice.width - 1)])
    diffs = pick.choice([-1, 1, 2], rows)
    lower, upper = ((t, 0) if layout.lattice.width > 1 else t for t in (first, first + 1))
    description = Description.interval(layout.lattice, lower, upper)
    return Batch.build(Updates(Rows(layout.schema, columns, rows), times, diffs), layout, description)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda la: f"{la.key} {la.lattice} {order_text(la.order)}")
def test_a_packed_batch_is_what_it_was(layout):
    for seed in range(1):
        whole = random_batch(layout, seed, 0)
        packed = whole.packed()
        assert all(isinstance(b, PackedBlock) for b in packed.blocks)
        assert packed.nbytes < 0.6 * whole.nbytes
        assert packed.packed() is packed
        same(packed, whole)
        same(pickle.loads(pickle.dumps(packed)), whole)  # noqa: S301 -- what was dumped here
        record = batch_of_records(layout, whole.description, records_of(packed))
        same(record, whole)
        assert [r.num_rows for r in records_of(packed)] == [1] * len(packed.blocks)
        assert records_of(packed) == packed_records(whole)
        plain = batch_of_records(layout, whole.description, records_of(whole))
        assert not any(isinstance(b, PackedBlock) for b in plain.blocks)
        same(plain, whole)
        some = slice(7, 1900)
        for name in ("key_hash", "value_hash", "diffs"):
            for block, other in zip(packed.blocks, whole.blocks, strict=True):
                assert (getattr(block, f"{name}_at")(some) == getattr(other, name)[some]).all()
        same(packed.between(1 << 61, 1 << 63), whole.between(1 << 61, 1 << 63))
        keys = whole.blocks[0].keys.take(np.arange(0, 3000, 7) % len(whole))
        for probes in (keys, keys.slice(0, 1)):
            a, b = (find_in([w, w], hash_rows(probes), probes) for w in (packed, whole))
            assert a.probe.tolist() == b.probe.tolist()
            assert a.values.to_pylist() == b.values.to_pylist()
            assert (a.value_hash == b.value_hash).all()
            assert (a.times == b.times).all()
            assert (a.diffs == b.diffs).all()


MIXED = pa.schema(
    [
        ("k", pa.int64()),
        ("short", pa.decimal128(12, 2)),
        ("long", pa.decimal128(30, 2)),
        ("text", pa.string()),
        ("nothing", pa.null()),
        ("flag", pa.bool_()),
        ("nested", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())]))),
        ("at", pa.timestamp("us")),
        ("real", pa.float64()),
    ]
)
MIXED_VALUE = st.tuples(
    st.integers(0, 5),
    st.one_of(st.none(), st.integers(-(10**11), 10**11).map(lambda cents: Decimal(cents).scaleb(-2))),
    st.one_of(st.none(), st.integers(-(10**20), 10**20).map(lambda cents: Decimal(cents).scaleb(-2))),
    st.one_of(st.none(), st.text(max_size=3)),
    st.none(),
    st.booleans(),
    st.one_of(st.none(), st.lists(st.fixed_dictionaries({"x": st.integers(0, 9), "y": st.just("z")}), max_size=2)),
    st.datetimes(datetime(1970, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001 -- without a zone, as the column
    st.sampled_from([0.0, 1.5, -2.25]),
)


@given(st.lists(MIXED_VALUE, min_size=1, max_size=12), st.sampled_from([(), (("at", True, True),)]), st.booleans())
def test_packed_records_hold_every_type(rows, order, nullable):
    rows = rows if nullable else [row for row in rows if None not in (*row[1:4], row[6])]
    layout = Layout(MIXED, ("k",), Epoch(), order)
    times, diffs = np.arange(len(rows)).reshape(1, -1) % 3, np.ones(len(rows), np.int64)
    columns = [pa.array([row[i] for row in rows], dtype) for i, dtype in enumerate(MIXED.types)]
    batch = Batch.build(
        Updates(Rows(MIXED, tuple(columns), len(rows)), times, diffs), layout, Description.interval(Epoch(), 0, 3)
    )
    records = packed_records(batch)
    assert all(record.schema == packed_schema(layout) for record in records)
    assert rows_schema(packed_schema(layout)) == MIXED
    (data,) = {to_ipc(packed_records(batch), packed_schema(layout)) for _ in range(2)}  # the same bytes
    again = batch_of_records(layout, batch.description, from_ipc(data))
    assert all(isinstance(block, PackedBlock) for block in again.blocks)
    same(again, batch)
    assert packed_records(again) == records
    for block in again.blocks:
        assert few.stored_places((*stored_columns(block.keys), *stored_columns(block.values)), MIXED.types) is None
        assert block.take(np.arange(len(block))).values.to_pylist() == block.values.to_pylist()
    merged = merge([again, batch.described(Description.interval(Epoch(), 3, 4))], Antichain.of(Epoch(), 3))
    assert merged.updates().diffs.sum() == 2 * len(rows)


def test_codes_that_do_not_fit_their_rows_are_refused():
    batch = random_batch(LAYOUTS[0], 1, 0).packed()
    (record,) = records_of(batch)
    at = record.schema.get_field_index("#codes2")
    broken = record.set_column(at, record.schema.field(at), pa.array([b"123"]))
    with pytest.raises(StoreCorruptError, match="3 bytes of codes for"):
        batch_of_records(batch.layout, batch.description, [broken])


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda la: f"{la.key} {la.lattice} {order_text(la.order)}")
def test_packed_batches_merge_to_what_others_merge_to(layout, monkeypatch):
    parts = [random_batch(layout, seed, seed) for seed in range(3)]
    since = Antichain.minimum(layout.lattice)
    actual = merge([part.packed() for part in parts], since)
    assert all(isinstance(b, PackedBlock) for b in actual.blocks)
    monkeypatch.setattr(batches, "PACKED_ROWS", 1 << 30)
    same(actual, merge(parts, since))


@pytest.mark.parametrize(("descending", "most"), [(False, 4), (True, 8)])
def test_rows_of_one_group_in_an_order_take_few_bytes(descending, most):
    """Of the key nothing is kept, and the words of an ascending order share the codes of its column."""
    layout = Layout(LAYOUTS[0].schema, ("k",), Epoch(), (("v", descending, True),))
    rows = Rows(layout.schema, (pa.array([7] * 50_000), pa.array(np.arange(50_000) * 3 - 70_000)), 50_000)
    updates = Updates(rows, np.zeros((1, 50_000), np.int64), np.ones(50_000, np.int64))
    whole = Batch.build(updates, layout, Description.interval(Epoch(), 0, 1))
    same(whole.packed(), whole)
    assert whole.packed().nbytes == most * 50_000
    assert whole.nbytes == 48 * 50_000
    keys = whole.blocks[0].keys.slice(0, 1)
    assert len(find_in([whole.packed()], hash_rows(keys), keys)) == 50_000


def test_small_blocks_and_wide_numbers_stay_as_they_are():
    layout = LAYOUTS[0]
    small = random_batch(layout, 0, 0, rows=100)
    assert small.packed() is small
    rows = Rows(layout.schema, (pa.array(range(2000)), pa.array([None, 1] * 1000)), 2000)
    diffs, answer = np.ones(2000, np.int64), Description.interval(Epoch(), 0, 1)
    half = Batch.build(Updates(rows, np.zeros((1, 2000), np.int64), diffs), layout, answer).packed()
    diffs = np.where(np.arange(2000) == 7, 2**40, diffs)
    wide = Batch.build(Updates(rows, np.zeros((1, 2000), np.int64), diffs), layout, answer)
    same(wide.packed(), wide)
    assert isinstance(half.blocks[0].keys, NarrowRows)
    assert not isinstance(half.blocks[0].values, NarrowRows), "a column with nulls"


def same(found, wanted):
    """Whether two batches have the same blocks."""
    for a, b in zip(found.blocks, wanted.blocks, strict=True):
        assert a.updates().rows.to_pylist() == b.updates().rows.to_pylist()
        for name in ("key_hash", "value_hash", "times", "diffs"):
            assert (getattr(a, name) == getattr(b, name)).all(), name
        assert a.collision_free == b.collision_free


def test_where_columns_are_is_kept_with_rows_and_not_pickled():
    """The kept places are addresses, which mean nothing in another process."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.int32())])
    rows = Rows.from_pydict({"a": [1, 2, 300], "b": [5, 5, 6]}, schema)
    both, index = Rows.from_pydict({"a": [1, 7], "b": [5, 6]}, schema), np.array([0, 2])
    for some in (rows, narrow_rows(rows)):
        for _ in range(2):  # as found, and as kept
            assert Stack((some, both), schema).equal(np.array([0, 0]), np.array([3, 4])).tolist() == [True, False]
        assert hasattr(some, "places")
        again = pickle.loads(pickle.dumps(some))  # noqa: S301 -- written the line before
        assert not hasattr(again, "places")
        assert again.take(index).to_pylist() == rows.take(index).to_pylist()
        assert Stack((again, both), schema).equal(np.array([0]), np.array([3])).tolist() == [True]
