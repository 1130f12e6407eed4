"""The columns of a source and the origin of its rows: files, tables and streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from altneu import cdc
from altneu.collections.collection import Collection
from altneu.collections.declaring import source as declare
from altneu.collections.verbs import Logic
from altneu.errors import StatementError
from altneu.sql.statements.files import read_files, schema_of_files
from altneu.sql.statements.options import expanded
from altneu.sql.statements.tree import TABLES, CreateSource, Origin
from altneu.streams import Delta, Iceberg, delta, iceberg
from altneu.types import parse_schema, quote_name, to_ddl

FILES = ("csv", "json", "text", "parquet", "orc")
TYPED = ("csv", "json", "text")  # files that do not say what their columns are


def columns_of(statement: CreateSource, spark: Any) -> tuple[str, str]:
    """The columns of a source and those of its rows as they come, as DDL: as declared, or as its origin has them.

    Raises:
        StatementError: nothing says what they are.
    """
    kind = statement.envelope.kind
    if kind in _RAW and statement.columns is None:
        raise StatementError(
            f"source {statement.name!r}: ENVELOPE {kind.upper()} needs the columns that its documents have: "
            f"CREATE SOURCE {statement.name} (id BIGINT, …) …"
        )
    if statement.raw is not None:
        return _ddl(statement.columns or statement.raw), _ddl(statement.raw)
    raw = _RAW[kind](statement.envelope.options) if kind in _RAW else statement.columns
    if raw is None:
        raw = to_ddl(_schema_of_origin(statement, spark))
    return _ddl(statement.columns or raw), _ddl(raw)


def _ddl(text: str) -> str:
    return to_ddl(parse_schema(text))


def _raw_debezium(o: Mapping[str, Any]) -> str:
    return f"{quote_name(o.get('COLUMN', 'value'))} string"


def _raw_debezium_upsert(o: Mapping[str, Any]) -> str:
    orders = [f"{quote_name(c)} bigint" for c in o.get("ORDER BY", ("offset",))]
    texts = [f"{quote_name(c)} string" for c in (o.get("KEY COLUMN"), o.get("COLUMN", "value")) if c]
    return ", ".join([*orders, *texts])


def _raw_updates(o: Mapping[str, Any]) -> str:
    data, time, diff = (quote_name(o.get(word, word.lower())) for word in ("DATA", "TIME", "DIFF"))
    return f"{data} string, {time} bigint, {diff} bigint"


_RAW: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "debezium": _raw_debezium,
    "maxwell": _raw_debezium,
    "canal": _raw_debezium,
    "ogg": _raw_debezium,
    "mongodb": _raw_debezium,
    "mongodb upsert": _raw_debezium_upsert,
    "debezium upsert": _raw_debezium_upsert,
    "updates": _raw_updates,
}


def _schema_of_origin(statement: CreateSource, spark: Any) -> pa.Schema:
    origin = statement.origin
    if origin.kind == "insert":
        raise StatementError(f"source {statement.name!r} needs columns, or FROM to read them from")
    if origin.kind in TABLES:
        return table_of(statement).schema()
    if spark is None:
        if origin.kind != "file":
            raise StatementError(needs_spark(statement))
        return schema_of_files(origin)
    fields = frame_of(statement, None, spark).schema.fields
    return parse_schema(", ".join(f"{quote_name(f.name)} {f.dataType.simpleString()}" for f in fields))


def rows_of(statement: CreateSource, raw: str) -> Collection:
    """A source's rows as they come."""
    times = tuple(name for _, name in statement.times)
    plain = statement.envelope.kind == "none"
    coordinates = times if len(times) > 1 else None
    return declare(
        statement.name,
        raw,
        keep=statement.keep and plain,
        time=coordinates,
        static=statement.static,
        append_only=statement.append_only,
    )


def collection_of(statement: CreateSource, columns: str, raw: str) -> Collection:
    """What a source's name means: its rows, decoded."""
    rows = rows_of(statement, raw)
    return _DECODERS[statement.envelope.kind](rows, parse_schema(columns), dict(statement.envelope.options))


def _plain(rows: Collection, fields: pa.Schema, o: dict[str, Any]) -> Collection:
    return rows


def _debezium(rows: Collection, fields: pa.Schema, o: dict[str, Any]) -> Collection:
    return rows.join_function(cdc.debezium(fields, column=o.get("COLUMN", "value"), unit=o.get("UNIT", "")))


def _logic_of(decoder: Callable[..., Logic]) -> Callable[[Collection, pa.Schema, dict[str, Any]], Collection]:
    def decoded(rows: Collection, fields: pa.Schema, o: dict[str, Any]) -> Collection:
        return rows.join_function(decoder(fields, **{name.lower(): value for name, value in o.items()}))

    return decoded


def _mongodb_upsert(rows: Collection, fields: pa.Schema, o: dict[str, Any]) -> Collection:
    names = {"KEY": "key", "ORDER BY": "order", "COLUMN": "column", "TABLE": "table"}
    return cdc.mongodb_upsert(rows, fields, **{names[word]: value for word, value in o.items()})


def _debezium_upsert(rows: Collection, fields: pa.Schema, o: dict[str, Any]) -> Collection:
    rest = {"order": o["ORDER BY"]} if "ORDER BY" in o else {}
    rest |= {"column": o.get("COLUMN", "value"), "key_column": o.get("KEY COLUMN"), "unit": o.get("UNIT", "")}
    return cdc.debezium_upsert(rows, fields, o["KEY"], **rest)


def _upsert(rows: Collection, fields: pa.Schema, o: dict[str, Any]) -> Collection:
    """Columns that are none of the rows' own are members of the one column that is the value."""
    rest: dict[str, Any] = {"order": o["ORDER BY"]} if "ORDER BY" in o else {}
    if "VALUE" in o:
        rest["value"] = o["VALUE"]
    if not set(fields.names) <= set(rows.columns):
        rest["fields"] = pa.schema([f for f in fields if f.name not in o["KEY"]])
    return cdc.upsert(rows, o["KEY"], deleted=o.get("DELETED WHEN"), unit=o.get("UNIT", ""), **rest)


def _updates(rows: Collection, fields: pa.Schema, o: dict[str, Any]) -> Collection:
    names = {name.lower(): o[name] for name in ("DATA", "TIME", "DIFF") if name in o}
    return rows.join_function(cdc.updates(fields, unit=o.get("UNIT", ""), **names))


_DECODERS: dict[str, Callable[[Collection, pa.Schema, dict[str, Any]], Collection]] = {
    "none": _plain,
    "debezium": _debezium,
    "debezium upsert": _debezium_upsert,
    "maxwell": _logic_of(cdc.maxwell),
    "canal": _logic_of(cdc.canal),
    "ogg": _logic_of(cdc.ogg),
    "mongodb": _logic_of(cdc.mongodb),
    "mongodb upsert": _mongodb_upsert,
    "upsert": _upsert,
    "updates": _updates,
}


# rows -----------------------------------------------------------------------------------------------------------------


def table_of(statement: CreateSource) -> Delta | Iceberg:
    """The table that a source follows.

    Raises:
        InputError: options that contradict each other.
    """
    words = ("FROM_VERSION", "FROM_SNAPSHOT", "FROM_TIMESTAMP", "SNAPSHOT", "MAX_BYTES")
    options = {word.lower(): statement.options[word] for word in words if word in statement.options}
    storage = {name: str(expanded(value)) for name, value in statement.origin.options.items()}
    (place,) = statement.origin.places
    if statement.origin.kind == "iceberg":
        return iceberg(place, catalog=storage or None, **options)
    return delta(place, storage_options=storage, **options)


def needs_spark(statement: CreateSource) -> str:
    """What a session without Spark says."""
    what = "a table of Spark's" if statement.origin.kind == "table" else "a stream"
    return (
        f"source {statement.name!r} is {what}, but this session has no Spark: Session(spark, ...), "
        "or altneu run --master local[*]"
    )


def batch_of(statement: CreateSource, raw: str, spark: Any) -> Any:
    """All rows of a batch source as it is now: a DataFrame, or an Arrow table.

    Raises:
        StatementError: it is for Spark to read, and there is none; files that are not there.
    """
    if spark is not None:
        return frame_of(statement, raw, spark)
    if statement.origin.kind != "file":
        raise StatementError(needs_spark(statement))
    return read_files(statement.origin, parse_schema(raw))


def frame_of(statement: CreateSource, raw: str | None, spark: Any) -> Any:
    """A DataFrame of a source's rows, a stream where it is one; binary columns that are to be texts become that.

    Raises:
        StatementError: Spark cannot read it, and says why.
    """
    try:
        frame = _read_by(spark.readStream if statement.origin.kind == "stream" else spark.read, statement.origin, raw)
        return frame if raw is None else _as_texts(frame, parse_schema(raw))
    except Exception as error:
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        reason = " ".join(str(error).split("\n\n", 1)[0].splitlines()[:2])
        raise StatementError(f"source {statement.name!r} cannot be read by Spark: {reason}") from error


def _read_by(reader: Any, origin: Origin, raw: str | None) -> Any:
    if origin.kind == "file" and origin.form in ("csv", "json"):
        reader = reader.option("mode", "FAILFAST")  # else an invalid value is NULL, and without Spark an error
    for name, value in origin.options.items():
        reader = reader.option(name, expanded(value))
    if origin.form == "table" or origin.kind == "table":
        return reader.table(origin.places[0])
    if raw is not None and origin.form in (FILES if origin.kind == "stream" else TYPED):
        reader = reader.schema(raw)
    reader = reader.format(origin.form)
    places = list(origin.places)
    return reader.load(places[0] if len(places) == 1 else places) if places else reader.load()


def _as_texts(frame: Any, schema: pa.Schema) -> Any:
    texts = {f.name for f in schema if f.type == pa.string()}
    binary = {f.name for f in frame.schema.fields if f.dataType.simpleString() == "binary"} & texts
    if not binary:
        return frame
    cast = "CAST({0} AS STRING) AS {0}"
    return frame.selectExpr(*(cast.format(quote_name(c)) if c in binary else quote_name(c) for c in frame.columns))


def stamped(frame: Any, expressions: Mapping[str, str]) -> tuple[Any, dict[str, str]]:
    """A DataFrame with a column for each expression that is none of its columns; what these are called."""
    names = {what: text.strip("`") for what, text in expressions.items()}
    more = {what: text for what, text in expressions.items() if names[what] not in frame.columns}
    if not more:
        return frame, names
    added = [f"{text} AS `#{what}`" for what, text in more.items()]
    return frame.selectExpr("*", *added), names | {what: f"#{what}" for what in more}
