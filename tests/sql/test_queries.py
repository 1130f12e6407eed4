"""What SQL queries mean: at every step what Spark gives for the same text over the same rows."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

import altneu as an
from altneu.sql import query
from tests.interpreted import interpreted
from tests.lane import some_of
from tests.sql.queries import ALL, IN_VALUES, TABLES, steps

SOURCES = {name: an.source(name, columns, keep=True) for name, columns in TABLES.items()}


def canonical(value):
    if isinstance(value, list | tuple):
        return tuple(canonical(v) for v in value)
    if isinstance(value, dict):
        return tuple(sorted((k, canonical(v)) for k, v in value.items()))
    return value


def counted(rows):
    return Counter(tuple(canonical(v) for v in row) for row in rows)


class InSpark:
    """The tables as they are, in Spark."""

    def __init__(self, spark):
        self.spark = spark

    def set(self, tables):
        for name, rows in tables.items():
            frame = self.spark.createDataFrame(rows, TABLES[name]).coalesce(1).cache()
            frame.createOrReplaceTempView(name)

    def answer(self, text):
        with interpreted(self.spark):
            return counted(map(tuple, self.spark.sql(text).collect()))


TEXTS = [*ALL, *IN_VALUES]


@cache
def collection(text):
    return query(text, SOURCES)


def run(session, history, texts=TEXTS):
    """Views of all queries, or of some; after each step what each shows."""
    views = {text: session.maintain(text, collection(text)) for text in texts}
    for name, source in SOURCES.items():
        session.maintain(f"all of {name}", source)
    for changes, tables in history:
        for name, came, gone in changes:
            session.insert(name, came)
            session.retract(name, gone)
        session.advance()
        yield tables, {text: counted(view.to_pylist()) for text, view in views.items()}


@pytest.fixture(scope="module")
def history():
    return steps(7, 4)


@pytest.fixture(scope="module")
def in_spark(spark, history):
    """Spark with the tables of the last step."""
    there = InSpark(spark)
    there.set(history[-1][1])
    return there


@pytest.fixture(scope="module")
def shown(history):
    with an.Session() as session:
        return [views for _, views in run(session, history)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", ALL)
def test_a_query_shows_what_spark_gives(text, in_spark, shown):
    assert shown[-1][text] == in_spark.answer(text)


def test_after_each_step_as_from_scratch(history, shown):
    for (_, tables), found in zip(history[1::2], shown[1::2], strict=True):
        anew = {}
        for texts in batched(TEXTS, 8):  # few views each: another one plans those that are there again
            with an.Session() as session:
                anew |= next(views for _, views in run(session, [at_once(tables)], texts))
        assert anew == found


def batched(items, size):
    return [items[i : i + size] for i in range(0, len(items), size)]


def test_on_spark_as_in_the_driver(spark, history, shown):
    with an.Session(spark, placement="spark", shards=2) as session:
        *_, (_, last) = run(session, history[:2], some_of(TEXTS, 3))
    assert last == {text: shown[1][text] for text in last}


def test_in_as_a_value_is_null_where_it_is_unknown(shown, history):
    """As the standard has it; Spark says false there, though not in WHERE."""
    tables = history[-1][1]
    for text, among in IN_VALUES.items():
        keys = [row[0] for row in tables["u"] if among(row[0])]
        wanted = Counter((b, True if a in keys and a is not None else unknown(a, keys)) for a, b, *_ in tables["t"])
        assert shown[-1][text] == wanted


def unknown(a, keys):
    return None if keys and (a is None or None in keys) else False


def at_once(tables):
    """A step that brings tables as they are."""
    return [(name, rows, []) for name, rows in tables.items()], tables
