"""Relations of a DataFrame that read nothing: rows that it brings with it, and numbers."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.columnar.python_values import python_values
from altneu.expressions.pyspark import forms
from altneu.plan import ir
from altneu.sql.binding import Answer
from altneu.sql.frames.binder import Frames, select_from
from altneu.sql.scope import Around, Field, Relation, fresh


def constant_rows(table: pa.Table) -> Relation:
    """Rows that never change.

    Raises:
        SchemaError: a type that altneu does not have.
    """
    names: list[str] = []
    for name in table.column_names:
        names.append(fresh(name, names))
    kinds = [T.normalise_type(f.type, f.name) for f in table.schema]
    schema = pa.schema([pa.field(n, kind) for n, kind in zip(names, kinds, strict=True)])
    columns = [python_values(c.cast(kind).combine_chunks()) for c, kind in zip(table.columns, kinds, strict=True)]
    node = ir.Constant(tuple(zip(*columns, strict=True)), schema)
    return Relation(node, tuple(Field("", given, n) for given, n in zip(table.column_names, names, strict=True)))


def series(frames: Frames, start: int, end: int, step: int, around: Around | None) -> Answer:
    """``range``: the numbers from one up to another, without that."""
    count = max(0, -(-(end - start) // step))
    if not count:
        return Answer(constant_rows(pa.table({"id": pa.array([], pa.int64())})))
    last = start + (count - 1) * step
    numbers = [forms.constant(n, T.LONG) for n in (start, last, step)]
    call = exp.Anonymous(this="generate_series", expressions=numbers)
    alias = exp.TableAlias(this=exp.to_identifier("range"), columns=[exp.to_identifier("id")])
    return frames.joined(select_from(exp.Table(this=call, alias=alias)), around)
