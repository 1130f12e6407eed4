"""A read of a view cut into parts, one for each task, with the columns that Spark sees."""

from __future__ import annotations

import pyarrow as pa

from altneu.runtime.spark.versions import arrow_schema, spark_schema
from altneu.views.reader import StoreReadings
from altneu.views.view import View, followed
from pyspark_altneu.options import Options
from pyspark_altneu.rows import Part, Shape


def columns_of(options: Options, view: View, *, changes: bool) -> pa.Schema:
    """The columns that a read returns."""
    columns = [view.schema.field(name) for name in options.selected(view)]
    if not changes:
        return pa.schema(columns)
    controls = (*followed(view).time_names(options.time_column), options.diff_column)
    followed(view).check_names(controls)
    return pa.schema([*columns, *(pa.field(name, pa.int64(), nullable=False) for name in controls)])


def shape_of(options: Options, view: View, *, changes: bool) -> Shape:
    """The shape of the rows that Spark receives."""
    schema = arrow_schema(spark_schema(columns_of(options, view, changes=changes)))
    columns = options.selected(view)
    if not changes:
        return Shape(view.name, columns, schema)
    return Shape(view.name, columns, schema, followed(view).time_names(options.time_column), options.diff_column)


def changed_parts(options: Options, reader: StoreReadings, view: View, start: int, end: int) -> list[Part]:
    """Parts with the changes from ``start`` up to but not including ``end``.

    Raises:
        ViewHasErrorsError: the view has errors at the last of these times, and ``errors`` is not "ignore".
    """
    check_errors(options, reader, view, end)
    shape = shape_of(options, view, changes=True)
    return [Part(shape, piece, None, low, high) for piece, low, high in reader.changed(view.name, start, end)]


def check_errors(options: Options, reader: StoreReadings, view: View, end: int) -> None:
    """Refuse a view that has errors at the last time before ``end``."""
    if options.errors == "raise" and end > 0:
        known = reader.known(view.name)
        view.raise_errors(known.readable(max(end - 1, known.since)))
