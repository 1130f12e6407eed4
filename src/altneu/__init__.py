"""altneu: differential dataflow for PySpark.

A query is written once over collections of rows; a session computes it, on Spark or in this process, and keeps the
answer right as the inputs change, at a cost that follows the size of the change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from altneu import algorithms, cdc, errors, sinks, windows
from altneu.collections import logic, weights
from altneu.collections.collection import Collection
from altneu.collections.declaring import source
from altneu.collections.functions import Udf, udf
from altneu.collections.needs import first, last
from altneu.collections.paths import Changes, Relations
from altneu.collections.recursion import feedback, recursive
from altneu.expressions import col, fn, lit, update_time
from altneu.runtime.spark.session import spark_session
from altneu.session import Session, Step
from altneu.store import StoreCheck, check_store
from altneu.store.release import __version__
from altneu.streams import delta, iceberg, late_rows, table_changes
from altneu.views.comparing import compare
from altneu.views.reader import Reader, read
from altneu.views.trace import Trace
from altneu.views.view import View

_F = TypeVar("_F", bound=Callable[..., Any])


def arrow(function: _F) -> _F:
    """Mark a function for a linear verb as one of whole record batches.

    ``map``: a record batch to one of as many rows; ``filter``: to a boolean array; ``flat_map``: to a record batch
    and, for each of its rows, the position of the row it came from; ``explode``: to these and the diffs;
    ``join_function``: to a record batch, positions, times and diffs, and of rows with two times perhaps event times.
    """
    function.__altneu_arrow__ = True  # type: ignore[attr-defined]
    return function


__all__ = [
    "Changes",
    "Collection",
    "Reader",
    "Relations",
    "Session",
    "Step",
    "StoreCheck",
    "Trace",
    "Udf",
    "View",
    "__version__",
    "algorithms",
    "arrow",
    "cdc",
    "check_store",
    "col",
    "compare",
    "delta",
    "errors",
    "feedback",
    "first",
    "fn",
    "iceberg",
    "last",
    "late_rows",
    "lit",
    "logic",
    "read",
    "recursive",
    "sinks",
    "source",
    "spark_session",
    "table_changes",
    "udf",
    "update_time",
    "weights",
    "windows",
]
