"""Dashboards over a retail star schema: each view equals Spark's own answer after every increment.

``ALTNEU_EVERY=1`` takes more and larger increments, of several seeds.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

import altneu as an
from altneu.testing import assert_same_as_spark
from tests.acceptance.retail import TABLES, VIEWS, Retail, tier
from tests.lane import EVERY, seeds
from tests.tpch.history import few_rows

STEPS, SALES = (6, 400) if EVERY else (2, 60)


@pytest.mark.parametrize("seed", seeds(5, 1))
def test_every_view_is_what_spark_says(spark, tmp_path, seed):
    assert len(VIEWS) >= 30
    spark.udf.register("tier", tier, "string")
    retail, wrong = Retail(seed), dict[str, str]()
    with an.Session(path=tmp_path / "state") as session:
        session.udf.register("tier", tier, "string")
        for name, columns in TABLES.items():
            session.sql(f"CREATE TABLE {name} ({columns})")
        for name, query in VIEWS.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        schemas = {name: pa.schema(list(session.view(name).schema)) for name in TABLES}
        for step in range(STEPS):
            for name, (new, gone) in retail.increment(SALES).items():
                session.insert(name, new)
                session.retract(name, gone)
            session.advance()
            for name, table in retail.tables(schemas).items():
                spark.createDataFrame(table).createOrReplaceTempView(name)
            with few_rows(spark) as pool:
                for name, error in pool.map(lambda name: _difference(session.view(name), VIEWS[name], spark), VIEWS):
                    if error is not None:
                        wrong[f"{name}, step {step}"] = error
        assert not wrong, "\n".join(f"{name}: {error}" for name, error in wrong.items())
    for name in TABLES:
        spark.catalog.dropTempView(name)


def _difference(view, query, spark) -> tuple[str, str | None]:
    """The name of a view, and how it differs from what Spark says."""
    try:
        assert_same_as_spark(view, spark.sql(query), spark, tolerance=1e-9)
    except Exception as error:  # noqa: BLE001  # all of them are shown together
        return view.name, f"{type(error).__name__}: {error}"
    return view.name, None
