"""Rows from outside: Python rows, Arrow tables, pandas, Polars and Spark frames become updates of a source."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from altneu import types as T
from altneu.columnar.rows import array_of, refuse_unfit
from altneu.errors import InputError, SchemaError, SourceFailedError
from altneu.errors.nearest import did_you_mean, listed
from altneu.operators.source.keyed import COMMANDS
from altneu.plan import ir
from altneu.runtime.inputs import Commands, Stamp, named

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LONG = pa.int64()
_TUPLES = {tuple}
InsertTime = int | str | tuple[int | str | None, ...] | None
Extra = Literal["error", "ignore"]
"""What becomes of columns that data has and the source has not: data with some is refused, or they are left out."""

_SINCE_1970 = "or a whole number of microseconds since 1970"
_MOMENTS = {
    T.DATE: "give a datetime.date, or a whole number of days since 1970",
    T.TIME: "give a datetime.time, or a whole number of microseconds since midnight",
    T.TIMESTAMP: f"give a datetime.datetime, in UTC if it has no time zone, {_SINCE_1970}",
    T.TIMESTAMP_NTZ: f"give a datetime.datetime without a time zone, {_SINCE_1970}",
    T.DAY_TIME: "give a datetime.timedelta",
}
"""What a value of these types must be."""

CONVERSION = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError)


def is_spark_frame(data: object) -> bool:
    """Whether this is a Spark DataFrame (classic or Connect), decided without importing pyspark."""
    return type(data).__module__.startswith("pyspark.sql") and hasattr(data, "mapInArrow")


class _Every:
    """A container of everything."""

    def __contains__(self, name: object) -> bool:
        return True


def unread(source: ir.Source, extra: Extra, named: Sequence[object] = ()) -> Container[str]:
    """The columns that data of a source may have although nothing reads them.

    These are the source's own, of which commands by key read some, and those that are ``named`` by an argument; with
    ``extra="ignore"`` they are all.

    Raises:
        InputError: ``extra`` is something else.
    """
    if extra not in ("error", "ignore"):
        raise InputError(f'extra must be "error" or "ignore", got {extra!r}')
    if extra == "ignore":
        return _Every()
    own: list[str] = source.schema.names
    return [*own, *(n for n in named if isinstance(n, str))] if named else own


def refuse_extra(names: Iterable[str], read: Collection[str], others: Container[str], source: str) -> None:
    """Refuse data that has a column which is neither read nor among ``others``.

    Raises:
        SchemaError: naming it.
    """
    for name in names:
        if name not in read and name not in others:
            raise SchemaError(_extra(f"the data for source {source!r}", name, read))


def _extra(what: str, name: object, read: Collection[str]) -> str:
    return (
        f"{what} has {name!r}, which is not a column; the columns are: {', '.join(read)}"
        f"{did_you_mean(str(name), read) or '.'} To leave out what is none, "
        'pass extra="ignore"; to add it to the source, ALTER TABLE … ADD COLUMN or declare it with an.source'
    )


def to_table(
    data: Any, columns: Sequence[str], schema: pa.Schema, source: str, others: Container[str] = ()
) -> pa.Table | pa.RecordBatch:
    """Rows in any in-memory form as Arrow data.

    Shape:  tuples have the values of ``columns`` in order, dictionaries their names and perhaps ``others``, which are
            left out; a source of one column takes bare values too. Frames keep their own columns.

    Raises:
        SchemaError: a value does not fit; names the row and the column.
        InputError: the data is of an unsupported kind.
    """
    if isinstance(data, pa.Table | pa.RecordBatch):
        return data
    if isinstance(data, list):
        return _from_python(data, columns, schema, source, others)
    if is_spark_frame(data):
        _check_readable(data, source)
        from altneu.runtime.spark.versions import to_arrow

        return to_arrow(data)
    if hasattr(type(data), "columns") and type(data).__module__.split(".")[0] in ("pandas", "polars"):
        return _from_frame(data, source)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes | Mapping):
        return _from_python(list(data), columns, schema, source, others)
    raise InputError(
        f"the rows for {source!r} must be a Spark DataFrame, an Arrow table, a pandas or Polars frame, or a list of "
        f"tuples or dictionaries, got a {type(data).__name__}; one row is a list of one"
    )


def _from_frame(data: Any, source: str) -> pa.Table:
    """A pandas or Polars frame as an Arrow table; a lazy frame is collected."""
    try:
        if type(data).__module__.startswith("pandas"):
            return pa.Table.from_pandas(data, preserve_index=False)
        return (data.collect() if hasattr(data, "collect") else data).to_arrow()
    except CONVERSION as error:
        reason = "; ".join(map(str, error.args))
        raise SchemaError(f"the frame for source {source!r} cannot be converted to an Arrow table: {reason}") from error
    except Exception as error:
        raise SourceFailedError(
            f"the frame for source {source!r} failed, and none of its rows were inserted: {error}"
        ) from error


def python_columns(
    rows: list[Any], columns: Sequence[str], schema: pa.Schema, source: str, others: Container[str] = ()
) -> list[pa.Array]:
    """Python rows as Arrow columns of a schema's types; columns that it lacks are whole numbers.

    Raises:
        SchemaError: a value does not fit; names the row and the column.
    """
    if set(map(type, rows)) == _TUPLES and set(map(len, rows)) == {len(columns)}:
        tuples = rows
    else:
        needed = frozenset(field.name for field in schema if not field.nullable)
        beside = _beside(columns, schema.names)
        tuples = [_as_tuple(row, i, columns, source, others, needed, beside) for i, row in enumerate(rows)]
    names, types = schema.names, schema.types
    if names != columns:
        known = dict(zip(names, types, strict=True))
        types = [known.get(name, _LONG) for name in columns]
    arrays: list[pa.Array] = []
    more_fields = type(others) is _Every
    by_column = list(zip(*tuples, strict=True)) or [()] * len(columns)
    for k, (values, data_type) in enumerate(zip(by_column, types, strict=True)):
        try:
            arrays += (array_of(values, data_type, more_fields=more_fields),)
        except CONVERSION:
            i, reason = _first_bad(values, data_type, more_fields=more_fields)
            raise SchemaError(
                f"row {i} for source {source!r} has {values[i]!r} in column {columns[k]!r}, which is {named(data_type)}"
                f"{_wanted(data_type)}{reason}"
            ) from None
    return arrays


def _wanted(data_type: pa.DataType) -> str:
    """What a value of a type must be, to end a message with; empty where the name of the type says it."""
    if data_type in _MOMENTS:
        return f"; {_MOMENTS[data_type]}"
    return "; give a decimal.Decimal of that many digits, or a whole number" if pa.types.is_decimal(data_type) else ""


def _from_python(
    rows: list[Any], columns: Sequence[str], schema: pa.Schema, source: str, others: Container[str]
) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(python_columns(rows, columns, schema, source, others), columns)


def _as_tuple(
    row: Any,
    i: int,
    columns: Sequence[str],
    source: str,
    others: Container[str],
    needed: AbstractSet[str],
    beside: str,
) -> tuple[Any, ...]:
    """The values of a row; ``needed`` are the columns that a dictionary must have, as they hold no null.

    ``beside`` is what a message says of columns that are not the source's.
    """
    if isinstance(row, Mapping):
        unknown = [k for k in row if k not in columns and k not in others]
        if unknown:
            raise SchemaError(_extra(f"row {i} for source {source!r}", unknown[0], columns))
        if not needed <= row.keys():
            missing = next(name for name in columns if name in needed and name not in row)
            raise SchemaError(f"row {i} for source {source!r} lacks the key {missing!r}, whose column is NOT NULL")
        return tuple(row.get(n) for n in columns)
    if isinstance(row, tuple | list):
        if len(row) != len(columns):
            raise SchemaError(
                f"row {i} for source {source!r} has {len(row)} values "
                f"for the {len(columns)} columns {', '.join(columns)}{beside}"
            )
        return tuple(row)
    if len(columns) == 1:
        return (row,)
    raise SchemaError(
        f"row {i} for source {source!r} must be a tuple or a dictionary of {', '.join(columns)}, got a "
        f"{type(row).__name__}"
    )


def _beside(columns: Sequence[str], own: Sequence[str]) -> str:
    """What a message says of the columns that rows must have beside the source's own; empty where there are none."""
    more = [name for name in columns if name not in own]
    meant = "".join(did_you_mean(name, own) for name in more)
    return f", of which {', '.join(more)} is named by an argument and not a column of the source{meant}" if more else ""


def _first_bad(values: Sequence[Any], data_type: pa.DataType, *, more_fields: bool) -> tuple[int, str]:
    """The first value that does not fit; and, to end a message with, what inside of it does not where that is known."""
    for i, value in enumerate(values):
        try:
            refuse_unfit([value], data_type, more_fields=more_fields)
            array_of([value], data_type, more_fields=more_fields)
        except pa.ArrowInvalid as error:
            return i, f": {error}" if pa.types.is_nested(data_type) else ""
        except CONVERSION:
            return i, ""
    return 0, ""


def check_frame(frame: DataFrame, stamp: Stamp) -> None:
    """Check a Spark DataFrame's columns and types against a source, without running it.

    Raises:
        SchemaError: naming the column and both types.
        InputError: the DataFrame is a stream, or its SparkSession was stopped.
    """
    _check_readable(frame, stamp.source)
    check_columns(frame, stamp)


def _check_readable(frame: DataFrame, source: str) -> None:
    from altneu.runtime.spark.versions import is_stopped

    if is_stopped(frame.sparkSession):  # before anything else is asked of it: Java would answer
        raise InputError(
            f"the DataFrame for source {source!r} is of a SparkSession that was stopped, and cannot be read any more: "
            "make it with a SparkSession that runs"
        )
    if frame.isStreaming:
        raise InputError(
            f"the DataFrame for source {source!r} is a stream and cannot be inserted: session.follow({source}=...) "
            "takes its micro-batches"
        )


def check_columns(frame: DataFrame, stamp: Stamp) -> None:
    """Check the columns and types of a Spark DataFrame, which may be a stream, against a source.

    Raises:
        SchemaError: naming the column and both types.
    """
    fields = [_field_of(frame, column, stamp.source) for column in stamp.columns]
    stamp.updates(pa.Table.from_batches([], schema=pa.schema(fields)))


def _field_of(frame: DataFrame, column: str, source: str) -> pa.Field:
    from pyspark.errors import PySparkTypeError

    from altneu.runtime.spark.versions import arrow_type

    names = frame.columns
    if column not in names:
        raise SchemaError(
            f"the DataFrame for source {source!r} lacks column {column!r}; it has: {listed(column, names)}"
        )
    if sum(n.lower() == column.lower() for n in names) > 1:
        raise SchemaError(
            f"the DataFrame for source {source!r} has several columns that Spark reads as {column!r}: "
            f"{', '.join(names)}; "
            "drop or rename all but one"
        )
    try:
        return pa.field(column, arrow_type(frame.schema[names.index(column)].dataType))
    except PySparkTypeError as error:
        raise SchemaError(
            f"column {column!r} of the DataFrame for source {source!r} has a type that Arrow lacks ({error}); "
            "cast it before inserting"
        ) from None


def commands_of(source: ir.Source, call: int, kind: int | str | None) -> Commands | None:
    """How rows of a source become commands; None for a source without commands, whose rows add up.

    ``kind`` is as for ``Commands``.

    Raises:
        InputError: the command needs a key, and the source has none.
    """
    if kind is not None and source.key is None:
        need = f"{COMMANDS[kind]} needs" if isinstance(kind, int) else "commands by name need"
        what = "is a set without a key" if source.distinct else "has no key"
        raise InputError(
            f"source {source.name!r} {what}, which {need}: declare it with an.source({source.name!r}, ..., key=...), "
            "or insert and retract whole rows"
        )
    if source.commanded_by is None:
        return None
    return Commands(source.schema, source.commanded_by, call, kind)


def own_times(source: ir.Source, time: InsertTime) -> tuple[int | str | None, tuple[int | str, ...]]:
    """The time at which rows become known, and their own times: none if the source has one time."""
    if source.coordinates is None:
        if isinstance(time, tuple):
            raise InputError(
                f"source {source.name!r} has one time, and the insert gives {time!r}; "
                'declare the source with time=("system", "event") to give it two'
            )
        return time, ()
    given = time if isinstance(time, tuple) else (time,)
    known, about = (given[0], given[1:]) if len(given) == len(source.coordinates) else (None, given)
    if len(about) != len(source.coordinates) - 1 or any(own is None or isinstance(own, tuple) for own in about):
        names, (_, *rest) = source.coordinates, source.coordinates
        own = ", ".join(rest)
        raise InputError(
            f"source {source.name!r} has {ir.times_named(names)}; say which {own} the rows are about: "
            f"time=({', '.join(names)}), each a number or the name of a column, or only the {own}"
        )
    return known, about  # type: ignore[return-value]  # none of them is None
