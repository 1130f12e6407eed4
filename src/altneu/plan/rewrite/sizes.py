"""How many rows collections have at most, by what is known of the sources' rows: what a choice between plans goes by.

A join has at most as many rows as one side times the most rows of the other side that are equal in the key: where one
side has each key once, no more than the other side has.
"""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from altneu.linear.steps import Extend, Filter, Project, Temporal
from altneu.operators.source.node import Source
from altneu.plan.ir import Aggregates, Concat, Join, Linear, Node, Reduce, ordered
from altneu.plan.rewrite.transform import handed_on_by

Names = tuple[str, ...]
_ONE_BY_ONE = (Filter, Temporal, Project, Extend)
"""Steps that make at most one row of each."""
_VARIABLE_BYTES = 16
"""What a value whose size varies counts as."""


class SourceSizes(Protocol):
    """What is known of the rows of sources; None where nothing is."""

    def rows(self, source: Source) -> int | None:
        """How many rows a source has."""

    def repeats(self, source: Source, columns: Names) -> int | None:
        """The most rows of a source that are equal in some columns."""


class Sizes:
    """Bounds for the collections of plans; what is found out about a source is asked once, and not before it matters.

    With ``thorough=False`` of a join only the keys of the smaller side are asked for.

    Law:    no collection has more rows than its bound (tests/laws/test_sizes.py).
    """

    def __init__(self, sources: SourceSizes, *, thorough: bool = True) -> None:
        self.sources, self._thorough = sources, thorough
        self._rows: dict[str, int | None] = {}
        self._repeats: dict[tuple[str, Names], int | None] = {}

    def rows(self, node: Node) -> int | None:
        """How many rows a collection has at most; None where that is not known."""
        if node.fingerprint not in self._rows:
            known = self._rows
            for below in ordered(node, key=lambda n: n.fingerprint, without=lambda n: n.fingerprint in known):
                known[below.fingerprint] = self._rows_of(below)
        return self._rows[node.fingerprint]

    def bytes(self, node: Node) -> int | None:
        """How many bytes the values of a collection take at most, roughly: a text counts as 16."""
        rows = self.rows(node)
        return None if rows is None else rows * sum(map(_width, node.schema))

    def repeats(self, node: Node, columns: Names) -> int | None:
        """How many rows of a collection are equal in some columns at most; None where that is not known."""
        at = node.fingerprint, columns
        if at not in self._repeats:
            found = self._repeats_of(node, columns)
            rows = self.rows(node)
            self._repeats[at] = rows if found is None else found if rows is None else min(found, rows)
        return self._repeats[at]

    def _rows_of(self, node: Node) -> int | None:
        match node:
            case Source():
                return self.sources.rows(node)
            case Linear() if is_one_by_one(node):
                return self._rows[node.input.fingerprint]
            case Reduce(reducer=Aggregates()):
                return self._rows[node.input.fingerprint]
            case Concat():
                return _added([self._rows[below.fingerprint] for below in node.inputs])
            case Join():
                return self._rows_of_join(node)
        return None

    def _rows_of_join(self, node: Join) -> int | None:
        """The smaller side is asked first: if it has each key once, the other is not asked."""
        left, right = self._rows[node.left.fingerprint], self._rows[node.right.fingerprint]
        if left is None or right is None:
            return None
        most = left * right
        sides = [(right, node.right, node.right_key, left), (left, node.left, node.left_key, right)]
        for _, side, key, others in sorted(sides, key=lambda s: s[0]):
            repeats = self.repeats(side, key)
            most = most if repeats is None else min(most, others * repeats)
            if repeats == 1 or not self._thorough:
                break
        return most

    def _repeats_of(self, node: Node, columns: Names) -> int | None:
        match node:
            case Source():
                return 1 if node.key and {*node.key} <= {*columns} else self.sources.repeats(node, columns)
            case Linear() if is_one_by_one(node):
                names = handed_on_by(node)
                same = tuple(dict.fromkeys(names[c] for c in columns if c in names))
                return self.repeats(node.input, same) if same else None
            case Reduce(reducer=Aggregates()) if {*node.key} <= {*columns}:
                return 1
            case Concat():
                return _added([self.repeats(below, columns) for below in node.inputs])
            case Join():
                return self._repeats_of_join(node, columns)
        return None

    def _repeats_of_join(self, node: Join, columns: Names) -> int | None:
        """Rows equal in columns of one side: so many rows of it at most, each with its partners on the other."""
        found = {name: (side, column) for name, side, column in node.outputs}
        most: int | None = None
        for at, side, other, key in (
            (0, node.left, node.right, node.right_key),
            (1, node.right, node.left, node.left_key),
        ):
            own = tuple(dict.fromkeys(column for n in columns for s, column in [found[n]] if s == at))
            if own and most != 1:
                equal, partners = self.repeats(side, own), self.repeats(other, key)
                if equal is not None and partners is not None:
                    most = equal * partners if most is None else min(most, equal * partners)
        return most


def is_one_by_one(node: Linear) -> bool:
    """Whether logic makes at most one row of each."""
    return all(isinstance(step, _ONE_BY_ONE) for step in node.logic.steps)


def _added(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _width(field: pa.Field) -> int:
    try:
        return max(field.type.bit_width // 8, 1)
    except ValueError:
        return _VARIABLE_BYTES
