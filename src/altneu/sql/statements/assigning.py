"""What INSERT, UPDATE and MERGE store of a query: its columns as those of a table, in their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
import sqlglot
from sqlglot import exp

from altneu import types as T
from altneu.collections.collection import Collection
from altneu.errors import StatementError
from altneu.errors.nearest import listed
from altneu.sql.dialect import SparkQueries
from altneu.types import parse_type, quote_name, type_name


def assigned(
    collection: Collection,
    schema: pa.Schema,
    table: str,
    columns: Sequence[str] = (),
    defaults: Mapping[str, str] = MappingProxyType({}),
) -> Collection:
    """A query's columns as a table's, in its types: as Spark assigns them, which never makes sense of a text.

    ``columns`` are those of the table that the query has values for, by default all; the others have their
    ``defaults``, or are null.

    Raises:
        StatementError: their number or a name does not fit.
        TypeMismatchError: a type does not.
    """
    columns = list(columns) or list(schema.names)
    known = {name.lower(): name for name in schema.names}
    if len(columns) != len(collection.columns):
        raise StatementError(
            f"{table!r} needs {len(columns)} columns ({', '.join(columns)}), but the query returns "
            f"{len(collection.columns)}"
        )
    values: dict[str, str] = {}
    for name, column in zip(columns, collection.schema, strict=True):
        if name.lower() not in known:
            raise StatementError(f"{table!r} has no column {name!r}; it has: {listed(name, schema.names)}")
        target = schema.field(known[name.lower()])
        if target.name in values:
            raise StatementError(f"column {name!r} is named twice")
        if not _assignable(column.type, target.type):
            raise StatementError(
                f"column {target.name!r} of {table!r} is {type_name(target.type)}, but the query returns "
                f"{type_name(column.type)}; CAST it"
            )
        same = column.type == target.type
        values[target.name] = (
            quote_name(column.name) if same else f"CAST({quote_name(column.name)} AS {type_name(target.type)})"
        )
    rest = {f.name: "NULL" if f.type == T.NULL else f"CAST(NULL AS {type_name(f.type)})" for f in schema}
    rest |= defaults
    return collection.select(**{f.name: values.get(f.name) or rest[f.name] for f in schema})


def with_defaults(query: exp.Expr, columns: Sequence[str], schema: pa.Schema, defaults: Mapping[str, str]) -> exp.Expr:
    """A query in which each DEFAULT in the rows of VALUES is that of its column; another query has none.

    >>> import sqlglot
    >>> rows = sqlglot.parse_one("VALUES (1, DEFAULT), (DEFAULT, 'x')", dialect="spark")
    >>> schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    >>> with_defaults(rows, ["a", "b"], schema, {"b": "'new'"}).sql("spark")
    "VALUES (1, 'new'), (CAST(NULL AS BIGINT), 'x')"
    """
    if not isinstance(query, exp.Values):
        return query
    query = query.copy()
    for row in query.expressions:
        values = row.expressions if isinstance(row, exp.Tuple) else [row]
        for value, column in zip(values, columns, strict=False):
            if _is_default(value):
                value.replace(_default(column, schema, defaults))
    return query


def set_to(tree: exp.Expr, column: str, schema: pa.Schema, defaults: Mapping[str, str]) -> exp.Expr:
    """What a column is set to, where DEFAULT alone is that of the column."""
    return _default(column, schema, defaults) if _is_default(tree) else tree


def _is_default(tree: exp.Expr) -> bool:
    if isinstance(tree, exp.Var):
        return tree.name.upper() == "DEFAULT"
    named = isinstance(tree, exp.Column) and not tree.table and not tree.this.args.get("quoted")
    return named and tree.name.upper() == "DEFAULT"


def _default(column: str, schema: pa.Schema, defaults: Mapping[str, str]) -> exp.Expr:
    name = next((known for known in schema.names if known.lower() == column.lower()), None)
    if name is None:
        return exp.null()  # which is refused as any other value of it
    text = defaults.get(name) or f"CAST(NULL AS {type_name(schema.field(name).type)})"
    return sqlglot.parse_one(text, dialect=SparkQueries)


def check_types(view: str, types: Mapping[str, str], schema: pa.Schema) -> None:
    """Refuse a view whose columns are not of the types that are written beside their names.

    Raises:
        StatementError: naming the column, and what it is.
    """
    for name, ddl in types.items():
        field, kind = schema.field(name), ddl.removesuffix("NOT NULL").rstrip()
        if kind and parse_type(kind) != field.type:
            raise StatementError(
                f"column {name!r} of view {view!r} must be {kind}, but the query returns {type_name(field.type)}; CAST "
                "it there"
            )
        if field.nullable and ddl.endswith("NOT NULL"):
            raise StatementError(
                f"column {name!r} of view {view!r} must be NOT NULL, but the query may return nulls; coalesce() them"
            )


def _assignable(source: pa.DataType, target: pa.DataType) -> bool:
    """Spark's rule for assignments to a column, in ANSI mode."""
    if source in (target, T.NULL):
        return True
    if _is_number(source) and _is_number(target):
        return True
    if pa.types.is_string(target):
        return not pa.types.is_nested(source) and not pa.types.is_binary(source)
    if pa.types.is_nested(source) and pa.types.is_nested(target):
        return True
    dates = (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ)
    return source in dates and target in dates


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
