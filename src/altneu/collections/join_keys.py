"""The keys of joins: which columns of two sides are compared, and what the columns of both are called in the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from altneu.collections.joining import project
from altneu.collections.verbs import column_of, name_of, names_in
from altneu.errors import PlanError, SchemaError, TypeMismatchError
from altneu.expressions import Expr, parse
from altneu.plan import ir
from altneu.types import no_key, quote_name, type_name

On = str | Sequence[str] | Mapping[str, str]


class Pair:
    """One column of a join key: its names on both sides, whether it appears once, and the columns that are compared."""

    def __init__(self, left_name: str, right_name: str, *, once: bool) -> None:
        self.left_name, self.right_name, self.once = left_name, right_name, once or left_name == right_name
        self.left, self.right = left_name, right_name


def pairs_of(left: pa.Schema, right: pa.Schema, on: On) -> list[Pair]:
    """The columns that ``on`` names; a key with one name for both sides appears once, by its name on the left.

    Raises:
        UnknownColumnError: a name is not a column.
        PlanError: two names are the same column on the left, or something else is given than names.
    """
    mine, theirs = (names_in(on.keys()), names_in(on.values())) if isinstance(on, Mapping) else (names_in(on),) * 2
    names = dict(zip(mine, theirs, strict=True))
    pairs: dict[str, Pair] = {}
    for a, b in names.items():
        pair = Pair(name_of(a, left), name_of(b, right), once=a == b)
        if pair.left_name in pairs:
            raise PlanError(f"on={on!r} names the column {pair.left_name!r} twice; name it once")
        pairs[pair.left_name] = pair
    return [*pairs.values()]


def comparable(left: ir.Node, right: ir.Node, on: On, *, keyless: bool = False) -> tuple[ir.Node, ir.Node, list[Pair]]:
    """Resolve ``on``; keys that differ in type, and right columns that occur twice, get an extra column each."""
    pairs = pairs_of(left.schema, right.schema, on)
    if not pairs and not keyless:
        raise PlanError(
            "join needs at least one key column; a join without a key would pair everything with everything"
        )
    extra: tuple[list[tuple[str, Expr]], list[tuple[str, Expr]]] = ([], [])
    for i, pair in enumerate(pairs):
        types = [left.schema.field(pair.left_name).type, right.schema.field(pair.right_name).type]
        if what := no_key(types[0]) or no_key(types[1]):
            raise TypeMismatchError(
                f"join key {pair.left_name!r}: {what} cannot be compared; join on what you need of them"
            )
        if types[0] != types[1]:
            common = _common_type(pair, types)
            pair.left, pair.right = f"#key{i}", f"#key{i}"
            for place, node, name in ((0, left, pair.left_name), (1, right, pair.right_name)):
                extra[place].append((f"#key{i}", parse(f"CAST({quote_name(name)} AS {common})", node.schema)))
        elif any(pair.right == p.right for p in pairs[:i]):
            pair.right = f"#key{i}"
            extra[1].append((pair.right, column_of(pair.right_name, right.schema)))
    return _with(left, extra[0]), _with(right, extra[1]), pairs


def _with(node: ir.Node, extra: list[tuple[str, Expr]]) -> ir.Node:
    return project(node, [*((n, column_of(n, node.schema)) for n in node.schema.names), *extra]) if extra else node


def _common_type(pair: Pair, types: list[pa.DataType]) -> str:
    schema = pa.schema([("l", types[0]), ("r", types[1])])
    try:
        return type_name(parse("coalesce(l, r)", schema).type)
    except TypeMismatchError as error:
        raise TypeMismatchError(
            f"join key {pair.left_name!r} is {type_name(types[0])}, {pair.right_name!r} is "
            f"{type_name(types[1])}; cast one of them"
        ) from error


def output_names(left: pa.Schema, right: pa.Schema, pairs: list[Pair]) -> dict[tuple[int, str], str]:
    """The output name of every (side, column): a shared key appears once, a clash on the right gets a prefix."""
    names = {(0, n): n for n in left.names}
    shared = {p.right_name for p in pairs if p.once}
    for n in right.names:
        if n in shared:
            continue
        name = n if n not in left.names else f"right.{n}"
        if name in names.values():
            raise SchemaError(f"the join would have two columns called {name!r}; select or rename on one side first")
        names[1, n] = name
    return names
