"""What tests of functions that see their own output share with other tests."""

from __future__ import annotations

import altneu as an
from altneu import Collection

LEFT = an.source("left", "trial int, k long, a long", keep=True)
RIGHT = an.source("right", "trial int, k long, b string", keep=True)
KEY = ["trial", "k"]


def total(key, changes, group):
    """The sum of the values and their number, by what changes alone: the same however the group came to be."""
    old = group.output[0][0] if group.output else None
    value = (old.total if old else 0) + sum((row.a or 0) * diff for row, diff in changes)
    many = (old.many if old else 0) + sum(diff for _, diff in changes)
    yield from ((row, -count) for row, count in group.output)
    yield (value, many), 1


def extremes(key, changes, group):
    """The greatest value by the order, and how often it is there: reads one row of the group."""
    row, _ = next(iter(group))
    yield from ((old, -count) for old, count in group.output)
    yield {"a": row.a, "many": group.count({"a": row.a})}, 1


def within(key, changes, group):
    """How many there are of values below 2 and from 0 on, descending."""
    yield from ((old, -count) for old, count in group.output)
    yield (sum(n for _, n in group.rows(start=1, stop=-1)),), 1


def ever(key, changes, group):
    """Each value that was ever there since the group has rows: depends on what was."""
    known = {row.a for row, _ in group.output}
    for row, diff in changes:
        if diff > 0 and row.a not in known:
            known.add(row.a)
            yield (row.a,), 1


def times(key, changes, group):
    """How often the group has changed, twice each."""
    yield (float("nan") if len(changes) > 1 else 0.5, None), 2


def picky(key, changes, group):
    """Fails where there is a 2, and counts its calls otherwise."""
    if any(row.a == 2 for row, _ in group):
        raise ValueError("two")
    yield (len(changes),), 1


def plans() -> dict[str, Collection]:
    """By name."""
    some = LEFT.group_by(*KEY)
    totals = some.reduce_core(total, "total long, many long")
    return {
        "total": totals,
        "extremes": some.reduce_core(extremes, "a long, many long", order="a desc"),
        "within": some.reduce_core(within, "many long", order="a desc nulls last"),
        "ever": some.reduce_core(ever, "a long"),
        "times": some.reduce_core(times, "x double, y string"),
        "fails": some.reduce_core(picky, "n int"),
        "of all": LEFT.group_by().reduce_core(ever, "a long"),
        "of an expression": LEFT.group_by("trial", odd="a % 2").reduce_core(ever, "a long"),
        "of a join": LEFT.join(RIGHT, on=KEY).group_by("trial").reduce_core(total, "total long, many long"),
        "below a join": totals.join(RIGHT, on=KEY),
        "filtered after": totals.filter("k = 1 and total > 1").select("trial", x="6 div (total - 3)"),
        "grouped after": some.reduce_core(ever, "a long").group_by("trial").agg(n="count(*)", m="max(a)"),
        "one above another": totals.group_by("trial").reduce_core(seen, "total long"),
        "beside a loop": some.reduce_core(ever, "a long")
        .select("trial", "a")
        .iterate(lambda x: x.concat(x.select("trial", a="least(a + 1, 3)")).distinct()),
        "of what comes and goes by itself": LEFT.filter("logical_now() >= a * 3")
        .group_by("trial")
        .reduce_core(ever, "a long"),
    }


def seen(key, changes, group):
    """Each total that was ever there."""
    known = {row.total for row, _ in group.output}
    for row, diff in changes:
        if diff > 0 and row.total not in known:
            known.add(row.total)
            yield (row.total,), 1


PLANS = plans()
EQUAL = {  # what does not depend on how groups came to be, and a plan without reduce_core that is the same
    "total": LEFT.group_by(*KEY).reduce(
        lambda _, rows: [(sum((r.a or 0) * n for r, n in rows), sum(n for _, n in rows))], "total long, many long"
    ),
    "extremes": LEFT.group_by(*KEY).reduce(
        lambda _, rows: [max((r.a is not None, r.a, n) for r, n in rows)[1:]], "a long, many long"
    ),
}
