"""Which objects a variable of a program may point to, whatever the order in which its statements run.

The rules are those at the core of Doop and of Graspan's pointer analysis: inclusion-based, with fields of objects, and
without contexts. ``x = new T()`` makes an object, named by the place where it is made.

Source: Andersen, Program Analysis and Specialization for the C Programming Language, 1994; Bravenboer, Smaragdakis,
        Strictly Declarative Specification of Sophisticated Points-to Analyses, OOPSLA 2009.
"""

from __future__ import annotations

import altneu as an

NEWS = an.source("news", "var string, object string")  # var = new object
MOVES = an.source("moves", "target string, var string")  # target = var
LOADS = an.source("loads", "target string, base string, field string")  # target = base.field
STORES = an.source("stores", "base string, field string, var string")  # base.field = var


def points_to(
    news: an.Collection = NEWS,
    moves: an.Collection = MOVES,
    loads: an.Collection = LOADS,
    stores: an.Collection = STORES,
) -> tuple[an.Collection, an.Collection]:
    """The objects that each variable may point to, and those that each field of an object may.

    Shape:  ``var, object`` and ``object, field, value``, each row once.
    Cost:   the rows that an edit derives or that lose their last derivation, and the statements that they meet.
    """

    def rules(points: an.Collection, heap: an.Collection) -> tuple[an.Collection, an.Collection]:
        moved = points.join(moves, on="var").select(var="target", object="object")
        bases = points.join(loads, on={"var": "base"}).select("object", "field", var="target")
        loaded = bases.join(heap, on=["object", "field"]).select("var", object="value")
        written = points.join(stores, on={"var": "base"}).select("object", "field", var="`right.var`")
        stored = written.join(points, on="var").select("object", "field", value="`right.object`")
        return news.concat(moved).concat(loaded).distinct(), stored.distinct()

    nothing = stores.select(object="var", field="field", value="var").filter("false")
    points, heap = an.recursive(rules, points=news.filter("false"), heap=nothing)
    return points, heap
