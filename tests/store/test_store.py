"""The contract of ``Store``, over both stores."""

from __future__ import annotations

import pyarrow as pa
import pytest

from altneu.errors import StoreError
from altneu.store import DirectoryStore, MemoryStore, SegmentRef
from tests.store.support import SCHEMA, batch, check_step, content, step


@pytest.fixture(params=["memory", "directory"])
def store(request, tmp_path):
    opened = MemoryStore() if request.param == "memory" else DirectoryStore.create_or_open(tmp_path / "s")
    with opened:
        yield opened


def test_a_new_store_is_empty(store):
    assert (store.number, store.next_number, store.frontier, dict(store.state)) == (0, 1, None, {})
    assert store.history() == []


def test_steps_say_what_was_committed(store):
    for n in range(1, 12):
        assert step(store) == n
        check_step(store)


def test_values_come_back_as_they_were(store):
    value = {"a": [None, True, 0, -(2**8192) + 1, 1.5, "ü\ud800\0", {}], "": [], "nested": {"deep": [[[{"x": 1}]]]}}
    store.commit(frontier={"lower": [3, 4]}, set={"v": value, "": 1})
    assert store.state["v"] == value
    assert store.state[""] == 1
    assert store.frontier == {"lower": [3, 4]}


def test_values_are_copied(store):
    value = {"list": [1]}
    store.commit(None, set={"v": value})
    value["list"].append(2)
    assert store.state["v"] == {"list": [1]}


def test_the_state_is_read_only(store):
    with pytest.raises(TypeError):
        store.state["x"] = 1


def test_an_unnamed_blob_is_gone_and_a_moved_one_stays(store):
    store.commit(1, set={"a": {"blob": "x"}, "b": [{"blob": "y"}]}, blobs={"x": b"one", "y": b"two"})
    store.commit(2, set={"c": {"blob": "x"}}, delete=["a"])
    assert bytes(store.blob("x")) == b"one"
    store.commit(3, set={"b": 0})
    with pytest.raises(StoreError, match="names a blob 'y'"):
        store.blob("y")
    store.commit(4, delete=["c"])
    store.commit(5, set={"a": {"blob": "x"}}, blobs={"x": b"again"})  # a name is free once its blob is gone
    assert bytes(store.blob("x")) == b"again"


@pytest.mark.parametrize("data", [b"", b"abc", bytearray(b"abc"), memoryview(b"abcdef")[::2], pa.py_buffer(b"abc")])
def test_blobs_of_every_kind(store, data):
    store.commit(1, set={"a": {"blob": "x"}}, blobs={"x": data})
    expected = bytes(data)
    if isinstance(data, bytearray):
        data[0] = 0  # the caller's buffer is the caller's
    assert bytes(store.blob("x")) == expected
    assert store.blob("x").readonly


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"set": {"a": {"blob": "nowhere"}}}, "neither in this commit nor live"),
        ({"set": {"a": {"blob": 3}}}, "name of a blob must be a string"),
        ({"set": {"a": 1}, "blobs": {"x": b""}}, "not named by any value"),
        ({"set": {"a": {"blob": "old"}}, "blobs": {"old": b""}}, "no live blob"),
        ({"set": {"a": {"blob": "x"}}, "blobs": {"x": "text"}}, "is a str"),
        ({"set": {"a": float("nan")}}, "no such number"),
        ({"set": {"a": [float("inf")]}}, "no such number"),
        ({"set": {"a": 10**5000}}, "16610 bits"),
        ({"set": {"a": (1, 2)}}, "a tuple cannot be stored"),
        ({"set": {"a": {1: 2}}}, "must be strings"),
        ({"set": {"a": {"x": b"bytes"}}}, "a bytes cannot be stored"),
        ({"set": {3: 1}}, "a key of the state"),
        ({"delete": ["absent"]}, "is not there"),
        ({"set": {"old": 1}, "delete": ["old"]}, "set in the same commit"),
        ({"set": {"a": {"segment": "seg"}}}, "not a reference to a segment"),
        ({"set": {"a": 1}, "info": {"x": object()}}, "a object cannot be stored"),
    ],
)
def test_a_refused_change_changes_nothing(store, change, message):
    store.commit(1, set={"old": {"blob": "old"}}, blobs={"old": b"kept"})
    before = content(store)
    with pytest.raises(StoreError, match=message):
        store.commit(2, **change)
    assert content(store) == before
    assert bytes(store.blob("old")) == b"kept"
    assert store.commit(2, set={"a": 1}) == 2


def test_endless_nesting_is_refused(store):
    value = []
    for _ in range(1000):
        value = [value]
    with pytest.raises(StoreError, match="nested deeper"):
        store.commit(1, set={"a": value})


def test_a_segment_that_aims_at_another_commit_is_refused(store):
    ref = store.write_segment([batch(0)], SCHEMA)
    store.commit(1, set={"a": 1})
    with pytest.raises(StoreError, match="was written for commit 1, but this is commit 2"):
        store.commit(2, set={"late": ref.to_json()})
    assert store.number == 1


def test_a_segment_that_is_not_there_is_refused(store):
    ref = SegmentRef("seg-00000001-" + "a" * 32 + ".arrow", 1, 1, "a" * 32)
    with pytest.raises(StoreError, match="is missing"):
        store.commit(1, set={"a": ref.to_json()})


def test_a_segment_named_with_another_size_is_refused(store):
    ref = store.write_segment([batch(0)], SCHEMA)
    other = SegmentRef(ref.name, ref.rows + 1, ref.bytes, ref.checksum)
    with pytest.raises(StoreError, match="different sizes"):
        store.commit(1, set={"a": [ref.to_json(), other.to_json()]})
    store.commit(1, set={"a": ref.to_json()})
    with pytest.raises(StoreError, match="a different size"):
        store.commit(2, set={"b": other.to_json()})


def test_a_batch_of_another_schema_is_refused(store):
    with pytest.raises(StoreError, match="must have the schema of its segment"):
        store.write_segment([pa.record_batch({"z": [1]})], SCHEMA)


def test_history_is_newest_first(store):
    for _ in range(5):
        step(store)
    assert [(c.number, c.frontier, dict(c.info)) for c in store.history(3)] == [
        (n, [n], {"step": n}) for n in (5, 4, 3)
    ]
    assert len(store.history()) == 5


def test_vacuum_keeps_what_is_named(store):
    for _ in range(20):
        step(store)
    before = content(store)
    assert store.vacuum(keep=1).segments == 17
    assert content(store) == before
    assert store.vacuum(keep=1).segments == 0
    step(store)
    check_step(store)


def test_vacuum_leaves_the_step_in_flight_alone(store):
    step(store)
    ref = store.write_segment([batch(7)], SCHEMA)
    store.vacuum(keep=1)
    store.commit(2, set={"a": ref.to_json()})
    assert store.open_segment(ref)[0].equals(batch(7))
