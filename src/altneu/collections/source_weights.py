"""Weights that come beside the rows of a source: they become columns of the rows (docs/weights.md)."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.collections.sources import CONVERSION, is_spark_frame, to_table
from altneu.columnar.rows import array_of
from altneu.errors import InputError, SchemaError
from altneu.errors.nearest import listed
from altneu.plan import ir
from altneu.types import type_name

Diff = Any
"""How often rows are there, or their weight: a value or the name of a column; of several columns a tuple of these."""


def weight_names(diff: Diff) -> tuple[Any, ...]:
    """What ``diff`` names or gives, one for each column of the weight.

    >>> weight_names("n"), weight_names(("cost", 2)), weight_names(None)
    (('n',), ('cost', 2), (None,))
    """
    return tuple(diff) if isinstance(diff, tuple | list) else (diff,)


def with_weights(
    source: ir.Source,
    data: Any,
    diff: Diff,
    sign: int = 1,
    times: Sequence[str] = (),
    others: Container[str] = (),
) -> tuple[Any, int | str]:
    """Rows, and how often they are there; the weights that ``diff`` gives are columns of the rows then.

    Without a ``diff`` rows are there once, and have their weights in their columns. ``times`` are the names of the
    columns of times, which come after those of a row; ``others`` the columns that may be there and are left out.

    Raises:
        InputError: weights for a source that has none, or for other columns than its; or a retraction of a weight that
            has no negative.
        SchemaError: a weight does not fit its column, or the data has that column too, or lacks one that is named.
    """
    weight = source.weight
    if diff is None:
        return data, 1
    if weight is None:
        if isinstance(diff, tuple | list | Mapping):
            raise InputError(
                f"source {source.name!r} has no weight, so diff must be a whole number or the name of a column, got "
                f"{diff!r}; declare the source with an.source({source.name!r}, ..., weight=...)"
            )
        return data, diff
    values = (diff,) if len(weight.columns) == 1 else diff
    if not isinstance(values, tuple | list) or len(values) != len(weight.columns):
        raise InputError(
            f"source {source.name!r} is weighted by {weight.text}, so diff must be a tuple of "
            f"{', '.join(weight.columns)}, each a value or the name of a column, got {diff!r}"
        )
    if sign < 0 and not weight.group:
        raise InputError(
            f"retract with a weight needs a weight with negate, and {weight.text} of source {source.name!r} has none: "
            f"retract the rows as they were inserted, with {', '.join(weight.columns)} in columns and without diff="
        )
    given = dict(zip(weight.columns, values, strict=True))
    if is_spark_frame(data):
        return _framed(source, data, given), 1
    return _tabled(source, data, given, times, others), 1


def _tabled(
    source: ir.Source, data: Any, given: Mapping[str, Any], times: Sequence[str], others: Container[str]
) -> Any:
    """Rows in memory, with the columns of weights that are given."""
    own = [source.schema.field(name) for name in source.schema.names if name not in given]
    named = [source.schema.field(name).with_name(one) for name, one in given.items() if isinstance(one, str)]
    fields = {field.name: field for field in (*named, *own)}
    columns = list(dict.fromkeys([*(field.name for field in own), *times, *(field.name for field in named)]))
    table = to_table(data, columns, pa.schema(list(fields.values())), source.name, others)
    _check_names(source, given, table.column_names)
    first = pa.array(np.zeros(table.num_rows, np.int64))
    for name, one in given.items():
        if name != one:
            column = table.column(one) if isinstance(one, str) else _array(source, name, one).take(first)
            table = table.append_column(name, column)
    return table


def _framed(source: ir.Source, frame: Any, given: Mapping[str, Any]) -> Any:
    """The same of a DataFrame of Spark's."""
    from altneu.runtime.spark.frames import with_columns

    _check_names(source, given, frame.columns)
    return with_columns(
        frame, {name: one if isinstance(one, str) else _array(source, name, one)[0] for name, one in given.items()}
    )


def _check_names(source: ir.Source, given: Mapping[str, Any], names: Collection[str]) -> None:
    for name, one in given.items():
        if isinstance(one, str) and one not in names:
            raise SchemaError(f"diff={one!r} is not a column of the data; its columns are: {listed(one, names)}")
        if name in names and one != name:
            raise SchemaError(
                f"the data for source {source.name!r} has a column {name!r}, and diff= gives this column of the weight "
                "too; leave one of them out"
            )


def _array(source: ir.Source, name: str, value: Any) -> pa.Array:
    kind = source.schema.field(name).type
    try:
        return array_of([value], kind)
    except CONVERSION:
        raise SchemaError(
            f"diff= for source {source.name!r} gives {value!r} for column {name!r} of its weight, which is "
            f"{type_name(kind)}"
        ) from None
