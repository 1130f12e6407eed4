"""The state of a store in memory: a flat mapping, and the segments and blobs that its values name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from altneu.errors import StoreError
from altneu.store.references import Json, References, SegmentRef, admit

Bytes: TypeAlias = "bytes | bytearray | memoryview | pa.Buffer"


@dataclass(frozen=True, slots=True)
class Change:
    """A checked change of a ledger, not yet applied.

    Shape:  ``set`` and ``delete`` have no key in common; every blob named in ``set`` is in ``blobs`` or live already.
    """

    set: dict[str, Json]
    delete: tuple[str, ...]
    names: dict[str, References]
    blobs: dict[str, memoryview]
    new_segments: tuple[SegmentRef, ...]


class Ledger:
    """A flat mapping ``str -> Json`` and the segments and blobs that its values name, counted by key.

    Law:    ``blobs`` and ``segments`` hold exactly what some value names (tests/store/test_ledger.py).
    """

    def __init__(self) -> None:
        self.state: dict[str, Json] = {}
        self.blobs: dict[str, memoryview] = {}
        self.segments: dict[str, SegmentRef] = {}
        self._names: dict[str, References] = {}
        self._blob_uses: Counter[str] = Counter()
        self._segment_uses: Counter[str] = Counter()

    def copy(self) -> Ledger:
        """An independent ledger with the same content."""
        other = Ledger()
        other.state, other.blobs, other.segments = dict(self.state), dict(self.blobs), dict(self.segments)
        other._names = dict(self._names)
        other._blob_uses, other._segment_uses = Counter(self._blob_uses), Counter(self._segment_uses)
        return other

    def prepare(self, values: Mapping[str, Any], delete: Iterable[str], blobs: Mapping[str, Bytes]) -> Change:
        """Check a change against the present state, without applying it.

        Cost:   proportional to the change, not to the state.

        Raises:
            StoreError: a value would name data that does not exist, or the change contradicts itself.
        """
        deleted = tuple(dict.fromkeys(delete))
        for key in deleted:
            if key not in self.state or key in values:
                what = "is set in the same commit" if key in values else "is not there"
                raise StoreError(f"cannot delete key {key!r}: it {what}")
        admitted: dict[str, Json] = {}
        names: dict[str, References] = {}
        for key, value in values.items():
            if type(key) is not str:
                raise StoreError(f"a key of the state must be a string, got {key!r:.200}")
            names[key] = References()
            admitted[key] = admit(value, names[key])
        self._check_blobs(names, blobs)
        return Change(admitted, deleted, names, {n: _frozen(n, b) for n, b in blobs.items()}, self._new_segments(names))

    def apply(self, change: Change) -> None:
        """Apply a prepared change."""
        self.blobs.update(change.blobs)
        for names in change.names.values():  # new names are counted before old ones go: a name may move between keys
            self._blob_uses.update(names.blobs)
            self._segment_uses.update(names.segments.keys())
            self.segments.update(names.segments)
        for key in (*change.set, *change.delete):
            if (names_before := self._names.get(key)) is not None:
                self._forget(names_before)
        self.state.update(change.set)
        self._names.update(change.names)
        for key in change.delete:
            del self.state[key], self._names[key]

    def _forget(self, names: References) -> None:
        for blob in names.blobs:
            self._blob_uses[blob] -= 1
            if not self._blob_uses[blob]:
                del self._blob_uses[blob], self.blobs[blob]
        for segment in names.segments:
            self._segment_uses[segment] -= 1
            if not self._segment_uses[segment]:
                del self._segment_uses[segment], self.segments[segment]

    def _check_blobs(self, names: Mapping[str, References], blobs: Mapping[str, Bytes]) -> None:
        named = {blob for references in names.values() for blob in references.blobs}
        for name in blobs:
            if type(name) is not str or name in self.blobs:
                raise StoreError(f"the name of a blob must be a string that no live blob has, got {name!r:.200}")
            if name not in named:
                raise StoreError(
                    f"blob {name!r} is not named by any value of this commit, so nothing could ever read it"
                )
        for name in named:
            if name not in blobs and name not in self.blobs:
                raise StoreError(f"a value names blob {name!r}, which is neither in this commit nor live")

    def _new_segments(self, names: Mapping[str, References]) -> tuple[SegmentRef, ...]:
        new: dict[str, SegmentRef] = {}
        for references in names.values():
            for name, ref in references.segments.items():
                known = self.segments.get(name) or new.setdefault(name, ref)
                if known != ref:
                    raise StoreError(f"segment {name} is named with a different size or checksum than before")
        return tuple(new.values())


def _frozen(name: str, blob: Bytes) -> memoryview:
    try:
        view = memoryview(blob)
    except TypeError:
        raise StoreError(
            f"blob {name!r} is a {type(blob).__name__}; give bytes, a memoryview or an Arrow buffer"
        ) from None
    if not view.readonly:
        return memoryview(bytes(view))  # its owner may go on writing into it
    if not view.contiguous:
        return memoryview(view.tobytes())
    return view if view.nbytes == len(view) and view.format == "B" else view.cast("B")
