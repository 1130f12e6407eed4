"""Types: Arrow types with Spark's meaning, read from and written as Spark's DDL.

Inside altneu every column has one of these types: boolean, int8 to int64, float32, float64, decimal128, string, binary,
date32, timestamp("us", "UTC") (Spark's ``timestamp``), timestamp("us") (``timestamp_ntz``), duration("us")
(``interval day to second``), time64("us") (``time(6)``), list, map, struct, null (``void``), and ``VARIANT``, the
struct of two byte strings that Parquet and Spark give variants as; any struct of exactly this form is a variant.
Anything else that Arrow can say is normalised to one of them or refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa
import sqlglot
from pyarrow import types as pt
from sqlglot import exp

from altneu.errors import PlanError, SchemaError
from altneu.types.syntax import NO_TYPE, Ddl, refuse_unread

BOOLEAN, STRING, BINARY, DATE, NULL = pa.bool_(), pa.string(), pa.binary(), pa.date32(), pa.null()
BYTE, SHORT, INT, LONG = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE = pa.float32(), pa.float64()
TIMESTAMP, TIMESTAMP_NTZ = pa.timestamp("us", "UTC"), pa.timestamp("us")
TIME = pa.time64("us")
DAY_TIME, YEAR_MONTH = pa.duration("us"), pa.month_day_nano_interval()
"""Intervals; a year-month interval exists only inside expressions."""
VARIANT = pa.struct(
    [pa.field("value", BINARY, False), pa.field("metadata", BINARY, False, metadata={"variant": "true"})]
)
"""A variant's value and the names that it uses, with the mark by which Spark tells it from a struct."""

_NAMES = {
    BOOLEAN: "boolean",
    BYTE: "tinyint",
    SHORT: "smallint",
    INT: "int",
    LONG: "bigint",
    FLOAT: "float",
    DOUBLE: "double",
    STRING: "string",
    BINARY: "binary",
    DATE: "date",
    TIMESTAMP: "timestamp",
    TIMESTAMP_NTZ: "timestamp_ntz",
    TIME: "time(6)",
    DAY_TIME: "interval day to second",
    YEAR_MONTH: "interval year to month",
    NULL: "void",
    VARIANT: "variant",
}

_SIMPLE = {
    exp.DType.BOOLEAN: BOOLEAN,
    exp.DType.TINYINT: BYTE,
    exp.DType.SMALLINT: SHORT,
    exp.DType.INT: INT,
    exp.DType.BIGINT: LONG,
    exp.DType.FLOAT: FLOAT,
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.TEXT: STRING,
    exp.DType.VARCHAR: STRING,
    exp.DType.CHAR: STRING,
    exp.DType.BINARY: BINARY,
    exp.DType.DATE: DATE,
    exp.DType.TIMESTAMP: TIMESTAMP,
    exp.DType.TIMESTAMPTZ: TIMESTAMP,
    exp.DType.TIMESTAMPLTZ: TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: TIMESTAMP_NTZ,
    exp.DType.NULL: NULL,
    exp.DType.VARIANT: VARIANT,
}

_WIDENED = {
    pa.uint8(): SHORT,
    pa.uint16(): INT,
    pa.uint32(): LONG,
    pa.float16(): FLOAT,
    pa.large_string(): STRING,
    pa.string_view(): STRING,
    pa.large_binary(): BINARY,
    pa.binary_view(): BINARY,
    pa.date64(): DATE,
}


def parse_schema(schema: str | pa.Schema | StructType) -> pa.Schema:
    """Read Spark DDL or the schema of a DataFrame of PySpark, or normalise an Arrow schema.

    >>> parse_schema("src long, xs array<int>, t timestamp NOT NULL")
    src: int64
    xs: list<element: int32>
      child 0, element: int32
    t: timestamp[us, tz=UTC] not null

    Raises:
        SchemaError: the text is no DDL, a type is not supported, or a name comes twice.
    """
    if isinstance(schema, pa.Schema):
        fields = [marked(pa.field(f.name, normalise_type(f.type, f.name), f.nullable), mark_of(f)) for f in schema]
    elif isinstance(schema, str):
        fields = [*_parse_ddl(schema)]
    elif type(schema).__module__ == "pyspark.sql.types" and hasattr(schema, "fields"):
        fields = [*_parse_ddl(ddl_of(schema))] if schema.fields else []
    else:
        raise SchemaError(
            "a schema must be Spark DDL, such as 'src long, dst long', a pyarrow.Schema or a DataFrame's schema, got "
            f"{type(schema).__name__}"
        )
    seen: set[str] = set()
    for field in fields:
        if field.name.lower() in seen:
            raise SchemaError(
                f"the column {field.name!r} occurs twice in the schema (names that differ in case alone are equal)"
            )
        seen.add(field.name.lower())
    return pa.schema(fields)


def parse_type(text: str) -> pa.DataType:
    """Read the DDL of one type.

    >>> parse_type("map<string, decimal(10, 2)>")
    MapType(map<string, decimal128(10, 2)>)
    """
    return _parse_ddl(f"value {text}", lengths=True)[0].type


class StructType(Protocol):
    """A StructType of PySpark, such as the schema of a DataFrame."""

    fields: list[Any]


def ddl_of(schema: StructType) -> str:
    """The DDL of a StructType of PySpark: with NOT NULL where its columns have it, and names quoted at any depth."""
    columns = (
        f"{quote_name(f.name)} {_spark_type(f.dataType)}{'' if f.nullable else ' NOT NULL'}" for f in schema.fields
    )
    return ", ".join(columns)


def _spark_type(data_type: Any) -> str:
    match type(data_type).__name__:
        case "StructType":
            return f"struct<{','.join(f'{quote_name(f.name)}:{_spark_type(f.dataType)}' for f in data_type.fields)}>"
        case "ArrayType":
            return f"array<{_spark_type(data_type.elementType)}>"
        case "MapType":
            return f"map<{_spark_type(data_type.keyType)},{_spark_type(data_type.valueType)}>"
        case _:
            return str(data_type.simpleString())


def type_name(data_type: pa.DataType) -> str:
    """Spark's name of a type.

    >>> type_name(pa.list_(pa.struct([("a", pa.int64()), ("b", pa.timestamp("us", "UTC"))])))
    'array<struct<a:bigint,b:timestamp>>'
    """
    name = _NAMES.get(data_type)
    if name is not None:
        return name
    if pt.is_decimal128(data_type):
        return f"decimal({data_type.precision},{data_type.scale})"
    if pt.is_list(data_type):
        return f"array<{type_name(data_type.value_type)}>"
    if pt.is_map(data_type):
        return f"map<{type_name(data_type.key_type)},{type_name(data_type.item_type)}>"
    if pt.is_struct(data_type):
        return f"struct<{','.join(f'{stored_name(f.name)}:{type_name(f.type)}' for f in data_type)}>"
    return str(data_type)


_MARK = b"altneu"


def mark_of(field: pa.Field) -> str:
    """What the declaration of a column says beside its type: ``interval day``; else nothing.

    >>> mark_of(marked(pa.field("d", DAY_TIME), "interval day")), mark_of(pa.field("d", DAY_TIME))
    ('interval day', '')
    """
    return (field.metadata or {}).get(_MARK, b"").decode()


def marked(field: pa.Field, mark: str) -> pa.Field:
    """A field that says something beside its type."""
    return field.with_metadata({_MARK: mark.encode()}) if mark else field


def to_ddl(schema: pa.Schema) -> str:
    """Write a schema as Spark DDL, which ``parse_schema`` reads back.

    >>> to_ddl(parse_schema("src long, `my col` decimal(10,2) not null"))
    'src bigint, `my col` decimal(10,2) NOT NULL'
    """
    return ", ".join(f"{stored_name(f.name)} {declared_type(f)}{'' if f.nullable else ' NOT NULL'}" for f in schema)


def declared_type(field: pa.Field) -> str:
    """The type of a column as it is declared: with its collation.

    >>> declared_type(parse_schema("s string collate UTF8_LCASE").field(0))
    'string collate UTF8_LCASE'
    """
    mark = mark_of(field)
    return type_with_collation(field.type, mark.removeprefix("collate ") if mark.startswith("collate ") else "")


def shown_type(field: pa.Field) -> str:
    """The type of a column as Spark shows it: as it is declared, and of an interval the units that its values have.

    >>> shown_type(marked(pa.field("d", DAY_TIME), "interval hour to second"))
    'interval hour to second'
    """
    mark = mark_of(field)
    return mark if mark.startswith("interval ") else declared_type(field)


def type_with_collation(data_type: pa.DataType, collation: str) -> str:
    """The name of a type of texts, or of arrays of texts, that have a collation, or none.

    >>> type_with_collation(list_type(STRING), "UTF8_LCASE")
    'array<string collate UTF8_LCASE>'
    """
    name = type_name(data_type)
    if not collation:
        return name
    return f"array<string collate {collation}>" if pa.types.is_list(data_type) else f"{name} collate {collation}"


def quote_name(name: str) -> str:
    """Quote a name with backticks where SQL needs them.

    >>> quote_name("delay"), quote_name("right.dst")
    ('delay', '`right.dst`')
    """
    return stored_name(name) if name.upper() not in _NEVER_BARE else f"`{name}`"


@lru_cache(maxsize=10_000)
def stored_name(name: str) -> str:
    """A name as the texts have it of which fingerprints are made; not all words that have to be quoted are."""
    plain = name.isascii() and name.isidentifier() and name.upper() not in _RESERVED
    return name if plain else "`" + name.replace("`", "``") + "`"


_NEVER_BARE = frozenset(
    [
        "ALTER",
        "CREATE",
        "CROSS",
        "CURRENT_USER",
        "DROP",
        "EXCEPT",
        "FETCH",
        "FOR",
        "GLOB",
        "GRANT",
        "INNER",
        "INSERT",
        "INTERSECT",
        "INTO",
        "MINUS",
        "NOTNULL",
        "ON",
        "OUTER",
        "PARTITIONED_BY",
        "QUALIFY",
        "REGEXP",
        "RETURNING",
        "REVOKE",
        "ROLLBACK",
        "SERDEPROPERTIES",
        "SESSION_USER",
        "TABLESAMPLE",
        "UNCACHE",
        "XOR",
    ]
)
"""Further words that the parser does not take for a column, added when fingerprints were stored without quotes."""

_RESERVED = frozenset(
    [
        "ALL",
        "AND",
        "ANY",
        "ARRAY",
        "AS",
        "ASC",
        "BETWEEN",
        "BY",
        "CASE",
        "CAST",
        "CURRENT_DATE",
        "CURRENT_TIMESTAMP",
        "DATE",
        "DESC",
        "DISTINCT",
        "DIV",
        "ELSE",
        "END",
        "ESCAPE",
        "EXISTS",
        "EXTRACT",
        "FALSE",
        "FILTER",
        "FROM",
        "GROUP",
        "HAVING",
        "ILIKE",
        "IN",
        "INTERVAL",
        "IS",
        "JOIN",
        "LATERAL",
        "LIKE",
        "LIMIT",
        "MAP",
        "NOT",
        "NULL",
        "NULLS",
        "OR",
        "ORDER",
        "OVER",
        "POSITION",
        "RLIKE",
        "SELECT",
        "SOME",
        "STRUCT",
        "SUBSTR",
        "SUBSTRING",
        "TABLE",
        "THEN",
        "TIMESTAMP",
        "TRIM",
        "TRUE",
        "TRY_CAST",
        "UNION",
        "USING",
        "VALUES",
        "WHEN",
        "WHERE",
        "WINDOW",
        "WITH",
    ]
)


def normalise_type(data_type: pa.DataType, where: str = "value") -> pa.DataType:
    """Map any Arrow type to the one that altneu holds its values in.

    Unsigned integers widen to the next signed type; timestamps become microseconds, in UTC when they have a zone.

    >>> (
    ...     normalise_type(pa.dictionary(pa.int32(), pa.large_string())),
    ...     normalise_type(pa.timestamp("ns", "Europe/Paris")),
    ... )
    (DataType(string), TimestampType(timestamp[us, tz=UTC]))

    Raises:
        SchemaError: no type holds its values (uint64, decimal of more than 38 digits, unions).
    """
    if data_type in _NAMES and data_type != YEAR_MONTH:
        return data_type
    widened = _WIDENED.get(data_type)
    if widened is not None:
        return widened
    if pt.is_timestamp(data_type):
        return TIMESTAMP if data_type.tz else TIMESTAMP_NTZ
    if pt.is_duration(data_type):
        return DAY_TIME
    if pt.is_time(data_type):
        return TIME
    if pt.is_dictionary(data_type):
        return normalise_type(data_type.value_type, where)
    if pt.is_run_end_encoded(data_type):
        return normalise_type(data_type.value_type, where)
    if pt.is_decimal(data_type) and data_type.precision <= 38 and 0 <= data_type.scale <= data_type.precision:
        return pa.decimal128(data_type.precision, data_type.scale)
    if pt.is_fixed_size_binary(data_type):
        return BINARY
    if pt.is_list(data_type) or pt.is_large_list(data_type) or pt.is_fixed_size_list(data_type):
        return list_type(normalise_type(data_type.value_type, where))
    if pt.is_map(data_type):
        return pa.map_(normalise_type(data_type.key_type, where), normalise_type(data_type.item_type, where))
    if pt.is_struct(data_type):
        return pa.struct([pa.field(f.name, normalise_type(f.type, f"{where}.{f.name}"), f.nullable) for f in data_type])
    hint = "; cast it to decimal(20,0)" if data_type == pa.uint64() else ""
    raise SchemaError(f"the Arrow type {data_type} of {where!r} is not supported{hint}")


def is_struct(data_type: pa.DataType) -> bool:
    """Whether a type is a struct to its users: it has fields, and is no variant."""
    return bool(pt.is_struct(data_type)) and data_type != VARIANT


def contains(data_type: pa.DataType, wanted: Callable[[pa.DataType], bool]) -> bool:
    """Whether a type, or some type inside of it, is wanted; what a variant is made of is not inside of it."""
    if wanted(data_type):
        return True
    if data_type == VARIANT or not pt.is_nested(data_type):
        return False
    return any(contains(data_type.field(i).type, wanted) for i in range(data_type.num_fields))


def uncompared(data_type: pa.DataType) -> str:
    """What a type has that is not compared, "maps" or "variants"; an empty text if its values are compared.

    >>> (
    ...     uncompared(list_type(VARIANT)),
    ...     uncompared(pa.map_(STRING, LONG)),
    ...     uncompared(pa.struct([("a", LONG)])),
    ... )
    ('variants', 'maps', '')
    """
    if contains(data_type, pt.is_map):
        return "maps"
    return "variants" if contains(data_type, VARIANT.equals) else ""


def refused_keys(data_type: pa.DataType) -> str:
    """Why there is no such map: its keys are, or have, variants, which are not compared; else an empty text."""
    found = contains(data_type, lambda kind: pt.is_map(kind) and contains(kind.key_type, VARIANT.equals))
    return f"the keys of a map must not be variants, got {type_name(data_type)}" if found else ""


def no_key(data_type: pa.DataType) -> str:
    """What a type is or has that no key and no distinct row may be, "maps" or "variants"; an empty text if nothing.

    Maps inside of arrays and structs are told apart by their bytes.
    """
    return "maps" if pt.is_map(data_type) else "variants" if contains(data_type, VARIANT.equals) else ""


def list_type(element: pa.DataType) -> pa.DataType:
    """The array type of an element type (one spelling of Arrow's child field, so that equal types are equal)."""
    return pa.list_(pa.field("element", element))


@lru_cache(maxsize=64)
def _parse_ddl(text: str, *, lengths: bool = False) -> tuple[pa.Field, ...]:
    """Read DDL; with ``lengths`` a text may have one, which nothing enforces, as in a cast of Spark's.

    The columns of a source are read several times in one statement, so the last texts are remembered.
    """
    try:
        tree = sqlglot.parse_one(f"CREATE TABLE t ({_spark_spelling(text)})", dialect=Ddl)
    except sqlglot.errors.SqlglotError as error:
        told = (getattr(error, "errors", None) or [{}])[0]
        near, reason = told.get("highlight"), str(told.get("description"))
        where = f" near {near!r}" if near else ""
        why = f": {reason}" if reason.startswith(NO_TYPE) else ""  # others are about CREATE TABLE, which nobody wrote
        raise SchemaError(f"cannot read the schema {text!r}{where}{why}") from None
    alone = not any(value for name, value in tree.args.items() if name not in ("this", "kind"))
    definitions = tree.this.expressions if isinstance(tree.this, exp.Schema) and alone else []
    if not definitions:
        raise SchemaError(f"cannot read the schema {text!r}: write it as 'name type, name type'")
    fields = tuple(_field(d, text) for d in definitions)
    for definition in definitions:
        if not lengths:
            _refuse_lengths(definition, text)
        try:
            refuse_unread(definition)
        except PlanError as error:
            raise SchemaError(f"{error} (in {text!r})") from None
    return fields


def _refuse_lengths(definition: exp.Expr, text: str) -> None:
    """Refuse a text of a declared length, which would be neither checked nor padded.

    Raises:
        SchemaError: naming the column and what to declare instead.
    """
    for kind in definition.find_all(exp.DataType):
        if kind.this == exp.DType.CHAR or (kind.this == exp.DType.VARCHAR and kind.expressions):
            raise SchemaError(
                f"column {definition.name!r}: {kind.sql('spark')} is not supported, as the length of a text is neither "
                f"checked nor padded; declare it string, and filter on length(...) or rpad(...) it (in {text!r})"
            )


_VOID = re.compile(r"(?<=[\s:<,])void(?=\s*(?:$|[,>]|not\b|comment\b))", re.IGNORECASE)


def _spark_spelling(text: str) -> str:
    """Give sqlglot a word it knows for the one type name of Spark's that it does not."""
    return _VOID.sub("NULL", text)


_KEYS = "columns have no keys in a schema; a source with a key is declared with an.source(..., key=...)"


def _field(node: exp.Expr, text: str) -> pa.Field:
    if not isinstance(node, exp.ColumnDef) or node.kind is None:
        remedy = _KEYS if isinstance(node, exp.PrimaryKey | exp.UniqueColumnConstraint) else "write it as 'name type'"
        raise SchemaError(f"cannot read {node.sql('spark')!r} in the schema {text!r}: {remedy}")
    nullable, mark = True, ""
    if (inside := collation_inside(node.kind)) is not None:
        mark = f"collate {inside.name}"
    for constraint in node.args.get("constraints") or []:
        if isinstance(constraint.kind, exp.CollateColumnConstraint) and node.kind.this in _TEXTS:
            mark = f"collate {constraint.kind.this.sql('spark').replace('`', '')}"
        elif isinstance(constraint.kind, exp.NotNullColumnConstraint):
            nullable = bool(constraint.kind.args.get("allow_null"))
        elif not isinstance(constraint.kind, exp.CommentColumnConstraint):
            keys = isinstance(constraint.kind, exp.PrimaryKeyColumnConstraint | exp.UniqueColumnConstraint)
            remedy = _KEYS if keys else "only NOT NULL, COMMENT and, in CREATE TABLE, DEFAULT are supported"
            raise SchemaError(f"cannot read {constraint.sql('spark')!r} in the schema {text!r}: {remedy}")
    data_type = arrow_type(without_collation(node.kind), text)
    if data_type == NULL and not nullable:
        raise SchemaError(
            f"column {node.name!r} is void, a type that has only nulls, and cannot be NOT NULL (in {text!r})"
        )
    return marked(pa.field(node.name, data_type, nullable), mark)


_TEXTS = (exp.DType.TEXT, exp.DType.VARCHAR)


def collation_inside(kind: exp.Expr) -> exp.Expr | None:
    """The name of the collation in ``ARRAY<STRING COLLATE name>``."""
    (inner,) = kind.expressions if kind.this == exp.DType.ARRAY and len(kind.expressions) == 1 else (exp.DataType(),)
    return inner.args.get("collate") if inner.this in _TEXTS else None


def without_collation(kind: exp.Expr) -> exp.Expr:
    """The type without the collation in ``ARRAY<STRING COLLATE name>``."""
    if collation_inside(kind) is None:
        return kind
    bare = kind.copy()
    bare.expressions[0].set("collate", None)
    return bare


def arrow_type(node: exp.Expr, text: str = "") -> pa.DataType:
    """The Arrow type of a sqlglot type node."""
    kind = node.this
    if node.args.get("collate") is not None:
        raise SchemaError(
            f"a COLLATE inside the type {node.sql('spark')} is not supported: columns of texts and of arrays of texts, "
            "and CAST(s AS STRING COLLATE …) have one" + (f" (in {text!r})" if text else "")
        )
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return simple
    children = node.expressions
    if kind == exp.DType.DECIMAL:
        return _decimal([int(c.this.name) for c in children], text)
    if kind in (exp.DType.ARRAY, exp.DType.LIST) and len(children) == 1:
        return list_type(arrow_type(children[0], text))
    if kind == exp.DType.MAP and len(children) == 2:
        result = pa.map_(arrow_type(children[0], text), arrow_type(children[1], text))
        if refused := refused_keys(result):
            raise SchemaError(refused + (f" (in {text!r})" if text else ""))
        return result
    if kind == exp.DType.STRUCT and children:
        fields = [_field(c, text) for c in children]
        return _struct(fields, text)
    if isinstance(kind, exp.Interval):
        unit = kind.args.get("unit")
        name = unit.sql().upper() if unit is not None else ""
        if name and not any(u in name for u in ("YEAR", "MONTH")):
            return DAY_TIME
    if (digits := time_digits(node)) is not None:
        return _time(digits, text)
    name = node.sql("spark")
    raise SchemaError(f"the type {name!r} is not supported" + (f" (in {text!r})" if text else ""))


def struct_of(text: str) -> pa.DataType:
    """The type of structs whose fields a schema says."""
    return _struct(list(parse_schema(text)), text)


def _struct(fields: list[pa.Field], text: str) -> pa.DataType:
    if any(mark_of(f) for f in fields):
        raise SchemaError(
            "a COLLATE inside a struct is not supported; a column of its own has one"
            + (f" (in {text!r})" if text else "")
        )
    return pa.struct(fields)


_TIME = re.compile(r"TIME(?:\((\d+)\))?")


def time_digits(node: exp.Expr) -> int | None:
    """How many digits a type of a time of day has of a second's fraction; None if it is another type.

    sqlglot has a type ``TIME`` that it writes as ``TIMESTAMP`` in Spark's dialect; altneu's own grammar makes another
    node of it, with the name as it is written.
    """
    if node.this == exp.DType.TIME:
        return int(node.expressions[0].this.name) if node.expressions else 6
    match = _TIME.fullmatch(str(node.args.get("kind"))) if node.this == exp.DType.USERDEFINED else None
    return None if match is None else int(match[1] or 6)


def _time(digits: int, text: str) -> pa.DataType:
    if digits != 6:
        raise SchemaError(
            f"time({digits}) is not supported: a time of day has microseconds, declare it time"
            + (f" (in {text!r})" if text else "")
        )
    return TIME


def _decimal(parameters: list[int], text: str) -> pa.DataType:
    precision, scale = (*parameters, 0)[:2] if parameters else (10, 0)
    if not 1 <= precision <= 38 or not 0 <= scale <= precision:
        raise SchemaError(
            f"decimal({precision},{scale}) is not supported: 1 <= precision <= 38 and 0 <= scale <= precision"
            + (f" (in {text!r})" if text else "")
        )
    return pa.decimal128(precision, scale)
