"""A distinct of a sum makes distincts of its parts superfluous."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from altneu.plan.ir import Concat, Distinct, Node, Reduce
from altneu.plan.rewrite.transform import readers, transform


def merge_distinct(node: Node) -> Node:
    """Leave out each distinct that only the sum below another distinct reads: one arrangement counts all parts.

    So it is with ``a UNION b UNION c``. A row that a part has a negative number of times was an error of that part's
    own distinct; now it counts against what the other parts have of it.
    """
    counts = readers(node)
    return transform(node, lambda new, old: _merged(new, old, counts))


def _merged(new: Node, old: Node, counts: Counter[str]) -> Node:
    match new, old:
        case Reduce(Concat(parts) as sum_, _, Distinct()), Reduce(Concat(before), _, Distinct()):
            alone = counts[old.input.fingerprint] == 1
            merged = tuple(
                below
                for part, was in zip(parts, before, strict=True)
                for below in _parts(part, alone and counts[was.fingerprint] == 1)
            )
            return new if merged == parts else replace(new, input=replace(sum_, parts=merged))
        case _:
            return new


def _parts(part: Node, alone: bool) -> tuple[Node, ...]:
    """What a part of the sum is a distinct of, if nothing else reads it; a sum as its parts."""
    if not (alone and isinstance(part, Reduce) and isinstance(part.reducer, Distinct)):
        return (part,)
    below = part.input
    return below.parts if isinstance(below, Concat) else (below,)
