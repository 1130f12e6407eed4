"""Which rows of its inputs decide given rows of an operator: all that agree with them on some columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.expressions import Expr
from altneu.linear import BoundLogic, Emit, Extend, FilterFunction, GenerateSeries, ParseJson, Project, Unnest
from altneu.linear.steps import RowStep
from altneu.plan import ir

_ADDS = (RowStep, FilterFunction, Extend, GenerateSeries, Unnest, ParseJson)

_WHOLE = (ir.Distinct, ir.CountOf, ir.Threshold)
"""Reducers whose groups are equal rows."""


def narrow(node: ir.Node, wanted: Rows) -> list[Rows]:
    """For each input of a node, what its rows have to agree with to matter for rows of the node; no column: all do.

    Shape:  ``wanted`` are rows over some of the node's columns, and so is what comes out over those of its inputs.
    Law:    what the node makes of the input rows that agree is, where it agrees with ``wanted``, what it makes of all
            (tests/provenance/test_explain_row.py, as explanations rest on it).
    """
    return [chosen(wanted, names) for names in _carried(node, set(wanted.schema.names))]


def chosen(rows: Rows, names: Mapping[str, str]) -> Rows:
    """Columns of rows under other names: ``names`` says of each new one which it was."""
    found = rows.select(list(names.values()))
    schema = pa.schema([f.with_name(new) for new, f in zip(names, found.schema, strict=True)])
    return Rows(schema, found.columns, rows.count)


def _carried(node: ir.Node, known: set[str]) -> list[dict[str, str]]:
    """For each input the columns that are known of it, each with the column of the node that says so."""
    match node:
        case ir.Linear(below, logic):
            kept = carried(logic, below.schema)
            return [{old: new for new, old in kept.items() if new in known}]
        case ir.Join():
            return _sides(node, known)
        case ir.MultiJoin(parts, variables, outputs):
            by_variable = {variable: name for name, variable in outputs if name in known}
            return [
                {c: by_variable[v] for c, v in zip(part.schema.names, names, strict=True) if v in by_variable}
                for part, names in zip(parts, variables, strict=True)
            ]
        case ir.AsOf():
            left, _ = _sides(node, known)  # which right row is met is decided among all of the key
            return [left, {r: left[k] for k, r in zip(node.left_key, node.right_key, strict=True) if k in left}]
        case ir.Reduce(below, key, reducer):
            columns = below.schema.names if isinstance(reducer, _WHOLE) else key
            return [{c: c for c in columns if c in known}]
        case ir.Latest(_, key, _):
            return [{c: c for c in key if c in known}]
        case _:  # a row of the node is the same row of an input
            return [{c: c for c in below.schema.names if c in known} for below in node.inputs]


def _sides(node: ir.Join | ir.AsOf, known: set[str]) -> list[dict[str, str]]:
    """What is known of both sides of a join; of a key that one side's output tells, the other side's is known too."""
    own: list[dict[str, str]] = [{}, {}]
    for name, side, column in node.outputs:
        if name in known:
            own[side].setdefault(column, name)
    if isinstance(node, ir.AsOf):
        return own
    keys = (node.left_key, node.right_key)
    told = [dict(own[0]), dict(own[1])]
    for side, other in ((0, 1), (1, 0)):
        for mine, theirs in zip(keys[side], keys[other], strict=True):
            if theirs in own[other]:
                told[side].setdefault(mine, own[other][theirs])
    return told


def carried(logic: BoundLogic, schema: pa.Schema) -> dict[str, str]:
    """The output columns of linear logic that hand on an input column, each with that."""
    names = {name: name for name in schema.names}
    for step in logic.steps:
        if isinstance(step, _ADDS):
            continue
        if isinstance(step, Project):
            names = _handed_on(names, [step.outputs])
        elif isinstance(step, Emit):
            names = _handed_on(names, [update.outputs for update in step.updates])
        else:
            return {}
    return names


def _handed_on(names: Mapping[str, str], projections: Sequence[Sequence[tuple[str, Expr]]]) -> dict[str, str]:
    """The columns that each of some projections hands on from the same one."""
    found = [
        {n: names[e.column_name] for n, e in outputs if e.is_column and e.column_name in names}
        for outputs in projections
    ]
    return {n: old for n, old in found[0].items() if all(other.get(n) == old for other in found)}
