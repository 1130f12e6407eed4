"""All that follows from a tenth of GALEN: two relations made of themselves and each other, right when rows go."""

from __future__ import annotations

import pyarrow as pa
import pytest

import altneu as an
from bench import relations


@pytest.fixture
def galen(data_dir, monkeypatch):
    """Its tables, in a database and in a session that maintains both relations."""
    duckdb = pytest.importorskip("duckdb")
    if not (data_dir / relations.GALEN).exists():
        pytest.skip(f"no {relations.GALEN} in {data_dir}")
    monkeypatch.setenv("ALTNEU_DATA", str(data_dir))
    inputs = relations.tables(0.1)
    with an.Session() as session, duckdb.connect(config={"threads": 2}) as database:
        relations.declare(session)
        for name, table in inputs.items():
            session.insert(f"{name}0", table)
        session.advance()
        yield session, database, inputs


def test_galen_is_what_a_database_makes_of_it_and_is_kept_right(galen):
    session, database, inputs = galen
    views = [session.view(name).to_arrow() for name in relations.VIEWS]
    assert tuple(view.num_rows for view in views) == relations.ROWS[0.1]
    tuples = sum(relations.ROWS[0.1])
    assert sum(size for _, size in session._engine.table.sizes().values()) < 230 * tuples
    for name in relations.VIEWS:
        table = inputs[name]
        session.retract(f"{name}0", table.slice(1234, 1))
        inputs[name] = pa.concat_tables([table.slice(0, 1234), table.slice(1235)])
    session.advance()
    relations.complete(database, inputs)
    for name in relations.VIEWS:
        actual = session.view(name).to_arrow()
        database.register("found", actual)
        assert actual.num_rows < relations.ROWS[0.1][relations.VIEWS.index(name)]
        assert database.execute(f"SELECT count(*) FROM {name}").fetchone() == (actual.num_rows,)
        assert database.execute(f"SELECT count(*) FROM (FROM found EXCEPT FROM {name})").fetchone() == (0,)
