"""Keys with very many rows, whose work one stage divides over the tasks of all shards.

A key lies in one shard, so that a join on a key of half of the rows would be one task's work. What makes these rows,
the tasks of stage 0, sends those of such a *heavy* key to the task of any shard instead, by a hash of the row; the few
rows that they meet there, those of the join's other side, go to all of these tasks. Each makes what the shard of the
key would have made of its slice: of a join each side may be cut into slices, because it is linear in both. What they
put into arrangements becomes further batches of the shard of the key, so that the state lies as it always does, and
nothing that reads it knows that it was made in several places.

The shard of the key has what was there before. It joins that with the other side's new rows, and the slices join new
rows with everything on the other side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.hashing import Hashes, hash_rows
from altneu.columnar.rows import Ints
from altneu.linear import BoundLogic
from altneu.linear.asked import in_one_look
from altneu.linear.called import functions_of
from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.arrange.retention import EVERY_UPDATE, NOTHING
from altneu.operators.base import Heavy, Operation, StepMode
from altneu.operators.join.operation import JoinOp
from altneu.operators.reduce.operation import ExplodeOp
from altneu.order import Antichain
from altneu.plan.physical import Plan, Port
from altneu.runtime.outcome import Sent
from altneu.runtime.packed import Packed
from altneu.runtime.stored import StoredBatch, StoredState
from altneu.trace.update import Updates, consolidate

LEAST_ROWS = 1000  # rows of a sample from which one can tell
_LEAST_ORDERED = 1000  # rows that are put in order before they are sent
_ORDERED_BITS = 16
_SHARE = 2  # a key is heavy if it alone has more than half of what a task would have on average

Names = dict[str, str]
"""Of columns that a divided row keeps, by the name that they have somewhere: their names as they arrive."""


@dataclass(frozen=True)
class Division:
    """How a stage is divided: the channel whose rows are cut into slices, and what runs on a slice.

    ``beside`` are the channels whose rows go to every slice, ``nodes`` what is made of a slice, ``running`` these and
    what makes the other sides of their joins; ``columns`` are those whose values decide to which slice a row belongs.
    None: rows have no columns but the key, so that those of a key are equal; they are added up before they are sent.
    ``arrangements`` grow by what the slices make. Where one of them is shown (``is_shown``), changes of a row have to
    meet, so that it is divided only while nothing is there that the shard of the key would add changes of.
    """

    stage: int
    channel: int
    beside: frozenset[int]
    nodes: frozenset[int]
    running: frozenset[int]
    columns: tuple[str, ...]
    arrangements: frozenset[str]
    is_shown: bool


def divisions(plan: Plan) -> list[Division]:
    """Every way in which a stage of a plan may be divided.

    Cost:   the nodes of each stage, for each channel into it.
    """
    found = (_division(plan, number) for number, channel in enumerate(plan.channels) if channel.key is not None)
    return [division for division in found if division is not None]


def _division(plan: Plan, number: int) -> Division | None:
    """How the stage that a channel leads to may be divided by the channel's rows; None where it may not.

    Divided rows may be joined with others, stored, and looked at one by one; what needs all rows of a key is not there.
    Where the rows of a key are equal, none of this matters, because they are added up.
    """
    channel = plan.channels[number]
    stage, columns, none = channel.stage, channel.schema.names, frozenset[int]()
    if any(plan.nodes[i].scope for i in (*plan.stages[stage], channel.port.node)):
        return None
    if not all(_may_be_sampled(plan, i) for i in plan.upstream(channel.port)):
        return None
    if set(columns) <= set(channel.key or ()):
        return Division(stage, number, none, none, none, (), frozenset(), is_shown=False)
    if not plan.in_parts(stage):
        return None
    kept: dict[int, Names] = {}  # by node what is made of slices, each with the columns of the row that it keeps
    met: set[int] = set()  # the nodes that the other sides of joins are made by
    arrived: set[int] = set()  # and the channels
    joins = False
    for i in plan.stages[stage]:
        node = plan.nodes[i]
        operation = node.operation
        here = [port for port in node.inputs if port.node in kept and (i, port) not in plan.inlets]
        if number in (plan.inlets.get((i, port)) for port in node.inputs):
            if not _is_plain(operation):
                return None
            kept[i] = {name: name for name in node.schema.names}
        elif not here:
            continue
        elif isinstance(operation, JoinOp):
            side = int(node.inputs[0] not in here)
            other = node.inputs[1 - side]
            if other in here or not _meets(plan, i, other, met, arrived):
                return None
            there = kept[node.inputs[side].node]
            names = {name: there[c] for name, s, c in operation.spec.outputs if s == side and c in there}
            kept[i] = _through(operation.logic, operation.spec.schema, names)
            joins = True
        elif _is_plain(operation) or operation.additive or isinstance(operation, ExplodeOp):
            kept[i] = _of_sum(plan, i, here, kept)
        else:
            return None
    if not joins or met & kept.keys() or number in arrived:
        return None
    return _checked(plan, number, kept, met, arrived)


def _checked(plan: Plan, number: int, kept: dict[int, Names], met: set[int], arrived: set[int]) -> Division | None:
    """The division, unless something of it is read elsewhere, or what slices make is added to what each of them has."""
    for i in kept:
        node = plan.nodes[i]
        arranges = isinstance(node.operation, ArrangeOp)
        if arranges and Port(i) in plan.outlets:
            return None
        if not isinstance(node.operation, JoinOp) and any(
            p.node in met or plan.inlets.get((i, p)) in arrived for p in node.inputs
        ):
            return None
    names = {o.arrangement: i for i in kept if isinstance(o := plan.nodes[i].operation, ArrangeOp)}
    readers = (n.operation for i, n in enumerate(plan.nodes) if i not in kept)
    if any(o.reads in names or o.takes_from in names for o in readers):
        return None
    channel = plan.channels[number]
    columns, nodes = tuple(channel.schema.names), frozenset(kept)
    shown = [i for name, i in names.items() if name in plan.contents]
    for i in shown:
        columns = tuple(c for c in columns if c in kept[i].values())
    if set(columns) <= set(channel.key or ()):
        return None
    beside, running = frozenset(arrived), nodes | met
    return Division(channel.stage, number, beside, nodes, running, columns, frozenset(names), is_shown=bool(shown))


def _may_be_sampled(plan: Plan, node: int) -> bool:
    """Whether it may be run on some rows to see what it makes: functions of users see each row once."""
    operation = plan.nodes[node].operation
    if operation.is_linear:
        return not any(True for _ in functions_of(operation.applied))
    return node in plan.source_of or operation.additive or isinstance(operation, ExplodeOp)


def _is_plain(operation: Operation) -> bool:
    """Whether it stores rows as they come."""
    return isinstance(operation, ArrangeOp) and operation.retention in (EVERY_UPDATE, NOTHING)


def _meets(plan: Plan, node: int, port: Port, met: set[int], arrived: set[int]) -> bool:
    """Note what makes the other side of a join, and say whether all of it comes by channels with keys."""
    todo = [(node, port)]
    while todo:
        reader, at = todo.pop()
        number = plan.inlets.get((reader, at))
        if number is not None:
            if plan.channels[number].key is None:
                return False
            arrived.add(number)
        elif at.node not in met:
            met.add(at.node)
            todo += [(at.node, below) for below in plan.nodes[at.node].inputs]
    return True


def _of_sum(plan: Plan, i: int, here: list[Port], kept: Mapping[int, Names]) -> Names:
    """The columns that a node keeps of divided rows: of a sum with others none, because these may be the same rows."""
    node = plan.nodes[i]
    operation = node.operation
    if len(here) < len(node.inputs):
        return {}
    if operation.is_linear:
        return _through(operation.applied, plan.schema(here[0]), kept[here[0].node])
    if not (operation.is_sum or _is_plain(operation)):
        return {}
    names = [[kept[port.node].get(name) for name in plan.schema(port).names] for port in here]
    together = zip(node.schema.names, zip(*names, strict=True), strict=True)
    return {name: below[0] for name, below in together if below[0] is not None and len({*below}) == 1}


def _through(logic: BoundLogic, schema: pa.Schema, names: Names) -> Names:
    """The columns that come out of a logic as they went in."""
    if not logic:
        return names
    whole = in_one_look(logic, schema)
    if whole is None:
        return {}
    return {name: names[c] for name, e in whole[1].items() if e.is_column for c in e.columns if c in names}


def heavy_keys(
    found: Collection[Division], sent: Iterable[Sent], plan: Plan, shards: int
) -> tuple[Heavy | None, dict[int, Division]]:
    """The keys that are heavy in a sample of the messages of stage 0, and by stage how these are divided.

    Of several ways to divide a stage that one is taken whose heavy keys have the most rows.
    """
    hashes: dict[int, list[Hashes]] = {}
    wanted = {division.channel for division in found}
    for _, number, message in sent:
        if number in wanted and isinstance(message, Updates):
            hashes.setdefault(number, []).append(hash_rows(message.rows, plan.channels[number].key))
    cut: dict[int, tuple[Hashes, tuple[str, ...]]] = {}
    chosen: dict[int, tuple[int, Division, Hashes]] = {}
    for division in found:
        if division.channel in hashes:
            rows, keys = _heaviest(np.concatenate(hashes[division.channel]), shards)
            if rows and not division.columns:
                cut[division.channel] = keys, ()
            elif rows > (chosen[division.stage][0] if division.stage in chosen else 0):
                chosen[division.stage] = rows, division, keys
    cut |= {d.channel: (keys, d.columns) for _, d, keys in chosen.values()}
    beside = {channel: keys for _, d, keys in chosen.values() for channel in d.beside}
    divided = {stage: division for stage, (_, division, _) in chosen.items()}
    return Heavy(cut, beside) if cut else None, divided


def _heaviest(hashes: Hashes, shards: int) -> tuple[int, Hashes]:
    """The keys that have more rows than a task should have of one, sorted, and how many rows these are."""
    if len(hashes) < LEAST_ROWS:
        return 0, hashes[:0]
    keys, counts = np.unique(hashes, return_counts=True)
    heavy = counts * _SHARE * shards > len(hashes)
    return int(counts[heavy].sum()), keys[heavy]


def sent_to(
    number: int, part: Updates, key: tuple[str, ...], mode: StepMode, upper: Antichain
) -> Iterator[tuple[int, Updates | Packed]]:
    """Where the rows of a channel go by their key: the numbers of shards, and of slices of them, each with its rows.

    Many rows come packed: their codes are put in order, not what these stand for.
    """
    shards, heavy = mode.shards, mode.heavy
    if heavy is not None and number in heavy:
        yield from _of_heavy(heavy, number, part, key, shards, upper)
        return
    hashes = hash_rows(part.rows, key)
    target = shard_numbers(hashes, shards)
    if len(part) < _LEAST_ORDERED or shards > 1 << _ORDERED_BITS:
        for shard in range(shards):
            rows = part.filter(target == shard)
            if len(rows):
                yield shard, rows
        return
    # One sort puts the rows of a shard in order of the first bits of their hashes as well, by which they are cut and
    # sorted where they arrive: what is then gathered of many such messages lies in long runs.
    bits = np.uint64(_ORDERED_BITS - (shards - 1).bit_length())
    order = np.argsort(_first_bits(target.astype(np.uint64), hashes, bits), kind="stable")
    ordered, start = Packed.of(part).take(order), 0
    for shard, count in enumerate(np.bincount(target, minlength=shards).tolist()):
        if count:
            yield shard, ordered.slice(start, start + count)
            start += count


def _first_bits(targets: Hashes, hashes: Hashes, bits: np.uint64) -> npt.NDArray[np.uint16]:
    """The numbers of shards, and after them the first bits of hashes: so narrow that NumPy sorts them by counting."""
    first = hashes >> (np.uint64(64) - bits) if bits else np.uint64(0)
    return ((targets << bits) | first).astype(np.uint16)


def _of_heavy(
    heavy: Heavy, number: int, part: Updates, key: tuple[str, ...], shards: int, upper: Antichain
) -> Iterator[tuple[int, Updates]]:
    """The same where some keys are heavy.

    Rows of times that the step does not close go to the shard of their key, where they wait.
    """
    hashes = hash_rows(part.rows, key)
    home = shard_numbers(hashes, shards)
    if number in heavy.beside:
        for shard in np.unique(home).tolist():
            yield shard, part.filter(home == shard)
        to_all = np.isin(hashes, heavy.beside[number])
        for shard in np.unique(home[to_all]).tolist():
            rows = part.filter(to_all & (home == shard))
            for slice_ in range(shards):
                yield slice_number(shard, slice_, shards), rows
        return
    keys, columns = heavy.cut[number]
    divided = np.isin(hashes, keys) & ~upper.less_equal(part.times)
    if divided.any() and not columns:
        part = Updates.concat(
            [part.filter(~divided), consolidate(part.filter(divided), upper.lattice)], part.schema, len(part.times)
        )
        home = shard_numbers(hash_rows(part.rows, key), shards)
    elif divided.any():
        slices = shard_numbers(hash_rows(part.rows, columns), shards)
        home = np.where(divided, slice_number(home, slices, shards), home)
    for target in np.unique(home).tolist():
        yield target, part.filter(home == target)


def shard_numbers(hashes: Hashes, shards: int) -> Ints:
    """Numbers of shards, by hashes."""
    return (hashes % np.uint64(shards)).astype(np.int64)


def slice_number(shard: Any, slice_: Any, shards: int) -> Any:
    """The number under which a slice of a shard is sent: Spark puts it where the shard of the slice's number is.

    >>> slice_number(1, 2, shards=3), slice_number(1, 2, shards=3) % 3, home_of(8, 3), home_of(1, 3)
    (8, 2, (1, 2), (1, None))
    """
    return shards * (1 + shard) + slice_


def home_of(number: int, shards: int) -> tuple[int, int | None]:
    """The shard of a number, and of which slice it is, None if it is the shard itself."""
    return (number, None) if number < shards else (number // shards - 1, number % shards)


def with_slices(state: StoredState | None, more: Iterable[StoredBatch]) -> StoredState:
    """A state with further batches of the last step, each beginning where the one before it ends."""
    batches = [] if state is None else [*state["batches"]]
    for batch in more:
        lower = batches[-1]["upper"] if batches else batch["lower"]
        batches.append({**batch, "lower": lower})
    return {"batches": batches, "hold": [] if state is None else state["hold"]}
