"""The values of a store's state: JSON in which ``{"segment": …}`` and ``{"blob": …}`` name data.

A value is JSON and nothing else. Anywhere inside it, an object whose only member is ``segment`` names a segment, and
one whose only member is ``blob`` names a blob of the log. The store finds these by itself, so that checkpoints and
vacuum do not depend on the meaning of the values.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from altneu.errors import StoreError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_DEEPEST = 100
_LONGEST = 8192  # bits of an integer: Python itself parses no number of more than 4300 digits
_SEGMENT_NAME = re.compile(r"seg-(\d{8,19})-([0-9a-f]{32})\.arrow", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{32}", re.ASCII)


def segment_name(number: int, checksum: str) -> str:
    """The name of the segment with this content, written for commit ``number``.

    >>> segment_name(42, "00112233445566778899aabbccddeeff")
    'seg-00000042-00112233445566778899aabbccddeeff.arrow'
    """
    return f"seg-{number:08d}-{checksum}.arrow"


def segment_number(name: str) -> int | None:
    """The number of the commit for which a segment is written; None if the name is not that of a segment.

    >>> segment_number("seg-00000042-00112233445566778899aabbccddeeff.arrow")
    42
    >>> segment_number("../../etc/passwd") is None
    True
    """
    match = _SEGMENT_NAME.fullmatch(name)
    return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """The name of a segment, with the properties that are checked when it is opened.

    Shape:  ``name`` is ``seg-<number>-<checksum>.arrow``, a plain file name; ``checksum`` 32 hexadecimal digits.
    Units:  ``rows`` over all its record batches; ``bytes`` of the file.

    Raises:
        StoreError: a part is malformed, such as a name that is a path.
    """

    name: str
    rows: int
    bytes: int
    checksum: str

    def __post_init__(self) -> None:
        if segment_number(self.name) is None:
            raise StoreError(f"the name of a segment must be seg-<number>-<checksum>.arrow, got {self.name!r:.200}")
        if any(type(count) is not int or not 0 <= count < 2**63 for count in (self.rows, self.bytes)):
            raise StoreError(f"segment {self.name} has an impossible size: rows={self.rows!r}, bytes={self.bytes!r}")
        if not _DIGEST.fullmatch(self.checksum):
            raise StoreError(f"segment {self.name} has an impossible checksum: {self.checksum!r:.200}")

    @property
    def number(self) -> int:
        """The number of the commit for which it is written."""
        return int(self.name.split("-")[1])

    def to_json(self) -> dict[str, Json]:
        """The reference as it is written in values of the state.

        >>> ref = SegmentRef(segment_name(1, "0" * 32), rows=2, bytes=640, checksum="0" * 32)
        >>> SegmentRef.from_json(ref.to_json()) == ref
        True
        """
        return {
            "segment": {"name": self.name, "rows": self.rows, "bytes": self.bytes, "checksum": self.checksum},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SegmentRef:
        """The reference from the result of ``to_json``.

        Raises:
            StoreError: it does not name a segment, or one outside of the folder.
        """
        inner = value.get("segment") if isinstance(value, dict) else None
        if not isinstance(inner, dict) or set(inner) != {"name", "rows", "bytes", "checksum"}:
            raise StoreError(f"this is not a reference to a segment: {value!r:.200}")
        if type(inner["name"]) is not str or type(inner["checksum"]) is not str:
            raise StoreError(f"a segment's name and checksum must be strings, got {value!r:.200}")
        return cls(inner["name"], inner["rows"], inner["bytes"], inner["checksum"])


@dataclass(slots=True)
class References:
    """Names found in values."""

    segments: dict[str, SegmentRef] = field(default_factory=dict)
    blobs: set[str] = field(default_factory=set)


class Admitted(dict[str, Json]):
    """An object that was checked once and never changes: in later commits it is not visited again."""

    __slots__ = ("references",)

    def __init__(self, value: Mapping[str, Any]) -> None:
        self.references = References()
        super().__init__({key: admit(part, self.references, 1) for key, part in value.items()})


def admit(value: object, references: References | None = None, depth: int = 0) -> Json:
    """Copy a value, refusing what JSON cannot represent, and collect the names in it.

    Cost:   one visit of every part.

    Raises:
        StoreError: a type, number or nesting that JSON would change or refuse; a malformed reference.

    >>> found = References()
    >>> admit({"batches": [{"blob": "b17"}]}, found)
    {'batches': [{'blob': 'b17'}]}
    >>> found.blobs
    {'b17'}
    """
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value  # type: ignore[return-value]  # the exact types are checked above
    if isinstance(value, int) and kind is int:
        if value.bit_length() > _LONGEST:
            raise StoreError(f"an integer of {value.bit_length()} bits cannot be stored; the limit is {_LONGEST}")
        return value
    if depth > _DEEPEST:
        raise StoreError(f"a value nested deeper than {_DEEPEST} levels cannot be stored")
    if isinstance(value, float) and kind is float:
        if not math.isfinite(value):
            raise StoreError(f"{value} cannot be stored: JSON has no such number")
        return value
    if isinstance(value, Admitted):
        if references is not None:
            references.blobs |= value.references.blobs
            for ref in value.references.segments.values():
                _collect_segment(ref, references)
        return value
    if isinstance(value, list) and kind is list:
        return [admit(part, references, depth + 1) for part in value]
    if isinstance(value, dict) and kind is dict:
        return _admit_object(value, references, depth)
    raise StoreError(f"a {kind.__name__} cannot be stored; use None, bool, int, float, str, list and dict")


def _admit_object(value: dict[Any, Any], references: References | None, depth: int) -> Json:
    if references is not None and len(value) == 1:
        if "segment" in value:
            _collect_segment(SegmentRef.from_json(value), references)
        elif "blob" in value:
            if not isinstance(value["blob"], str):
                raise StoreError(f"the name of a blob must be a string, got {value['blob']!r:.200}")
            references.blobs.add(value["blob"])
    for key in value:
        if type(key) is not str:
            raise StoreError(f"the names of an object's members must be strings, got {key!r:.200}")
    return {key: admit(part, references, depth + 1) for key, part in value.items()}


def _collect_segment(ref: SegmentRef, references: References) -> None:
    if references.segments.setdefault(ref.name, ref) != ref:
        raise StoreError(f"segment {ref.name} is named twice with different sizes or checksums")
