"""Case p: Debezium's envelopes read as columns, by altneu's reader and by libraries that decode each document.

Typed decoders and dictionaries read what is usual. What altneu promises besides (whole texts of nested values, exact
decimals, errors of single rows) a library gives as the bytes of each member, which are then read as altneu reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np
import orjson
import pyarrow as pa

from altneu.linear.steps import JsonField
from altneu.operators.json.text import parse_json
from altneu.operators.json.values import INVALID, WRONG_TYPE
from altneu.types import parse_schema, parse_type
from bench.inputs import generator
from bench.measure import interleaved
from bench.scale import Scale
from bench.tables import Aim, Findings, Table

ROWS = (1_000, 100_000)
OURS, MSGSPEC, RAW, ORJSON = "altneu", "msgspec, typed", "msgspec, spans", "orjson"
ROW = parse_schema("id bigint, name string, amount decimal(12,2), at timestamp, active boolean, score double")
UNITS = {"at": "us"}

Failed = dict[int, str]
Reading = tuple[list[pa.Array], Failed]
Reader = Callable[[pa.Array], Reading]
E = TypeVar("E")


def documents(rows: int, *, broken: bool = True) -> pa.Array:
    """Seeded envelopes with a ``source`` block that nobody reads; one in 500 is cut off, if any may be ``broken``."""
    rng = generator(f"envelopes-{rows}")
    texts = []
    for i in range(rows):
        before, after = (_row(rng, i) for _ in range(2))
        op = "cud"[i % 3]
        source = {"version": "3.0.0.Final", "connector": "postgresql", "name": "shop", "ts_ms": 1_700_000_000_000 + i}
        source |= {"snapshot": "false", "db": "shop", "sequence": '["1","2"]', "schema": "public", "table": "orders"}
        source |= {"txId": 500 + i, "lsn": 34_000_000 + 64 * i, "xmin": None}
        images = {"before": None if op == "c" else before, "after": None if op == "d" else after}
        text = json.dumps({**images, "source": source, "op": op, "ts_ms": 1_700_000_000_123 + i, "transaction": None})
        texts.append(text[:-40] if broken and i % 500 == 499 else text)
    return pa.array(texts)


def _row(rng: np.random.Generator, i: int) -> dict[str, object]:
    cents = int(rng.integers(0, 10**9))
    return {
        "id": i,
        "name": f"customer number {i} of É{'é' * int(rng.integers(0, 8))}",
        "amount": f"{cents // 100}.{cents % 100:02}",
        "at": 1_700_000_000_000_000 + int(rng.integers(0, 10**12)),
        "active": bool(i % 2),
        "score": float(rng.random()),
    }


FIELDS = [JsonField("op", ("op",), parse_type("string"))] + [
    JsonField(f"{image}_{f.name}", (image, f.name), f.type, UNITS.get(f.name, ""))
    for image in ("before", "after")
    for f in ROW
]


def by_altneu(texts: pa.Array) -> Reading:
    """The engine's own reader."""
    columns, failed, failure = parse_json(texts, FIELDS)
    return columns, {} if failed is None else {int(i): failure(int(i))[0] for i in np.flatnonzero(failed)}


class Row(msgspec.Struct):
    """A row image."""

    id: int | None = None
    name: str | None = None
    amount: Decimal | None = None
    at: int | None = None
    active: bool | None = None
    score: float | None = None


class Envelope(msgspec.Struct):
    """What is read of an envelope; other members are skipped."""

    op: str | None = None
    before: Row | None = None
    after: Row | None = None


_DECODE = msgspec.json.Decoder(Envelope).decode
_NONE, _NOTHING = Row(), Envelope()
_NAMES = tuple(ROW.names)


def _decoded(texts: pa.Array, decode: Callable[[str], E], nothing: E) -> tuple[list[E], dict[int, str]]:
    """Every text as a struct, ``nothing`` for those that fail, and how these do."""
    results, failed = [], {}
    for i, text in enumerate(texts.to_pylist()):
        try:
            results.append(decode(text))
        except (msgspec.DecodeError, RecursionError) as error:
            failed[i] = WRONG_TYPE if isinstance(error, msgspec.ValidationError) else INVALID
            results.append(nothing)
    return results, failed


def by_msgspec(texts: pa.Array) -> Reading:
    """Typed decoders; a column is made of the attributes of the structs."""
    result, failed = _decoded(texts, _DECODE, _NOTHING)
    columns = [pa.array([m.op for m in result], pa.string())]
    for rows in ([m.before or _NONE for m in result], [m.after or _NONE for m in result]):
        columns += [_column(f, [getattr(row, f.name) for row in rows]) for f in ROW]
    return columns, failed


class RawRow(msgspec.Struct):
    """The JSON of a row image's members."""

    id: msgspec.Raw = msgspec.Raw()
    name: msgspec.Raw = msgspec.Raw()
    amount: msgspec.Raw = msgspec.Raw()
    at: msgspec.Raw = msgspec.Raw()
    active: msgspec.Raw = msgspec.Raw()
    score: msgspec.Raw = msgspec.Raw()


class RawEnvelope(msgspec.Struct):
    """The JSON of what is read of an envelope."""

    op: msgspec.Raw = msgspec.Raw()
    before: RawRow | None = None
    after: RawRow | None = None


_DECODE_RAW = msgspec.json.Decoder(RawEnvelope).decode
_NO_ROW, _NO_ENVELOPE = RawRow(), RawEnvelope()


def by_bytes(texts: pa.Array) -> Reading:
    """The library finds the members, and altneu reads them: exact, as altneu's own."""
    result, failed = _decoded(texts, _DECODE_RAW, _NO_ENVELOPE)
    members = [[m.op for m in result]]
    for rows in ([m.before or _NO_ROW for m in result], [m.after or _NO_ROW for m in result]):
        members += [[getattr(row, name) for row in rows] for name in ROW.names]
    columns = []
    for field, values in zip(FIELDS, members, strict=True):
        matches = pa.array([bytes(v) or None for v in values], pa.binary()).view(pa.string())
        column, wrong, failure = parse_json(matches, [JsonField(field.name, (), field.type, field.unit)])
        columns += column
        failed |= {} if wrong is None else {int(i): failure(int(i))[0] for i in np.flatnonzero(wrong)}
    return columns, failed


def by_orjson(texts: pa.Array) -> Reading:
    """Dictionaries; types are looked at by Arrow, a column at a time, and a column that has wrong ones fails whole."""
    results: list[dict[str, Any]] = []
    failed = {}
    for i, text in enumerate(texts.to_pylist()):
        try:
            results.append(orjson.loads(text))
        except orjson.JSONDecodeError:
            failed[i] = INVALID
            results.append({})
    columns = [pa.array([m.get("op") for m in results], pa.string())]
    for image in ("before", "after"):
        rows: list[dict[str, Any]] = [m.get(image) or {} for m in results]
        columns += [_column(f, [row.get(f.name) for row in rows]) for f in ROW]
    return columns, failed


def _column(field: pa.Field, values: list[Any]) -> pa.Array:
    if field.name == "at":
        return pa.array(values, pa.int64()).cast(field.type)
    if field.name == "amount" and any(isinstance(v, str) for v in values):
        return pa.array(values, pa.string()).cast(field.type)
    return pa.array(values, field.type)


READERS: dict[str, Reader] = {OURS: by_altneu, MSGSPEC: by_msgspec, RAW: by_bytes, ORJSON: by_orjson}

_ODD = {
    "a name twice: the last counts": '{"op": "a", "op": "b"}',
    "a whole number beyond 64 bits, in a bigint": '{"after": {"id": 9223372036854775808}}',
    "a number beyond double": '{"after": {"score": 1e400}}',
    "an exact decimal, as a number": '{"after": {"amount": 1234567890.125}}',
    "an exact decimal, as a text": '{"after": {"amount": "1234567890.125"}}',
    "an object, read as a text": '{"op": {"a": [1, 2.50]}}',
    "a number, read as a text": '{"op": 1.50}',
    "NaN, as Spark writes it": '{"after": {"score": "NaN"}}',
    "NaN, bare": '{"after": {"score": NaN}}',
    "a surrogate alone": '{"op": "\\ud800"}',
    "900 arrays in each other, not read": f'{{"x": {"[" * 900}{"]" * 900}}}',
    "1,100 arrays in each other, not read": f'{{"x": {"[" * 1100}{"]" * 1100}}}',
    "a whole number with a fraction, in a bigint": '{"after": {"id": 1.0}}',
}


def odd(shown: Table) -> None:
    """What each reader makes of documents that libraries read differently."""
    for what, text in _ODD.items():
        shown.add(what, *(_seen(read, text) for read in READERS.values()))


def _seen(read: Reader, text: str) -> str:
    try:
        columns, failed = read(pa.array([text]))
    except Exception as error:  # noqa: BLE001 -- a reader that ends with all rows of a batch is what is looked for
        return f"all rows: {type(error).__name__}"
    if failed:
        return f"its row: {failed[0]}"
    values = [c[0].as_py() for c in columns]
    return next((repr(v) for v in values if v is not None), "nulls")


def measure(scale: Scale) -> Findings:
    """Envelopes as columns."""
    findings = Findings()
    shown = Table("p. Debezium's envelopes as 13 columns", ["documents", "reader", "CPU ms", "/ altneu", "ms"])
    for rows in ROWS:
        texts = documents(rows)
        _check_same(texts)
        turns = max(scale.turns * 2, 300_000 // rows // 20)
        result = interleaved({name: partial(read, texts) for name, read in READERS.items()}, turns)
        cpu = {name: min(timed.cpu) for name, timed in result.items()}
        for name, timed in result.items():
            ratio = f"{cpu[name] / cpu[OURS]:.2f}x"
            shown.add(f"{rows:,}", name, f"{1000 * cpu[name]:.2f}", ratio, f"{1000 * timed.least:.2f}")
        ahead = cpu[OURS] / cpu[RAW]
        text = f"p: no slower than a library that finds the same members of {rows:,} documents"
        findings.aims.append(Aim(text, f"{ahead:.2f}x", ahead))
    size = documents(1_000).nbytes / 1_000
    shown.notes.append(
        f"The fastest of the runs, taken in turns; documents of {size:,.0f} bytes. All readers produce the same "
        "columns, and report the same truncated rows."
    )
    differing = Table("p. documents that libraries read differently", ["", *READERS])
    odd(differing)
    findings.tables += [shown, differing]
    return findings


def _check_same(texts: pa.Array) -> None:
    expected, failed = by_altneu(texts)
    good = pa.array([i not in failed for i in range(len(texts))])
    for name, read in READERS.items():
        columns, wrong = read(texts)
        assert wrong == failed, f"{name} fails other rows"
        for field, ours, theirs in zip(FIELDS, expected, columns, strict=True):
            assert ours.filter(good).equals(theirs.filter(good)), f"{name} reads {field.name} differently"
