"""Which functions of groups may forget all rows but the best: those of groups whose best rows only improve.

A collection *improves* if for each of its rows at a time there is one at every greater time, of rounds too, that is
equal to it but in some columns, and in these as good or free. Its columns are

* ``FIXED``: equal in the later row,
* ``FALLS``: equal or less, a null being greater than all values; so ``min`` of it only falls,
* ``RISES``: equal or greater, a null being less than all values; so ``max`` of it only rises,
* ``FREE``: anything.

Rows of append-only sources stay as they are. Linear logic, joins, sums, ``distinct`` and the best rows of groups are
monotone: of inputs that improve they make collections that do. A loop improves if its body does whenever its variables
do, and if the first round has rows as good as those that the loop begins with; then so has each round, by induction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal as Choice

import pyarrow as pa

from altneu.columnar.ranking import Order
from altneu.expressions import Call, Expr, Literal
from altneu.linear import (
    BoundLogic,
    Extend,
    Filter,
    FilterFunction,
    FlatMapFunction,
    GenerateSeries,
    MapFunction,
    ParseJson,
    Project,
    Unnest,
)
from altneu.linear.steps import MakingStep, Step
from altneu.operators.reduce.reducers import best_orders
from altneu.plan import ir

Mode = Choice["fixed", "falls", "rises", "free"]
FIXED: Mode = "fixed"
FALLS: Mode = "falls"
RISES: Mode = "rises"
FREE: Mode = "free"

Modes = Mapping[str, Mode]
"""How the columns of a collection that improves do; an empty collection of modes may be one of no columns."""
_Variables = Mapping[tuple[int, int], Modes | None]
_OPPOSITE: dict[Mode, Mode] = {FIXED: FIXED, FALLS: RISES, RISES: FALLS, FREE: FREE}
_COMPARISONS: dict[str, Mode] = {"<": FALLS, "<=": FALLS, ">": RISES, ">=": RISES}


def improving(root: ir.Node) -> frozenset[str]:
    """The fingerprints of reduces that need no more than the best rows of their groups, wherever they are in a plan."""
    analysis = _Analysis()
    analysis.of(root, {}, final=True)
    return frozenset(name for name, needs_best in analysis.verdicts.items() if needs_best)


@dataclass
class _Analysis:
    """What is known of nodes: ``verdicts`` of reduces, false where one of several loops that have one needs more."""

    verdicts: dict[str, bool] = field(default_factory=dict)

    def of(self, root: ir.Node, variables: _Variables, *, final: bool) -> Modes | None:
        """How a collection improves, given how variables of loops do; ``final`` is the pass whose verdicts count."""
        known: dict[str, Modes | None] = {}

        def below(node: ir.Node) -> Sequence[ir.Node]:
            return () if isinstance(node, ir.Result) else node.inputs

        loops: dict[str, list[Modes | None]] = {}
        for node in ir.ordered(root, below=below, key=lambda n: n.fingerprint):
            if isinstance(node, ir.Result):
                if node.loop.fingerprint not in loops:
                    loops[node.loop.fingerprint] = self._loop(node.loop, variables, final=final)
                known[node.fingerprint] = loops[node.loop.fingerprint][node.index]
                continue
            inputs = [known[i.fingerprint] for i in node.inputs]
            if isinstance(node, ir.Variable):
                known[node.fingerprint] = variables.get((node.level, node.index))
                continue
            known[node.fingerprint] = None if None in inputs else _of(node, [i for i in inputs if i is not None])
            if final and isinstance(node, ir.Reduce):
                needs_best = inputs[0] is not None and _reads_best(node, inputs[0])
                self.verdicts[node.fingerprint] = self.verdicts.get(node.fingerprint, True) and needs_best
        return known[root.fingerprint]

    def _loop(self, loop: ir.Loop, outer: _Variables, *, final: bool) -> list[Modes | None]:
        """How the variables of a loop improve: the greatest that is consistent with itself."""
        names = [ir.open_schema(one.schema).names for one in loop.initial]
        begin = [self.of(one, outer, final=False) for one in loop.initial]
        modes: list[Modes | None] = [
            None if one is None else dict(zip(columns, one.values(), strict=True))
            for one, columns in zip(begin, names, strict=True)
        ]
        while True:
            inside = {**outer, **{(loop.level, i): one for i, one in enumerate(modes)}}
            after = [self.of(body, inside, final=False) for body in loop.bodies]
            met = [
                None if one is None or body is None else _met(columns, [one, body])
                for one, body, columns in zip(modes, after, names, strict=True)
            ]
            if met == modes:
                met = [one if one is not None and _covers(loop, i, one) else None for i, one in enumerate(modes)]
                if met == modes:
                    break
            modes = met
        if final:
            for one in loop.initial:
                self.of(one, outer, final=True)
            for body in loop.bodies:
                self.of(body, inside, final=True)
        return modes


def _met(names: Sequence[str], parts: Sequence[Modes]) -> Modes:
    """How rows improve that are of one part or another, whose columns correspond by their places."""
    return {name: _both(modes) for name, *modes in zip(names, *(part.values() for part in parts), strict=True)}


def _both(modes: Sequence[Mode]) -> Mode:
    some = {mode for mode in modes if mode != FIXED}
    return FREE if len(some) > 1 else next(iter(some), FIXED)


def _of(node: ir.Node, inputs: Sequence[Modes]) -> Modes | None:
    """How a collection improves whose inputs do; None where that is not known."""
    if isinstance(node, ir.Source | ir.Constant):
        grows = isinstance(node, ir.Constant) or node.append_only
        return dict.fromkeys(node.schema.names, FIXED) if grows else None
    if isinstance(node, ir.Linear):
        return _after(node.logic, inputs[0], node.input.schema)
    if isinstance(node, ir.Concat):
        return _met(node.schema.names, inputs)
    if isinstance(node, ir.Join):
        keys = ((node.left_key, inputs[0]), (node.right_key, inputs[1]))
        fixed = all(modes[name] == FIXED for key, modes in keys for name in key)
        return {name: inputs[side][column] for name, side, column in node.outputs} if fixed else None
    if isinstance(node, ir.Consolidate | ir.Inspect | ir.ArrangedBy):
        return inputs[0]
    if isinstance(node, ir.EnterAt):
        return inputs[0] if _are_fixed(node.rounds.columns, inputs[0]) else None
    return _of_groups(node, inputs[0]) if isinstance(node, ir.Reduce) else None


def _of_groups(node: ir.Reduce, below: Modes) -> Modes | None:
    """A group stays once it has a row: its key is fixed, and what is made of the best rows improves with these."""
    reducer = node.reducer
    if isinstance(reducer, ir.Distinct):
        return below
    if isinstance(reducer, ir.CountOf):
        return {**below, reducer.column: FREE}
    if not isinstance(reducer, ir.Aggregates | ir.TopK) or not _are_fixed(node.key, below):
        return None
    modes: dict[str, Mode] = dict.fromkeys(node.schema.names, FREE) | dict.fromkeys(node.key, FIXED)
    if isinstance(reducer, ir.TopK):
        first = next((line for line in reducer.order if line[0] not in node.key), None)
        if reducer.k == 1 and first is not None and _improves(first, below, node.input.schema):
            name, descending, nulls_first = first
            if not nulls_first or not node.input.schema.field(name).nullable:
                modes[name] = RISES if descending else FALLS
        return modes
    if not all(call.is_extreme or call.function == "count" for call in reducer.calls):
        return None  # a sum may leave its range, and then there is an error in the place of the row
    for i, call in enumerate(reducer.calls):
        if call.is_extreme and below[call.arguments[0]] in (FIXED, _of_extreme(call)):
            modes[f"#{i}"] = _of_extreme(call)
    return modes


def _of_extreme(call: ir.Aggregate) -> Mode:
    return RISES if call.function == "max" else FALLS


def _reads_best(node: ir.Reduce, below: Modes) -> bool:
    """Whether a reduce reads only the best rows of its groups, and these only improve."""
    orders = best_orders(node)
    if orders is None or not _are_fixed(node.key, below):
        return False
    if isinstance(node.reducer, ir.Aggregates):
        extremes = [call for call in node.reducer.calls if not call.accumulable]
        return all(below[call.arguments[0]] in (FIXED, _of_extreme(call)) for call in extremes)
    named = {name for order in orders for name, _, _ in order}
    rest = [(name, False, True) for name in node.input.schema.names if name not in named and name not in node.key]
    return all(_improves(line, below, node.input.schema) for order in orders for line in (*order, *rest))


def _improves(line: Order, modes: Modes, schema: pa.Schema) -> bool:
    """Whether the place in an order that a column decides only comes nearer to the front."""
    name, descending, nulls_first = line
    nulls_are_worst = not nulls_first or not schema.field(name).nullable
    return modes[name] == FIXED or (modes[name] == (RISES if descending else FALLS) and nulls_are_worst)


def _are_fixed(columns: Sequence[str] | frozenset[str], modes: Modes) -> bool:
    return all(modes[name] == FIXED for name in columns)


# linear logic ---------------------------------------------------------------------------------------------------------


def _after(logic: BoundLogic, modes: Modes, schema: pa.Schema) -> Modes | None:
    """How the columns of rows improve that logic makes of them; None where it may lose or retract rows."""
    if logic.delay:
        return None
    result: Modes | None = modes
    for step in logic.steps:
        result = None if result is None else _step(step, result, schema)
        schema = step.output(schema)
    return result


def _step(step: Step, modes: Modes, schema: pa.Schema) -> Modes | None:
    if isinstance(step, Filter):
        return modes if _stays_true(step.predicate, modes) else None
    if isinstance(step, Project | Extend):
        made = {name: _of_value(expression, modes) for name, expression in step.outputs}
        if any(made[name] == FREE and expression.can_fail for name, expression in step.outputs):
            return None  # of a better row it may have no value: there would be an error in the place of the row
        return made if isinstance(step, Project) else {**modes, **made}
    if not isinstance(step, GenerateSeries | Unnest | ParseJson | FilterFunction | MapFunction | FlatMapFunction):
        return None
    if not _are_fixed(step.columns_read(schema), modes):
        return None
    fixed: dict[str, Mode] = dict.fromkeys(step.output(schema).names, FIXED)
    return fixed if isinstance(step, MakingStep) else fixed | dict(modes)


def _stays_true(predicate: Expr, modes: Modes) -> bool:
    """Whether a row for which it is true improves to one for which it is."""
    if _are_fixed(predicate.columns, modes):
        return True
    if not isinstance(predicate, Call):
        return False
    if predicate.name == "and":
        return all(_stays_true(part, modes) for part in predicate.args)
    if predicate.name == "isnotnull":
        return _of_value(predicate.args[0], modes) != FREE
    if (wanted := _COMPARISONS.get(predicate.name)) is not None:
        left, right = (_of_value(part, modes) for part in predicate.args)
        return left in (FIXED, wanted) and right in (FIXED, _OPPOSITE[wanted])
    return False


def _of_value(value: Expr, modes: Modes) -> Mode:
    """How the value of an expression improves."""
    if value.is_column:
        return modes[value.column_name]
    if _are_fixed(value.columns, modes):
        return FIXED
    if not isinstance(value, Call):
        return FREE
    if value.name == "cast" and all(pa.types.is_integer(one.type) for one in (value, *value.args)):
        return _of_value(value.args[0], modes) if value.type.bit_width >= value.args[0].type.bit_width else FREE
    if value.name in ("+", "-") and _keeps_order(value):
        left, right = (_of_value(part, modes) for part in value.args)
        return _both([left, right if value.name == "+" else _OPPOSITE[right]])
    return FREE


def _keeps_order(value: Call) -> bool:
    """Whether a sum or difference is monotone: of floats it is not if one side may be infinite, or no number.

    One that leaves its range is an error from then on, as it goes on in the same direction.
    """
    if pa.types.is_integer(value.type) or pa.types.is_decimal(value.type):
        return all(one.type == value.type for one in value.args) or pa.types.is_decimal(value.type)
    if not pa.types.is_floating(value.type):
        return False
    finite = [isinstance(part, Literal) and part.value is not None and abs(part.value) < 1e300 for part in value.args]
    return any(finite) and value.type == pa.float64() and all(one.type == value.type for one in value.args)


# the first round of a loop --------------------------------------------------------------------------------------------


def _covers(loop: ir.Loop, index: int, modes: Modes) -> bool:
    """Whether for each row that a variable begins with a round later there is one that is as good."""
    initial, variable = loop.initial[index], loop.variable(index)
    if initial.is_nothing([False] * len(initial.inputs)):
        return True
    own = {name: i for i, name in enumerate(initial.schema.names)}
    named = dict(zip(variable.schema.names, own.values(), strict=True))
    same = _same_columns(loop.bodies[index], {**_origins(initial, own), variable.fingerprint: named})
    if same is None:
        return False
    names = loop.bodies[index].schema.names
    return all(
        mode == FREE or same.get(name) == i for i, (name, mode) in enumerate(zip(names, modes.values(), strict=True))
    )


def _origins(node: ir.Node, same: Mapping[str, int]) -> dict[str, Mapping[str, int]]:
    """Collections that have for each row of a node one that is equal to it in some columns: their places in the node.

    They are the node itself, and those below of whose rows it picks some.
    """
    origins: dict[str, Mapping[str, int]] = {}
    while True:
        origins[node.fingerprint] = same
        if isinstance(node, ir.Linear):
            for step in reversed(node.logic.steps):
                if node.logic.delay or not isinstance(step, Filter | Project | Extend):
                    return origins
                made = {} if isinstance(step, Filter) else dict(step.outputs)
                kept = {} if isinstance(step, Project) else {n: i for n, i in same.items() if n not in made}
                shown = {e.column_name: same[n] for n, e in made.items() if e.is_column and n in same}
                same = {**shown, **kept}
        elif isinstance(node, ir.Reduce) and isinstance(node.reducer, ir.Aggregates):
            extremes = [(f"#{i}", c.arguments[0]) for i, c in enumerate(node.reducer.calls) if c.is_extreme]
            if len(node.reducer.calls) != 1 or len(extremes) != 1:
                return origins
            names = {**{k: k for k in node.key}, **dict(extremes)}
            same = {below: same[name] for name, below in names.items() if name in same}
        elif not isinstance(node, ir.Consolidate | ir.Inspect | ir.ArrangedBy) and not _picks(node):
            return origins
        (node,) = node.inputs


def _picks(node: ir.Node) -> bool:
    """Whether the rows of a reduce are rows of its input."""
    return isinstance(node, ir.Reduce) and isinstance(node.reducer, ir.Distinct | ir.TopK)


def _same_columns(root: ir.Node, origins: Mapping[str, Mapping[str, int]]) -> Mapping[str, int] | None:
    """Columns that have, in some row for each row of an origin, its value or one as good: the places of these there."""
    known: dict[str, Mapping[str, int] | None] = {}

    def below(node: ir.Node) -> Sequence[ir.Node]:
        return () if node.fingerprint in origins or isinstance(node, ir.Result) else node.inputs

    for node in ir.ordered(root, below=below, key=lambda n: n.fingerprint):
        if node.fingerprint in origins:
            known[node.fingerprint] = origins[node.fingerprint]
            continue
        known[node.fingerprint] = _same_after(node, lambda n: known.get(n.fingerprint))
    return known[root.fingerprint]


def _same_after(node: ir.Node, known: Callable[[ir.Node], Mapping[str, int] | None]) -> Mapping[str, int] | None:
    if isinstance(node, ir.Concat):
        part = next((one for one in node.parts if known(one) is not None), None)
        if part is None or (same := known(part)) is None:
            return None
        names = dict(zip(part.schema.names, node.schema.names, strict=True))
        return {names[name]: place for name, place in same.items()}
    if not isinstance(node, ir.Linear | ir.Reduce | ir.Consolidate | ir.Inspect | ir.ArrangedBy):
        return None
    same = known(node.input)
    if same is None:
        return None
    if isinstance(node, ir.Linear):
        for step in node.logic.steps:
            if node.logic.delay or not isinstance(step, Project | Extend):
                return None
            made = {n: same[e.column_name] for n, e in step.outputs if e.is_column and e.column_name in same}
            same = made if isinstance(step, Project) else {**same, **made}
        return same
    if not isinstance(node, ir.Reduce) or isinstance(node.reducer, ir.Distinct | ir.CountOf):
        return same
    if not isinstance(node.reducer, ir.Aggregates | ir.TopK) or not all(name in same for name in node.key):
        return None
    shown = {name: name for name in node.key}
    if isinstance(node.reducer, ir.Aggregates):
        shown |= {f"#{i}": call.arguments[0] for i, call in enumerate(node.reducer.calls) if call.is_extreme}
    elif node.reducer.k == 1:
        shown |= {name: name for name, _, _ in node.reducer.order[:1]}
    return {name: same[below] for name, below in shown.items() if below in same}
