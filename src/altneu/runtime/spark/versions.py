"""What differs between the versions of Spark that altneu runs on, 3.5 and 4.0 to 4.3, and its two kinds of session.

A classic session has a JVM beside it; one of Spark Connect has a server somewhere else. No other module of the
executor asks which version or kind it is given. Where a version has a function, it is used; where it lacks one, the
same is built from what it has. ``make spark-matrix`` tries the versions one by one, and docs/running.md says what each
of them lacks.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache, partial
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa

from altneu.errors import InputError, ReadError, SetupError
from altneu.expressions.lists import explode, implode, implode_map
from altneu.runtime import interrupts
from altneu.types import VARIANT, contains

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

OLDEST = (3, 5)
"""The oldest version that altneu runs on."""
OLDEST_CONNECT = (4, 0)
"""The same of Spark Connect, which takes Arrow's tables from then on."""
STREAMS_SINCE = (4, 2)
"""From here on Spark tells a data source in Python where a batch of a stream begins, and how many rows it may have."""

_JOB_PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
_MANY = 1 << 20  # rows of a range that is cut into as many parts as there are tasks at once
_RECORDS, _BYTES = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"
_PLACES = 64  # numbers a shard that are looked through for those whose hash is that of the shard


def version_of(text: str) -> tuple[int, int]:
    """The major and the minor version in a version's name.

    >>> version_of("4.0.1.dev0"), version_of("3.5.6-amzn-0")
    ((4, 0), (3, 5))
    """
    major, minor = text.split(".")[:2]
    return int(major), int(minor)


def is_stopped(spark: object) -> bool:
    """Whether a classic SparkSession was stopped; False for one of Spark Connect, whose server is not asked."""
    context = getattr(spark, "_sc", None)
    return context is not None and context._jsc is None


def is_connect(spark_or_frame: object) -> bool:
    """Whether this is a session, or a DataFrame, of Spark Connect."""
    return type(spark_or_frame).__module__.startswith("pyspark.sql.connect")


def check_version(spark: SparkSession) -> None:
    """Refuse a Spark that is too old.

    Raises:
        SetupError: it is older than 3.5, or than 4.0 and of Spark Connect.
    """
    for what, oldest in (("Spark", OLDEST), ("Spark Connect", OLDEST_CONNECT if is_connect(spark) else OLDEST)):
        if version_of(spark.version) < oldest:
            raise SetupError(
                f"{what} must be {'.'.join(map(str, oldest))} or newer, got {spark.version} (docs/running.md, "
                "Versions of Spark)"
            )


def check_streams() -> None:
    """Refuse to be the source of a stream for a Spark that lacks what this needs.

    Raises:
        ReadError: it is older than 4.2.
    """
    import pyspark

    if version_of(pyspark.__version__) < STREAMS_SINCE:
        raise ReadError(
            'spark.readStream.format("altneu") must be run by Spark 4.2 or newer, this is '
            f'{pyspark.__version__}: read the changes since a time instead, with spark.read, .option("mode", '
            '"changes") and .option("since", ...)'
        )


# types ----------------------------------------------------------------------------------------------------------------


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type of a Spark type; timestamps are in UTC.

    Raises:
        pyspark.errors.PySparkTypeError: Arrow has no such type.
    """
    from pyspark.sql.pandas import types

    return types.to_arrow_type(data_type, **_utc(types.to_arrow_type))


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of Spark columns; timestamps are in UTC.

    Raises:
        pyspark.errors.UnsupportedOperationException: a struct has two fields of one name (from 4.0 on).
    """
    from pyspark.sql.pandas import types

    return types.to_arrow_schema(schema, **_utc(types.to_arrow_schema), **_strictly(types.to_arrow_schema))


def spark_type(data_type: pa.DataType) -> DataType:
    """The Spark type of an Arrow type; timestamps without a zone are TIMESTAMP_NTZ."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(data_type, prefer_timestamp_ntz=True)


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of Arrow columns; timestamps without a zone are TIMESTAMP_NTZ."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


_Columns = TypeVar("_Columns", pa.Table, pa.RecordBatch)


def in_units_of_spark(columns: _Columns) -> _Columns:
    """The same columns as Spark takes them from Arrow: times of day in nanoseconds, variants with their mark.

    >>> in_units_of_spark(pa.table({"at": pa.array([1], pa.time64("us"))})).schema
    at: time64[ns]
    """
    for place, field in enumerate(columns.schema):
        if contains(field.type, VARIANT.equals):
            column = columns.column(place)
            if isinstance(column, pa.ChunkedArray):
                column = pa.chunked_array([_whole(chunk) for chunk in column.chunks], field.type)
            else:
                column = _whole(column)
            columns = columns.set_column(place, field, column)
    kinds = [_for_spark(f.type) for f in columns.schema]
    if all(kind.equals(f.type, check_metadata=True) for kind, f in zip(kinds, columns.schema, strict=True)):
        return columns
    fields = [f.with_type(kind) for f, kind in zip(columns.schema, kinds, strict=True)]
    return columns.cast(pa.schema(fields))


def _whole(array: pa.Array) -> pa.Array:
    """The same values with bytes under the variants that are null, without which PySpark cannot cast them."""
    kind = array.type
    if not contains(kind, VARIANT.equals):
        return array
    if pa.types.is_struct(kind):
        parts = [part.fill_null(b"") if kind == VARIANT else _whole(part) for part in array.flatten()]
        fields = list(VARIANT if kind == VARIANT else kind)
        return pa.StructArray.from_arrays(parts, fields=fields, mask=array.is_null() if array.null_count else None)
    lists = explode(array)
    if pa.types.is_map(kind):
        keys, items = lists.elements.field(0), _whole(lists.elements.field(1))
        return implode_map(lists.lengths, keys, items, lists.valid, kind)
    return implode(lists.lengths, _whole(lists.elements), lists.valid)


def _for_spark(kind: pa.DataType) -> pa.DataType:
    if kind == VARIANT:
        return VARIANT
    if pa.types.is_time(kind):
        return pa.time64("ns")
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_for_spark(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_for_spark(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_for_spark(kind.key_type), _for_spark(kind.item_type))
    return kind


@cache
def _utc(function: Callable[..., Any]) -> Mapping[str, Any]:
    """The argument that asks for timestamps in UTC. Spark before 4.2 has none, and gives them in UTC."""
    return {"timezone": "UTC"} if "timezone" in inspect.signature(function).parameters else {}


@cache
def _strictly(function: Callable[..., Any]) -> Mapping[str, Any]:
    name = "error_on_duplicated_field_names_in_struct"
    return {name: True} if name in inspect.signature(function).parameters else {}


# jobs -----------------------------------------------------------------------------------------------------------------


def parallelism(spark: SparkSession) -> int:
    """How many tasks Spark runs at once, where nothing else is asked for. Cost: of a server that is asked, one job."""
    if not is_connect(spark):
        return spark.sparkContext.defaultParallelism
    from pyspark.sql import functions as sf

    return spark.range(_MANY).select(sf.spark_partition_id()).distinct().count()


def server_of(spark: SparkSession) -> str:
    """Where Spark runs: the master, or what there is to say of a server."""
    return "a server of Spark Connect" if is_connect(spark) else str(spark.sparkContext.master)


def record_batches(rows: int, size: int | None = None) -> dict[str, str]:
    """Settings for Arrow's record batches between Spark and Python: how many rows they have, and bytes at most.

    Only without a bound of bytes does Spark not count those of every batch at every row, which takes it twice as long
    as to write the rows. Spark 3.5 bounds rows alone.

    >>> record_batches(4096)["spark.sql.execution.arrow.maxRecordsPerBatch"]
    '4096'
    """
    return {_RECORDS: str(rows), _BYTES: str((1 << 31) - 1 if size is None else size)}


def settings_of(spark: SparkSession) -> dict[str, str]:
    """The settings of a session, and those that its Spark was started with."""
    if is_connect(spark):
        return dict(cast(Any, spark.conf).getAll)
    return dict(spark.sparkContext.getConf().getAll())


def connected(server: str) -> SparkSession:
    """The session of this process on a server of Spark Connect, ``sc://host:port``."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.remote(server).getOrCreate()


def changes_of(spark: SparkSession, table: str, begin: Mapping[str, str]) -> DataFrame:
    """The raw changes of a table in a catalog, as a stream that begins where the options say.

    Raises:
        InputError: this Spark does not know them, or the table's catalog does not tell them.
    """
    from pyspark.errors import PySparkException

    reader: Any = spark.readStream.options(deduplicationMode="none", **begin)
    if not hasattr(reader, "changes"):
        raise InputError(
            f"Spark tells the changes of a table from 4.2 on, and this is {spark.version}; an.delta(path) and "
            "an.iceberg(table) follow tables without Spark"
        )
    try:
        frame = reader.changes(table)
        frame.schema  # noqa: B018  # Connect resolves the table here
    except PySparkException as error:
        raise InputError(
            f"the changes of table {table!r} cannot be read: {failure_of(error).splitlines()[0]}. Spark reads those of "
            "tables whose catalog tells them; an.delta(path) and an.iceberg(table) follow tables without Spark"
        ) from error
    return cast("DataFrame", frame)


@contextmanager
def job_group(spark: SparkSession, group: str, title: str) -> Iterator[None]:
    """A name for the jobs inside; when they are interrupted, or fail, they are cancelled.

    Spark's pages show the title. Spark Connect knows tags instead, and no titles.
    """
    if is_connect(spark):
        spark.addTag(group)
        cancel: Callable[[], object] = partial(spark.interruptTag, group)
        leave: Callable[[], object] = partial(spark.removeTag, group)
    else:
        context = spark.sparkContext
        around = {key: context.getLocalProperty(key) for key in _JOB_PROPERTIES}  # a streaming query has its own
        context.setJobGroup(group, title, interruptOnCancel=True)
        cancel = partial(context.cancelJobGroup, group)

        def leave() -> None:
            for key, known in around.items():
                context.setLocalProperty(key, known)  # type: ignore[arg-type]

    try:
        yield
    except BaseException:
        with interrupts.deferred(), suppress(Exception):  # another error is on its way, which must not be replaced
            cancel()
        raise
    finally:
        with interrupts.deferred():
            leave()


def failure_of(error: Exception) -> str:
    r"""What Spark says of a failure, without Java's stack; before 4.0 the cause may be said at the end of that alone.

    >>> failure_of(ValueError("o1.f: failed\n\tat A\nCaused by: division by zero\n\tat B"))
    'o1.f: failed; caused by: division by zero'
    """
    said = [part.strip().split("\n\tat ")[0] for part in str(error).split("\nCaused by: ")]
    return said[0] if len(said) == 1 else f"{said[0]}; caused by: {said[-1]}"


def observed(observation: Any, name: str) -> int | None:
    """What Spark has counted; None if it has not told yet, which is not waited for, and 0 of a job that failed.

    Where Spark finds, in planning or while the job runs, that there are no rows, it leaves out the count with them and
    tells a row, or a map, without values.
    """
    if isinstance(getattr(observation, "_jo", None), NoneType):  # of Spark Connect
        result = getattr(observation, "_result", None)
        return None if result is None else int(result.get(name, 0))
    value = observation._jo.future().value()
    if not value.isDefined():
        return None
    if not value.get().isSuccess() or value.get().get().toString() in ("[]", "Map()"):
        return 0
    return int(observation.get[name])


def expected_bytes(frame: DataFrame) -> int | None:
    """Bytes that Spark's optimiser expects of a DataFrame, None if it does not tell.

    Of compressed files, and of what makes rows, it expects far too few.
    """
    return None if is_connect(frame) else int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def expected_rows_of_files(frame: DataFrame) -> tuple[int, bool] | None:
    """Rows expected of the files that a DataFrame reads, and whether a filter may leave fewer of them.

    None if it does something else with them, or if that is unknown. What Spark expects of files is their size; texts
    are taken to be of the length that Spark assumes. Compressed files have more rows than that, files of long texts
    fewer.
    """
    if is_connect(frame):
        return None
    plan, is_filtered = _read_by(frame)
    if plan.getClass().getSimpleName() != "LogicalRelation":
        return None
    if plan.relation().getClass().getSimpleName() != "HadoopFsRelation":
        return None
    return int(str(plan.relation().sizeInBytes())) // (8 + int(plan.schema().defaultSize())), is_filtered


def _read_by(frame: DataFrame) -> tuple[Any, bool]:
    """Of a classic session, what the columns of a DataFrame are read from, and whether a filter stands between."""
    plan: Any = frame._jdf.queryExecution().optimizedPlan()
    kinds = []
    while (kind := plan.getClass().getSimpleName()) in ("Project", "Filter"):
        kinds.append(kind)
        plan = plan.child()
    return plan, "Filter" in kinds


def share_of_files(frame: DataFrame) -> float:
    """Which share of a table's bytes is in the files that a DataFrame of a classic session reads.

    Less than 1 if a filter leaves out partitions of the table; 1 if Spark does not say it. ``expected_rows_of_files``
    must have an answer for the DataFrame.
    """
    execution: Any = frame._jdf.queryExecution()
    execution.toRdd()  # with which the scan lists its files
    metrics = execution.executedPlan().collectLeaves().apply(0).metrics()
    size = int(str(_read_by(frame)[0].relation().sizeInBytes()))
    return int(metrics.apply("filesSize").value()) / size if size and metrics.contains("filesSize") else 1.0


def is_shuffled(frame: DataFrame) -> bool:
    """Whether Spark moves rows between its tasks before it has those of a DataFrame."""
    either: Any = frame
    plan = either._explain_string() if is_connect(frame) else either._jdf.queryExecution().executedPlan().toString()
    return "Exchange" in str(plan)


# rows -----------------------------------------------------------------------------------------------------------------


def can_unscale(frame: DataFrame) -> bool:
    """Whether Spark can compute the unscaled value of a decimal: only the JVM has the expression, and SQL none."""
    return not is_connect(frame)


def unscaled(decimal: Column) -> Column:
    """The unscaled value of a decimal of at most 18 digits, a whole number; the session must be a classic one."""
    from pyspark import SparkContext
    from pyspark.sql import Column

    jvm: Any = SparkContext._active_spark_context._jvm  # type: ignore[union-attr]
    digits, asked = jvm.org.apache.spark.sql.catalyst.expressions.UnscaledValue, cast(Any, decimal)._jc
    if version_of(SparkContext._active_spark_context.version) < (4, 0):  # type: ignore[union-attr]
        return cast(Any, Column)(jvm.org.apache.spark.sql.Column(digits(asked.expr())))
    between = jvm.org.apache.spark.sql.classic.ExpressionUtils
    return cast(Any, Column)(between.column(digits(between.expression(asked))))


def to_arrow(frame: DataFrame) -> pa.Table:
    """All rows of a DataFrame: ``toArrow``, which came with 4.0."""
    schema = arrow_schema(frame.schema)
    variants = any(contains(f.type, VARIANT.equals) for f in schema)  # which toArrow casts, and Arrow does not if null
    if hasattr(frame, "toArrow") and not variants:
        return frame.toArrow()
    if is_connect(frame.sparkSession):
        return cast(Any, frame)._to_table()[0]
    batches = cast(Any, frame)._collect_as_arrow()
    if variants:
        return pa.Table.from_batches(batches) if batches else schema.empty_table()
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def from_arrow(spark: SparkSession, table: pa.Table, schema: StructType | str) -> DataFrame:
    """Rows of this process as a DataFrame: ``createDataFrame`` of an Arrow table, which came with 4.0."""
    if version_of(spark.version) >= (4, 0):
        return spark.createDataFrame(table, schema)
    from pyspark.sql import DataFrame
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer
    from pyspark.sql.types import _parse_datatype_string

    struct = _parse_datatype_string(schema) if isinstance(schema, str) else schema
    size = int(str(spark.conf.get(_RECORDS)))
    jvm: Any = spark._jvm
    rows = spark._sc._serialize_to_jvm(  # one partition a batch, as 4.0 does it
        table.to_batches(size if size > 0 else None) or [pa.RecordBatch.from_pylist([], schema=table.schema)],
        ArrowStreamSerializer(),
        jvm.PythonSQLUtils.readArrowStreamFromFile,
        jvm.ArrowIteratorServer,
    )
    return DataFrame(jvm.PythonSQLUtils.toDataFrame(rows, struct.json(), spark._jsparkSession), spark)


def partitions_of(frame: DataFrame) -> int:
    """How many partitions the rows of a DataFrame of a classic session are in."""
    return int(frame._jdf.queryExecution().toRdd().getNumPartitions())


def arrow_batches(frame: DataFrame, size: int, count: int) -> list[bytes]:
    """The first of a DataFrame's rows as so many of Arrow's record batches, of at most ``size`` rows each, in UTC.

    They come through a socket: py4j would decode the bytes of a call's result one by one.
    """
    from pyspark.serializers import NoOpSerializer

    session = frame.sparkSession
    jvm: Any = session._jvm
    python = jvm.org.apache.spark.api.python
    batches = python.PythonUtils.toSeq(_arrow_rdd(frame, size).toJavaRDD().take(count))
    served = python.PythonRDD.serveIterator(batches.iterator(), "altneu: first rows")
    read: Any = _loader()(served, NoOpSerializer())
    with read if hasattr(read, "__enter__") else nullcontext(read) as items:  # a context from 4.3 on
        return [bytes(item) for item in items]


def _loader() -> Callable[..., Any]:
    """What reads from a socket that a JVM has opened."""
    from pyspark import rdd, util

    home = util if hasattr(util, "_load_from_socket") else rdd  # before 4.0
    return cast("Callable[..., Any]", getattr(home, "_load_from_socket"))  # noqa: B009  # which is in no stub


def _arrow_rdd(frame: DataFrame, size: int) -> Any:
    session = frame.sparkSession
    if version_of(session.version) >= (4, 2):
        return frame._jdf.toArrowBatchRdd(size, session.conf.get("spark.sql.session.timeZone"), True, False)
    before = session.conf.get(_RECORDS)
    session.conf.set(_RECORDS, str(size))
    try:
        return frame._jdf.toArrowBatchRdd()
    finally:
        session.conf.set(_RECORDS, str(before))


# placement ------------------------------------------------------------------------------------------------------------


def by_shard(frame: DataFrame, shards: int) -> DataFrame:
    """Put the rows of each ``shard``, modulo ``shards``, into the partition of that number.

    That is what ``repartitionById`` does, which came with 4.1.

    Before that, rows are placed by the hash of a number that Spark places there.
    """
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(shards, "shard")
    from pyspark.sql import functions as sf

    numbers = ", ".join(f"{number}L" for number in _numbers(frame.sparkSession, shards))
    return frame.repartition(shards, sf.expr(f"element_at(array({numbers}), pmod(shard, {shards}) + 1)"))


_KNOWN: dict[int, list[int]] = {}  # Spark's hash is the same in all sessions and versions


def _numbers(spark: SparkSession, shards: int) -> list[int]:
    """For each shard a number whose hash, as ``repartition`` takes it, is that of the shard's partition."""
    most = _PLACES * shards
    while shards not in _KNOWN:
        rows = spark.range(0, most, 1, 1).selectExpr("id", f"pmod(hash(id), {shards}) AS shard")
        found = {int(shard): int(number) for shard, number in rows.groupBy("shard").min("id").collect()}
        if len(found) == shards:
            _KNOWN[shards] = [found[shard] for shard in range(shards)]
        most *= 2
    return _KNOWN[shards]
