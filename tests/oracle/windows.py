"""What window functions mean, row by row and straight from their definitions: the oracle's part for them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from altneu.operators.reduce.calls import FirstRows
from altneu.plan import ir
from tests.oracle.recompute import Multiset, Row, aggregated, in_order, rank


def with_windows(
    calls: tuple[ir.WindowCall, ...], group: Multiset, schema: pa.Schema, first: FirstRows | None = None
) -> Multiset:
    """Every row of a group, as often as it is there, with what each function comes to on it; or some first rows."""
    rows = [row for row, n in group.items() for _ in range(n)]
    found: list[list[Any]] = [[] for _ in rows]
    for call in calls:
        for i, value in _Lined(call, rows, schema).results().items():
            found[i].append(value)
    numbers = dict.fromkeys(range(len(rows)), 0) if first is None else _Lined(first.number, rows, schema).results()
    some = [i for i, number in numbers.items() if first is None or number <= first.k]
    return Counter((*rows[i], *found[i]) for i in some)


class _Lined:
    """The rows of a group in the order of one call, each with its number among ``rows``."""

    def __init__(self, call: ir.WindowCall, rows: list[Row], schema: pa.Schema) -> None:
        self.call, self.schema, self.names = call, schema, schema.names
        self.order = [(self.names.index(c), descending, first) for c, descending, first in call.order]
        columns = [*self.order, *((i, False, True) for i in range(len(self.names)))]
        self.lined = in_order([(*row, i) for i, row in enumerate(rows)], columns)

    def results(self) -> dict[int, Any]:
        return {row[-1]: self._result(at) for at, row in enumerate(self.lined)}

    def _value(self, row: Row, argument: int = 0) -> Any:
        return row[self.names.index(self.call.call.arguments[argument])]

    def _compared(self, value: Any, other: Any, i: int) -> int:
        """Where a value is by one key of the order: -1 before another, 0 beside it, 1 behind it."""
        _, descending, nulls_first = self.order[i]
        if value is None or other is None:
            return 0 if value is other else -1 if (value is None) == nulls_first else 1
        a, b = rank(value), rank(other)
        return 0 if a == b else -1 if (a < b) != descending else 1

    def _against(self, row: Row, other: Row) -> int:
        keys = ((row[at], other[at], i) for i, (at, _, _) in enumerate(self.order))
        return next((c for c in (self._compared(*key) for key in keys) if c), 0)

    def _result(self, at: int) -> Any:
        function, lined, row = self.call.call.function, self.lined, self.lined[at]
        before = [r for r in lined if self._against(r, row) < 0]
        match function:
            case "row_number":
                return at + 1
            case "rank":
                return len(before) + 1
            case "dense_rank":
                return 1 + len({tuple(map(repr, (r[i] for i, _, _ in self.order))) for r in before})
            case "percent_rank":
                return len(before) / (len(lined) - 1) if len(lined) > 1 else 0.0
            case "cume_dist":
                return sum(self._against(r, row) <= 0 for r in lined) / len(lined)
            case "ntile":
                sizes = [len(lined) // self.call.number + (i < len(lined) % self.call.number)
                         for i in range(min(self.call.number, len(lined)))]  # fmt: skip
                return [part for part, size in enumerate(sizes, 1) for _ in range(size)][at]
            case "copy_number":
                return 1 + sum(r[:-1] == row[:-1] for r in lined[:at])
            case "lag" | "lead":
                return self._away(at, self.call.number if function == "lead" else -self.call.number)
        return self._of_frame([r for to, r in enumerate(lined) if self._in_frame(at, to)])

    def _away(self, at: int, distance: int) -> Any:
        others = self.lined[at + 1 :] if distance > 0 else self.lined[:at][::-1]
        if not distance:
            others = [self.lined[at]]
        elif self.call.ignore_nulls:
            others = [r for r in others if self._value(r) is not None]
        nth = max(abs(distance), 1) - 1
        if nth >= len(others):
            return None
        return self._value(others[nth]) if self.call.call.arguments else True

    def _in_frame(self, at: int, to: int) -> bool:
        frame = self.call.frame
        assert frame is not None
        for bound, sign in ((frame.start, 1), (frame.end, -1)):
            if bound is None:
                continue
            if isinstance(bound, str):
                value = self.lined[to][self.order[0][0]]
                beyond = self._compared(value, self.lined[at][self.names.index(bound)], 0)
            elif frame.rows:
                beyond = to - at - bound
            else:
                beyond = self._against(self.lined[to], self.lined[at])
            if beyond * sign < 0:
                return False
        return True

    def _of_frame(self, rows: list[Row]) -> Any:
        function = self.call.call.function
        if function in ("first", "last", "nth_value"):
            values = [self._value(r) for r in rows]
            if self.call.ignore_nulls:
                values = [v for v in values if v is not None]
            nth = len(values) - 1 if function == "last" else self.call.number - 1
            return values[nth] if 0 <= nth < len(values) else None
        if function == "collect_list":
            return tuple(v for v in (self._value(r) for r in rows) if v is not None)
        return aggregated(self.call.call, Counter(r[:-1] for r in rows), self.names, self.schema)
