"""Columns with a collation in a plan. Operators compare rows by their bytes, so such a column must not be a key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from altneu.errors import UnsupportedFunctionError
from altneu.plan import ir
from altneu.types import mark_of, quote_name

_PASSING = (
    *(ir.Linear, ir.Concat, ir.Consolidate, ir.Inspect, ir.ArrangedBy, ir.Sample, ir.UpdateTime),
    *(ir.Loop, ir.Result, ir.EnterAt, ir.Differentiate, ir.Integrate, ir.Moments, ir.ToNeu),
)
"""Operators that compare no values."""


def refuse_collated_keys(plan: ir.Node) -> None:
    """Refuse a plan in which an operator would compare texts with a collation by their bytes.

    Raises:
        UnsupportedFunctionError: naming the column and what to write instead.

    Cost:   linear in the nodes of the plan.
    """
    for node in ir.ordered(plan):
        if isinstance(node, _PASSING):
            continue
        pairs: Sequence[tuple[ir.Node, Sequence[str]]]
        if isinstance(node, ir.Join):
            pairs = ((node.left, node.left_key), (node.right, node.right_key))
        elif isinstance(node, ir.Reduce):
            pairs = ((node.input, node.key),)
        else:
            pairs = tuple((one, one.schema.names) for one in node.inputs)
        for one, names in pairs:
            _refuse(one, names)


def _refuse(node: ir.Node, names: Iterable[str]) -> None:
    for name in names:
        mark = mark_of(node.schema.field(name))
        if mark.startswith("collate "):
            shown, collation = quote_name(name), mark.removeprefix("collate ")
            raise UnsupportedFunctionError(
                f"the column {shown} has the collation {collation}, which is not supported in a key here (of a group, "
                f"a join, DISTINCT or a set operation): use collation_key({shown}, '{collation}'), or "
                f"CAST({shown} AS STRING), which compares bytes"
            )


__all__ = ["refuse_collated_keys"]
