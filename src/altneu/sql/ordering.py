"""ORDER BY: the keys that a SELECT computes beside its outputs, and the keys of the plan."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from altneu.columnar.rows import Rows
from altneu.errors import PlanError
from altneu.expressions import has_window, parse
from altneu.sql.parentheses import opened
from altneu.sql.scope import Scope, bound, is_bound
from altneu.sql.sets import FUNCTIONS
from altneu.sql.trees import has_aggregate, has_subquery, unaliased

SHOWN = "shown"
"""The key of a query tree's ``meta`` for one whose rows are shown in its order; a collection has no order."""


CHOSEN = "chosen"
"""The key of a query tree's ``meta``: whoever binds it wants its order too, also that of the rows its LIMIT chooses."""


OWN = "own"
"""The key of a query tree's ``meta``: its own ORDER BY counts, the order of the query in its FROM does not."""


def counts(tree: exp.Expr) -> bool:
    """Whether the order of a query makes a difference."""
    return bool(tree.args.get("limit") or tree.args.get("offset") or tree.meta.get(SHOWN))


def count_of(clause: exp.Expr | None, word: str) -> int | None:
    """The number of a LIMIT or OFFSET, an expression without columns; None where there is none, or ALL.

    Raises:
        PlanError: it is no whole number from 0 on.
    """
    if clause is None:
        return None
    tree = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.expression
    if not isinstance(tree, exp.Expr):
        raise PlanError(f"{word} needs a whole number")
    if isinstance(tree, exp.Column | exp.Var) and tree.name.lower() == "all":
        return None
    if isinstance(tree, exp.Literal) and tree.name.isdigit() and not tree.is_string:
        return int(tree.name)
    error = PlanError(f"{word} needs a whole number, not `{tree.sql('spark')}`")
    if tree.find(exp.Column, exp.Query) is not None:
        raise error
    nothing = pa.schema([])
    value = parse(tree, nothing)
    found = value.evaluate(Rows(nothing, (), 1)) if pa.types.is_integer(value.type) else None
    number = None if found is None or found.failed is not None else found.values[0].as_py()
    if number is None or number < 0:
        raise error
    return int(number)


def takes_order(tree: exp.Select) -> bool:
    """Whether the rows of a SELECT without ORDER BY are in the order of the only query in its FROM, and that counts."""
    clauses = ("order", "group", "having", "distinct", "qualify", "joins", "laterals")
    plain = counts(tree) and not tree.meta.get(OWN) and not any(tree.args.get(clause) for clause in clauses)
    return plain and not any(has_aggregate(item) or has_window(item) for item in tree.expressions)


def inherited(tree: exp.Select, order: Sequence[tuple[str, bool, bool]]) -> None:
    """Give a SELECT, in place, the order of the query in its FROM."""
    if order and takes_order(tree):
        keys = [exp.Ordered(this=bound(name), desc=down, nulls_first=first) for name, down, first in order]
        tree.set("order", exp.Order(expressions=keys))


def with_named_order(tree: exp.Select) -> exp.Select:
    """A SELECT, changed in place: in its FROM is the query of a name of its WITH, if only the order of that is read."""
    clause, first = tree.args.get("with_"), tree.args.get("from_")
    table = first.this if first else None
    if clause is None or not isinstance(table, exp.Table) or not takes_order(tree):
        return tree
    names = [cte.alias.lower() for cte in clause.expressions]
    if table.name.lower() not in names or any(v for k, v in table.args.items() if k not in ("this", "alias")):
        return tree
    place = names.index(table.name.lower())
    cte = clause.expressions[place]
    query = opened(cte.this)
    later = {t.name.lower() for t in query.find_all(exp.Table) if not t.db} & {*names[place:]}
    if query.args.get("order") and not later:  # names mean the same there
        columns = table.alias_column_names or cte.alias_column_names
        alias = exp.TableAlias(
            this=exp.to_identifier(table.alias_or_name, quoted=True),
            columns=[exp.to_identifier(column, quoted=True) for column in columns],
        )
        tree.set("from_", exp.From(this=exp.Subquery(this=query.copy(), alias=alias)))
    return tree


def is_distinct(tree: exp.Select) -> bool:
    """Whether a SELECT shows its rows once: with DISTINCT ON it shows the first ones of some keys."""
    clause = tree.args.get("distinct")
    return clause is not None and not clause.args.get("on")


def first_of_keys(tree: exp.Select, outputs: Sequence[tuple[str, exp.Expr]]) -> list[exp.Expr]:
    """What ``SELECT DISTINCT ON (...)`` asks of rows: to be the first with their keys, in the order of the query.

    Keys are written as in ORDER BY: as expressions, or names or numbers of outputs.

    Raises:
        PlanError: the order does not begin with the keys, or a number is not that of an output.
    """
    clause = tree.args.get("distinct")
    if clause is None or not clause.args.get("on"):
        return []

    def read(key: exp.Expr) -> exp.Expr:
        if isinstance(key, exp.Literal) and not key.is_string:
            place = int(key.name) if key.name.isdigit() else 0
            if not 1 <= place <= len(outputs):
                raise PlanError(f"SELECT DISTINCT ON: {key.name} must be the number of an output, 1 to {len(outputs)}")
            return outputs[place - 1][1].copy().unnest()
        return unaliased(key.copy(), outputs, lambda _: False).unnest().transform(_without_parentheses)

    keys = [read(key) for key in clause.args["on"].expressions]
    order = [key.copy() for key in tree.args["order"].expressions] if tree.args.get("order") else []
    for key in order:
        key.set("this", read(key.this))
    other = next((key.this for key in order[: len({*keys})] if key.this not in keys), None)
    if other is not None:
        raise PlanError(
            f"SELECT DISTINCT ON: ORDER BY must begin with the keys, got `{other.sql('spark')}`; write "
            f"ORDER BY {', '.join(key.sql('spark') for key in keys)} and then what decides which row is the first"
        )
    order = order or [exp.Ordered(this=key.copy(), desc=False, nulls_first=True) for key in keys]
    number = exp.Window(
        this=exp.Anonymous(this="row_number"), partition_by=keys, order=exp.Order(expressions=order), over="OVER"
    )
    return [exp.EQ(this=number, expression=exp.Literal.number(1))]


def _without_parentheses(node: exp.Expr) -> exp.Expr:
    """A column as it would be written: one that stands for an output is in parentheses."""
    return node.this if isinstance(node, exp.Paren) and isinstance(node.this, exp.Column) else node


def computed_keys(
    tree: exp.Select, outputs: Sequence[tuple[str, exp.Expr]], *, groups: bool
) -> list[tuple[exp.Ordered, exp.Expr]]:
    """The keys of a SELECT that are computed as its outputs are, each with its expression over what FROM gives.

    These are aggregates, windows, subqueries, and over groups all keys that do not read outputs alone. A key that is an
    output, as it is written there, becomes the number of that.

    Raises:
        PlanError: SELECT DISTINCT does not show it.
    """
    order = tree.args.get("order")
    computed = []
    for key in order.expressions if order and counts(tree) else []:
        this = key.this
        place = _place(this, outputs)
        if place is not None:
            key.set("this", exp.Literal.number(place + 1))
        elif not _of_outputs(this, outputs) and (
            groups or has_aggregate(this) or has_window(this) or has_subquery(this)
        ):
            if is_distinct(tree):
                raise _not_shown(this)
            computed.append((key, unaliased(this, outputs, lambda _: False)))
    return computed


def check_names(order: exp.Order | None, scope: Scope) -> None:
    """Refuse ORDER BY an unknown column in a query whose order has no effect.

    Raises:
        UnknownColumnError: neither the outputs nor what FROM gives has it.
    """
    for key in order.expressions if order else []:
        if not has_subquery(key.this) and not has_window(key.this):
            scope.resolve(key.this.copy())


def all_of_them(order: exp.Order | None, items: Sequence[str]) -> None:
    """``ORDER BY ALL`` is by all outputs from left to right, unless one of them has that name."""
    if order is None or len(order.expressions) != 1:
        return
    key = order.expressions[0]
    name = key.this
    if not isinstance(name, exp.Column) or name.sql("spark").upper() != "ALL" or "all" in map(str.lower, items):
        return
    keys = []
    for place in range(1, len(items) + 1):
        one = key.copy()
        one.set("this", exp.Literal.number(place))
        keys.append(one)
    order.set("expressions", keys)


def _place(tree: exp.Expr, outputs: Sequence[tuple[str, exp.Expr]]) -> int | None:
    """The output that a key names, or is written like."""
    if isinstance(tree, exp.Column) and not tree.table:
        named = [i for i, (name, _) in enumerate(outputs) if name.lower() == tree.name.lower()]
        if named:  # of several that differ the scope says that they do
            return named[0] if len(named) == 1 else None
    return next((i for i, (_, item) in enumerate(outputs) if item == tree), None)


def _of_outputs(tree: exp.Expr, outputs: Sequence[tuple[str, exp.Expr]]) -> bool:
    """Whether a key is the number of an output, or an expression over outputs."""
    if isinstance(tree, exp.Literal):
        return not tree.is_string
    known = {name.lower() for name, _ in outputs}
    grouping = any(call.name.lower() in FUNCTIONS for call in tree.find_all(exp.Anonymous))
    plain = not has_window(tree) and not has_subquery(tree) and not grouping
    return plain and all(not c.table and c.name.lower() in known for c in tree.find_all(exp.Column))


def key_of(key: exp.Ordered, scope: Scope, outputs: Sequence[str]) -> exp.Ordered:
    """A sort key over the plan; a number is the place of an output.

    Raises:
        PlanError: there is no such output, or the key reads columns that are not available any more.
        UnknownColumnError: it reads an unknown column.
    """
    resolved, value = key.copy(), key.this
    if isinstance(value, exp.Literal) and not value.is_string:
        place = int(value.this) - 1
        if not 0 <= place < len(outputs):
            raise PlanError(f"ORDER BY {value.this}: there are {len(outputs)} columns")
        resolved.set("this", bound(outputs[place]))
        return resolved
    columns = list(value.find_all(exp.Column))
    if columns and all(is_bound(c) for c in columns):
        return resolved
    if has_window(value) or has_subquery(value):
        raise _not_shown(value)
    resolved.set("this", scope.resolve(value))
    return resolved


def _not_shown(tree: exp.Expr) -> PlanError:
    return PlanError(
        f"ORDER BY {tree.sql('spark')}: after a set operation or DISTINCT keys are columns that are shown; "
        "nest the query in FROM"
    )


__all__ = ["CHOSEN", "OWN", "SHOWN", "all_of_them", "check_names", "computed_keys", "count_of", "counts", "key_of"]
