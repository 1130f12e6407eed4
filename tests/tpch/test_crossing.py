"""Steps in which a share of the orders changes, given to Spark as DataFrames: the bench's own, small, and on Spark."""

import pytest

from bench.tpch import data
from bench.tpch.crossing import SHARES, Run

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(data.extension() is None, reason="duckdb or duckdb-extension-tpch is not installed"),
]


@pytest.fixture(scope="module")
def run(spark, tmp_path_factory) -> Run:
    return Run(tmp_path_factory.mktemp("crossing"), 0.005, 1, spark, "spark")


@pytest.mark.parametrize("number", [1, 3, 6, 13])
def test_a_view_takes_steps_of_every_size_on_spark(run, number):
    """Sums that Spark makes (q1, q6), filters and joins, with diffs in a column."""
    taken = run.taken(number, "auto")
    assert taken.difference is None
    assert [len(taken.ours[share]) for share in SHARES] == [1] * len(SHARES)
