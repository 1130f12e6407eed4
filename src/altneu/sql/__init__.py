"""SQL queries as collections: what a query means is the plan that it is bound to."""

from __future__ import annotations

from altneu.sql.binder import query
from altneu.sql.dialect import SparkQueries, parse_query, syntax_error

__all__ = ["SparkQueries", "parse_query", "query", "syntax_error"]
