"""What a statement gives: rows, or a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from altneu.columnar import html
from altneu.columnar.rows import Rows, record_type
from altneu.errors import ReadError
from altneu.errors.elsewhere import NamedElsewhere
from altneu.types import to_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN = 20  # rows that a result shows of itself


class Result(NamedElsewhere):
    """The rows of a statement, in its order; or none, and a message that says what was done.

    >>> import altneu as an
    >>> with an.Session() as session:
    ...     session.sql("VALUES (1, 'tea'), (2, 'jam')").to_pylist()
    [(1, 'tea'), (2, 'jam')]
    """

    _what = "the result of a statement"
    _instead: ClassVar = {
        **dict.fromkeys(("toPandas", "to_pandas"), "use to_arrow().to_pandas()"),
        **dict.fromkeys(("collect", "fetchall"), "use to_pylist()"),
        "count": "use len(result)",
        "show": "use print(result), or df().show() on Spark",
    }

    def __init__(self, table: pa.Table | None, message: str = "", spark: SparkSession | None = None) -> None:
        self._table, self._spark = table, spark
        self.message = message

    @property
    def has_rows(self) -> bool:
        """Whether it is rows that the statement gives, perhaps none of them."""
        return self._table is not None

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self.to_arrow().schema

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table.

        Raises:
            ReadError: the statement gives none.
        """
        if self._table is None:
            raise ReadError(f"the statement returns no rows: {self.message}")
        return self._table

    def to_pylist(self) -> list[tuple[Any, ...]]:
        """The rows as Python tuples; a date or timestamp outside the years 1 to 9999 is its text."""
        return Rows.from_batch(self.to_arrow()).to_pylist()

    def df(self) -> DataFrame:
        """The rows as a Spark DataFrame.

        Raises:
            ReadError: the session has no Spark.
        """
        if self._spark is None:
            raise ReadError("this session has no Spark; get the rows with to_arrow() or to_pylist()")
        return self._spark.createDataFrame(self.to_arrow())

    def __iter__(self) -> Iterator[Any]:
        """The rows, each a tuple with its columns as names."""
        record: Any = record_type(self.columns)
        return (record(row) for row in self.to_pylist())

    def __len__(self) -> int:
        return 0 if self._table is None else self._table.num_rows

    def __repr__(self) -> str:
        if self._table is None:
            return f"Result({self.message})"
        shown = "\n".join(map(str, Rows.from_batch(self._table.slice(0, SHOWN)).to_pylist()))
        more = f"\n… {len(self) - SHOWN} more" if len(self) > SHOWN else ""
        return f"Result({to_ddl(self._table.schema)})\n{shown}{more}".rstrip()

    def _repr_html_(self) -> str:
        """What a notebook shows: the first rows, or the message."""
        if self._table is None:
            return html.titled("Result", note=self.message)
        more = [html.note(f"and {len(self) - SHOWN:,} more")] if len(self) > SHOWN else []
        return html.titled("Result", html.rows(Rows.from_batch(self._table.slice(0, SHOWN).combine_chunks())), *more)
