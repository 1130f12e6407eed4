"""TPC-H's 22 queries as maintained views: right on load and after every refresh step, on both executors.

Judged by the answers that come with DuckDB's generator, by DuckDB after every step, and by Spark after one step, which
is another one for another query (with ``ALTNEU_EVERY=1`` after every step).
"""

from __future__ import annotations

import os
from itertools import pairwise

import pytest

import altneu as an
from altneu import sql
from bench.tpch import data
from bench.tpch.compare import rows_of, spoken
from tests.lane import EVERY
from tests.tpch.history import History

pytestmark = pytest.mark.skipif(data.extension() is None, reason="duckdb or duckdb-extension-tpch is not installed")

each_query = pytest.mark.parametrize("number", data.QUERIES)
LARGER = float(os.environ.get("ALTNEU_TPCH", "0.1"))  # there are answers for 1, too


@pytest.fixture(scope="module")
def history():
    return History()


@pytest.fixture(scope="module")
def by_spark(history, spark, tmp_path_factory):
    """Spark's own answers by query and step."""
    folder, answers = tmp_path_factory.mktemp("tpch"), {}
    steps = range(1, len(history.states))
    for step in steps:
        numbers = [number for number in data.QUERIES if EVERY or number % len(steps) == step % len(steps)]
        found = history.by_spark(spark, step, numbers, folder)
        answers |= {(number, step): table for number, table in found.items()}
    return answers


def view_of(session, history, number):
    return session.maintain(f"q{number}", sql.query(history.texts[number], data.sources()))


def load(session, tables):
    for name in session.sources:
        session.insert(name, tables[name])
    return session.advance()


def refresh(session, changes):
    for name in session.sources:
        if name in changes:
            session.insert(name, changes[name], diff="diff")
    return session.advance()


def difference(history, by_spark, view, number, step):
    """How a view differs after a step from what DuckDB says, and Spark where it was asked; None: not at all."""
    query, kept = history.queries[number], view.to_arrow()
    by_duckdb = query.difference(rows_of(kept), spoken(history.by_duckdb[step][number], view.schema))
    found = by_spark.get((number, step))
    if by_duckdb is not None or found is None:
        return by_duckdb
    if kept.schema.types != found.schema.types or kept.column_names != found.column_names:
        return f"{kept.schema} and not {found.schema}"
    return query.difference(rows_of(kept), rows_of(found))


def published(history, number, schema, answers):
    return sorted(spoken(answers[number], schema), key=str)


def test_the_steps_change_every_table_and_every_answer(history):
    assert {name for step in history.steps for name in step} == set(data.TABLES)
    for number in data.QUERIES:
        answers = [sorted(found[number], key=str) for found in history.by_duckdb]
        assert sum(before != after for before, after in pairwise(answers)) >= 2, number


@each_query
def test_a_view_has_the_published_answer_and_follows_every_step(history, by_spark, number):
    with an.Session() as session:
        view = view_of(session, history, number)
        load(session, history.tables)
        kept = view.to_arrow()
        assert sorted(rows_of(kept), key=str) == published(history, number, kept.schema, history.answers)
        problems = []
        for step, changes in enumerate(history.steps, 1):
            refresh(session, changes)
            problems.append(difference(history, by_spark, view, number, step))
    assert problems == [None] * len(problems)


def maintained(session, history):
    return {number: view_of(session, history, number) for number in data.QUERIES}


def differences(history, by_spark, views, step):
    found = {number: difference(history, by_spark, view, number, step) for number, view in views.items()}
    return {number: problem for number, problem in found.items() if problem is not None}


def test_all_of_them_in_one_session_go_on_after_a_restart(history, by_spark, quick):
    with an.Session(path=quick / "state") as session:
        views = maintained(session, history)
        load(session, history.tables)
        refresh(session, history.steps[0])
        assert differences(history, by_spark, views, 1) == {}
    with an.Session(path=quick / "state") as session:
        views = maintained(session, history)
        for step, changes in enumerate(history.steps[1:], 2):
            refresh(session, changes)
            assert differences(history, by_spark, views, step) == {}


def test_what_several_of_them_need_is_kept_once(history):
    def kept(*numbers):
        with an.Session() as session:
            for number in numbers:
                query = sql.query(history.texts[number], data.sources())
                session.maintain(f"q{number}", query, joins="binary")
            return load(session, history.tables).state_rows

    sharing = (2, 5, 7, 11)  # nations, suppliers and what they offer
    assert kept(*sharing) < sum(kept(number) for number in sharing)


def test_all_of_them_on_spark(history, by_spark, spark):
    with an.Session(spark, placement="spark") as session:
        views = maintained(session, history)
        taken = [load(session, history.tables), refresh(session, history.steps[0])]
        assert differences(history, by_spark, views, 1) == {}
    assert {step.placement for step in taken} == {"spark"}


def test_the_published_answers_of_a_larger_scale(history):
    answers, tables = data.answers(LARGER), data.generate(LARGER)
    with an.Session() as session:
        views = maintained(session, history)
        load(session, tables)
        kept = {number: view.to_arrow() for number, view in views.items()}
    for number, table in kept.items():
        assert sorted(rows_of(table), key=str) == published(history, number, table.schema, answers), number
