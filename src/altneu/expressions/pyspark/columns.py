"""``F.col("x") + 1`` of PySpark where altneu takes an expression."""

from __future__ import annotations

import sys
from typing import Any

from sqlglot import exp

from altneu.errors import ExpressionSyntaxError
from altneu.expressions.pyspark.catalyst import Expressions
from altneu.expressions.pyspark.connect import Columns


def is_column(value: object) -> bool:
    """Whether this is a column of PySpark, decided without importing that."""
    return type(value).__module__.startswith("pyspark.sql.") and type(value).__name__ == "Column"


def column_tree(column: Any) -> exp.Expr:
    """The tree of a column of PySpark; ``df.name`` is the column of that name.

    Raises:
        PlanError: altneu does not evaluate it.
        ExpressionSyntaxError: it is one of a classic session that has ended.
    """
    if not hasattr(column, "_jc"):
        return Columns().tree(column.to_plan(None))
    context = sys.modules["pyspark"].SparkContext._active_spark_context
    if context is None:
        raise ExpressionSyntaxError("the session of Spark that this column belongs to has ended")
    jvm = context._jvm
    if type(column).__module__ == "pyspark.sql.classic.column":  # from 4.0 on columns are trees of their own
        session = jvm.org.apache.spark.sql.classic.SparkSession.active()
        return Expressions(jvm).tree(session.expression(column._jc))
    return Expressions(jvm).tree(column._jc.expr())
