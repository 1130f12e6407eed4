"""Segments: what goes in comes out, what changed is seen, and it works in another process."""

from __future__ import annotations

import contextlib
import decimal
import functools
import pickle
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from altneu.errors import StoreCorruptError, StoreError
from altneu.store import LocalFolder, SegmentRef, SegmentWriter, forget_segments, open_segment, segments, write_segment
from tests.store.support import CHILD, SCHEMA, batch


@pytest.fixture
def folder(tmp_path):
    forget_segments()
    return str(tmp_path)


def test_batches_stay_blocks(folder):
    batches = [batch(0, 5), batch(5, 0), batch(5, 70_000)]
    ref = write_segment(folder, batches, SCHEMA, 3)
    assert (ref.rows, ref.number, ref.bytes) == (70_005, 3, (Path(folder) / ref.name).stat().st_size)
    actual = open_segment(folder, ref)
    assert [b.num_rows for b in actual] == [5, 0, 70_000]
    assert all(a.equals(b) for a, b in zip(actual, batches, strict=True))


def test_every_type_the_engine_holds(folder):
    columns = {
        "i": pa.array([1, None], pa.int8()),
        "l": pa.array([2**62, -1], pa.int64()),
        "u": pa.array([2**64 - 1, 0], pa.uint64()),
        "f": pa.array([1.5, None], pa.float32()),
        "s": pa.array(["ü", None], pa.string()),
        "b": pa.array([b"\0", b""], pa.binary()),
        "t": pa.array([True, None], pa.bool_()),
        "d": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(38, 2)),
        "ts": pa.array([0, 1], pa.timestamp("us", tz="UTC")),
        "n": pa.array([{"x": [1, None]}, None], pa.struct([("x", pa.list_(pa.int32()))])),
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
    }
    one = pa.record_batch(columns).slice(0, 2)
    ref = write_segment(folder, [one, one.slice(1)], one.schema, 1)
    assert [b.equals(e) for b, e in zip(open_segment(folder, ref), [one, one.slice(1)], strict=True)] == [True, True]


def test_no_batches_and_no_columns(folder):
    empty = write_segment(folder, [], SCHEMA, 1)
    assert open_segment(folder, empty) == []
    nothing = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))
    ref = write_segment(folder, [nothing], nothing.schema, 1)
    assert [b.num_rows for b in open_segment(folder, ref)] == [3]


def test_the_same_content_is_one_file(folder):
    refs = [write_segment(folder, [batch(0)], SCHEMA, 1) for _ in range(3)]
    other = write_segment(folder, [batch(1)], SCHEMA, 1)
    assert len(set(refs)) == 1
    assert sorted(p.name for p in Path(folder).iterdir()) == sorted([refs[0].name, other.name])


def test_a_segment_is_mapped_and_opened_once(folder):
    ref = write_segment(folder, [batch(0, 100_000)], SCHEMA, 1)
    before = pa.total_allocated_bytes()
    first, second = open_segment(folder, ref), open_segment(folder, ref)
    assert pa.total_allocated_bytes() - before < 10_000
    assert first[0] is second[0]
    first.clear()  # a list is the caller's
    assert len(open_segment(folder, ref)) == 1


def test_opening_keeps_no_file_descriptor(folder):
    refs = [write_segment(folder, [batch(i)], SCHEMA, 1) for i in range(50)]
    before = len(list(Path("/proc/self/fd").iterdir()))
    kept = [open_segment(folder, ref) for ref in refs]
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert len(kept) == 50


def test_a_mapped_segment_outlives_its_file(folder):
    ref = write_segment(folder, [batch(0, 1000)], SCHEMA, 1)
    actual = open_segment(folder, ref)
    (Path(folder) / ref.name).unlink()
    forget_segments()
    assert actual[0].equals(batch(0, 1000))


def test_a_writer_left_early_leaves_nothing(folder):
    def leave():
        with SegmentWriter(folder, SCHEMA, 1) as writer:
            writer.write(batch(0))
            raise KeyError("left")

    with pytest.raises(KeyError):
        leave()
    assert list(Path(folder).iterdir()) == []


def test_an_iterator_that_fails_leaves_nothing(folder):
    def batches():
        yield batch(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_segment(folder, batches(), SCHEMA, 1)
    assert list(Path(folder).iterdir()) == []


def test_another_schema_leaves_nothing(folder):
    with pytest.raises(StoreError, match="must have the schema of its segment"):
        write_segment(folder, [batch(0), pa.record_batch({"z": [1]})], SCHEMA, 1)
    assert list(Path(folder).iterdir()) == []


def test_a_folder_that_is_not_there_is_named(folder):
    with pytest.raises(StoreError, match=r"cannot write .*absent"):
        write_segment(folder + "/absent", [batch(0)], SCHEMA, 1)


WORKER = "import pickle, sys; sys.stdout.buffer.write(pickle.dumps(pickle.load(sys.stdin.buffer)()))"


def in_a_worker(function, *arguments):
    """What Spark does with a task: function, arguments and result travel as pickles."""
    task = pickle.dumps(functools.partial(function, *arguments))
    run = subprocess.run([sys.executable, "-c", WORKER], input=task, capture_output=True, check=True, env=CHILD)
    return pickle.loads(run.stdout)  # noqa: S301  # the test's own


def test_both_functions_work_in_another_process(folder):
    ref = in_a_worker(write_segment, folder, [batch(0)], SCHEMA, 1)
    assert open_segment(folder, ref)[0].equals(batch(0))
    assert in_a_worker(open_segment, folder, ref)[0].equals(batch(0))


# -------------------------------------------------------------------------------------------------------- damage


def spoil(folder, ref, position):
    file = Path(folder) / ref.name
    data = bytearray(file.read_bytes())
    data[position] ^= 16
    file.write_bytes(data)


@pytest.mark.parametrize("verify", ["first", "always"])
def test_every_flipped_bit_is_seen(folder, verify):
    ref = write_segment(folder, [batch(0, 3)], SCHEMA, 1)
    for position in range(0, ref.bytes, 3):
        forget_segments()
        spoil(folder, ref, position)
        with pytest.raises(StoreCorruptError, match=f"{ref.name} fails its checksum"):
            open_segment(folder, ref, verify)
        spoil(folder, ref, position)
    assert open_segment(folder, ref)[0].equals(batch(0, 3))


@settings(max_examples=150, deadline=None)
@given(position=st.floats(0, 1, exclude_max=True))
def test_without_a_checksum_a_flipped_bit_never_escapes_as_another_error(tmp_path_factory, position):
    folder = str(tmp_path_factory.mktemp("s"))
    ref = write_segment(folder, [batch(0, 3), batch(3, 3)], SCHEMA, 1)
    spoil(folder, ref, int(position * ref.bytes))
    with contextlib.suppress(StoreCorruptError):
        assert sum(b.num_rows for b in open_segment(folder, ref, "never")) == ref.rows


@pytest.mark.parametrize("verify", ["first", "always", "never"])
def test_a_cut_or_grown_file_is_always_seen(folder, verify):
    ref = write_segment(folder, [batch(0)], SCHEMA, 1)
    good = (Path(folder) / ref.name).read_bytes()
    for data in (b"", good[:-1], good[:100], good + b"\0"):
        (Path(folder) / ref.name).write_bytes(data)
        with pytest.raises(StoreCorruptError, match=f"{ref.name} has {len(data)} bytes where the log says {ref.bytes}"):
            open_segment(folder, ref, verify)


@pytest.mark.parametrize("verify", ["first", "never"])
def test_a_large_file_is_checked_by_size_and_footer_at_first(folder, verify, monkeypatch):
    monkeypatch.setattr(segments, "CHECKED_BYTES", 1000)
    ref = write_segment(folder, [batch(0, 1000)], SCHEMA, 1)
    spoil(folder, ref, ref.bytes - 12)  # the footer's length
    with pytest.raises(StoreCorruptError, match=ref.name):
        open_segment(folder, ref, verify)
    spoil(folder, ref, ref.bytes - 12)
    spoil(folder, ref, ref.bytes // 2)
    assert len(open_segment(folder, ref, verify)) == 1
    with pytest.raises(StoreCorruptError, match="fails its checksum"):
        open_segment(folder, ref, "always")


def test_always_looks_again_at_what_is_open(folder):
    ref = write_segment(folder, [batch(0)], SCHEMA, 1)
    open_segment(folder, ref, "always")
    spoil(folder, ref, ref.bytes // 2)
    with pytest.raises(StoreCorruptError, match="fails its checksum"):
        open_segment(folder, ref, "always")


def test_another_number_of_rows_is_seen(folder):
    ref = write_segment(folder, [batch(0)], SCHEMA, 1)
    with pytest.raises(StoreCorruptError, match="holds 10 rows where the log says 11"):
        open_segment(folder, SegmentRef(ref.name, 11, ref.bytes, ref.checksum))


def test_what_is_no_arrow_file_is_named(folder):
    ref = write_segment(folder, [batch(0)], SCHEMA, 1)
    (Path(folder) / ref.name).write_bytes(pickle.dumps(["x" * ref.bytes])[: ref.bytes])
    with pytest.raises(StoreCorruptError, match=r"not an Arrow file|damaged"):
        open_segment(folder, ref, "never")


@pytest.mark.parametrize("part", [{"rows": -1}, {"bytes": 2**63}, {"rows": 1.0}, {"rows": True}, {"checksum": "x"}])
def test_an_implausible_reference_is_refused(part):
    good = {"name": "seg-00000001-" + "0" * 32 + ".arrow", "rows": 1, "bytes": 1, "checksum": "0" * 32}
    assert SegmentRef(**good).number == 1
    with pytest.raises(StoreError, match="an impossible"):
        SegmentRef(**{**good, **part})


@pytest.mark.parametrize("value", [None, 3, [], {}, {"segment": 1}, {"segment": {}}, {"segment": {"name": 1}}])
def test_what_is_no_reference_is_refused(value):
    with pytest.raises(StoreError, match="not a reference"):
        SegmentRef.from_json(value)


def test_a_file_that_goes_between_two_looks_is_missing(folder, monkeypatch):
    """As when a vacuum is at work beside a reader without a lease."""
    ref = write_segment(folder, [batch(0)], SCHEMA, 1)
    (Path(folder) / ref.name).unlink()
    monkeypatch.setattr("altneu.store.folder.regular_size", lambda _: ref.bytes)
    for act in (
        lambda: open_segment(folder, ref, "never"),
        lambda: open_segment(folder, ref, "always"),
        lambda: LocalFolder(Path(folder)).read(ref.name),
    ):
        with pytest.raises(StoreCorruptError, match=rf"{ref.name} is missing"):
            act()
