"""Decimals on their way from Spark's rows to Python: as whole numbers, which cost Spark half of what decimals do.

Spark makes an object of each decimal that it writes to Arrow. One of at most 18 digits is a whole number and a scale
that all of a column have, so the number alone is handed over, in half of the bytes, and the scale is put back here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from altneu.columnar.narrow import in_two_halves
from altneu.columnar.rows import as_array
from altneu.runtime.spark.versions import can_unscale, unscaled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DIGITS = 18  # so many a number of eight bytes has room for


def as_numbers(frame: DataFrame) -> tuple[DataFrame, dict[int, pa.DataType]]:
    """A DataFrame with its short decimals as whole numbers, and where they are: the types that they had, by place.

    A DataFrame of Spark Connect is returned unchanged: its protocol has no function for the unscaled value.
    """
    from pyspark.sql import functions as sf
    from pyspark.sql.types import DecimalType

    if not can_unscale(frame):
        return frame, {}
    there = {
        place: pa.decimal128(field.dataType.precision, field.dataType.scale)
        for place, field in enumerate(frame.schema)
        if isinstance(field.dataType, DecimalType) and field.dataType.precision <= DIGITS
    }
    if not there:
        return frame, {}
    columns = [
        unscaled(sf.col(name)).alias(name) if place in there else sf.col(name)
        for place, name in enumerate(frame.columns)
    ]
    return frame.select(*columns), there


def as_decimals(table: pa.Table, there: Mapping[int, pa.DataType]) -> pa.Table:
    """A table with the decimals that ``as_numbers`` made whole numbers.

    >>> as_decimals(pa.table({"price": [1250, -1, None]}), {0: pa.decimal128(6, 2)})["price"].to_pylist()
    [Decimal('12.50'), Decimal('-0.01'), None]
    """
    for place, kind in there.items():
        whole = as_array(table.column(place))
        valid, data = whole.buffers()
        halves = pa.py_buffer(in_two_halves(np.frombuffer(data, np.int64, whole.offset + len(whole))))
        decimals = pa.Array.from_buffers(kind, len(whole), [valid, halves], whole.null_count, whole.offset)
        table = table.set_column(place, table.field(place).with_type(kind), decimals)
    return table
