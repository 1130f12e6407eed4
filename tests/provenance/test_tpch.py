"""Rows of TPC-H's views rest on few of the rows there are, and follow from them alone."""

from __future__ import annotations

import pytest

import altneu as an
from altneu import sql
from bench.tpch import data

pytestmark = pytest.mark.skipif(data.extension() is None, reason="duckdb or duckdb-extension-tpch is not installed")
SCALE = 0.005


@pytest.fixture(scope="module")
def tables():
    return data.generate(SCALE)


@pytest.mark.parametrize("number", data.QUERIES)
def test_a_row_follows_from_what_it_rests_on(number, tables):
    kept = {name: an.source(name, collection.schema, keep=True) for name, collection in data.sources().items()}
    with an.Session() as session:
        view = session.maintain(f"q{number}", sql.query(data.texts()[number], kept))
        for name in session.sources:
            session.insert(name, tables[name])
        session.advance()
        for row in view.to_pylist()[:1]:
            explanation = view.explain_row(row)
            assert explanation.sufficient is True
            found = {found.source: len(found.updates) for found in explanation.inputs}
            everything = {name: tables[name].num_rows for name in session.sources}
            if number != 22:  # who never ordered anything: all orders say so
                assert sum(found.values()) < sum(everything.values())
