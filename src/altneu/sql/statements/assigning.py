"""What INSERT and UPDATE store of a query: its columns as those of a table, in their types."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from altneu import types as T
from altneu.collections.collection import Collection
from altneu.errors import StatementError
from altneu.types import quote_name, type_name


def assigned(
    collection: Collection, schema: pa.Schema, statement: Any, defaults: Mapping[str, str] = MappingProxyType({})
) -> Collection:
    """A query's columns as a table's, in its types: as Spark assigns them, which never makes sense of a text.

    Columns that the statement does not name have their ``defaults``, or are null.

    Raises:
        StatementError: their number or a name does not fit.
        TypeMismatchError: a type does not.
    """
    columns = list(getattr(statement, "columns", ())) or list(schema.names)
    known = {name.lower(): name for name in schema.names}
    if len(columns) != len(collection.columns):
        raise StatementError(
            f"{statement.name!r} needs {len(columns)} columns ({', '.join(columns)}), but the query returns "
            f"{len(collection.columns)}"
        )
    values: dict[str, str] = {}
    for name, column in zip(columns, collection.schema, strict=True):
        if name.lower() not in known:
            raise StatementError(f"{statement.name!r} has no column {name!r}; it has: {', '.join(schema.names)}")
        target = schema.field(known[name.lower()])
        if target.name in values:
            raise StatementError(f"column {name!r} is named twice")
        if not _assignable(column.type, target.type):
            raise StatementError(
                f"column {target.name!r} of {statement.name!r} is {type_name(target.type)}, but the query returns "
                f"{type_name(column.type)}; CAST it"
            )
        same = column.type == target.type
        values[target.name] = (
            quote_name(column.name) if same else f"CAST({quote_name(column.name)} AS {type_name(target.type)})"
        )
    rest = {f.name: "NULL" if f.type == T.NULL else f"CAST(NULL AS {type_name(f.type)})" for f in schema}
    rest |= defaults
    return collection.select(**{f.name: values.get(f.name) or rest[f.name] for f in schema})


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
