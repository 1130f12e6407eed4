"""Every expression of ``cases`` gives what Spark gives: type, values, and the rows that fail with their reasons."""

from __future__ import annotations

import pytest

from tests.expressions import cases, values
from tests.expressions.against_spark import compare


@pytest.mark.parametrize("group", cases.GROUPS)
def test_spark_gives_the_same(spark, group):
    tolerance = dict.fromkeys(cases.INEXACT, 1e-12) | dict.fromkeys(cases.VECTORS, 1e-6)
    differences = compare(spark, values.table(), cases.GROUPS[group], tolerance)
    assert not differences, "\n".join(differences)
