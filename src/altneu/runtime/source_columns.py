"""The columns that sources have and had, as a store has them: the first version whole, each later one as a change."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from altneu.columnar.rows import array_of
from altneu.errors import StoreCorruptError
from altneu.plan.versions import Version, Versions
from altneu.runtime.described import schema_from_text, schema_to_text
from altneu.runtime.stored import (
    State,
    StoredChange,
    StoredColumn,
    StoredVersion,
    StoredVersions,
    column_changes_in,
    versions_in,
)


def columns_in(state: State) -> dict[str, Versions]:
    """The columns that the sources of a commit have and had, by name.

    Raises:
        StoreCorruptError: they are not told in a form that this version can read.
    """
    changes = column_changes_in(state)
    try:
        return {name: _read(first, changes.get(name, {})) for name, first in versions_in(state).items()}
    except (LookupError, TypeError, ValueError, pa.ArrowException) as error:
        raise StoreCorruptError(
            f"a commit tells the columns of a source in a form that this version cannot read: {error}"
        ) from error


def _read(first: StoredVersions, changes: Mapping[int, StoredChange]) -> Versions:
    versions = [Version(schema_from_text(v["schema"]), tuple(v["numbers"])) for v in first["versions"]]
    defaults = {int(n): _value_from_text(text) for n, text in first.get("defaults", {}).items()}
    for place in range(len(versions), len(versions) + len(changes)):
        change = changes[place]
        versions.append(_changed(versions[-1], change))
        defaults |= {int(n): _value_from_text(text) for n, text in change.get("defaults", {}).items()}
    return Versions(tuple(versions), defaults)


def told(name: str, versions: Versions, before: Versions | None) -> tuple[dict[str, object], list[str]]:
    """What a commit sets and deletes so that it tells the columns of a source; ``before`` is what the last one told.

    Cost:   columns that change, and a comparison of the columns of each new version with those of the version before.
    """
    if before is not None and _goes_on(versions, before):
        new = {n: value for n, value in versions.defaults.items() if n not in before.defaults}
        return _changes(name, versions, len(before.all), new), []
    first = versions.all[0]
    whole = StoredVersion(schema=schema_to_text(first.schema), numbers=list(first.numbers))
    base = StoredVersions(versions=[whole])
    if versions.defaults:
        base["defaults"] = _defaults(versions, versions.defaults)
    stale = range(len(versions.all), 0 if before is None else len(before.all))
    return {f"schema/{name}": base, **_changes(name, versions, 1, {})}, [f"columns/{name}/{place}" for place in stale]


def keys_of(name: str, versions: Versions) -> list[str]:
    """The keys by which a store has the columns of a source; it may lack those of versions that are told whole."""
    return [f"schema/{name}", *(f"columns/{name}/{place}" for place in range(1, len(versions.all)))]


def _goes_on(versions: Versions, before: Versions) -> bool:
    """Whether versions are those before and later ones, and so their defaults."""
    if versions.all[: len(before.all)] != before.all or any(
        n not in versions.defaults or versions.defaults[n] != value for n, value in before.defaults.items()
    ):
        return False
    return len(versions.all) > len(before.all) or len(versions.defaults) == len(before.defaults)


def _changes(name: str, versions: Versions, place: int, defaults: Mapping[int, Any]) -> dict[str, object]:
    """The changes from a place on, by key; the first one tells the ``defaults``."""
    changes = [_change(*versions.all[p - 1 : p + 1]) for p in range(place, len(versions.all))]
    if defaults:
        changes[0]["defaults"] = _defaults(versions, defaults)
    return {f"columns/{name}/{place + i}": change for i, change in enumerate(changes)}


def _change(before: Version, after: Version) -> StoredChange:
    """What leads from one version to another."""
    then, now = before.by_number, after.by_number
    stay = {n for n, column in now.items() if n in then and then[n].equals(column, check_metadata=True)}
    if [n for n in before.numbers if n in stay] != [n for n in after.numbers if n in stay]:
        stay = set()  # they are in another order
    change = StoredChange()
    if gone := [n for n in before.numbers if n not in stay]:
        change["gone"] = gone
    pairs = enumerate(now.items())
    if new := [
        StoredColumn(place=p, number=n, schema=schema_to_text(pa.schema([f]))) for p, (n, f) in pairs if n not in stay
    ]:
        change["columns"] = new
    return change


def _changed(before: Version, change: StoredChange) -> Version:
    """The version to which ``_change`` leads."""
    gone = set(change.get("gone", ()))
    columns = [(n, column) for n, column in before.by_number.items() if n not in gone]
    for column in change.get("columns", ()):
        columns.insert(column["place"], (column["number"], schema_from_text(column["schema"]).field(0)))
    return Version(pa.schema([column for _, column in columns]), tuple(number for number, _ in columns))


def _defaults(versions: Versions, defaults: Mapping[int, Any]) -> dict[str, str]:
    types = {n: next(_types_of(versions, n)) for n in defaults}
    return {str(n): _value_to_text(value, types[n]) for n, value in defaults.items()}


def _types_of(versions: Versions, number: int) -> Iterator[pa.DataType]:
    """The types that a column has had, the last one first."""
    return (v.schema.field(v.numbers.index(number)).type for v in reversed(versions.all) if number in v.numbers)


def _value_to_text(value: object, kind: pa.DataType) -> str:
    """A value, as an Arrow stream of one row."""
    batch = pa.RecordBatch.from_arrays([array_of([value], kind)], ["value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode("ascii")


def _value_from_text(text: str) -> object:
    with pa.ipc.open_stream(pa.py_buffer(base64.b64decode(text, validate=True))) as reader:
        return reader.read_next_batch().column(0)[0].as_py()
