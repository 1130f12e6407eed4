"""The common input of the algorithms: edges in columns of known names and types, and the nodes at their ends."""

from __future__ import annotations

import pyarrow as pa

from altneu.collections.collection import Collection, check_collection
from altneu.errors import PlanError, TypeMismatchError, UnknownColumnError
from altneu.types import quote_name, type_name

ENDS = 2**31 - 1
"""As many rounds as it takes, for loops that are known to end."""


def links(edges: Collection, src: str, dst: str, *, directed: bool = True, weight: str | None = None) -> Collection:
    """The edges as columns ``src``, ``dst`` and optionally ``weight``; undirected edges in both directions.

    Shape:  edges with a null in any of these are dropped; counts stay (a loop occurs once, in both directions too).
    Cost:   linear: no exchange, no state.

    Raises:
        UnknownColumnError: a name is not a column of the edges.
        TypeMismatchError: the ends differ in type, or are neither whole numbers nor strings; the weight is not a
            number.
    """
    check_collection(edges, "edges=")
    kinds = [_type(edges, name, what) for name, what in ((src, "src="), (dst, "dst="))]
    if kinds[0] != kinds[1]:
        raise TypeMismatchError(
            f"the ends of an edge must have one type, got {src!r} of type {type_name(kinds[0])} and {dst!r} of type "
            f"{type_name(kinds[1])}; cast one of them"
        )
    _check_node(src, kinds[0])
    ends = {"src": quote_name(src), "dst": quote_name(dst)}
    rest = {} if weight is None else {"weight": _weight(edges, weight)}
    present = " and ".join(f"{column} is not null" for column in (*ends, *rest))
    forward = edges.select(**ends, **rest).filter(present)
    if directed:
        return forward
    return forward.concat(forward.filter("src <> dst").select(src="dst", dst="src", **{name: name for name in rest}))


def simple(edges: Collection, src: str, dst: str, *, directed: bool = True) -> Collection:
    """The same without weights, each edge once.

    Cost:   one exchange by edge; one number for each edge.
    """
    return links(edges, src, dst, directed=directed).distinct()


def pairs(edges: Collection, src: str, dst: str) -> Collection:
    """The pairs ``a < b`` of nodes that are joined by an edge in either direction, each once.

    Cost:   one exchange by pair; one number for each pair.
    """
    joined = links(edges, src, dst).filter("src <> dst")
    return joined.select(a="least(src, dst)", b="greatest(src, dst)").distinct()


def both(pair: Collection) -> Collection:
    """Pairs in both directions, as ``src`` and ``dst``."""
    return pair.select(src="a", dst="b").concat(pair.select(src="b", dst="a"))


def ends(edges: Collection, nodes: Collection | None) -> Collection:
    """The nodes: the ends of edges and the nodes given, each once, as ``node``.

    Cost:   one exchange by node; one number for each node.
    """
    nodes_of_edges = edges.select(node="src").concat(edges.select(node="dst"))
    return (nodes_of_edges if nodes is None else nodes_of_edges.concat(checked_nodes(nodes, edges, "nodes"))).distinct()


def checked_nodes(nodes: Collection, edges: Collection, what: str) -> Collection:
    """The user's collection of nodes, as ``node``, without nulls.

    Raises:
        PlanError: it has more than one column.
        TypeMismatchError: its nodes have another type than those of the edges.
    """
    check_collection(nodes, what)
    if len(nodes.columns) != 1:
        raise PlanError(
            f"{what} must be a collection of one column, the node, got the columns {', '.join(nodes.columns)}"
        )
    (name,) = nodes.columns
    _check_like(nodes, edges, what, name)
    return nodes.select(node=quote_name(name)).filter("node is not null")


def labelled(rows: Collection, edges: Collection, what: str, value: str) -> Collection:
    """The user's collection of nodes with a value each, as ``node`` and ``value``, without null nodes.

    Raises:
        PlanError: it does not have two columns.
        TypeMismatchError: its nodes have another type than those of the edges.
    """
    check_collection(rows, what)
    if len(rows.columns) != 2:
        raise PlanError(
            f"{what} must be a collection of two columns, the node and its {value}, got the columns "
            f"{', '.join(rows.columns)}"
        )
    _check_like(rows, edges, what, rows.columns[0])
    node, name = map(quote_name, rows.columns)
    return rows.filter(f"{node} is not null").select(**{"node": node, value: name})


def asked(pairs: Collection, edges: Collection) -> Collection:
    """The user's pairs of nodes, as ``src`` and ``dst``, each once, without nulls.

    Raises:
        PlanError: it does not have two columns.
        TypeMismatchError: its nodes have another type than those of the edges.
    """
    check_collection(pairs, "pairs")
    if len(pairs.columns) != 2:
        raise PlanError(
            f"pairs must be a collection of two columns, both nodes, got the columns {', '.join(pairs.columns)}"
        )
    for name in pairs.columns:
        _check_like(pairs, edges, "pairs", name)
    start, end = map(quote_name, pairs.columns)
    return pairs.filter(f"{start} is not null and {end} is not null").select(src=start, dst=end).distinct()


def check_function(function: object, what: str = "function") -> None:
    """Check that an argument can be called.

    Raises:
        PlanError: it cannot.
    """
    if not callable(function):
        raise PlanError(f"{what} must be a function, got {function!r}")


def at_least(name: str, value: object, least: int) -> int:
    """A whole number of at least ``least``.

    Raises:
        PlanError: it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise PlanError(f"{name} must be a whole number of at least {least}, got {value!r}")
    return value


def _check_like(rows: Collection, edges: Collection, what: str, name: str) -> None:
    here, there = rows.schema.field(name).type, edges.schema.field("src").type
    if here != there:
        raise TypeMismatchError(
            f"{what}: {name!r} is {type_name(here)}, and the edges' nodes are {type_name(there)}; cast one of them"
        )


def _weight(edges: Collection, name: str) -> str:
    kind = _type(edges, name, "weight=")
    if pa.types.is_integer(kind):
        return f"CAST({quote_name(name)} AS bigint)"
    if pa.types.is_floating(kind):
        return f"CAST({quote_name(name)} AS double)"
    raise TypeMismatchError(
        f"a weight must be a whole number or a double, got {name!r} of type {type_name(kind)}; cast it"
    )


def _type(edges: Collection, name: str, argument: str) -> pa.DataType:
    if name not in edges.columns:
        raise UnknownColumnError(name, edges.columns, argument)
    return edges.schema.field(name).type


def _check_node(name: str, kind: pa.DataType) -> None:
    if not pa.types.is_integer(kind) and not pa.types.is_string(kind):
        raise TypeMismatchError(
            f"a node must be a whole number or a string, got {name!r} of type {type_name(kind)}; cast it"
        )
