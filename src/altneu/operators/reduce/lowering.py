"""Functions of groups as operations: over a few numbers a group, or over the group."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from altneu.columnar.ranking import Order, order_text
from altneu.expressions import Column, parse
from altneu.expressions.construct import call, literal
from altneu.linear import BoundLogic, Function, Project
from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.asof.revising import UnionSpec
from altneu.operators.asof.rule import MixedSides
from altneu.operators.base import IDENTITY, Hosting, Operation
from altneu.operators.linear.node import Linear
from altneu.operators.linear.operation import LinearOp
from altneu.operators.lowering import (
    Lowered,
    Lowering,
    Port,
    arrange_label,
    arrangement_id,
    below_zero_name,
    group_label,
    spread_after,
)
from altneu.operators.node import Key
from altneu.operators.reduce.accumulable import (
    AggregatesSpec,
    CountOfSpec,
    DistinctSpec,
    ThresholdSpec,
    TotalsSpec,
    counter,
)
from altneu.operators.reduce.accumulate import Accumulator, TotalAccumulator
from altneu.operators.reduce.asked import Asked, asked_of, asked_of_part, kept_columns
from altneu.operators.reduce.best_rows import BestRows
from altneu.operators.reduce.calls import Aggregate, FirstRows, WindowCall
from altneu.operators.reduce.collate import (
    AllValuesPart,
    BestPart,
    Collation,
    DistinctPart,
    OrderedPart,
    PartSpec,
    SumsPart,
    ValuesPart,
)
from altneu.operators.reduce.node import Ends, Needed, Part, Quantiles, Reduce, Suffix
from altneu.operators.reduce.operation import (
    BelowZeroOp,
    CollateOp,
    ExplodeOp,
    MayBeFirstOp,
    NegativeOp,
    PresentOp,
    ReduceOp,
)
from altneu.operators.reduce.python_reduce import PythonSpec
from altneu.operators.reduce.ranked import GeneralSpec
from altneu.operators.reduce.reducers import Aggregates, Distinct, backward_calls, best_orders
from altneu.operators.reduce.retention import AddedUp, WithoutRounds
from altneu.operators.reduce.seen import Seen
from altneu.operators.reduce.shared_distinct import SharedNegativeOp, SharedPresentOp
from altneu.operators.reduce.spec import ReduceSpec
from altneu.operators.reduce.top_k import FirstValueSpec, TopKSpec
from altneu.operators.reduce.window import WindowSpec
from altneu.order import Lattice, Rounds
from altneu.trace.batch import Layout
from altneu.types import quote_name

_VALUE, _FLAGS = "#value", "#flags"  # of columns that share their values

COUNT = "#count"
"""The column of how often a value is there."""


def lower_reduce(to: Lowering, node: Reduce) -> Lowered:
    """A reduce over the arrangement of its key, of sums or of rows; or over those of its parts."""
    below = to.lower(node.lowered_first[0])
    lattice = to.lattice_in(to.scope_of(below))
    operation: Hosting
    if lattice.is_total and isinstance(node.reducer, Aggregates) and node.reducer.parts:
        operation, inputs = _collated(to, node, node.reducer, below)
    else:
        operation, inputs = _reduced(to, node, below, lattice)
    number = to.add(operation, inputs, node.schema, label=str(node.reducer), logical=node.fingerprint)
    to.may_fail(node, Lowered(Port(number, 1), None))
    return Lowered(Port(number), node.key)


def _reduced(to: Lowering, node: Reduce, below: Lowered, lattice: Lattice) -> tuple[ReduceOp, tuple[Port, ...]]:
    """One kernel over one arrangement; where that is in an order, beside the number of rows below zero."""
    if node.keeps_best and lattice.is_columnwise and (orders := best_orders(node)) and not _adds_up(node):
        return _of_best(to, node, below, orders)
    if node.orders:
        (asked,) = asked_of(node)
        shared = _shared(to, node, asked, node.input.schema)
        assert shared is not None
        inputs, seen, needed = shared
        return ReduceOp(spec_of(node), needed, seen), inputs
    spec, origin = spec_of(node), to.name_of(node.input)
    if spec.sums is not None:
        state = _sums(to, below, spec.sums, f"{origin}|{node.key}|{node.reducer.accumulated}")
        return ReduceOp(spec), (state,)
    if node.reducer.additive and (lattice.is_total or lattice.is_columnwise):
        return ReduceOp(spec), (_added_up(to, node, below, spec),)
    order = node.reducer.state_order(node.input.schema, node.key)
    if not order:  # then nothing less than the group is needed
        return ReduceOp(spec), (_whole(to, node, below),)
    needed = node.reducer.needed(node.input.schema, node.key)
    if not (lattice.is_total or (lattice.is_columnwise and isinstance(needed, Ends))):
        return ReduceOp(spec), (_whole(to, node, below),)
    if isinstance(needed, Ends):
        needed = replace(needed, standing=not lattice.is_total)
    inputs = _in_order(to, origin, node.input.schema, node.key, below, order)
    if isinstance(needed, Suffix) and needed.peers:
        narrow, name, schema = _narrowed(to, node, below, tuple(column for column, _, _ in order))
        _, distinct, name = _present(to, narrow, schema, node.key, name)
        label = f"{arrange_label(node.key)}, values in order of {order_text(order)}"
        return ReduceOp(spec, needed), (*inputs, Port(to.arrange(distinct, node.key, name, label, order)))
    return ReduceOp(spec, needed), inputs


def _whole(to: Lowering, node: Reduce, below: Lowered) -> Port:
    """The rows of whole groups."""
    return Port(to.arrange(below, node.key, to.name_of(node.input), arrange_label(node.key)))


def _shared(
    to: Lowering, node: Reduce, asked: Asked, schema: pa.Schema
) -> tuple[tuple[Port, Port], Seen, Needed] | None:
    """As ``_in_order``, of what another reduce keeps, with what is seen of it, and which of its rows are needed.

    Shape:  the rows that are seen have ``schema``, the key and the requested columns in the order in which the kernel
            reads and writes them. None if nothing is kept in an order that serves.
    """
    if not node.orders:
        return None
    kept, names = kept_columns(node)
    for order in node.orders:
        needed = asked.needed_in(names, node.key, kept.schema, order)
        if needed is None:
            continue
        below = to.lower(kept)
        inputs = _in_order(to, to.name_of(kept), kept.schema, node.key, below, order)
        layout = Layout(schema, node.key, to.lattice_in(to.scope_of(below)), asked.order)
        return inputs, Seen(layout, tuple(names[name] for name in layout.values)), needed
    return None


def _sums(to: Lowering, below: Lowered, sums: Accumulator, origin: str) -> Port:
    """The arrangement of sums by the key."""
    combined = to.once(origin, lambda: to.add(ExplodeOp(sums), (below.port,), sums.slot_schema, label="combine"))
    lowered = Lowered(Port(combined), below.spread if below.spread == sums.key else None)
    return Port(to.arrange(lowered, sums.key, origin, group_label(sums.key)))


def _added_up(to: Lowering, node: Reduce, below: Lowered, spec: ReduceSpec) -> Port:
    """The arrangement of groups by the key in which a sum takes the place of the rows that it is of."""
    assert isinstance(spec, PythonSpec)
    key, schema, name = node.key, node.input.schema, f"added|{node.reducer!r}|{to.name_of(node.input)}"
    state, exchange = arrangement_id(name, key), None if below.spread == key else key
    operation = ArrangeOp(state, Layout(schema, key, to.lattice_in(to.scope_of(below))), AddedUp(spec))
    label = f"{arrange_label(key)}, added up"
    return Port(
        to.once(state, lambda: to.add(operation, (below.port,), schema, exchange=exchange, label=label, logical=name))
    )


def _in_order(
    to: Lowering, origin: str, schema: pa.Schema, key: Key, below: Lowered, order: tuple[Order, ...]
) -> tuple[Port, Port]:
    """Two arrangements by the key: of the rows in an order, and of how many of a group have a count below zero."""
    text = order_text(order)
    state = Port(to.arrange(below, key, origin, f"{arrange_label(key)} in order of {text}", order))
    name = below_zero_name(origin, order)
    operation = BelowZeroOp(arrangement_id(name, key))
    columns = pa.schema([schema.field(k) for k in key])
    number = to.once(
        f"{name}|{key}", lambda: to.add(operation, (state,), columns, label="rows below zero", logical=name)
    )
    return state, _below_zero(to, Lowered(Port(number), key), columns, name)


def _below_zero(to: Lowering, numbers: Lowered, schema: pa.Schema, name: str) -> Port:
    """The arrangement of how many rows of each group are below zero: in loops of any round."""
    key = tuple(schema.names)
    label, lattice = "groups with rows below zero", to.lattice_in(to.scope_of(numbers))
    if not isinstance(lattice, Rounds):
        return Port(to.arrange(numbers, key, name, label))
    state = arrangement_id(name, key)
    operation = ArrangeOp(state, Layout(schema, key, lattice), WithoutRounds())
    return Port(to.once(state, lambda: to.add(operation, (numbers.port,), schema, label=label, logical=name)))


def _collated(to: Lowering, node: Reduce, reducer: Aggregates, below: Lowered) -> tuple[CollateOp, tuple[Port, ...]]:
    """The states of the parts of some aggregates, and what puts them together."""
    specs: list[PartSpec] = []
    inputs: list[Port] = []
    for part in _with_counts(reducer.parts):
        if part.state == "ends" and node.keeps_best:
            continue
        calls = tuple(reducer.calls[place] for place in part.places)
        if part.state == "sums":
            calls += tuple(Aggregate("count", (column,), pa.int64()) for column in part.columns)
            spec = AggregatesSpec(Accumulator(node.key, calls, node.input.schema))
            origin = f"{to.name_of(node.input)}|{node.key}|{Aggregates(calls)}"
            specs.append(SumsPart(spec, part.places))
            inputs.append(_sums(to, below, spec.accumulator, origin))
            continue
        if len(part.columns) > 1:
            spec, arrangements = _shared_distinct(to, node, below, part.columns, calls)
            specs.append(DistinctPart(spec, part.places))
            inputs += arrangements
            continue
        if part.state in ("ends", "quantiles"):
            ordered, ports = _ordered(to, node, below, part, calls)
            specs.append(ordered)
            inputs += ports
            continue
        narrow, name, schema = _narrowed(to, node, below, part.columns)
        if part.state == "sums of distinct values":
            spec = AggregatesSpec(Accumulator(node.key, tuple(one.of_all for one in calls), schema))
            specs.append(DistinctPart(spec, part.places))
            inputs += _distinct(to, narrow, spec.accumulator, name)
        elif part.state == "counts of values":
            frequent, ports = _frequent(to, narrow, schema, node.key, name, part)
            specs.append(frequent)
            inputs += ports
        elif part.state == "distinct values":
            specs.append(AllValuesPart(GeneralSpec(node.key, calls, schema), part.places))
            inputs += _values(to, narrow, schema, node.key, name)
        else:
            some = Aggregates(tuple(one.of_all for one in calls), ordered=True)
            general = GeneralSpec(node.key, some.calls, schema)
            specs.append(ValuesPart(general, part.places, some.needed(schema, node.key)))
            inputs += _values_in_order(to, narrow, schema, node.key, name, some.state_order(schema, node.key))
    if node.keeps_best:
        best, port = _best_part(to, node, reducer, below)
        specs.append(best)
        inputs.append(port)
    return CollateOp(Collation(tuple(specs), reducer.calls, node.schema, reducer.default_row)), tuple(inputs)


def _adds_up(node: Reduce) -> bool:
    """Whether some of its aggregates are read from sums, so that the best rows are not all it reads."""
    return isinstance(node.reducer, Aggregates) and any(call.accumulable for call in node.reducer.calls)


def _best_part(to: Lowering, node: Reduce, reducer: Aggregates, below: Lowered) -> tuple[BestPart, Port]:
    """All extremes of a reduce that keeps the best rows, from one arrangement of these."""
    places = tuple(place for place, call in enumerate(reducer.calls) if not call.accumulable)
    calls = tuple(reducer.calls[place] for place in places)
    columns, orders = tuple(dict.fromkeys(call.arguments[0] for call in calls)), best_orders(node)
    assert orders is not None
    schema = pa.schema([node.input.schema.field(name) for name in (*node.key, *columns)])
    return BestPart(GeneralSpec(node.key, calls, schema), places), _best(to, node, below, columns, orders)


def _of_best(
    to: Lowering, node: Reduce, below: Lowered, orders: tuple[tuple[Order, ...], ...]
) -> tuple[ReduceOp, tuple[Port]]:
    """A kernel over the best rows of groups, and logic that puts the columns of its output in the order of the node.

    The rows that are kept have the key in front, and some kernels pass their columns on in that order.
    """
    columns = tuple(name for name in node.input.schema.names if name not in node.key)
    names = (*node.key, *columns)
    in_front = BoundLogic((Project(tuple((name, _column(node.input.schema, name)) for name in names)),))
    kept = replace(node, input=Linear(node.input, in_front))
    logic = IDENTITY
    if kept.schema.names != node.schema.names:
        logic = BoundLogic((Project(tuple((name, _column(kept.schema, name)) for name in node.schema.names)),))
    few = Ends(first=len(orders))
    return ReduceOp(spec_of(kept), few, logic=logic), (_best(to, node, below, columns, orders),)


def _best(
    to: Lowering, node: Reduce, below: Lowered, columns: tuple[str, ...], orders: tuple[tuple[Order, ...], ...]
) -> Port:
    """The arrangement of the first rows of each group in some orders, of groups whose first rows only improve."""
    narrow, origin, schema = _narrowed(to, node, below, columns)
    key, lattice = node.key, to.lattice_in(to.scope_of(narrow))
    name = f"best|{'|'.join(map(order_text, orders))}|{origin}"
    state = arrangement_id(name, key)
    operation = ArrangeOp(state, Layout(schema, key, lattice), BestRows(orders))
    label = f"{arrange_label(key)}, first by {' and by '.join(map(order_text, orders))}"
    exchange = None if narrow.spread == key else key

    def make() -> int:
        port = narrow.port
        if exchange is not None and to.shards > 1:
            port = Port(to.add(MayBeFirstOp(key, orders), (port,), schema, label="combine", logical=f"combined|{name}"))
        return to.add(operation, (port,), schema, exchange=exchange, label=label, logical=name)

    return Port(to.once(state, make))


def _ordered(
    to: Lowering, node: Reduce, below: Lowered, part: Part, calls: tuple[Aggregate, ...]
) -> tuple[OrderedPart, tuple[Port, Port]]:
    """What reads some of the rows of a column in its order, from an arrangement of these or of more columns."""
    key, asked = node.key, asked_of_part(node, part, calls)
    schema = pa.schema([node.input.schema.field(name) for name in (*key, *part.columns)])
    if (shared := _shared(to, node, asked, schema)) is not None:
        inputs, seen, needed = shared
        assert isinstance(needed, Ends | Quantiles)
        return OrderedPart(GeneralSpec(key, calls, schema), part.places, needed, seen), inputs
    narrow, name, schema = _narrowed(to, node, below, part.columns)
    inputs = _in_order(to, name, schema, key, narrow, asked.order)
    assert isinstance(asked.needed, Ends | Quantiles)
    return OrderedPart(GeneralSpec(key, calls, schema), part.places, asked.needed), inputs


def _with_counts(parts: tuple[Part, ...]) -> list[Part]:
    """The parts, with what counts the values of columns that share theirs: how many rows are null in one of these.

    The sums of a group notice if nulls are below zero in number; the arrangement of shared values has none.
    """
    counted = tuple(dict.fromkeys(column for part in parts if len(part.columns) > 1 for column in part.columns))
    if not counted:
        return [*parts]
    sums = next((part for part in parts if part.state == "sums"), Part(()))
    return [replace(sums, columns=counted), *(part for part in parts if part is not sums)]


def _shared_distinct(
    to: Lowering, node: Reduce, below: Lowered, columns: tuple[str, ...], calls: tuple[Aggregate, ...]
) -> tuple[AggregatesSpec, tuple[Port, Port]]:
    """As ``_distinct``, of columns that share their values."""
    schema, key = node.input.schema, node.key
    fields = [schema.field(name) for name in (*key, *columns)]
    own = [(name, _column(schema, name)) for name in key]
    names = [quote_name(name) for name in columns]
    value = parse(f"coalesce({', '.join(names)})", schema)
    flags = " | ".join(f"CASE WHEN {name} IS NULL THEN 0 ELSE {1 << i} END" for i, name in enumerate(names))
    logic = BoundLogic((Project((*own, (_VALUE, value), (_FLAGS, parse(flags, schema)))),))
    narrow, origin = _narrow(to, node, below, logic)
    state = Port(to.arrange(narrow, (*key, _VALUE), origin, arrange_label((*key, _VALUE))))
    shown = pa.schema([*fields[: len(key)], *(field.with_nullable(True) for field in fields[len(key) :])])
    name = f"present|{origin}|{key}"
    present = to.once(
        name, lambda: to.add(SharedPresentOp(len(columns)), (state,), shown, label="distinct", logical=name)
    )
    sums = Accumulator(key, tuple(one.of_all for one in calls), shown)
    added = _sums(to, Lowered(Port(present), None), sums, f"{name}|{Aggregates(sums.aggregates)}")
    return AggregatesSpec(sums), (added, _negative(to, SharedNegativeOp(len(columns)), state, sums.key_schema, origin))


def _distinct(to: Lowering, below: Lowered, sums: Accumulator, origin: str) -> tuple[Port, Port]:
    """The arrangement of the sums of distinct values by the key, and of how many values are below zero."""
    state, present, name = _present(to, below, sums.schema, sums.key, origin)
    added = _sums(to, present, sums, f"{name}|{Aggregates(sums.aggregates)}")
    return added, _negative(to, NegativeOp(), state, sums.key_schema, origin)


def _values_in_order(
    to: Lowering, below: Lowered, schema: pa.Schema, key: Key, origin: str, order: tuple[Order, ...]
) -> tuple[Port, Port]:
    """The arrangement of distinct values by the key, in an order, and of how many values are below zero."""
    state, present, name = _present(to, below, schema, key, origin)
    label = f"{arrange_label(key)}, values in order of {order_text(order)}"
    return Port(to.arrange(present, key, name, label, order)), _negative_of(to, state, schema, key, origin)


def _values(to: Lowering, below: Lowered, schema: pa.Schema, key: Key, origin: str) -> tuple[Port, Port]:
    """The arrangement of distinct values by the key, and of how many values are below zero."""
    state, present, name = _present(to, below, schema, key, origin)
    values = to.arrange(present, key, name, f"{arrange_label(key)}, distinct values")
    return Port(values), _negative_of(to, state, schema, key, origin)


def _frequent(
    to: Lowering, below: Lowered, schema: pa.Schema, key: Key, origin: str, part: Part
) -> tuple[ValuesPart, tuple[Port, Port]]:
    """The first of the values that are there most often, and what it is read from.

    That is an arrangement of values with their counts in the order of these, and of how many values are below zero.
    A null counts 0: it comes behind all others.
    """
    state, counts, name = _counted(to, below, schema, key, origin)
    value = _column(schema, part.columns[0])
    number = call("case", [call("isnotnull", [value]), Column(COUNT, pa.int64(), False), literal(0, pa.int64())])
    outputs = (*((k, _column(schema, k)) for k in key), (part.columns[0], value), (COUNT, number))
    logic = BoundLogic((Project(outputs),))
    ranked = pa.schema([*schema, pa.field(COUNT, pa.int64())])
    linear = to.once(
        f"ranked|{name}",
        lambda: to.add(LinearOp(logic), (counts.port,), ranked, label=str(logic), logical=f"ranked|{name}"),
    )
    order = (COUNT, True, False), (part.columns[0], part.descending, True)
    lowered = Lowered(Port(linear), counts.spread)
    label = f"{arrange_label(key)}, values in order of {order_text(order)}"
    values = to.arrange(lowered, key, f"ranked|{name}", label, order)
    spec = FirstValueSpec(key, order, ranked, len(part.places))
    return ValuesPart(spec, part.places, Ends(first=1)), (Port(values), _negative_of(to, state, schema, key, origin))


def _counted(to: Lowering, below: Lowered, schema: pa.Schema, key: Key, origin: str) -> tuple[Port, Lowered, str]:
    """The arrangement of the counts of rows, and the rows with their counts, with their name across processes."""
    state = _counts(to, below, schema, origin)
    spec, name = CountOfSpec(schema, COUNT), f"counted|{origin}|{key}"
    number = to.once(name, lambda: to.add(ReduceOp(spec), (state,), spec.schema, label="count", logical=name))
    return state, Lowered(Port(number), tuple(schema.names)), name


def _counts(to: Lowering, below: Lowered, schema: pa.Schema, origin: str) -> Port:
    """The arrangement of the counts of rows."""
    counts = counter(schema)
    return _sums(to, below, counts, f"{origin}|{counts.key}|{Distinct().accumulated}")


def _negative_of(to: Lowering, state: Port, schema: pa.Schema, key: Key, origin: str) -> Port:
    """The arrangement of how many rows of each group are below zero, of those whose counts are arranged."""
    return _negative(to, NegativeOp(), state, pa.schema([schema.field(k) for k in key]), origin)


def _negative(to: Lowering, operation: Operation, state: Port, key: pa.Schema, origin: str) -> Port:
    """The arrangement of how many values of each group are below zero."""
    name = f"negative|{origin}"
    own = tuple(key.names)
    negative = to.once(f"{name}|{own}", lambda: to.add(operation, (state,), key, label="rows below zero", logical=name))
    return _below_zero(to, Lowered(Port(negative), None), key, name)


def _present(to: Lowering, below: Lowered, schema: pa.Schema, key: Key, origin: str) -> tuple[Port, Lowered, str]:
    """The arrangement of the counts of rows, and the rows that are there, once, with their name across processes."""
    state = _counts(to, below, schema, origin)
    name = f"present|{origin}|{key}"
    present = to.once(name, lambda: to.add(PresentOp(), (state,), schema, label="distinct", logical=name))
    return state, Lowered(Port(present), tuple(schema.names)), name


def _column(schema: pa.Schema, name: str) -> Column:
    field = schema.field(name)
    return Column(name, field.type, field.nullable)


def _narrowed(to: Lowering, node: Reduce, below: Lowered, columns: tuple[str, ...]) -> tuple[Lowered, str, pa.Schema]:
    """The key and some columns of a reduce's input; their name across processes, and their schema."""
    schema, names = node.input.schema, (*node.key, *columns)
    if schema.names == list(names):
        return below, to.name_of(node.input), schema
    outputs = tuple((name, _column(schema, name)) for name in names)
    logic = BoundLogic((Project(outputs),))
    return *_narrow(to, node, below, logic), logic.output(schema)


def _narrow(to: Lowering, node: Reduce, below: Lowered, logic: BoundLogic) -> tuple[Lowered, str]:
    """What logic makes of a reduce's input, and its name across processes."""
    narrow = Linear(node.input, logic)
    name = to.name_of(narrow)
    number = to.once(
        f"narrow|{name}",
        lambda: to.add(LinearOp(logic), (below.port,), narrow.schema, label=str(logic), logical=narrow.fingerprint),
    )
    return Lowered(Port(number), spread_after(logic, below.spread), below.settled), name


def spec_of(node: Reduce) -> ReduceSpec:
    """How the results of a reduce are read from what it keeps."""
    return node.reducer.of_family(_Specs(node.key, node.input.schema, node.schema))


@dataclass(frozen=True)
class _Specs:
    """The families of functions of groups over the rows of one input, by one key."""

    key: tuple[str, ...]
    input: pa.Schema
    output: pa.Schema

    def aggregates(self, calls: tuple[Aggregate, ...], *, default_row: bool) -> ReduceSpec:
        """Over sums where all of them are accumulable, else over the rows."""
        if all(call.accumulable for call in calls):
            return AggregatesSpec(Accumulator(self.key, calls, self.input), default_row)
        return GeneralSpec(self.key, calls, self.input, default_row)

    def totals(self, calls: tuple[Aggregate, ...]) -> ReduceSpec:
        """Over sums."""
        return TotalsSpec(TotalAccumulator(self.key, calls, self.input))

    def distinct(self) -> ReduceSpec:
        """Over counts."""
        return DistinctSpec(self.input)

    def counts(self, column: str) -> ReduceSpec:
        """Over counts."""
        return CountOfSpec(self.input, column)

    def threshold(self, function: Function, *, with_row: bool) -> ReduceSpec:
        """Over counts."""
        return ThresholdSpec(self.input, function.call, with_row)

    def first_rows(self, k: int, order: tuple[Order, ...]) -> ReduceSpec:
        """Over rows."""
        return TopKSpec(self.key, k, order, self.output)

    def windows(self, calls: tuple[WindowCall, ...], first: FirstRows | None, *, backward: bool) -> ReduceSpec:
        """Over rows."""
        if backward:
            calls = backward_calls(calls, self.input, self.key)
        return WindowSpec(self.key, calls, self.input, first)

    def python(
        self,
        function: Function,
        result: pa.Schema,
        first: tuple[int, tuple[Order, ...]] | None,
        *,
        with_diffs: bool,
        signed: bool,
    ) -> ReduceSpec:
        """Over rows."""
        return PythonSpec(self.key, function.call, result, self.input, with_diffs, first, signed)

    def as_of(self, sides: MixedSides) -> ReduceSpec:
        """Over rows of both sides."""
        return UnionSpec(self.output, self.key, sides)
