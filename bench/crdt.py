"""A document that many edit (a tree of insertions, with removals), and its text as a recursive query.

``trace`` makes one up: runs of typing, each character the child of the one before it, and runs of deleting. Such a tree
is as deep as a run is long, and a removed run is a gap as wide, so that the loops over both take thousands of rounds.
``read`` takes one from two files, ``insert.txt`` and ``remove.txt``: counter and node of an element, and of its parent.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import altneu as an

Element = tuple[int, int]
Insert = tuple[int, int, int, int]
ROOT = (0, 0)
INSERTED = an.source("inserted", "ctr bigint, node bigint, parent_ctr bigint, parent_node bigint")
REMOVED = an.source("removed", "ctr bigint, node bigint")
QUERY = """
WITH MUTUALLY RECURSIVE
    element (id bigint, parent bigint) AS (SELECT ctr * 16 + node, parent_ctr * 16 + parent_node FROM inserted),
    visible (id bigint) AS (SELECT id FROM element EXCEPT SELECT ctr * 16 + node FROM removed),
    sibling (id bigint, parent bigint, next bigint) AS (
        SELECT id, parent, lead(id) OVER (PARTITION BY parent ORDER BY id DESC) FROM element
    ),
    first_child (id bigint, next bigint) AS (SELECT parent, max(id) FROM element GROUP BY parent),
    next_sibling (id bigint, next bigint) AS (
        SELECT id, next FROM sibling WHERE next IS NOT NULL
        UNION ALL
        SELECT s.id, n.next FROM sibling s JOIN next_sibling n ON n.id = s.parent WHERE s.next IS NULL
    ),
    next_element (id bigint, next bigint) AS (
        SELECT id, next FROM first_child
        UNION ALL
        SELECT n.id, n.next FROM next_sibling n WHERE NOT EXISTS (SELECT 1 FROM first_child f WHERE f.id = n.id)
    ),
    next_visible (id bigint, next bigint) AS (
        SELECT e.id, e.next FROM next_element e JOIN visible v ON v.id = e.next
        UNION ALL
        SELECT e.id, n.next FROM next_element e JOIN next_visible n ON n.id = e.next
        WHERE NOT EXISTS (SELECT 1 FROM visible v WHERE v.id = e.next)
    )
SELECT n.id, n.next FROM next_visible n JOIN visible v ON v.id = n.id
"""


def trace(edits: int, run: int, seed: int = 0) -> tuple[list[Insert], list[Element]]:
    """So many edits, in runs of up to ``run``, a third of them removals."""
    rng, text, inserts, removals = random.Random(seed), [ROOT], list[Insert](), list[Element]()
    while len(inserts) + len(removals) < edits:
        node, length, at = rng.randrange(4), rng.randint(1, run), rng.randrange(len(text))
        if rng.random() < 1 / 3:
            removed = text[max(at, 1) : at + length]
            del text[max(at, 1) : at + length]
            removals += removed
            continue
        for _ in range(length):
            element = (len(inserts) + 1, node)
            inserts.append((*element, *text[at]))
            at += 1
            text.insert(at, element)
    return inserts, removals


def read(folder: Path, most: int | None = None) -> tuple[list[Insert], list[Element]]:
    """The first so many insertions of a trace, in the order of their counters, and the removals of what they insert."""
    inserts = sorted(_rows(folder / "insert.txt"))[:most]
    there = {row[:2] for row in inserts}
    return inserts, [row for row in _rows(folder / "remove.txt") if row in there]  # type: ignore[misc]


def _rows(path: Path) -> list[tuple[int, ...]]:
    return [tuple(map(int, line.split())) for line in path.read_text().splitlines()]


def answer(inserts: Iterable[Insert], removals: Iterable[Element]) -> list[tuple[int, int]]:
    """The pairs of neighbours in the text, by walking through the tree."""
    children: dict[Element, list[Element]] = {}
    for ctr, node, *parent in inserts:
        children.setdefault((parent[0], parent[1]), []).append((ctr, node))
    removed, text, left = set(removals), list[int](), sorted(children.get(ROOT, ()))
    while left:
        element = left.pop()
        left += sorted(children.get(element, ()))
        if element not in removed:
            text.append(element[0] * 16 + element[1])
    return sorted(pairwise(text))
