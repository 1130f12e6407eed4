"""How often several columns have values is how often one has, which is made of them."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from altneu.expressions import Column, Expr
from altneu.expressions.construct import call, literal
from altneu.linear import BoundLogic, Project
from altneu.plan.ir import Aggregates, Linear, Node, Reduce
from altneu.plan.rewrite.transform import transform


def count_tuples(node: Node) -> Node:
    """Have counts of several columns count one column: where none of them is null true, or their tuple if distinct.

    Of one column sums are kept, or those of its distinct values, where of several the group would be read.
    """
    return transform(node, lambda new, _: _of_one_column(new))


def _of_one_column(node: Node) -> Node:
    if not isinstance(node, Reduce) or not isinstance(reducer := node.reducer, Aggregates):
        return node
    schema, added = node.input.schema, dict[tuple[tuple[str, ...], bool], str]()
    calls = []
    for one in reducer.calls:
        if one.function == "count" and len(one.arguments) > 1:
            name = added.setdefault((one.arguments, one.distinct), f"#tuple{len(added)}")
            calls.append(replace(one, arguments=(name,), text=str(one)))
        else:
            calls.append(one)
    if not added:
        return node
    outputs: list[tuple[str, Expr]] = [(name, _column(name, schema)) for name in schema.names]
    outputs += [(name, _tuple(*counted, schema)) for counted, name in added.items()]
    below = Linear(node.input, BoundLogic((Project(tuple(outputs)),)))
    return replace(node, input=below, reducer=replace(reducer, calls=tuple(calls)))


def _column(name: str, schema: pa.Schema) -> Expr:
    field = schema.field(name)
    return Column(name, field.type, field.nullable)


def _tuple(arguments: tuple[str, ...], distinct: bool, schema: pa.Schema) -> Expr:
    """A value on rows on which all columns have one: that of all of them together if it matters which."""
    columns = [_column(name, schema) for name in arguments]
    named = [part for i, column in enumerate(columns) for part in (literal(f"c{i}"), column)]
    value = call("named_struct", named) if distinct else literal(True)
    there = [call("isnotnull", [column]) for column in columns]
    condition = there[0]
    for other in there[1:]:
        condition = call("and", [condition, other])
    return call("case", [condition, value])
