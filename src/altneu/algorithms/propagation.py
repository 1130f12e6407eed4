"""Labels that spread along edges, and functions that are applied to nodes one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from altneu.algorithms.graph import ENDS, check_function, labelled, links, simple
from altneu.collections.collection import Collection
from altneu.types import type_name


def propagate(
    edges: Collection,
    labels: Collection,
    *,
    at: str | None = None,
    src: str = "src",
    dst: str = "dst",
    directed: bool = True,
) -> Collection:
    """For each node that a label reaches along edges, the least of these labels; its own ones reach it too.

    ``labels`` is a collection of two columns, a node and one of its labels, of any type that has an order. A node may
    have several labels, or none. Nulls do not count. Reachability from the nearest of several depots, the earliest
    time at which news can have arrived, or the cheapest supplier upstream are labels that spread.

    ``at`` is an expression over ``node`` and ``label``: the round of the loop in which a label enters. The answer does
    not depend on it, and the cost may: labels that win should enter first, so that others do not spread before.
    A label for which it is null, negative or fails enters in round 0.

    Shape:  ``node``, ``label`` (of the type of the labels): one row for each node that a label reaches.
    Cost:   a loop with as many rounds as the least labels need to reach all nodes, and as ``at`` asks for: one exchange
            by node in each; an arrangement of the edges, and every label that was the least of a node in any round. A
            change costs the nodes whose least label changes.
    Law:    at every time the least label of those in reach (tests/algorithms/test_maintained.py).
    Source: ``propagate`` and ``propagate_at`` of differential dataflow.

    Raises:
        UnknownColumnError, TypeMismatchError: an end is not a column, or neither a whole number nor a string; the nodes
            of the labels have another type; ``at`` is not a whole number.
        PlanError: ``labels`` does not have two columns.

    >>> import altneu as an
    >>> roads = an.source("roads", "src string, dst string")
    >>> depots = an.source("depots", "town string, opens int")
    >>> with an.Session() as session:
    ...     first = an.algorithms.propagate(roads, depots, at="label", directed=False)
    ...     view = session.maintain("first", first)
    ...     session.insert("roads", [("a", "b"), ("b", "c"), ("d", "e")])
    ...     session.insert("depots", [("a", 8), ("c", 6), ("e", 7)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [('a', 6), ('b', 6), ('c', 6), ('d', 7), ('e', 7)]
    """
    arcs = links(edges, src, dst, directed=directed)
    return least_of(arcs, labelled(labels, arcs, "labels", "label"), "label", at)


def least_of(arcs: Collection, own: Collection, label: str, at: str | None) -> Collection:
    """For each node the least label from which arcs lead to it; labels enter in the rounds that ``at`` gives."""

    def spread(labels: Collection) -> Collection:
        heard = labels.join(arcs, on={"node": "src"}).select(node="dst", **{label: label})
        entering = own if at is None else own.enter_at(at)
        return heard.concat(entering).group_by("node").agg(**{label: f"min({label})"})

    return own.filter("false").iterate(spread, max_rounds=ENDS)


def sequence(
    edges: Collection,
    states: Collection,
    function: Callable[[Any, list[Any]], Any],
    *,
    src: str = "src",
    dst: str = "dst",
    directed: bool = True,
    version: str | int | None = None,
) -> Collection:
    """Apply a function to all nodes, as if to one after the other in their order, each time to its neighbours' states.

    ``states`` is a collection of two columns, a node and its first state: one row for each node. ``function(node,
    heard)`` returns the new state of a node; ``heard`` has the states of the nodes from which an edge leads to it,
    sorted, nulls first: the new states of lesser nodes and the first ones of greater nodes. Edges from a node to
    itself, parallel ones and those with an end that has no state do not count. The function must be pure; where it
    raises, the node is an error row, and nodes that wait for it have no new state. Greedy coloring and a sweep of
    Gauss and Seidel have this form. ``version`` is as in ``Collection.map``.

    Shape:  ``node``, ``state`` (of the type of the states): one row for each node of ``states``.
    Cost:   a loop with as many rounds as the longest path along which nodes increase has nodes; arrangements of the
            edges by both ends, and the states of each node's neighbours. A change costs the nodes whose new state
            changes, and their neighbours.
    Law:    at every time what a plain loop over the sorted nodes gives (tests/algorithms/test_maintained.py).
    Source: ``sequence`` of differential dataflow.

    Raises:
        UnknownColumnError, TypeMismatchError: an end is not a column, or neither a whole number nor a string; the nodes
            of the states have another type.
        PlanError: ``states`` does not have two columns, or ``function`` cannot be called.

    >>> import altneu as an
    >>> borders = an.source("borders", "src string, dst string")
    >>> countries = an.source("countries", "country string, color int")
    >>> def least_free(country, near):
    ...     return next(color for color in range(len(near) + 1) if color not in near)
    >>> with an.Session() as session:
    ...     colors = an.algorithms.sequence(borders, countries, least_free, directed=False)
    ...     view = session.maintain("colors", colors)
    ...     session.insert("borders", [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])
    ...     session.insert("countries", [(country, None) for country in "abcd"])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [('a', 0), ('b', 1), ('c', 2), ('d', 0)]
    """
    check_function(function)
    joined = simple(edges, src, dst, directed=directed).filter("src <> dst").distinct()
    first = labelled(states, joined, "states", "state")
    nodes = first.select("node").distinct()
    arcs = joined.semijoin(nodes, on={"src": "node"}).semijoin(nodes, on={"dst": "node"})
    forward, backward = arcs.filter("src < dst"), arcs.filter("src > dst")
    known = first.join(backward, on={"node": "src"}).select(node="dst", state="state", heard="true")
    kind = first.schema.field("state").type
    given = known.concat(nodes.select("node", state=f"CAST(NULL AS {type_name(kind)})", heard="false"))
    schema = pa.schema([pa.field("state", kind)])

    def next_states(new: Collection) -> Collection:
        waiting = forward.antijoin(new, on={"src": "node"}).select(node="dst").distinct()
        told = new.join(forward, on={"node": "src"}).select(node="dst", state="state", heard="true")
        ready = given.concat(told).antijoin(waiting, on="node")
        return ready.group_by("node").reduce(partial(_applied, function), schema, version=version)

    return first.filter("false").iterate(next_states, max_rounds=ENDS)


def _applied(function: Callable[[Any, list[Any]], Any], key: tuple[Any, ...], rows: list[Any]) -> Iterator[tuple[Any]]:
    yield (function(key[0], [row.state for row, count in rows if row.heard for _ in range(count)]),)
