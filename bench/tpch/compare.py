"""Whether a view says what another engine says: the same rows, of top-k queries the same but for ties.

Spark's types are ours, so with Spark every value is compared as it is: TPC-H has no doubles, as Spark's averages and
quotients of decimals are decimals. DuckDB computes these as doubles; such a one is compared rounded to the scale that
Spark gives.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Query:
    """A query's text; of one with a limit, what it has without, and the order as (place of a column, descending)."""

    text: str
    limit: int | None
    whole: str
    order: tuple[tuple[int, bool], ...]

    @classmethod
    def of(cls, text: str) -> Query:
        """The query of a text, whose limit, if it has one, is its last clause."""
        result = re.search(r"\sLIMIT\s+(\d+)\s*$", text)
        if result is None:
            return cls(text, None, text, ())
        tree = sqlglot.parse_one(text, dialect="spark")
        names = [column.alias_or_name for column in tree.selects]
        ordered: list[exp.Ordered] = tree.args["order"].expressions
        order = tuple((names.index(one.this.name), bool(one.args.get("desc"))) for one in ordered)
        return cls(text, int(result[1]), text[: result.start()], order)

    def first(self, rows: list[Row]) -> list[Row]:
        """The order's columns of the rows up to the limit, in order."""
        keys = [tuple(row[place] for place, _ in self.order) for row in rows]
        for i, (_, descending) in reversed(list(enumerate(self.order))):
            keys.sort(key=lambda key: key[i], reverse=descending)
        return keys[: self.limit]

    def difference(self, rows: list[Row], whole: list[Row]) -> str | None:
        """How the rows that are kept differ from what is to be kept of all rows of the query; None: not at all."""
        mine, theirs = Counter(rows), Counter(whole)
        if self.limit is None:
            missing, wrong = theirs - mine, mine - theirs
            return None if mine == theirs else f"missing {_some(missing)}, wrong {_some(wrong)}"
        if wrong := mine - theirs:
            return f"wrong {_some(wrong)} beside {_some(theirs - mine)}"
        if len(rows) != min(self.limit, len(whole)):
            return f"{len(rows)} rows of {len(whole)}, the limit being {self.limit}"
        if self.first(rows) != self.first(whole):
            return f"not the first ones: {self.first(rows)} and not {self.first(whole)}"
        return None


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of a table as tuples."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def spoken(rows: list[Row] | list[list[str]], schema: pa.Schema) -> list[Row]:
    """What another engine says, in values of the types of a view: texts are read, decimals rounded to their scale."""
    return [tuple(_value(value, f.type) for value, f in zip(row, schema, strict=True)) for row in rows]


def _value(value: Any, type_: pa.DataType) -> Any:
    if value is None or (value == "" and not pa.types.is_string(type_)):
        return None
    if pa.types.is_decimal(type_):
        exact = value if isinstance(value, Decimal) else Decimal(str(value))
        return exact.quantize(Decimal(1).scaleb(-type_.scale), rounding=ROUND_HALF_UP)
    if isinstance(value, str) and not pa.types.is_string(type_):
        return date.fromisoformat(value) if pa.types.is_date(type_) else int(value)
    return value


def _some(rows: Counter[Row]) -> str:
    return f"{sum(rows.values())} rows: {list(rows)[:3]}"
