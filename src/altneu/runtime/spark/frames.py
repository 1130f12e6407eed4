"""DataFrames that Spark's tasks read in the first stage of a step: which columns, and what Spark may add up itself."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from altneu.columnar.rows import Rows
from altneu.operators.source.keyed import ROW
from altneu.plan.physical import Plan, Port
from altneu.runtime.inputs import Stamp
from altneu.runtime.spark.catalyst import filter_of
from altneu.runtime.spark.static_keys import StaticKeys
from altneu.runtime.spark.versions import (
    arrow_batches,
    arrow_schema,
    expected_bytes,
    expected_rows_of_files,
    is_shuffled,
    partitions_of,
    share_of_files,
    spark_type,
    to_arrow,
)
from altneu.runtime.spark.worker import Kernel
from altneu.trace.update import Updates
from altneu.types import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_UNKNOWN = 1 << 60  # what Spark expects where it cannot tell
_SMALL_BYTES = 1 << 20  # a DataFrame of which Spark expects no more is read in one go
_BATCH_ROWS = 10_000
_SURELY = 2  # files that should have this many times the rows that the driver takes are not fetched from at all
_SCANNED_ROWS = 1_000_000  # files with more rows are filtered by Spark's tasks, without a scan that counts what is left


def asked(what: str, where: str) -> str:
    """What Spark is asked for, in words.

    >>> asked("k, v", "k > 1"), asked("k, v", "")
    ('k, v where k > 1', 'k, v')
    """
    return f"{what} where {where}" if where else what


def placed(frame: DataFrame, stamp: Stamp) -> tuple[DataFrame, Stamp]:
    """A DataFrame that says of each row where it is, if its rows are commands, which are obeyed in order.

    The order is that of its partitions and, in each, of its rows.
    """
    if stamp.commands is None or stamp.commands.row is not None:
        return frame, stamp
    from pyspark.sql import functions as sf

    numbered = frame.withColumn(ROW, sf.monotonically_increasing_id())
    return numbered, replace(stamp, commands=replace(stamp.commands, row=ROW))


def with_columns(frame: DataFrame, columns: Mapping[str, str | pa.Scalar]) -> DataFrame:
    """A DataFrame with further columns: those of other names, and constants of any type."""
    from pyspark.sql import functions as sf

    for name, one in columns.items():
        if isinstance(one, str):
            frame = frame.withColumn(name, sf.col(quote_name(one)))
        else:
            frame = frame.withColumn(name, _constant(one).cast(spark_type(one.type)))
    return frame


def _constant(value: pa.Scalar) -> Column:
    from pyspark.sql import functions as sf

    if not value.is_valid:
        return sf.lit(None)
    if pa.types.is_list(value.type):
        return sf.array(*map(_constant, value.values))
    if pa.types.is_struct(value.type):
        return sf.struct(*(_constant(value[f.name]).alias(f.name) for f in value.type))
    if pa.types.is_timestamp(value.type):  # as it is, whatever the time zone of Spark's session
        if value.type.tz is None:
            return sf.lit(str(value)).cast(spark_type(value.type))
        return sf.expr(f"timestamp_micros({value.cast(pa.timestamp('us', value.type.tz)).value}L)")
    return sf.lit(value.as_py())


def narrowed(plan: Plan, source: str, frame: DataFrame, stamp: Stamp) -> Stamp:
    """The stamp for those columns that the plan reads, and those whose values may be refused."""
    read = columns_read(plan, source) if source in plan.sources else None
    unsure = columns_to_check(frame, stamp) if read else set()
    return stamp.reading(read and [n for n in stamp.schema.names if n in unsure or n in read])


def rows_needed(
    plan: Plan, source: str, frame: DataFrame, stamp: Stamp, keys: StaticKeys | None = None
) -> tuple[DataFrame, str]:
    """The rows of a DataFrame that the plan makes something of, as far as Spark can tell, and those to be refused.

    ``keys`` tell which keys the static sides of joins have. The text says which rows they are; it is empty where they
    are all.

    Law:    a step makes of them what it makes of all (tests/session/test_needed_rows.py).
    """
    if source not in plan.sources or not (stamp.has_one_time and has_diffs(frame, stamp)):
        return frame, ""
    number, unsure = plan.sources[source], columns_to_check(frame, stamp)
    now = stamp.time if isinstance(stamp.time, int) else None
    readers = [
        (*node.operation.tests_of(plan.nodes[number].schema, now), *tests)
        for i, node in enumerate(plan.nodes)
        if Port(number) in node.inputs
        for tests in ([()] if keys is None else keys.alternatives(i))
    ]
    if not readers or not all(readers) or not of_their_types(frame, stamp, unsure):
        return frame, ""
    found = filter_of(frame, readers)
    if found is None:
        return frame, ""
    from pyspark.sql import functions as sf

    needed, text = found
    alternatives = [needed, *(sf.col(quote_name(name)).isNull() for name in sorted(unsure))]
    texts = [text, *(f"{name} IS NULL" for name in sorted(unsure))]
    for test, said in refused_diffs(frame, stamp):
        alternatives.append(test)
        texts.append(said)
    return frame.where(reduce(or_, alternatives)), " OR ".join(texts)


def refused_diffs(frame: DataFrame, stamp: Stamp) -> Iterator[tuple[Column, str]]:
    """What tells rows that are refused for their diffs, and the same in words."""
    from pyspark.sql import functions as sf

    if not isinstance(stamp.diff, str):
        return
    diff = sf.col(quote_name(stamp.diff))
    if stamp.append_only:
        yield (diff < 0, f"{stamp.diff} < 0") if stamp.sign > 0 else (diff > 0, f"{stamp.diff} > 0")
    if frame.schema[stamp.diff].nullable:
        yield diff.isNull(), f"{stamp.diff} IS NULL"


def has_diffs(frame: DataFrame, stamp: Stamp) -> bool:
    """Whether the diffs of rows are whole numbers, so that Spark can tell those that will be refused."""
    from pyspark.sql import types

    whole = (types.ByteType, types.ShortType, types.IntegerType, types.LongType)
    return isinstance(stamp.diff, int) or isinstance(frame.schema[stamp.diff].dataType, whole)


def of_their_types(frame: DataFrame, stamp: Stamp, unsure: Collection[str]) -> bool:
    """Whether columns have the source's types in the DataFrame: nothing may be refused of their values but nulls."""
    return all(frame.schema[name].dataType == spark_type(stamp.schema.field(name).type) for name in unsure)


def widened(updates: Updates, schema: pa.Schema) -> Updates:
    """Updates with all columns of a source; those that nobody reads are null."""
    rows = updates.rows
    if rows.schema.names == schema.names:
        return updates
    there = dict(zip(rows.schema.names, rows.columns, strict=True))
    columns = tuple(there[f.name] if f.name in there else pa.nulls(rows.count, f.type) for f in schema)
    return updates.with_rows(Rows(schema, columns, rows.count))


def titled(kernel: Kernel, title: str) -> Kernel:
    """Name a kernel as Spark's pages show it."""
    kernel.__name__ = kernel.__qualname__ = title
    return kernel


def few_rows(frame: DataFrame, most: int) -> pa.Table | None:
    """All rows of a DataFrame if there are at most so many, else None; cost as that of ``first_rows``."""
    table = first_rows(frame, most)
    return table if table is not None and table.num_rows <= most else None


def first_rows(frame: DataFrame, most: int) -> pa.Table | None:
    """All rows of a DataFrame if there are at most so many, else more than so many of its rows; None if too wide.

    Where Spark expects few bytes, or cannot tell, as of rows that a program or a stream has, partitions are read at
    once, each up to one row more than that; what it expects does not bound what comes. Else they are read one after
    the other, then more at a time, until that many have come or all are read: little of a large table is read in
    vain, and all of one of which a filter leaves little.

    Cost:   at most about twice as many rows as ``most`` come to the driver, and no more bytes than
            ``spark.driver.maxResultSize``.
    """
    try:
        expected = expected_bytes(frame)
        is_small = expected is None or expected <= _SMALL_BYTES or expected >= _UNKNOWN
        return to_arrow(frame.limit(most + 1)) if is_small else _first_rows(frame, most)
    except Exception as error:
        if "spark.driver.maxResultSize" in str(error):
            return None
        raise


def _first_rows(frame: DataFrame, most: int) -> pa.Table:
    """All rows of a DataFrame, or more than ``most`` of them.

    The last batch of each partition may be short, so that of so many batches enough are full.
    """
    partitions = partitions_of(frame)
    size = max(min(most // (partitions + 1), _BATCH_ROWS), 1)
    batches = arrow_batches(frame, size, partitions + most // size + 1)
    schema = arrow_schema(frame.schema)
    read = [pa.ipc.read_record_batch(pa.py_buffer(batch), schema) for batch in batches]
    return pa.Table.from_batches(read, schema)


def surely_more(frame: DataFrame, most: int) -> bool:
    """Whether a DataFrame is taken to have more rows than ``most`` without a look at any of them.

    True if it reads columns of files, and the size of the files suggests over twice that many rows. Below a filter, the
    files must have over a million rows in several parts, without those of partitions that the filter leaves out: there
    a scan that counts the rows left takes as long as the step itself.
    """
    expected = expected_rows_of_files(frame)
    if expected is None:
        return False
    rows, is_filtered = expected
    if not is_filtered:
        return rows > _SURELY * most
    if rows <= _SCANNED_ROWS:
        return False
    return rows * share_of_files(frame) > _SCANNED_ROWS and partitions_of(frame) > 1


def is_dear(frame: DataFrame) -> bool:
    """Whether Spark moves many rows between its tasks before it has those of a DataFrame: not to be done twice."""
    expected = expected_bytes(frame)
    return (expected is None or expected > _SMALL_BYTES) and is_shuffled(frame)


def has_width(kind: DataType) -> bool:
    """Whether all values of a type take up the same, at most 16 bytes."""
    from pyspark.sql import types

    return isinstance(
        kind,
        (
            types.NumericType,
            types.BooleanType,
            types.DateType,
            types.TimestampType,
            types.TimestampNTZType,
            types.NullType,
        ),
    )


def most_equal(table: pa.Table) -> int:
    """The most rows of a table that are equal in all columns, none of which is null."""
    counts = table.drop_null().group_by(table.column_names).aggregate([([], "count_all")])["count_all"]
    return int(pc.max(counts).as_py() or 0)


def most_repeated(frame: DataFrame, columns: Collection[pa.Field], *, are_few: bool = False) -> int:
    """The most rows of a DataFrame that are equal in some columns, none of which is null; a job of Spark's.

    Values are compared as the source has them, to whose types they are cast: texts may be equal as numbers. Where they
    ``are_few`` they are counted here, else Spark does it.
    """
    from pyspark.sql import functions as sf

    keys = [sf.col(quote_name(f.name)).cast(spark_type(f.type)).alias(f.name) for f in columns]
    names = [sf.col(quote_name(f.name)) for f in columns]
    there = frame.select(*keys).where(reduce(and_, [name.isNotNull() for name in names]))
    if are_few:
        return most_equal(to_arrow(there))
    ((most,),) = there.groupBy(*names).count().agg(sf.max("count")).collect()
    return most or 0


def columns_to_check(frame: DataFrame, stamp: Stamp) -> set[str]:
    """Columns of a source whose values may be refused: of another type in the DataFrame, or null where none may be.

    They are read even if the plan does not, so that what is refused does not depend on the plan; and Spark may not add
    them up, for its cast wraps where ANSI is off.
    """
    fields = {f.name: f for f in frame.schema}
    return {
        f.name
        for f in stamp.schema
        if fields[f.name].dataType != spark_type(f.type) or (fields[f.name].nullable and not f.nullable)
    }


def columns_read(plan: Plan, source: str) -> list[str] | None:
    """The columns of a source that the plan reads, None for all of them."""
    number = plan.sources[source]
    schema = plan.nodes[number].schema
    needed: set[str] = set()
    for node in plan.nodes:
        if Port(number) in node.inputs:
            read = node.operation.columns_read(schema)
            if read is None:
                return None
            needed |= read
    return [n for n in schema.names if n in needed] or None
