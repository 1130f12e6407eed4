"""One commit as bytes: magic, header, inline blobs, checksum (docs/format.md has every offset)."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from altneu.errors import StoreCorruptError, StoreError
from altneu.store.files import parse_json
from altneu.store.references import Json, admit

MAGIC = b"ALTNEUC\x01"
RECOVERED = "recovered"  # the key that tells, after a recovery that lost commits, the number of its own commit
ALIGNMENT = 64
LARGEST_HEADER = 1 << 30
_PREFIX = struct.Struct("<8sQQQ")  # magic, bytes of the whole file, bytes of the header, bytes of the blob area
_DIGEST_SIZE = 32
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


@dataclass(frozen=True, slots=True)
class Commit:
    """The contents of one commit.

    Shape:  ``set`` and ``delete`` change the state of commit ``number - 1``; in a checkpoint ``set`` is the
            whole state and ``delete`` is empty. ``parent`` is the digest of commit ``number - 1`` (of the first
            commit: the store's id), ``digest`` its own, once it is encoded or decoded.
    Units:  ``at`` is in seconds since 1970, for information only.
    """

    number: int
    transaction: str
    parent: str
    at: float
    checkpoint: bool
    frontier: Json
    set: Mapping[str, Json]
    delete: tuple[str, ...] = ()
    info: Mapping[str, Json] = field(default_factory=dict)
    blobs: Mapping[str, memoryview] = field(default_factory=dict)
    digest: str = ""


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def encode(commit: Commit) -> tuple[bytes, str]:
    """The bytes of a commit and their digest (hexadecimal).

    Law:    ``decode(*encode(commit))`` equals the commit (tests/store/test_commit.py).

    Raises:
        StoreError: the header exceeds 1 GiB.
    """
    places: dict[str, list[int]] = {}
    area = 0
    for name, blob in commit.blobs.items():
        places[name] = [area, blob.nbytes]
        area += _aligned(blob.nbytes)
    header = _encode(
        {
            "number": commit.number,
            "transaction": commit.transaction,
            "parent": commit.parent,
            "at": commit.at,
            "checkpoint": commit.checkpoint,
            "frontier": commit.frontier,
            "set": commit.set,
            "delete": commit.delete,
            "info": commit.info,
            "blobs": places,
        }
    ).encode("ascii")
    if len(header) > LARGEST_HEADER:
        raise StoreError(f"a commit's header would have {len(header):,} bytes; the format ends at {LARGEST_HEADER:,}")
    start = _aligned(_PREFIX.size + len(header))
    parts: list[bytes | memoryview] = [_PREFIX.pack(MAGIC, start + area + _DIGEST_SIZE, len(header), area), header]
    parts.append(bytes(start - _PREFIX.size - len(header)))
    for blob in commit.blobs.values():
        parts += (blob, bytes(_aligned(blob.nbytes) - blob.nbytes))
    body = b"".join(parts)
    digest = hashlib.blake2b(body, digest_size=_DIGEST_SIZE)
    return body + digest.digest(), digest.hexdigest()


def decode(data: memoryview, name: str) -> Commit:
    """Read a commit; its blobs are views into ``data``.

    Raises:
        StoreCorruptError: the file is damaged; names it.
    """
    size = data.nbytes
    if size < _PREFIX.size + _DIGEST_SIZE:
        raise StoreCorruptError(f"{name} has {size} bytes, too few for a commit: it was cut off")
    magic, whole, header_size, area = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise StoreCorruptError(f"{name} does not begin like a commit")
    if whole != size:
        raise StoreCorruptError(f"{name} has {size} bytes where it says {whole}: it was cut off or grew")
    digest = hashlib.blake2b(data[: size - _DIGEST_SIZE], digest_size=_DIGEST_SIZE)
    if digest.digest() != bytes(data[size - _DIGEST_SIZE :]):
        raise StoreCorruptError(f"{name} fails its checksum: bytes in it have changed")
    start = _aligned(_PREFIX.size + header_size)
    if header_size > LARGEST_HEADER or start + area + _DIGEST_SIZE != size:
        raise StoreCorruptError(f"{name} has a header or blobs of impossible size")
    header = parse_json(data[_PREFIX.size : _PREFIX.size + header_size], name)
    try:
        return _from_header(header, data[start : start + area], digest.hexdigest())
    except (StoreError, LookupError, TypeError, ValueError) as error:
        raise StoreCorruptError(f"{name} has a header without its proper form: {error}") from error


def _from_header(header: Any, area: memoryview, digest: str) -> Commit:
    def member(name: str, *kinds: type) -> Any:
        value = header[name]
        if type(value) not in kinds:
            raise TypeError(f"{name} is {value!r:.100}")
        return value

    blobs: dict[str, memoryview] = {}
    for name, (offset, length) in member("blobs", dict).items():
        if type(offset) is not int or type(length) is not int or not 0 <= offset <= offset + length <= area.nbytes:
            raise ValueError(f"blob {name!r:.100} lies outside the file")
        blobs[name] = area[offset : offset + length]
    delete = member("delete", list)
    if not all(type(key) is str for key in delete):
        raise TypeError("a deleted key must be a string")
    return Commit(
        number=member("number", int),
        transaction=member("transaction", str),
        parent=member("parent", str),
        at=float(member("at", float, int)),
        checkpoint=member("checkpoint", bool),
        frontier=admit(header["frontier"]),
        set=member("set", dict),
        delete=tuple(delete),
        info=member("info", dict),
        blobs=blobs,
        digest=digest,
    )
