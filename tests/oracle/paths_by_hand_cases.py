"""Joins planned by hand, for tests of what they mean and of what stored views are found by."""

from __future__ import annotations

import altneu as an
from tests.oracle.delta_joins_cases import EDGES, SOURCES, E

LINKS, MARKS = SOURCES["links"], SOURCES["marks"]


def planned(relations, *paths):
    """Paths written ``ab: c by bc ac, bd``: what is after the colon extends, looks up or half joins."""
    made = []
    for text in paths:
        start, _, rest = text.partition(": ")
        path = relations.changes(start)
        for step in rest.split(", "):
            columns, _, names = step.rpartition(" by ")
            if columns:
                path = path.extend(columns.split(), *names.split())
            elif {*relations.columns[names]} <= {*path.columns}:
                path = path.lookup(names)
            else:
                path = path.half_join(names)
        made.append(path)
    return relations.join(*made)


def side(source, a, b, **more):
    first, second = source.columns[1:3]
    return source.select("trial", **{a: first, b: second}, **more)


SIDES = an.Relations(ab=side(E, "a", "b"), bc=side(E, "b", "c"), ac=side(E, "a", "c"))
WEIGHED = an.Relations(
    ab=side(EDGES, "a", "b", w="weight"), bc=side(EDGES, "b", "c", x="weight"), ac=side(EDGES, "a", "c", y="weight")
)
TEXTS = an.Relations(ab=side(LINKS, "a", "b"), bc=side(LINKS, "b", "c"), ac=side(LINKS, "a", "c"))
CHAIN = an.Relations(ab=side(E, "a", "b"), bm=side(MARKS, "b", "m"), bc=side(EDGES, "b", "c", w="weight"))
LABELLED = an.Relations(  # the weights w are equal, and bound by one of two relations that extend together
    ab=side(E, "a", "b"), bc=side(EDGES, "b", "c", w="weight"), ac=side(E, "a", "c"), aw=side(EDGES, "a", "w")
)
APART = an.Relations(bm=MARKS.select(b="node", m="mark"), bc=E.select(c="src", d="dst"), cm=E.select(b="src", c="dst"))
OWN = an.Relations(
    ab=side(E, "a", "b"), bc=side(EDGES, "b", "c", w="weight"), ac=side(EDGES, "a", "c", w="weight")
)  # what two relations have beside what they extend
MAPS = an.source("maps", "m map<string, int>")
PAIR = an.Relations(ab=side(E, "a", "b"), bm=side(MARKS, "b", "m"))
EXTENDED = ("ab: c by bc ac", "bc: a by ab ac", "ac: b by ab bc")


def closing():
    """Edges between the ends of paths of two, until there is nothing to add; one edge of each path from outside."""

    def step(x):
        sides = an.Relations(xy=x.select("trial", a="src", b="dst"), e=side(E, "b", "c"), back=side(E, "c", "a"))
        paths = ("xy: c by e back", "e: a by xy back", "back: e, xy")
        return planned(sides, *paths).select("trial", src="a", dst="c").concat(E).distinct()

    return E.distinct().iterate(step, max_rounds=4, on_limit="stop")


PLANS = {
    "triangles extended": planned(SIDES, *EXTENDED),
    "triangles looked up": planned(SIDES, "ab: bc, ac", "bc: ac, ab", "ac: ab, bc"),
    "paths of both kinds": planned(SIDES, "ab: c by bc ac", "bc: ab, ac", "ac: ab, bc"),
    "columns of their own": planned(WEIGHED, *EXTENDED),
    "columns of their own looked up": planned(WEIGHED, "ab: bc, ac", "bc: ac, ab", "ac: bc, ab"),
    "texts and nulls": planned(TEXTS, *EXTENDED),
    "texts and nulls looked up": planned(TEXTS, "ab: ac, bc", "bc: ab, ac", "ac: bc, ab"),
    "a chain": planned(CHAIN, "ab: bm, bc", "bm: bc, ab", "bc: bm, ab"),
    "an own column that others share": planned(
        LABELLED, "ab: c by bc ac, aw", "bc: a by ab aw, ac", "ac: ab, w by bc aw", "aw: ab, c by bc ac"
    ),
    "a pair": planned(PAIR, "ab: bm", "bm: ab"),
    "logic above": planned(SIDES, *EXTENDED).filter("a <> b and 4 div (c - 1) > 0").select("a", "c"),
    "in a loop": closing(),
}
