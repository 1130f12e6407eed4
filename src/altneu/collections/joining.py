"""Equijoins of plans: the rows that meet, and the rows that meet nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from typing import Any, Literal

import pyarrow as pa

from altneu.collections.remembering import linear
from altneu.columnar.rows import Record, record_type
from altneu.errors import PlanError
from altneu.expressions import Expr, cast, parse
from altneu.linear import BoundLogic, Negate, Project
from altneu.plan import ir
from altneu.types import quote_name

JoinKind = Literal["inner", "left", "right", "full"]
Names = Mapping[tuple[int, str], str]  # what (side, column) is called in the output
Keys = tuple[tuple[str, ...], tuple[str, ...]]


def columns_of(schema: pa.Schema, names: Iterable[str]) -> list[tuple[str, Expr]]:
    """Columns as outputs of a projection."""
    return [(name, parse(quote_name(name), schema)) for name in names]


def project(node: ir.Node, outputs: Iterable[tuple[str, Expr]]) -> ir.Node:
    """A projection."""
    return linear(node, BoundLogic((Project(tuple(outputs)),)))


def having(node: ir.Node, other: ir.Node, keys: Keys) -> ir.Node:
    """The rows whose key appears in the other collection, with their own counts."""
    there = ir.Reduce(project(other, columns_of(other.schema, keys[1])), keys[1], ir.Distinct())
    return ir.Join(node, there, *keys, tuple((n, 0, n) for n in node.schema.names))


def without(node: ir.Node, other: ir.Node, keys: Keys) -> ir.Node:
    """The rows whose key does not appear in the other collection; null keys stay."""
    return ir.Concat((node, ir.Linear(having(node, other, keys), BoundLogic((Negate(),)))))


def padded(node: ir.Node, schema: pa.Schema, known: Mapping[str, str]) -> ir.Node:
    """Rows of ``schema``: the known columns from here, null for the rest."""
    outputs = []
    for f in schema:
        here = f.name in known and node.schema.field(known[f.name]).type == f.type
        value = parse(quote_name(known[f.name]) if f.name in known else "NULL", node.schema)
        outputs.append((f.name, value if here or value.type == f.type else cast(value, f.type, implicit=False)))
    return project(node, outputs)


def equijoin(
    left: ir.Node, right: ir.Node, keys: Keys, names: Names, how: JoinKind, shared: Mapping[str, str]
) -> ir.Node:
    """Rows with equal keys, and those of the sides that ``how`` keeps, padded with nulls.

    ``shared`` has the key columns that appear once, as left name: right name.
    """
    joined = ir.Join(left, right, *keys, tuple((name, *place) for place, name in names.items()))
    parts: list[ir.Node] = [joined]
    if how in ("left", "full"):
        alone = without(left, right, keys)
        parts.append(padded(alone, joined.schema, {n: c for (side, c), n in names.items() if side == 0}))
    if how in ("right", "full"):
        alone = without(right, left, (keys[1], keys[0]))
        parts.append(padded(alone, joined.schema, of_right(names, shared)))
    return parts[0] if how == "inner" else ir.Concat(tuple(parts))


def of_right(names: Names, shared: Mapping[str, str]) -> dict[str, str]:
    """Which column of the right side an output is, where it is one of its."""
    mine = {n: c for (side, c), n in names.items() if side == 1}
    return mine | {n: shared[c] for (side, c), n in names.items() if side == 0 and c in shared}


# functions of pairs ---------------------------------------------------------------------------------------------------

Three = tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]
"""Of the key, the left value and the right value: the names of their columns, or their places in a joined row."""


def of_pair(function: Callable[..., Any], names: Three, places: Three) -> Callable[..., Any]:
    """A function of a key and two values as one of joined rows.

    Raises:
        PlanError: it is one of record batches.
    """
    if getattr(function, "__altneu_arrow__", False):
        raise PlanError("join_core calls its function for each pair of rows; use join and flat_map for record batches")
    call = partial(_split, function, names, places)
    for attribute in ("__name__", "__qualname__", "__altneu_version__"):
        if hasattr(function, attribute):
            setattr(call, attribute, getattr(function, attribute))
    return call


def _split(function: Callable[..., Any], names: Three, places: Three, row: Record) -> Any:
    return function(*(kind(row[i] for i in at) for kind, at in zip(_records(names), places, strict=True)))


@lru_cache(maxsize=256)
def _records(names: Three) -> tuple[type[Record], ...]:
    return tuple(map(record_type, names))
