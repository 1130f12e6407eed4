"""Plans of Spark Connect's protocol with names for what they read: files, streams, and tables in texts of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Protocol

from sqlglot.tokens import TokenType

from altneu.cli.pipelines.elements import Names
from altneu.cli.pipelines.errors import unsupported
from altneu.cli.pipelines.files import FORMATS, Stored, stored_at
from altneu.cli.pipelines.statements import stream_name, tokens_of, with_streams
from altneu.cli.pipelines.versioned import FORMATS as OF_TABLES
from altneu.expressions.pyspark.connect import name_parts
from altneu.types import quote_name


class Named(Protocol):
    """Gives what is stored outside a name by which a query reads it."""

    def __call__(self, stored: Stored, *, stream: bool) -> list[str]:
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
            text = with_paths(message.sql.query, named, place)
            message.sql.query = with_streams(text, names.catalog, names.database, place)
        elif kind == "with_watermark":
            _without_watermark(message)
        elif kind == "deduplicate" and message.deduplicate.within_watermark:
            raise unsupported(
                "dropDuplicatesWithinWatermark",
                "a flow does not remember earlier rows of a stream: make it a materialized view with dropDuplicates, "
                "which altneu keeps right at the cost of what changes, whatever comes late",
                place,
            )
        elif kind == "read":
            read = message.read
            if read.WhichOneof("read_type") == "data_source":
                parts = named(stored_at(read.data_source, place), stream=read.is_streaming)
                read.named_table.unparsed_identifier = ".".join(f"`{part}`" for part in parts)
            elif read.is_streaming:
                parts = name_parts(read.named_table.unparsed_identifier)
                read.named_table.unparsed_identifier = stream_name(parts, names.catalog, names.database)
    return plan


def with_paths(text: str, named: Named, place: object) -> str:
    """A query with names for the files and tables that it reads as ``parquet.`path` `` or ``STREAM delta.`path` ``.

    Raises:
        PipelineError: files of a format that altneu does not read without more being said.
    """
    words, made, at = tokens_of(text, place), list[str](), 0
    for i, (form, dot, path) in enumerate(zip(words, words[1:], words[2:], strict=False)):
        if dot.token_type != TokenType.DOT or path.token_type != TokenType.IDENTIFIER:
            continue
        before = [word.text.upper() for word in words[max(i - 2, 0) : i]]
        known = form.text.lower() in (*FORMATS, *OF_TABLES) and form.token_type != TokenType.IDENTIFIER
        if not known or not before or before[-1] not in ("FROM", "JOIN", ",", "STREAM", "("):
            continue
        inside = before[-1] == "("
        if inside and before[0] != "STREAM":
            continue
        stream = inside or before[-1] == "STREAM"
        said = SimpleNamespace(format=form.text, paths=[path.text], options={}, schema="")
        parts = named(stored_at(said, place), stream=stream)
        start, end = words[i - 1 - inside] if stream else form, words[i + 2 + inside]
        made += [text[at : start.start], ".".join(map(quote_name, parts))]
        at = end.end + 1
    return "".join([*made, text[at:]])


def _without_watermark(message: Any) -> None:
    """Leave a watermark out, which bounds what is remembered of a stream; its column is still looked up."""
    below = type(message)()
    below.CopyFrom(message.with_watermark.input)
    column = message.with_watermark.event_time
    message.filter.input.CopyFrom(below)
    message.filter.condition.expression_string.expression = f"{quote_name(column)} IS NULL OR true"


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
