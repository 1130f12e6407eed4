"""Plans of Spark Connect's protocol with names for what they read: files, streams, and tables in texts of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from altneu.cli.pipelines.elements import Names
from altneu.cli.pipelines.files import Files, files_of
from altneu.cli.pipelines.statements import stream_name, with_streams
from altneu.expressions.pyspark.connect import name_parts


class Named(Protocol):
    """Gives files a name by which a query reads them."""

    def __call__(self, files: Files, *, stream: bool) -> list[str]:
        """The parts of the name."""


def with_names(relation: Any, names: Names, named: Named, place: object) -> Any:
    """A copy of a plan in which every input is a table with a name.

    Raises:
        PipelineError: files of a format, or with an option, that altneu does not read.
    """
    plan = type(relation)()
    plan.CopyFrom(relation)
    for message in _relations(plan):
        kind = message.WhichOneof("rel_type")
        if kind == "sql":
            message.sql.query = with_streams(message.sql.query, names.catalog, names.database, place)
        elif kind == "read":
            read = message.read
            if read.WhichOneof("read_type") == "data_source":
                parts = named(files_of(read.data_source, place), stream=read.is_streaming)
                read.named_table.unparsed_identifier = ".".join(f"`{part}`" for part in parts)
            elif read.is_streaming:
                parts = name_parts(read.named_table.unparsed_identifier)
                read.named_table.unparsed_identifier = stream_name(parts, names.catalog, names.database)
    return plan


def _relations(root: Any) -> Iterator[Any]:
    """All relations of a plan, also those in expressions."""
    todo = [root]
    while todo:
        message = todo.pop()
        if message.DESCRIPTOR.name == "Relation":
            yield message
        for field, value in message.ListFields():
            if field.message_type is None or field.message_type.GetOptions().map_entry:
                continue
            todo += [value] if hasattr(value, "DESCRIPTOR") else list(value)
