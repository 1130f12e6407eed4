"""Groups that are read from an arrangement of more columns, or in a longer order, than their function asks for.

A function asks for the rows of a group in an order, with ties decided by all columns in turn. Let Y be a collection of
which its input X is some columns. If the order in which Y lies begins with the one that is asked for, down to the last
tie, then Y's rows in order are X's rows in order once the other columns are left out. So the first k rows of X, those
that are r rows from a place, and those at some fraction of the way are the columns of such rows of Y. What is read of Y
for what is new in Y (``needed``) is then enough, and it is as many rows as of X at most: k and r count copies.

A function whose result is the same for rows that are equal in its order, such as a rank, may need all of these rows,
and Y may have many of them where X has one. A function that reads everything behind a row has the same problem. Such
functions share only an arrangement that has the same columns.

X may have no count below zero where Y has one. Groups in which Y has one are read whole; that is only dearer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from altneu.columnar.ranking import Order
from altneu.linear import Project
from altneu.operators.linear.node import Linear
from altneu.operators.node import Key, Node
from altneu.operators.reduce.calls import Aggregate
from altneu.operators.reduce.node import Around, Ends, Needed, Part, Quantiles, Reduce, Suffix
from altneu.operators.reduce.reducers import Aggregates, WindowFunctions


@dataclass(frozen=True)
class Asked:
    """Some columns of a reduce's input, in an order within each group, of which some rows are ``needed``.

    With ``ties`` it matters how rows lie that are equal in the order.
    """

    columns: tuple[str, ...]
    order: tuple[Order, ...]
    needed: Needed
    ties: bool = True

    def needed_in(
        self, names: Mapping[str, str], key: Key, schema: pa.Schema, order: tuple[Order, ...]
    ) -> Needed | None:
        """Which rows it needs of an arrangement of ``schema`` by the key, in another order; None where it cannot tell.

        ``names`` are those of the input's columns there; the result is in the input's.
        """
        if not names.keys() >= {*self.columns} or any(names.get(name) != name for name in key):
            return None  # a column of the key may have the name that another one has there
        whole = _ranks(order, schema.names, key)
        asked = [(names[name], *how) for name, *how in _ranks(self.order, self.columns if self.ties else (), key)]
        asked = list(dict.fromkeys(asked))
        back = [(name, not descending, not nulls_first) for name, descending, nulls_first in asked]
        if whole[: len(asked)] == asked:
            needed: Needed | None = self.needed
        else:
            needed = _turned(self.needed) if whole[: len(asked)] == back else None
        with_ties = _with_ties(needed)
        if isinstance(needed, Ends | Around | Quantiles) and not with_ties:
            return needed
        if with_ties and len(asked) < len([line for line in order if line[0] not in key]):
            return None  # not all rows that are equal in its order are so in the longer one
        same = {names[name] for name in self.columns} == {name for name in schema.names if name not in key}
        return needed if same else None


def _with_ties(needed: Needed | None) -> bool:
    """Whether all rows are read that are equal in the order to some."""
    if isinstance(needed, Suffix):
        needed = needed.beside
    return isinstance(needed, Ends | Around) and needed.with_ties


def _turned(needed: Needed) -> Needed | None:
    """What to read in the reverse order for the same rows; None for functions that cannot be read that way."""
    if isinstance(needed, Ends) and not needed.with_ties:
        return replace(needed, first=needed.last, last=needed.first, nulls_last=needed.valued)
    return needed if isinstance(needed, Around) else None


def _ranks(order: Sequence[Order], columns: Sequence[str], key: Key) -> list[Order]:
    """By what rows of one group are sorted if the columns behind the order decide ties, each once."""
    named = {name for name, _, _ in order}
    rest = [(name, False, True) for name in columns if name not in named]
    return [line for line in (*order, *rest) if line[0] not in key]


def asked_of(node: Reduce) -> list[Asked]:
    """What a reduce asks for that may lie in another arrangement as well."""
    schema, key, reducer = node.input.schema, node.key, node.reducer
    if node.keeps_best:
        return []
    if not reducer.parts:
        order, needed = reducer.state_order(schema, key), reducer.needed(schema, key)
        if not order or (isinstance(needed, Suffix) and needed.peers):
            return []
        ties = not isinstance(reducer, WindowFunctions) or reducer.reads_ties
        return [Asked(tuple(name for name in schema.names if name not in key), order, needed, ties)]
    assert isinstance(reducer, Aggregates)
    parts = [part for part in reducer.parts if part.state in ("ends", "quantiles")]
    return [asked_of_part(node, part, tuple(reducer.calls[place] for place in part.places)) for part in parts]


def asked_of_part(node: Reduce, part: Part, calls: tuple[Aggregate, ...]) -> Asked:
    """What aggregates ask for that are computed from the values of a column in its order."""
    some, schema = Aggregates(calls, ordered=True), node.input.schema
    return Asked(part.columns, some.state_order(schema, node.key), some.needed(schema, node.key))


def kept_columns(node: Reduce) -> tuple[Node, Mapping[str, str]]:
    """The collection in whose orders a reduce reads, and what its input's columns are called there."""
    narrow = node.input
    assert isinstance(narrow, Linear)
    (project,) = narrow.logic.steps
    assert isinstance(project, Project)
    return narrow.input, {name: one.column_name for name, one in project.outputs if one.is_column}
