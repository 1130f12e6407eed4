"""Digests of bytes: MD5, SHA-1, SHA-2 and CRC-32, by Python's standard library."""

from __future__ import annotations

import hashlib
import hmac
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from altneu import types as T
from altneu.expressions.each import RowFailure, each
from altneu.expressions.registry import Group, Out

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("Digests")
_SHA2 = {0: hashlib.sha256, 224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384, 512: hashlib.sha512}

_HMAC = {
    "MD5": "md5",
    "SHA-1": "sha1",
    "SHA-224": "sha224",
    "SHA-256": "sha256",
    "SHA-384": "sha384",
    "SHA-512": "sha512",
}
_HMAC_BARE = {name.replace("-", ""): digest for name, digest in _HMAC.items()}


def _each(b: pa.Array, digest: Callable[[bytes], Any], type_: pa.DataType) -> pa.Array:
    """The digest of every value, computed once for each that is distinct."""
    encoded = b.cast(T.BINARY).dictionary_encode()
    digests = pa.array([digest(value) for value in encoded.dictionary.to_pylist()], type_)
    return digests.take(encoded.indices)


@scalar("md5(b binary|string) -> string")
def md5(b: pa.Array) -> pa.Array:
    """The MD5 digest of bytes or of a text in UTF-8, as 32 digits in base 16."""
    return _each(b, lambda value: hashlib.md5(value, usedforsecurity=False).hexdigest(), T.STRING)


@scalar("sha1(b binary|string) -> string", "sha")
def sha1(b: pa.Array) -> pa.Array:
    """The SHA-1 digest of bytes or of a text in UTF-8, as 40 digits in base 16."""
    return _each(b, lambda value: hashlib.sha1(value, usedforsecurity=False).hexdigest(), T.STRING)


@scalar("sha2(b binary|string, bits int) -> string?")
def sha2(b: pa.Array, bits: int) -> pa.Array:
    """The SHA-2 digest of bytes or of a text in UTF-8, in base 16; of 224, 256 (also 0), 384 or 512 bits, else null."""
    make = _SHA2.get(bits)
    if make is None:
        return pa.nulls(len(b), T.STRING)
    return _each(b, lambda value: make(value).hexdigest(), T.STRING)


@scalar("crc32(b binary|string) -> long")
def crc32(b: pa.Array) -> pa.Array:
    """The cyclic redundancy check of bytes or of a text in UTF-8, CRC-32, from 0 to 4294967295."""
    return _each(b, zlib.crc32, T.LONG)


@scalar("hmac(key binary|string, b binary|string[, algorithm string]) -> binary", fails=True)
def keyed(call: Call, key: pa.Array, b: pa.Array, algorithm: str = "SHA-256") -> Out:
    """The code of bytes or of a text by a key: HMAC by SHA-256, MD5, SHA-1, SHA-224, SHA-384 or SHA-512, as bytes."""
    name = _HMAC.get(algorithm.upper(), _HMAC_BARE.get(algorithm.upper()))

    def code(secret: bytes, message: bytes) -> bytes:
        if name is None:
            raise RowFailure(
                "INVALID_PARAMETER_VALUE", f"hmac: there is no algorithm {algorithm!r} but {', '.join(_HMAC)}"
            )
        if not secret:
            raise RowFailure("INVALID_PARAMETER_VALUE", "hmac: the key is empty")
        return hmac.digest(secret, message, name)

    return each(call, code, key.cast(T.BINARY), b.cast(T.BINARY))
