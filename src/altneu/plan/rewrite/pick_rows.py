"""Fields of a group's greatest or least struct are columns of the group's first row in the order of these fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from altneu.columnar.ranking import Order
from altneu.expressions import Column, Expr, Literal
from altneu.expressions.construct import call
from altneu.expressions.expr import Call
from altneu.linear import BoundLogic, Filter, Negate, Project
from altneu.linear.steps import Step
from altneu.plan.ir import Aggregate, Aggregates, Concat, Constant, Linear, Node, Reduce, TopK
from altneu.plan.rewrite.transform import readers, transform
from altneu.types import mark_of


def pick_rows(node: Node) -> Node:
    """Have ``max_by`` and ``min_by`` read the first row of their group in an order.

    They are fields of the greatest or least struct of what they order by and of their value. Its fields as columns take
    less room than structs, and rows of them are looked up, hashed and compared by fewer calls.
    """
    counts = readers(node)

    def change(new: Node, old: Node) -> Node:
        if not isinstance(old, Linear) or not isinstance(new, Linear):
            return new
        alone = all(counts[below.fingerprint] == 1 for below in (old.input, *_parts(old.input)))
        return _picked(new) if alone else new

    return transform(node, change)


def _parts(node: Node) -> tuple[Node, ...]:
    """What an aggregate of everything and the row that it has over nothing are put together of."""
    return node.inputs if isinstance(node, Concat) else ()


@dataclass(frozen=True)
class _Struct:
    """A struct that is made of each row: its fields, and on which rows there is one.

    All of the ``conditions`` are to hold; with ``is_there`` the first field must have a value too.
    """

    fields: Mapping[str, Expr]
    conditions: tuple[Expr, ...]
    is_there: bool

    def columns(self) -> dict[str, Expr]:
        """Its fields as columns that are null where there is none."""
        first, *others = self.fields.values()
        there = [call("isnotnull", [first])] if self.is_there and first.nullable else []
        made = [_where(self.conditions, first), *(_where((*self.conditions, *there), value) for value in others)]
        return {f"#field{i}": value for i, value in enumerate(made)}


def _picked(node: Linear) -> Linear:
    reduce = node.input
    of_nothing = None
    if isinstance(reduce, Concat) and len(reduce.parts) == 2:
        of_nothing, reduce = reduce.parts
        if not isinstance(of_nothing, Constant) or len(of_nothing.rows) != 1:
            return node
    if not isinstance(reduce, Reduce) or not isinstance(reducer := reduce.reducer, Aggregates):
        return node
    below = reduce.input
    if not isinstance(below, Linear) or not below.logic.steps or not isinstance(below.logic.steps[-1], Project):
        return node
    if reducer.default_row != (of_nothing is not None):
        return node
    outputs = dict(below.logic.steps[-1].outputs)
    found = _struct_of(reducer.calls, outputs)
    if found is None:
        return node
    columns = found.columns()
    read = _of_columns_only(node.logic, _Reading(found, outputs, reducer.calls, columns))
    if read is None:
        return node
    kept = tuple((name, outputs[name]) for name in reduce.key)
    made = replace(below.logic, steps=(*below.logic.steps[:-1], Project((*kept, *columns.items()))))
    order = _order(reducer.calls[0].function == "max", found, list(columns))
    rows: Node = replace(reduce, input=Linear(below.input, made), reducer=TopK(1, order))
    return Linear(rows if of_nothing is None else _or_nulls(rows), read)


def _or_nulls(rows: Node) -> Node:
    """One row or none, and a row of nulls if there is none."""
    nulls = tuple((f.name, Literal(None, f.type)) for f in rows.schema)
    schema = pa.schema([f.with_nullable(True) for f in rows.schema])
    instead = Constant(((None,) * len(nulls),), schema)
    return Concat((instead, rows, Linear(rows, BoundLogic((Project(nulls), Negate())))))


def _struct_of(calls: Sequence[Aggregate], outputs: Mapping[str, Expr]) -> _Struct | None:
    """The one struct of which, or of whose first field, all of some calls are extremes, from one end."""
    if not all(call.is_extreme for call in calls) or len({call.function for call in calls}) != 1:
        return None
    values = {outputs[call.arguments[0]] for call in calls}
    structs = [one for one in map(_struct, values) if one is not None]
    if len(structs) != 1:
        return None
    first = next(iter(structs[0].columns().values()))
    return structs[0] if all(_struct(one) is not None or one == first for one in values) else None


def _struct(value: Expr) -> _Struct | None:
    """The struct that an expression makes."""
    conditions = list[Expr]()
    while isinstance(value, Call) and value.name == "case" and len(value.args) == 2:
        conditions.append(value.args[0])
        value = value.args[1]
    if not isinstance(value, Call) or value.name != "named_struct" or any(mark_of(field) for field in value.type):
        return None
    names, values = value.args[::2], value.args[1::2]
    fields = {str(name.value): one for name, one in zip(names, values, strict=True) if isinstance(name, Literal)}
    is_there = bool(conditions) and conditions[-1] == call("isnotnull", [values[0]])
    if (conditions and not is_there) or len(fields) < len(values):
        return None  # a struct whose first field is null is not the same as none
    return _Struct(fields, tuple(conditions[:-1]), is_there)


def _where(conditions: Sequence[Expr], value: Expr) -> Expr:
    for condition in reversed(conditions):
        value = call("case", [condition, value])
    return value


def _order(greatest: bool, found: _Struct, columns: Sequence[str]) -> tuple[Order, ...]:
    """The order of structs, in which nulls are least; but where there is none, that is last from either end."""
    lines = [(name, greatest, not greatest) for name in columns]
    return ((columns[0], greatest, not greatest and not found.is_there), *lines[1:])


@dataclass(frozen=True)
class _Reading:
    """What logic reads where it read extremes."""

    found: _Struct
    outputs: Mapping[str, Expr]
    calls: Sequence[Aggregate]
    columns: Mapping[str, Expr]

    @cached_property
    def fields(self) -> dict[str, dict[str, Column]]:
        """By the column of an extreme struct, those of its fields."""
        names = dict(zip(self.found.fields, self._made, strict=True))
        return {name: names for name, value in self._read if _struct(value) is not None}

    @cached_property
    def firsts(self) -> dict[str, Expr]:
        """By the column of an extreme of the first field, that of this field."""
        return {name: self._made[0] for name, value in self._read if _struct(value) is None}

    @property
    def _read(self) -> list[tuple[str, Expr]]:
        return [(f"#{i}", self.outputs[one.arguments[0]]) for i, one in enumerate(self.calls)]

    @cached_property
    def _made(self) -> list[Column]:
        return [Column(name, value.type, value.nullable) for name, value in self.columns.items()]


def _of_columns_only(logic: BoundLogic, reading: _Reading) -> BoundLogic | None:
    """Logic that reads columns where it read fields; None where it reads a struct otherwise, or passes it on."""
    steps = list[Step]()
    for step in logic.steps:
        some = [_of_columns(one, reading) for one in step.expressions]
        if None in some or not isinstance(step, Filter | Project):
            return None
        read = [one for one in some if one is not None]
        if isinstance(step, Project):
            project = Project(tuple(zip([name for name, _ in step.outputs], read, strict=True)))
            return replace(logic, steps=(*steps, project, *logic.steps[len(steps) + 1 :]))
        steps.append(replace(step, predicate=read[0]))
    return None


def _of_columns(expression: Expr, reading: _Reading) -> Expr | None:
    """An expression with columns in the place of fields; None where it reads a struct as a whole."""
    expression = expression.substitute(reading.firsts)
    if expression.columns.isdisjoint(reading.fields):
        return expression
    if not isinstance(expression, Call):
        return None
    if expression.name == "." and expression.args[0].is_column:
        field = expression.args[1]
        assert isinstance(field, Literal)
        return reading.fields[expression.args[0].column_name][str(field.value)]
    args = [_of_columns(one, reading) for one in expression.args]
    if None in args:
        return None
    some = tuple(one for one in args if one is not None)
    return Call(expression.function, some, expression.type, expression.nullable, expression.implicit)
