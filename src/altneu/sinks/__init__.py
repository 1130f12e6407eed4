"""Sinks: external tables and files that follow a view, exactly once.

A sink stores a *mark* in its target: the time up to which the target has the view's changes. It updates data and mark
atomically, so that it can be stopped or killed at any moment and continues from the mark.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from altneu.sinks.base import Mark, Mode, Sink
from altneu.sinks.database_sink import DatabaseSink
from altneu.sinks.delta_sink import DeltaSink
from altneu.sinks.drivers import DbApi, Jdbc
from altneu.sinks.feed_sink import FeedSink
from altneu.sinks.iceberg_sink import IcebergSink
from altneu.sinks.parquet_sink import ParquetSink, parquet_files

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

    from altneu.engine.reading import OnErrors
from altneu.views.view import View

__all__ = ["Mark", "Sink", "database", "delta", "feed", "iceberg", "jdbc", "parquet", "parquet_files"]


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

    With ``mode="append"`` each run adds a file of changes (as ``changes()`` returns them), named by the times that it
    covers. ``"merge"`` maintains a table with the view's contents, each row as often as its count; ``"upsert"`` does
    the same and refuses two rows with the same ``key``. Such a table has several files, into which rows are partitioned
    by key (``buckets``). A run rewrites the buckets that change, and then one pointer file, so that readers that read
    ``sink.files()`` (or ``parquet_files(path)``) see one complete version; the files of the last ``keep`` versions are
    kept for them. With ``keep=0`` the folder has the files of the present version alone, for readers of all of its
    files, who must not read while it is written.

    Cost:   a run rewrites each bucket that changes.
    """
    return ParquetSink(view, path, mode, key, errors=errors, lease=lease, buckets=buckets, keep=keep)


def delta(  # options, each by its name
    view: View,
    path: str | os.PathLike[str],
    *,
    mode: Mode | None = None,
    key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    configuration: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    errors: OnErrors = "raise",
    lease: float | str = "1 hour",
) -> DeltaSink:
    """A sink into a Delta table, without a JVM; each run is one version of the table.

    ``mode="upsert"`` maintains one row for each ``key`` and is what is chosen if there is one; ``"merge"``, otherwise,
    each row once, with its count in ``row_count``; ``"rows"`` each row as often as the view has it, without a count;
    ``"append"`` is a log of the changes, with their time and diff. The version has the changes, by MERGE or as rows
    that are added, and the mark as application transactions: of two sinks that write at once one is refused, and a run
    that has nothing to do writes nothing.

    The table is created with the first run: ``partition_by`` names columns, and ``configuration`` has properties, such
    as ``{"delta.enableChangeDataFeed": "true"}``; with an existing table they must agree. ``storage_options`` are
    deltalake's, for object stores. Other programs may read it, compact it and vacuum it, and must not change its rows.

    Cost:   a run reads the columns of the key (of all columns without one), and writes the files anew that have a row
            that changes; with ``mode="append"`` it writes the changes. ``mode="rows"`` reads all rows twice if any
            goes, and writes what comes if none does.
    Law:    each version of the table is the view at a time, whatever is killed, and whoever writes beside
            (tests/session/test_follow_delta_killed.py).

    Raises:
        SinkError: a mode and a key that do not go together, ``partition_by`` without such a column.
        SchemaError: a column that Delta does not have: an interval, or a name with one of ``" ,;{}()="``.
        MissingExtraError: deltalake is not installed: ``pip install 'altneu[delta]'``.

    >>> import altneu as an, tempfile
    >>> from deltalake import DeltaTable
    >>> path, orders = tempfile.mkdtemp() + "/total", an.source("orders", "item string, price long")
    >>> with an.Session() as session:
    ...     view = session.maintain("total", orders.group_by("item").agg(total="sum(price)"))
    ...     sink = an.sinks.delta(view, path, key=["item"])
    ...     session.insert("orders", [("tea", 3), ("jam", 2)])
    ...     _ = session.advance()
    ...     applied = [sink.run(), sink.run()]
    ...     session.insert("orders", [("tea", 4)])
    ...     _ = session.advance()
    ...     applied, sink.run(), DeltaTable(path).to_pyarrow_table().sort_by("item").to_pylist()
    ([2, 0], 2, [{'item': 'jam', 'total': 2}, {'item': 'tea', 'total': 7}])
    """
    chosen: Mode = mode if mode is not None else "upsert" if key else "merge"
    options: dict[str, Any] = {"configuration": configuration or {}, "storage_options": storage_options or {}}
    return DeltaSink(view, path, chosen, key, partition_by=partition_by, errors=errors, lease=lease, **options)


def iceberg(  # options, each by its name
    view: View,
    table: str,
    *,
    catalog: str | Mapping[str, str] | Catalog | None = None,
    mode: Mode | None = None,
    key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    errors: OnErrors = "raise",
    lease: float | str = "1 hour",
) -> IcebergSink:
    """A sink into an Iceberg table; each run is one snapshot of the table.

    ``table`` is its name with its namespace, which must exist, and ``catalog`` is as ``altneu.iceberg`` takes it. Modes
    and keys are those of ``altneu.sinks.delta``: ``"upsert"`` has one row for each ``key``, ``"merge"`` each row once,
    with its count in ``row_count``, ``"rows"`` each row as often as the view has it, and ``"append"`` is a log of the
    changes, with their time and diff. Rows and mark change in one commit: of two sinks that write at once one is
    refused, and a run that has nothing to do writes nothing.

    The table is created with the first run: ``partition_by`` has columns, and transforms as Spark's SQL writes them,
    ``["days(at)", "bucket(16, id)"]``; ``properties`` are the table's, such as ``{"write.parquet.compression-codec":
    "zstd"}``. With an existing table they must agree. Other programs may read it, compact it and expire its snapshots,
    and must not change its rows.

    Cost:   a run reads the columns of the key (of all columns without one), and writes the files anew that have a row
            of a changed key, in one file if they are small; with ``mode="append"`` it writes the changes.
    Law:    each snapshot of the table is the view at a time, whatever is killed, and whoever writes beside
            (tests/session/test_follow_iceberg_killed.py).

    Raises:
        SinkError: a mode and a key that do not go together, ``partition_by`` without such a column, no such catalog.
        SchemaError: a column that Iceberg does not have: an interval.
        MissingExtraError: pyiceberg is not installed: ``pip install 'altneu[iceberg]'``.

    >>> import altneu as an, tempfile
    >>> from pyiceberg.catalog import load_catalog
    >>> place, orders = tempfile.mkdtemp(), an.source("orders", "item string, price long")
    >>> shop = {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}"}
    >>> with an.Session() as session, load_catalog("default", **shop) as catalog:
    ...     catalog.create_namespace("shop")
    ...     view = session.maintain("total", orders.group_by("item").agg(total="sum(price)"))
    ...     sink = an.sinks.iceberg(view, "shop.total", catalog=catalog, key=["item"])
    ...     session.insert("orders", [("tea", 3), ("jam", 2)])
    ...     _ = session.advance()
    ...     applied = [sink.run(), sink.run()]
    ...     session.insert("orders", [("tea", 4)])
    ...     _ = session.advance()
    ...     (
    ...         applied,
    ...         sink.run(),
    ...         catalog.load_table("shop.total").scan().to_arrow().sort_by("item").to_pylist(),
    ...     )
    ([2, 0], 2, [{'item': 'jam', 'total': 2}, {'item': 'tea', 'total': 7}])
    """
    chosen: Mode = mode if mode is not None else "upsert" if key else "merge"
    options: dict[str, Any] = {"properties": properties or {}, "catalog": catalog}
    return IcebergSink(view, table, chosen, key, partition_by=partition_by, errors=errors, lease=lease, **options)


def feed(
    view: View,
    path: str | os.PathLike[str],
    *,
    errors: OnErrors = "raise",
    lease: float | str = "1 hour",
) -> FeedSink:
    """A sink into a folder of messages of updates and progress, which ``an.cdc.Feed(..., path=path)`` reads.

    So two sessions form one dataflow, each with its own store, executor and pace: the second has the view of the first
    as a source, at the same times, and its frontier follows. Each run adds one file, with all changes of the times that
    were closed since the run before, and a message of progress, even if nothing has changed. The file's name says these
    times, so the file and the position appear in one. A new folder begins with the view's contents.

    A line is a message, in JSON as serde writes the Rust crate's ``capture::Message`` with times and diffs of 64 bits:
    ``{"Updates":[[row,time,diff]]}`` or ``{"Progress":{"lower":[t],"upper":[t],"counts":[[time,n]]}}``. A row is an
    object: dates, timestamps and decimals are strings, binary is base64, NaN is a word. altneu removes no
    file. Those of times that every reader has closed may be removed, except the last; a new reader then needs a new
    folder.

    Cost:   a run writes the changes.
    Law:    whenever writer and reader are killed, the reader's view equals the writer's
            (tests/sinks/test_feed_killed.py).
    Source: McSherry, "Change data capture (part 1)", 2020; differential dataflow's capture.

    Raises:
        SinkError: the view has two times, or a column that JSON is not read as (an interval); or the folder is not on a
            local disk.

    >>> import altneu as an, tempfile
    >>> path, orders = tempfile.mkdtemp(), an.source("orders", "item string, price long")
    >>> totals = an.cdc.Feed("totals", "item string, total long", path=path)
    >>> with an.Session() as one, an.Session() as two:
    ...     sink = an.sinks.feed(
    ...         one.maintain("total", orders.group_by("item").agg(total="sum(price)")), path
    ...     )
    ...     dear = two.maintain("dear", totals.collection.filter("total > 4"))
    ...     one.insert("orders", [("tea", 3), ("tea", 4), ("jam", 2)])
    ...     _ = one.advance(to=7)
    ...     applied, step = sink.run(), totals.advance(two)
    ...     applied, two.lower, dear.to_pylist()
    (2, 7, [('tea', 7)])
    """
    return FeedSink(view, path, errors=errors, lease=lease)


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
    """A sink into a table of a database, through Python's DB-API; ``connect()`` must return a connection.

    ``mode="upsert"`` maintains one row for each ``key``; ``"merge"`` each row once, with its count in ``row_count``;
    ``"append"`` adds the changes, with their time and diff. The rows and the mark, a row of the table
    ``altneu_marks``, change in one transaction. The table is created if it does not exist; ``types`` replaces the
    column types of ``dialect``, which is the name of a dialect of sqlglot.
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
    """A sink into a table of a database, through a JDBC driver in Spark's JVM; otherwise as ``database``.

    ``properties`` are those of the connection (user, password), and ``driver`` is the class of the driver. ``dialect``
    is by default derived from the address.
    """
    make = partial(Jdbc, spark, url, dict(properties or {}))
    name = [*url.split(":"), "", ""][1] if dialect is None else dialect
    known = {"postgresql": "postgres", "sqlserver": "tsql", "mariadb": "mysql"}.get(name, name)
    rest: dict[str, Any] = {"dialect": known, "errors": errors, "lease": lease, "types": dict(types or {})}
    return DatabaseSink(view, make, table, mode, key, described=url.partition(";")[0].partition("?")[0], **rest)
