"""JSON values read as columns of a type; a value that the type cannot hold fails its row."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.columnar.canonical import canonical
from altneu.columnar.rows import Ints
from altneu.errors import TypeMismatchError
from altneu.expressions import text_in
from altneu.expressions.vector import Vector, dtype_of, validity
from altneu.linear.steps import JsonField
from altneu.operators.json import parts as json_parts
from altneu.operators.json import scan as json_scan
from altneu.operators.json.scan import Bytes
from altneu.operators.linear.expansion import Mask

INVALID, WRONG_TYPE, NO_FIELDS = "INVALID_JSON", "JSON_TYPE", "MISSING_FIELDS"
Path: TypeAlias = tuple[str, ...]

_SHOWN = 60  # bytes of a value in a message
UNITS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
_DECIMAL = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_NOT_FINITE = {"NaN": "nan", **dict.fromkeys(("Infinity", "+Infinity", "INF", "+INF"), "inf")}
_NOT_FINITE |= {"-Infinity": "-inf", "-INF": "-inf"}


@dataclass(frozen=True)
class Values:
    """n JSON values as spans of bytes in texts; a span that begins before 0 is absent.

    ``rows`` are the texts that they are of, ``where`` names one of them.
    """

    data: Bytes
    begin: Ints
    end: Ints
    rows: Ints
    where: Callable[[int], str]

    @classmethod
    def of_texts(cls, texts: pa.Array) -> Values:
        """Whole texts; a null is absent."""
        count = len(texts)
        _, offsets, content = texts.buffers()
        data = np.zeros(1, np.uint8) if content is None or not content.size else np.frombuffer(content, np.uint8)
        edges = np.zeros(1, np.int64)
        if count:
            edges = np.frombuffer(offsets, np.int32, count + 1, 4 * texts.offset).astype(np.int64)
        valid = validity(texts)
        begin = edges[:-1] if valid is None else np.where(valid, edges[:-1], -1)
        return cls(data, begin, edges[1:], np.arange(count), lambda _: "the document")

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def base(self) -> int:
        """Address of the bytes."""
        return int(self.data.ctypes.data)

    def first(self) -> Bytes:
        """The first byte of each, which tells its kind; 0 where it is absent or null."""
        kinds = np.where(self.begin < 0, 0, self.data[np.maximum(self.begin, 0)])
        return np.where(kinds == ord("n"), 0, kinds).astype(np.uint8)

    def select(self, mask: Mask) -> Values:
        """The same values, absent where the mask is false."""
        return Values(self.data, np.where(mask, self.begin, -1), self.end, self.rows, self.where)

    def show(self, item: int) -> str:
        """The beginning of one, as text."""
        begin, end = int(self.begin[item]), int(self.end[item])
        if begin < 0:
            return "absent"
        shown = bytes(self.data[begin : min(end, begin + _SHOWN)]).decode("utf-8", "ignore")
        return shown if end <= begin + _SHOWN else f"{shown}..."


Members: TypeAlias = dict[Path, Values]
"""Members of n values, by the ways to them."""


def _paths(path: Path, data_type: pa.DataType) -> Iterator[Path]:
    """All that has to be found to read a type: the value, and the members of structs."""
    yield path
    if T.is_struct(data_type):
        for field in data_type:
            yield from _paths((*path, field.name), field.type)


def _tree(ordered: list[Path]) -> tuple[Ints, Bytes]:
    """The tree of names that ``scan`` takes, and the names, which have to stay while it is used."""
    texts = [path[-1].encode() if path else b"" for path in ordered]
    names = np.frombuffer(b"".join(texts) + b"\0", np.uint8)
    tree = np.empty((len(ordered), 3), np.int64)
    tree[:, 1] = [len(t) for t in texts]
    tree[:, 0] = names.ctypes.data + np.cumsum(tree[:, 1]) - tree[:, 1]
    for k, path in enumerate(ordered):
        below = (j for j in range(k + 1, len(ordered)) if ordered[j][: len(path)] != path)
        tree[k, 2] = next(below, len(ordered))
    return tree, names


def _first_of(choices: Sequence[Values]) -> Values:
    """Of several values of each text the first that is there."""
    chosen = choices[0]
    for other in choices[1:]:
        absent = chosen.begin < 0
        begin, end = (np.where(absent, *pair) for pair in ((other.begin, chosen.begin), (other.end, chosen.end)))
        chosen = Values(chosen.data, begin, end, chosen.rows, other.where)
    return chosen


class Reader:
    """Reads values, and keeps the first failure of each text."""

    def __init__(self) -> None:
        self.failed: dict[int, tuple[str, str]] = {}

    def find(self, values: Values, wanted: Sequence[tuple[Path, pa.DataType]]) -> Members:
        """Find all that is wanted in one pass over the values."""
        paths = {p for path, data_type in wanted for p in _paths(path, data_type)}
        ordered = sorted({p[:k] for p in paths for k in range(len(p) + 1)} | {()})  # which is preorder
        tree, names = _tree(ordered)
        starts = np.full((len(values), len(ordered)), -1, np.int64)
        ends = np.full_like(starts, -1)
        wrong = json_scan.scan(values.base, values.begin, values.end, tree.ctypes.data, starts, ends)
        del names  # the tree holds addresses in it
        for item in np.flatnonzero(wrong != -1):
            starts[item] = -1
            self.failed.setdefault(int(values.rows[item]), (INVALID, _explain(values, int(item), int(wrong[item]))))
        return {
            path: Values(values.data, starts[:, k].copy(), ends[:, k].copy(), values.rows, _within(values.where, path))
            for k, path in enumerate(ordered)
        }

    def field(self, members: Members, field: JsonField) -> pa.Array:
        """The column of a field."""
        last = (field.path, *field.fallbacks)[-1]
        for k in range(len(last)):
            outer = members[last[:k]]
            self._check(outer, ~np.isin(outer.first(), (0, ord("{"))), "object")
        if field.fallbacks:
            return self._read(_first_of([members[p] for p in (field.path, *field.fallbacks)]), field.type, field.unit)
        return self._member(members, field.path, field.type, field.unit)

    def check_needs(self, members: Members, path: Path, names: Sequence[str]) -> None:
        """Record the objects at a path that have none of some members."""
        values = members[path]
        lacking = values.first() == ord("{")
        for name in names:
            lacking &= members[*path, name].begin < 0
        for item in np.flatnonzero(lacking):
            text = (
                f"{values.where(int(item))} is {values.show(int(item))}, which has none of the fields "
                f"{', '.join(names)}; a field must be called as the member is, in upper and lower case too"
            )
            self.failed.setdefault(int(values.rows[item]), (NO_FIELDS, text))

    def _check(self, values: Values, bad: Mask, expected: str) -> None:
        """Record that some values are not what was expected."""
        for item in np.flatnonzero(bad):
            row = int(values.rows[item])
            if row not in self.failed:
                text = f"{values.where(int(item))} is {values.show(int(item))}, which is no {expected}"
                self.failed[row] = WRONG_TYPE, text

    def _member(self, members: Members, path: Path, data_type: pa.DataType, unit: str) -> pa.Array:
        values = members[path]
        if not T.is_struct(data_type):
            return self._read(values, data_type, unit)
        kinds = values.first()
        self._check(values, ~np.isin(kinds, (0, ord("{"))), "object")
        present = kinds == ord("{")
        parts = []
        for field in data_type:
            inner = (*path, field.name)
            result = self._member(members, inner, field.type, unit)
            parts.append(self._required(members[inner], present, result, field))
        return pa.StructArray.from_arrays(parts, fields=list(data_type), mask=pa.array(~present))

    def _required(self, values: Values, present: Mask, result: pa.Array, field: pa.Field) -> pa.Array:
        """Inner values: where they may not be null a null is a failure, and something else stands in its place."""
        if field.nullable:
            return result
        self._check(values, present & (values.first() == 0), f"{T.type_name(field.type)} NOT NULL")
        index = np.where(np.asarray(result.is_valid()), np.arange(len(result)), len(result))
        return pa.concat_arrays([result, pa.array([_something(field.type)], field.type)]).take(pa.array(index))

    def _read(self, values: Values, data_type: pa.DataType, unit: str) -> pa.Array:
        """Values that are not members of what was found already."""
        if T.is_struct(data_type):
            return self._member(self.find(values, [((), data_type)]), (), data_type, unit)
        if pt.is_list(data_type) or pt.is_map(data_type):
            return self._items(values, data_type, unit)
        read = _reading(data_type)
        kinds = values.first()
        result, good = read(values, kinds, data_type, unit)
        self._check(values, (kinds != 0) & ~good, T.type_name(data_type))
        return result

    def _items(self, values: Values, data_type: pa.DataType, unit: str) -> pa.Array:
        """Arrays, and objects as maps."""
        is_map = pt.is_map(data_type)
        if is_map and data_type.key_type != T.STRING:
            raise _unreadable(data_type)
        kinds, own = values.first(), ord("{" if is_map else "[")
        self._check(values, ~np.isin(kinds, (0, own)), "object" if is_map else "array")
        values = values.select(kinds == own)
        counts = json_parts.count_items(values.base, values.begin, values.end)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        spans = json_parts.find_items(values.base, values.begin, values.end, offsets)
        parents = np.repeat(np.arange(len(values)), counts)
        keys = None
        if is_map:
            keys, last_ones = self._keys(values, spans, parents)
            spans, parents = np.ascontiguousarray(spans[:, last_ones]), parents[last_ones]
            offsets = np.searchsorted(parents, np.arange(len(values) + 1))
        where = _item_name(values, parents, offsets, keys)
        items = Values(values.data, spans[2], spans[3], values.rows[parents], where)
        field = data_type.item_field if is_map else data_type.value_field
        everywhere = np.ones(len(items), np.bool_)
        read = self._required(items, everywhere, self._read(items, field.type, unit), field)
        edges, mask = pa.array(offsets, pa.int32()), pa.array(kinds != own)
        if is_map:
            return canonical(pa.MapArray.from_arrays(edges, keys, read, type=data_type, mask=mask))
        return pa.ListArray.from_arrays(edges, read, type=data_type, mask=mask)

    def _keys(self, values: Values, spans: Ints, parents: Ints) -> tuple[pa.Array, Ints]:
        """The names of the members that no later one replaces, and their places among all."""
        names = Values(
            values.data,
            spans[0],
            spans[1],
            values.rows[parents],
            lambda item: f"a name in {values.where(int(parents[item]))}",
        )
        keys = self._read(names, T.STRING, "").fill_null("")  # null where the row has failed
        codes = np.asarray(keys.dictionary_encode().indices)
        _, last = np.unique((parents * (len(keys) + 1) + codes)[::-1], return_index=True)
        last_ones = np.sort(len(keys) - 1 - last)
        return keys.take(pa.array(last_ones)), last_ones


def _something(data_type: pa.DataType) -> object:
    """Some value of a type that is not null, as Python has it."""
    if T.is_struct(data_type):
        return {f.name: None if f.nullable else _something(f.type) for f in data_type}
    if pt.is_list(data_type) or pt.is_map(data_type):
        return []
    return {T.STRING: "", T.BINARY: b"", T.BOOLEAN: False}.get(data_type, 0)


def _within(where: Callable[[int], str], path: Path) -> Callable[[int], str]:
    inner = ".".join(path)

    def name(item: int) -> str:
        outer = where(item)
        return outer if not inner else inner if outer == "the document" else f"{outer}.{inner}"

    return name


def _item_name(values: Values, parents: Ints, offsets: Ints, keys: pa.Array | None) -> Callable[[int], str]:
    def name(item: int) -> str:
        parent = int(parents[item])
        if keys is not None:
            return _within(values.where, (keys[item].as_py(),))(parent)
        return f"{values.where(parent)}[{item - int(offsets[parent])}]"

    return name


def _explain(values: Values, item: int, wrong: int) -> str:
    """Why a text is no JSON."""
    if wrong < -1:
        return f"the text has over {json_scan.DEEPEST} objects and arrays within each other"
    begin, end = int(values.begin[item]), int(values.end[item])
    before = len(bytes(values.data[begin : begin + wrong]).decode("utf-8", "replace"))
    at = Values(values.data, np.array([begin + wrong]), np.array([end]), np.zeros(1, np.int64), values.where)
    shown = f"at {at.show(0)!r}" if begin + wrong < end else "at its end"
    return f"the text is no JSON: it goes wrong {shown} (character {before + 1})"


# --- values without parts: each makes a column, and says which of the values it could read

Read = tuple[pa.Array, Mask]


def _texts(values: Values) -> tuple[pa.Array, Mask]:
    """Content of strings, JSON of other values, null where the value is absent or cannot be a text; which can."""
    count = len(values)
    size = int((values.end - values.begin)[values.begin >= 0].sum())
    offsets, content, bad = np.empty(count + 1, np.int32), np.empty(size, np.uint8), np.zeros(count, np.bool_)
    json_parts.copy_texts(values.base, values.begin, values.end, offsets, content, bad)
    valid = pa.py_buffer(np.packbits((values.begin >= 0) & ~bad, bitorder="little"))
    result = pa.Array.from_buffers(T.STRING, count, [valid, pa.py_buffer(offsets), pa.py_buffer(content)])
    return result, ~bad


def _is_number(kinds: Bytes) -> Mask:
    return (kinds == ord("-")) | ((kinds >= ord("0")) & (kinds <= ord("9")))


def _strings(values: Values, kinds: Bytes, _type: pa.DataType, _unit: str) -> Read:
    return _texts(values.select(kinds != 0))


def _binaries(values: Values, kinds: Bytes, _type: pa.DataType, _unit: str) -> Read:
    texts, good = _texts(values.select(kinds == ord('"')))
    results: list[bytes | None] = []
    for row, text in enumerate(texts.to_pylist()):
        try:
            results.append(None if text is None else base64.b64decode(text, validate=True))
        except (binascii.Error, ValueError):
            results.append(None)
            good[row] = False
    return pa.array(results, T.BINARY), good & (kinds == ord('"'))


def _booleans(_values: Values, kinds: Bytes, _type: pa.DataType, _unit: str) -> Read:
    true = kinds == ord("t")
    good = true | (kinds == ord("f"))
    return Vector(T.BOOLEAN, true, good).arrow, good


def _whole(values: Values, kinds: Bytes) -> tuple[Ints, Mask]:
    numbers = _is_number(kinds)
    result, bad = np.zeros(len(values), np.int64), np.zeros(len(values), np.bool_)
    json_parts.read_integers(values.base, values.select(numbers).begin, values.end, result, bad)
    return result, numbers & ~bad


def _integers(values: Values, kinds: Bytes, data_type: pa.DataType, _unit: str) -> Read:
    whole, good = _whole(values, kinds)
    result = whole.astype(dtype_of(data_type))
    good &= result == whole
    return Vector(data_type, result, good).arrow, good


def _floats(values: Values, kinds: Bytes, data_type: pa.DataType, _unit: str) -> Read:
    texts, _ = _texts(values.select(_is_number(kinds)))
    strings = kinds == ord('"')
    if strings.any():
        words, _ = _texts(values.select(strings))
        for word, known in _NOT_FINITE.items():
            texts = pc.if_else(pc.fill_null(pc.equal(words, word), False), known, texts)
    result = Vector(data_type, arrow=pc.cast(texts, data_type))
    finite = np.isfinite(result.values) | strings
    good = finite if result.valid is None else finite & result.valid
    return Vector(data_type, np.where(result.values == 0, 0, result.values), good).arrow, good


def _decimals(values: Values, kinds: Bytes, data_type: pa.DataType, _unit: str) -> Read:
    texts, _ = _texts(values.select(_is_number(kinds) | (kinds == ord('"'))))
    shaped = pc.match_substring_regex(texts, _DECIMAL)
    result, bad = text_in.decimals_of(pc.if_else(shaped, texts, None), data_type)
    good = np.asarray(shaped.fill_null(False)) & ~bad
    return Vector(data_type, result, good).arrow, good


def _times(values: Values, kinds: Bytes, data_type: pa.DataType, unit: str) -> Read:
    """Dates and timestamps."""
    strings = kinds == ord('"')
    result, good = np.zeros(len(values), dtype_of(data_type)), np.zeros(len(values), np.bool_)
    if strings.any():
        texts, _ = _texts(values.select(strings))
        result, bad = text_in.parse_values(texts, data_type)
        good = ~bad & np.asarray(texts.is_valid())
    scale = {"d": (1, 1)} if data_type == T.DATE else UNITS if data_type != T.TIME else {}
    if unit in scale and not strings.all():
        times, divisor = scale[unit]
        whole, numbers = _whole(values, kinds)
        exact = whole // divisor * times
        moved = exact.astype(result.dtype)
        numbers &= (exact // times == whole // divisor) & (moved == exact)
        result, good = np.where(numbers, moved, result), good | numbers
    return Vector(data_type, result, good).arrow, good


def _nothing(values: Values, _kinds: Bytes, _type: pa.DataType, _unit: str) -> Read:
    return pa.nulls(len(values)), np.zeros(len(values), np.bool_)


_READ: dict[pa.DataType, Callable[[Values, Bytes, pa.DataType, str], Read]] = {
    T.STRING: _strings,
    T.BINARY: _binaries,
    T.BOOLEAN: _booleans,
    **dict.fromkeys((T.BYTE, T.SHORT, T.INT, T.LONG), _integers),
    **dict.fromkeys((T.FLOAT, T.DOUBLE), _floats),
    **dict.fromkeys((T.DATE, T.TIME, T.TIMESTAMP, T.TIMESTAMP_NTZ), _times),
    T.NULL: _nothing,
}


def _reading(data_type: pa.DataType) -> Callable[[Values, Bytes, pa.DataType, str], Read]:
    read = _decimals if pt.is_decimal128(data_type) else _READ.get(data_type)
    if read is None:
        raise _unreadable(data_type)
    return read


def _unreadable(data_type: pa.DataType) -> TypeMismatchError:
    return TypeMismatchError(f"JSON is not read as {T.type_name(data_type)}; read it as a string, and cast that")
