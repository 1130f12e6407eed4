"""The changes of a table in a catalog of Spark's, as a stream that a session follows."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from altneu.errors import InputError
from altneu.runtime.spark.versions import changes_of
from altneu.streams.tables.base import instant

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGE, VERSION, TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
DIFF = "_diff"
_CAME, _WENT = ("insert", "update_postimage"), ("delete", "update_preimage")


def table_changes(
    spark: SparkSession,
    table: str,
    *,
    from_version: int | str | None = None,
    from_timestamp: str | datetime | None = None,
) -> DataFrame:
    """The changes of a table as Spark tells them, for ``session.follow(orders=an.table_changes(...), diff="_diff")``.

    Any table whose catalog tells its changes to Spark, from 4.2 on, as those of Delta and Iceberg do: the changes of
    the version ``from_version``, or of the first one since ``from_timestamp`` (ISO 8601, in UTC if it has no offset),
    and of all versions after it. Rows that were there before are not among them: insert those of the version before it.
    Where a stream goes on, its position counts and not these arguments.

    Rows that a version writes again as they were come as a row that went and one that came, which cancel.

    Shape:  a streaming DataFrame with the table's columns, then ``_diff``, a long: 1 for a row that came, -1 for one
            that went. Of any other kind of change it is null, which a session refuses.
    Cost:   what the catalog reads of the versions; Spark's tasks read it, and a micro-batch has all that there is.
    Law:    at each time the source has the rows of a version (tests/session/test_table_changes.py).

    Raises:
        InputError: Spark is older, the catalog tells no changes, the table has a column ``_diff``, or neither or both
            places to begin are given.
    """
    if (from_version is None) == (from_timestamp is None):
        raise InputError(
            f"table_changes of {table!r} begins at from_version= or at from_timestamp=, got "
            f"{'neither' if from_version is None else 'both'}"
        )
    if from_version is not None:
        if isinstance(from_version, bool) or not isinstance(from_version, int | str):
            raise InputError(f"from_version must be a version of the table, got {from_version!r}")
        begin: dict[str, Any] = {"startingVersion": str(from_version)}
    else:
        assert from_timestamp is not None
        begin = {"startingTimestamp": instant(from_timestamp)}
    frame = changes_of(spark, table, begin)
    if DIFF in (name.lower() for name in frame.columns):
        raise InputError(f"the columns of table {table!r} must not be called {DIFF!r}, which says what came and went")
    from pyspark.sql import functions as sf

    sign = sf.when(sf.col(CHANGE).isin(*_CAME), sf.lit(1).cast("long"))
    sign = sign.when(sf.col(CHANGE).isin(*_WENT), sf.lit(-1).cast("long"))
    return frame.withColumn(DIFF, sign).drop(CHANGE, VERSION, TIMESTAMP)
