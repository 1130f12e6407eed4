"""Cyclic patterns that can be joined one relation after the other: where no intermediate result outgrows the relations.

A pattern has a cycle also where tables refer to each other by keys: a customer and a supplier of one nation, a line of
an order of the customer, by the supplier. Joined along their keys, in the right order, no intermediate result has more
rows than the largest relation, and binary joins may keep less than a delta join, which arranges the largest by several
keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from altneu.operators.delta_join.paths import Variables
from altneu.plan.ir import Join, Node
from altneu.plan.rewrite.sizes import Names, Sizes

CYCLIC = "the pattern is cyclic, and an intermediate result may outgrow the relations and the answer"
TELLING_ROWS = 10_000
"""With fewer rows in the largest relation it is not asked what its keys are: they say little of what will come."""
MOST_IN_ORDER = 12
"""The orders of more relations are not looked at."""
Exists = Callable[[Node, Names], bool]


def in_turn(
    parts: Sequence[Node], variables: Sequence[Variables], order: Sequence[int], needed: frozenset[str]
) -> Join:
    """Relations joined one after the other, of which each but the first has a variable in common with those before it.

    Shape:  the columns of the result are the ``needed`` variables, or one of them if none is, by their ``names``.
    """
    first, *rest = order
    called = names_of(parts, variables)
    joined: Node = parts[first]
    columns = dict(zip(variables[first], joined.schema.names, strict=True))
    while rest:
        at, *rest = rest
        own = dict(zip(variables[at], parts[at].schema.names, strict=True))
        key = [v for v in own if v in columns]
        later = needed.union(*(variables[i] for i in rest))
        outputs = {v: (called[v], 0, c) for v, c in columns.items() if v in later}
        outputs |= {v: (called[v], 1, c) for v, c in own.items() if v in later and v not in columns}
        outputs = outputs or {key[0]: (called[key[0]], 0, columns[key[0]])}
        keys = tuple(columns[v] for v in key), tuple(own[v] for v in key)
        joined = Join(joined, parts[at], *keys, tuple(outputs.values()))
        columns = {v: called[v] for v in outputs}
    assert isinstance(joined, Join)
    return joined


def names_of(parts: Sequence[Node], variables: Sequence[Variables]) -> dict[str, str]:
    """What each variable is called: as a column of the first relation that has it, unless another one is called so."""
    names: dict[str, str] = {}
    for part, own in zip(parts, variables, strict=True):
        for column, v in zip(part.schema.names, own, strict=True):
            if v not in names:
                names[v] = f"{column} {v}" if column in names.values() else column
    return names


def along_keys(  # a pattern, and all that the choice goes by
    parts: Sequence[Node],
    variables: Sequence[Variables],
    needed: frozenset[str],
    at_once: set[tuple[Node, Names]],
    exists: Exists,
    sizes: Sizes,
) -> tuple[Literal["delta"] | Sequence[int], str]:
    """The order of joins that keeps least, if no intermediate result outgrows the relations; else a delta join.

    ``at_once`` are the arrangements that the delta join would build.

    Cost:   n orders of n relations are looked at, each made by taking the relation that adds fewest rows; and once more
            if the keys of the smaller sides of joins do not tell enough.
    """
    largest = max((rows for part in parts if (rows := sizes.rows(part)) is not None), default=0)
    if largest < TELLING_ROWS or len(parts) > MOST_IN_ORDER:
        return "delta", f": {CYCLIC}"
    orders: list[list[int]] = []
    for known in (Sizes(sizes.sources, thorough=False), sizes):
        every = [_from(i, parts, variables, needed, largest, known) for i in range(len(parts))]
        if orders := [order for order in every if order is not None]:
            sizes = known
            break
    if not orders:
        return "delta", f": {CYCLIC}"
    kept = [_bytes(_arranged(in_turn(parts, variables, order, needed), len(parts)), exists, sizes) for order in orders]
    least, order = min(zip(kept, orders, strict=True))
    delta = _bytes(at_once, lambda *_: False, sizes)
    if delta < least:
        return "delta", f": it keeps up to {_mib(delta)}, binary joins {_mib(least)}"
    told = f"no intermediate result has more than {largest:,} rows, as the largest relation has"
    return order, f": {told}; they keep up to {_mib(least)}, a delta join {_mib(delta)}"


def _from(
    first: int,
    parts: Sequence[Node],
    variables: Sequence[Variables],
    needed: frozenset[str],
    largest: int,
    sizes: Sizes,
) -> list[int] | None:
    """An order that begins with a relation; None where an intermediate result may outgrow the relations."""
    order, left = [first], {*range(len(parts))} - {first}
    while left:
        bound = {v for i in order for v in variables[i]}
        sized = [
            (rows, i)
            for i in sorted(left)
            if not bound.isdisjoint(variables[i])
            and (rows := sizes.rows(in_turn(parts, variables, [*order, i], needed.union(*variables)))) is not None
        ]
        if not sized or min(sized)[0] > largest:
            return None
        order.append(min(sized)[1])
        left.discard(order[-1])
    return order


def _arranged(join: Join, relations: int) -> Iterable[tuple[Node, Names]]:
    """What binary joins arrange, and by what; ``relations`` are joined."""
    joined: Node = join
    for _ in range(relations - 1):
        assert isinstance(joined, Join)
        yield joined.left, joined.left_key
        yield joined.right, joined.right_key
        joined = joined.left


def _bytes(arrangements: Iterable[tuple[Node, Names]], exists: Exists, sizes: Sizes) -> int:
    """What arrangements keep that are to be built, each once."""
    return sum({(n.fingerprint, key): sizes.bytes(n) or 0 for n, key in arrangements if not exists(n, key)}.values())


def _mib(count: int) -> str:
    return f"{count / 2**20:,.1f} MiB"
