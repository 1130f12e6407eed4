"""Bounds for the rows of collections, by what is known of the sources."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

import altneu as an
from altneu import sql
from altneu.plan.rewrite import Sizes

A = an.source("a", "x int, y int")
B = an.source("b", "y int NOT NULL, z int")
KEYED = an.source("k", "z int NOT NULL, w int", key="z")
COLLECTIONS = {
    "source": A,
    "filter": A.filter("x > 1"),
    "columns": A.select(p="y", q="x + 1", r="y"),
    "join": A.join(B, on="y"),
    "join of renamed columns": A.select(v="y", x="x").join(B, on={"v": "y"}),
    "join on two columns": A.join(B, on={"x": "z", "y": "y"}),
    "join with a key": B.join(KEYED, on="z"),
    "chain": A.join(B, on="y").join(KEYED, on="z"),
    "pairs of all rows": sql.query("SELECT x, z FROM a, b", {"a": A, "b": B}),
    "pairs of all rows, joined": sql.query("SELECT x, z FROM a, b", {"a": A, "b": B}).join(KEYED, on="z"),
    "self-join": A.join(A, on={"x": "y"}).select(x="x", y="y", z="`right.x`"),
    "groups": A.group_by("y").agg(n="count(*)"),
    "all": A.group_by().agg(n="count(*)", m="max(x)"),
    "groups joined": A.group_by("y").agg(n="count(*)").join(B, on="y"),
    "sum": A.concat(A.select("x", y="y + 1")),
    "outer join": A.join(B, on="y", how="left"),
    "series": A.generate_series("0", "x"),
    "distinct": A.distinct(),
}
VALUES = st.integers(0, 3)
ROWS = st.lists(st.tuples(VALUES | st.none(), VALUES | st.none()), max_size=9)


class OfRows:
    """Sizes of sources of which the rows are there."""

    def __init__(self, rows):
        self.of = rows

    def rows(self, source):
        return len(self.of[source.name])

    def repeats(self, source, columns):
        places = [source.schema.names.index(c) for c in columns]
        return most([tuple(row[i] for i in places) for row in self.of[source.name]])


def most(keys):
    return max(Counter(key for key in keys if None not in key).values(), default=0)


@given(
    ROWS,
    st.lists(st.tuples(VALUES, VALUES | st.none()), max_size=9),
    st.dictionaries(VALUES, VALUES, max_size=4),
    st.booleans(),
)
def test_no_collection_has_more_rows_than_its_bound(a, b, k, thorough):
    rows = {"a": a, "b": b, "k": [*k.items()]}
    known = 0
    with an.Session() as session:
        for name, collection in COLLECTIONS.items():
            session.maintain(name, collection)
        for name, some in rows.items():
            session.insert(name, some)
        session.advance()
        for name, collection in COLLECTIONS.items():
            sizes, there = Sizes(OfRows(rows), thorough=thorough), session.view(name).to_pylist()
            bound, columns = sizes.rows(collection.node), collection.node.schema.names
            known += bound is not None
            assert bound is None or len(there) <= max(bound, 1), name
            for i, column in enumerate(columns):
                repeats = sizes.repeats(collection.node, (column,))
                assert repeats is None or most([(row[i],) for row in there]) <= repeats, (name, column)
    assert known == 14


def test_what_joins_along_keys_is_no_more_than_the_side_that_has_them():
    rows = {"b": [(i, i % 7) for i in range(100)], "k": [(i, i) for i in range(7)]}
    sizes = Sizes(OfRows(rows))
    assert sizes.rows(COLLECTIONS["join with a key"].node) == 100
    assert sizes.repeats(COLLECTIONS["join with a key"].node, ("y",)) == 1
    assert sizes.repeats(COLLECTIONS["join with a key"].node, ("w",)) == 15
