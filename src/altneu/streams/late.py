"""Late rows: rows that arrive after their time is closed, kept in a source that views can read."""

from __future__ import annotations

import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.errors import PlanError
from altneu.plan import ir

LATE_TIME, CLOSED = "late_time", "closed"


def late_rows(stream: Collection) -> Collection:
    """The late rows of a source, as a source of its own, which ``session.follow(late="error")`` fills.

    Shape:  the columns of the source, then ``late_time``, the row's time, and ``closed``, the frontier when it arrived:
            times before it were closed. A late retraction is a retraction here.

    Raises:
        PlanError: the collection is not a source, or has columns of these names.

    >>> import altneu as an
    >>> late_rows(an.source("edges", "src long, dst long"))
    Collection(src: bigint, dst: bigint, late_time: bigint, closed: bigint)
    """
    node = getattr(stream, "node", None)
    if not isinstance(node, ir.Source):
        raise PlanError(
            "late_rows needs a source, an.source(...), without weight=: only rows that are inserted can be late, and "
            "they have their weights in columns"
        )
    return Collection(late_source(node))


def late_source(node: ir.Source) -> ir.Source:
    """The source of a stream's late rows.

    Raises:
        PlanError: the stream has columns of their names.
    """
    taken = {LATE_TIME, CLOSED} & set(node.schema.names)
    if taken:
        raise PlanError(f"source {node.name!r} has a column {min(taken)!r} of its own, which late rows need; rename it")
    more = [pa.field(name, pa.int64()) for name in (LATE_TIME, CLOSED)]
    return ir.Source(late_name(node.name), pa.schema([*node.schema, *more]))


def late_name(name: str) -> str:
    """The name of the source of a stream's late rows."""
    return f"{name}_late"
