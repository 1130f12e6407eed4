"""Sinks: tables and files outside that follow a view, exactly once.

A sink keeps a *mark* with its target, which says up to which time the target has come, and moves it in one go with the
data. So it may be stopped, or killed, at any moment, and goes on from the mark.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from altneu.sinks.base import Mark, Mode, Sink
from altneu.sinks.database_sink import DatabaseSink
from altneu.sinks.drivers import DbApi, Jdbc
from altneu.sinks.parquet_sink import ParquetSink, parquet_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from altneu.engine.reading import OnErrors
from altneu.views.view import View

__all__ = ["Mark", "Sink", "database", "jdbc", "parquet", "parquet_files"]


def parquet(
    view: View,
    path: str | os.PathLike[str],
    *,
    mode: Mode = "merge",
    key: Sequence[str] = (),
    errors: OnErrors = "raise",
    lease: float | str = "1 hour",
    buckets: int = 16,
    keep: int = 2,
) -> ParquetSink:
    """A sink into a folder of Parquet files.

    ``mode="append"`` adds a file of changes (``changes()``) a run, named by the times that it covers. ``"merge"`` keeps
    a table with the view's contents, each row as often as it is there; ``"upsert"`` the same, and refuses two rows of
    one ``key``. Such a table is several files, rows spread over ``buckets`` by their keys; a run writes those anew that
    change, and then one pointer file, so that readers that take ``sink.files()`` (or ``parquet_files(path)``) see one
    version whole; files of the last ``keep`` versions stay for those who read them.

    Cost:   a run writes the buckets that change whole.
    """
    return ParquetSink(view, path, mode, key, errors=errors, lease=lease, buckets=buckets, keep=keep)


def database(
    view: View,
    connect: Callable[[], Any],
    table: str,
    *,
    mode: Mode,
    key: Sequence[str] = (),
    dialect: str = "sqlite",
    paramstyle: str = "qmark",
    types: Mapping[str, str] | None = None,
    errors: OnErrors = "raise",
    lease: float | str = "1 hour",
) -> DatabaseSink:
    """A sink into a table of a database, by a driver of Python's DB-API; ``connect()`` gives a connection.

    ``mode="upsert"`` keeps one row a ``key``; ``"merge"`` each row once, with how often it is there in ``row_count``;
    ``"append"`` adds the changes, with their time and diff. The rows and the mark, a line of the table
    ``altneu_marks``, change in one transaction. The table is made if it is not there; ``types`` gives columns other
    types than those of ``dialect``, a name that sqlglot knows.
    """
    make = partial(_dbapi, connect, paramstyle)
    rest: dict[str, Any] = {"dialect": dialect, "errors": errors, "lease": lease, "types": dict(types or {})}
    return DatabaseSink(view, make, table, mode, key, described="the database", **rest)


def _dbapi(connect: Callable[[], Any], paramstyle: str) -> DbApi:
    return DbApi(connect(), paramstyle)


def jdbc(  # noqa: PLR0913  # a connection, a table and what is to be in it
    view: View,
    spark: SparkSession,
    url: str,
    table: str,
    *,
    mode: Mode,
    key: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    dialect: str | None = None,
    types: Mapping[str, str] | None = None,
    errors: OnErrors = "raise",
    lease: float | str = "1 hour",
) -> DatabaseSink:
    """A sink into a table of a database, by a JDBC driver of Spark's JVM; otherwise as ``database``.

    ``properties`` are the connection's (user, password), and ``driver`` the driver's class. ``dialect`` is taken from
    the address unless it is given.
    """
    make = partial(Jdbc, spark, url, dict(properties or {}))
    name = [*url.split(":"), "", ""][1] if dialect is None else dialect
    known = {"postgresql": "postgres", "sqlserver": "tsql", "mariadb": "mysql"}.get(name, name)
    rest: dict[str, Any] = {"dialect": known, "errors": errors, "lease": lease, "types": dict(types or {})}
    return DatabaseSink(view, make, table, mode, key, described=url.partition(";")[0].partition("?")[0], **rest)
