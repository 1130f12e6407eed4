"""What CREATE SINK writes into."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import partial
from typing import Any

from altneu import sinks
from altneu.errors import StatementError
from altneu.sinks import Sink
from altneu.sql.statements.options import expanded
from altneu.sql.statements.tree import TABLES, CreateSink
from altneu.views.view import View


def sink_of(statement: CreateSink, view: View, spark: Any) -> Sink:
    """The sink that a statement says.

    Raises:
        StatementError: a database by JDBC in a session without Spark.
        SinkError: a mode and a key that do not go together.
    """
    options = {name.lower(): value for name, value in statement.options.items()}
    mode: Any = statement.mode or ("upsert" if statement.key else "merge")
    common: dict[str, Any] = {"mode": mode, "key": list(statement.key), **options}
    if statement.kind == "parquet":
        return sinks.parquet(view, statement.place, **common)
    if statement.kind in TABLES:
        by = common.get("partition_by", ())
        common["partition_by"] = by if isinstance(by, list | tuple) else [by]
        said, connection = _properties(common.pop("properties", [])), _expanded(statement.connection)
        if statement.kind == "iceberg":
            return sinks.iceberg(view, statement.place, catalog=connection or None, properties=said, **common)
        return sinks.delta(view, statement.place, configuration=said, storage_options=connection, **common)
    if isinstance(common.get("types"), list):
        common["types"] = _types(common["types"])
    if statement.kind == "sqlite":
        return sinks.database(view, partial(sqlite3.connect, statement.place), str(statement.table), **common)
    if spark is None:
        raise StatementError(
            f"sink {statement.name!r} needs a JDBC driver in Spark, but this session has no Spark: "
            "Session(spark, ...), or altneu run --master local[*]"
        )
    properties = _expanded(statement.connection)
    return sinks.jdbc(view, spark, statement.place, str(statement.table), properties=properties, **common)


def _expanded(connection: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(expanded(value)) for name, value in connection.items()}


def _properties(encoded: Any) -> dict[str, str]:
    """Properties of a table, each as a text "name=value"."""
    pairs = [str(text).partition("=") for text in (encoded if isinstance(encoded, list) else [encoded])]
    if wrong := [name for name, sign, _ in pairs if not sign]:
        raise StatementError(f"PROPERTIES needs texts such as 'delta.enableChangeDataFeed=true', not {wrong[0]!r}")
    return {name.strip(): value.strip() for name, _, value in pairs}


def _types(encoded: list[Any]) -> Mapping[str, str]:
    """Types of columns, each as a text "column type"."""
    pairs = [str(text).split(None, 1) for text in encoded]
    if wrong := [pair for pair in pairs if len(pair) != 2]:
        raise StatementError(f"TYPES needs texts such as 'price NUMERIC(10, 2)', not {' '.join(wrong[0])!r}")
    return {column: kind for column, kind in pairs}  # noqa: C416  # of pairs that are lists
