"""SQL queries as collections: what a query means is the plan that it is bound to."""

from __future__ import annotations

from altneu.sql.dialect import SparkQueries, parse_query, syntax_error
from altneu.sql.queries import Shown, query, shown

__all__ = ["Shown", "SparkQueries", "parse_query", "query", "shown", "syntax_error"]
