"""Functions of groups whose best rows only improve keep these rows, and not the groups."""

from __future__ import annotations

from dataclasses import replace

from altneu.plan.improving import improving
from altneu.plan.ir import Node, Reduce, Source, walk
from altneu.plan.rewrite.transform import transform


def keep_best(node: Node) -> Node:
    """Mark the reduces that need no more than the best rows of their groups, which only improve.

    It does so where sources are append-only. What other rules make of the plan is looked at again.
    """
    sources = [below for below in walk(node) if isinstance(below, Source)]
    if not any(source.append_only for source in sources):
        return node
    marked = improving(node)

    def change(new: Node, old: Node) -> Node:
        if not isinstance(new, Reduce) or new.keeps_best == (old.fingerprint in marked):
            return new
        return replace(new, keeps_best=not new.keeps_best)

    return transform(node, change)
