"""The bytes of a commit: a round trip, and every way of spoiling them."""

from __future__ import annotations

import dataclasses
import hashlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from altneu.errors import StoreCorruptError
from altneu.store.commit import ALIGNMENT, MAGIC, Commit, decode, encode

SIMPLE = Commit(
    7,
    "t" * 32,
    "p" * 64,
    1.5,
    False,
    [3],
    {"a": {"blob": "x"}, "b": 1},
    ("c",),
    {"n": 1},
    {"x": memoryview(b"payload")},
)
json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    frontier=json,
    state=st.dictionaries(st.text(), json, max_size=4),
    delete=st.lists(st.text(), max_size=3),
    blobs=st.dictionaries(st.text(), st.binary(max_size=200), max_size=4),
    checkpoint=st.booleans(),
)
def test_decode_returns_what_encode_was_given(frontier, state, delete, blobs, checkpoint):
    views = {name: memoryview(blob) for name, blob in blobs.items()}
    commit = Commit(3, "t", "p", 0.25, checkpoint, frontier, state, tuple(delete), {}, views)
    data, digest = encode(commit)
    assert decode(memoryview(data), "f") == dataclasses.replace(commit, digest=digest)


def test_blobs_are_aligned():
    views = {f"b{i}": memoryview(bytes([i]) * (i * 37)) for i in range(5)}
    data, _ = encode(dataclasses.replace(SIMPLE, blobs=views))
    for i in range(1, 5):
        assert data.index(bytes([i]) * (i * 37)) % ALIGNMENT == 0


def test_every_flipped_bit_is_seen():
    data, _ = encode(SIMPLE)
    for position in range(len(data)):
        for bit in (0, 7):
            spoiled = bytearray(data)
            spoiled[position] ^= 1 << bit
            with pytest.raises(StoreCorruptError, match="the-file"):
                decode(memoryview(spoiled), "the-file")


def test_every_cut_is_seen():
    data, _ = encode(SIMPLE)
    for size in range(len(data)):
        with pytest.raises(StoreCorruptError, match="the-file"):
            decode(memoryview(data[:size]), "the-file")
    with pytest.raises(StoreCorruptError, match="grew"):
        decode(memoryview(data + b"\0"), "the-file")


def resealed(header: bytes, area: int = 0, size: int | None = None) -> memoryview:
    """A commit file with any header at all and a checksum that fits."""
    start = -(-(32 + len(header)) // 64) * 64
    whole = start + area + 32 if size is None else size
    body = MAGIC + b"".join(n.to_bytes(8, "little") for n in (whole, len(header), area)) + header
    body += bytes(start + area - len(body))
    return memoryview(body + hashlib.blake2b(body, digest_size=32).digest())


GOOD = (
    b'{"number":1,"transaction":"t","parent":"p","at":0,"checkpoint":false,"frontier":1,"set":{},"delete":[],"info":{}'
)


def test_a_resealed_header_is_read():
    assert decode(resealed(GOOD + b',"blobs":{}}'), "f").number == 1


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b'"text"',
        b"\xff\xfe",
        b"[" * 100_000,
        b"9" * 10_000,
        GOOD.replace(b'"frontier":1', b'"frontier":NaN') + b',"blobs":{}}',
        GOOD.replace(b'"number":1', b'"number":"1"') + b',"blobs":{}}',
        GOOD.replace(b'"number":1', b'"number":true') + b',"blobs":{}}',
        GOOD.replace(b'"delete":[]', b'"delete":[1]') + b',"blobs":{}}',
        GOOD.replace(b'"set":{}', b'"set":[]') + b',"blobs":{}}',
        GOOD.replace(b'"frontier":1', b'"frontier":' + b"[" * 200 + b"]" * 200) + b',"blobs":{}}',
        GOOD + b',"blobs":{"x":[0,1]}}',
        GOOD + b',"blobs":{"x":[-1,1]}}',
        GOOD + b',"blobs":{"x":[0.5,1]}}',
        GOOD + b',"blobs":{"x":3}}',
        GOOD + b',"blobs":{"x":[0]}}',
        pickle.dumps({"number": 1}),
    ],
)
def test_a_header_without_its_form_is_refused_even_under_a_good_checksum(header):
    with pytest.raises(StoreCorruptError, match="the-file"):
        decode(resealed(header), "the-file")


def test_impossible_sizes_are_refused_under_a_good_checksum():
    data = bytearray(resealed(GOOD + b',"blobs":{}}')[:-32])
    for at, value in ((16, 2**63), (16, 2**32), (24, 2**63), (24, 64)):
        spoiled = bytearray(data)
        spoiled[at : at + 8] = value.to_bytes(8, "little")
        spoiled += hashlib.blake2b(spoiled, digest_size=32).digest()
        with pytest.raises(StoreCorruptError, match="impossible size"):
            decode(memoryview(spoiled), "the-file")
