"""The sources of a session, and what a store records of them: their declarations, and all columns they have had."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from altneu.collections.collection import Collection
from altneu.operators.source.lowering import commands_name
from altneu.plan import ir
from altneu.plan.lower import arrangement_name
from altneu.plan.versions import Earlier, Versions, earlier
from altneu.runtime.described import schema_from_text, schema_to_text
from altneu.runtime.journal import Journal
from altneu.runtime.stored import StoredSource
from altneu.types import to_ddl


class SourceColumns:
    """The versions of the columns of sources, as the journal records them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    @property
    def versions(self) -> Mapping[str, Versions]:
        """The columns that each source has and had, as far as that is recorded."""
        return self._journal.versions

    @property
    def changed(self) -> dict[str, Versions]:
        """The columns of the sources that had others before."""
        return {name: versions for name, versions in self._journal.versions.items() if len(versions.all) > 1}

    def versions_of(self, source: ir.Source) -> Versions:
        """The columns that a source has and had: those that are recorded, or its own."""
        return self._journal.versions.get(source.name) or Versions.of(source.schema)

    def present(self, source: ir.Source) -> ir.Source:
        """A source with its present columns; as it is where its columns were never those of the recorded one."""
        versions = self.versions_of(source)
        return versions.as_of(versions.present, source)

    def earlier(self, *nodes: ir.Node) -> dict[str, Earlier]:
        """The sources of some plans that have earlier columns, by their fingerprints."""
        changed = self.changed
        return earlier(nodes, changed) if changed else {}

    def know(self, collection: Collection) -> None:
        """Have the next commit tell the columns of a collection's sources that no commit has told."""
        new = [source for source in sources_of(collection) if source.name not in self._journal.versions]
        self._journal.know({source.name: Versions.of(source.schema) for source in new})

    def retained_sources(self, node: ir.Node) -> dict[str, StoredSource]:
        """The records of the stored sources that a view's plan reads, with their present columns, by name."""
        sources = [below for below in ir.walk(node) if isinstance(below, ir.Source) and below.keep]
        return {source.name: retained_source(self.present(source)) for source in sources}


def sources_of(collection: Collection) -> list[ir.Source]:
    """The sources of a collection, each as often as it is declared otherwise."""
    return [below for below in ir.walk(collection.node) if isinstance(below, ir.Source)]


def source_of(name: str, encoded: StoredSource) -> ir.Source:
    """A stored source, from its record in a commit."""
    key, coordinates = tuple(encoded.get("key", ())), tuple(encoded["coordinates"])
    marks = ("distinct" in encoded, "static" in encoded, "append_only" in encoded)
    stored = encoded.get("weight")
    weight = None if stored is None else ir.SourceWeight(tuple(stored["columns"]), stored["text"], stored["group"])
    return _source(name, encoded["schema"], encoded.get("keep", True), coordinates, key, *marks, weight)


@lru_cache(maxsize=1024)
def _source(
    name: str,
    schema: str,
    keep: bool,
    coordinates: tuple[str, ...],
    key: tuple[str, ...],
    distinct: bool,
    static: bool,
    append_only: bool,
    weight: ir.SourceWeight | None,
) -> ir.Source:
    times: Any = coordinates or None
    return ir.Source(name, schema_from_text(schema), keep, times, key or None, distinct, static, append_only, weight)


def retained_source(source: ir.Source) -> StoredSource:
    """The record of a source whose rows are stored, also of one that is declared without ``keep``."""
    name = arrangement_name(source, source.commanded_by or tuple(source.schema.names))
    assert name is not None  # no source is in a loop
    description: StoredSource = {
        "schema": schema_to_text(source.schema),
        "coordinates": list(source.coordinates or ()),
        "arrangement": name,
    }
    if source.commanded_by is not None:
        description["commands"] = commands_name(source)
        if source.key:
            description["key"] = list(source.key)
        else:
            description["distinct"] = True
    if not source.keep:
        description["keep"] = False
    if source.static:
        description["static"] = True
    if source.append_only:
        description["append_only"] = True
    if source.weight is not None:
        columns, text, group = list(source.weight.columns), source.weight.text, source.weight.group
        description["weight"] = {"columns": columns, "text": text, "group": group}
    return description


def declaration_of(source: ir.Source) -> str:
    """The declaration of a source, as a program writes it."""
    keep, times = ", keep=True" * source.keep, "" if source.coordinates is None else f", time={source.coordinates}"
    by = f", key={list(source.key)}" if source.key else ", distinct=True" * source.distinct
    more = ", append_only=True" * source.append_only
    if source.weight is not None:
        more += f", weight={source.weight.text}"
    return f"an.source({source.name!r}, {to_ddl(source.schema)!r}{keep}{times}{by}{more})"
