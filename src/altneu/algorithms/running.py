"""Sums of everything up to a place."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.errors import TypeMismatchError, UnknownColumnError
from altneu.types import quote_name, type_name

BITS = 4
LEVELS = 64 // BITS  # a block of the last level is one of two halves: what is below zero, and what is not


def prefix_sums(
    values: Collection,
    *,
    by: str = "position",
    value: str = "value",
    per: str | Sequence[str] = (),
    at: Collection | None = None,
) -> Collection:
    """Running sums: for each position the sum of all values at it and before it.

    Positions are whole numbers, however far apart; values at the same position add up. The result has the positions of
    ``at`` (columns ``per`` and ``by``), or, without ``at``, those that have values. Rows with a null in any of these
    columns do not count.

    Positions are divided into blocks of 16, these into blocks of 16, and so on. The sum up to a position is computed
    from the sums of the preceding blocks at each of 17 levels.

    Shape:  columns ``per``, ``by``, and ``sum`` (bigint): one row for each position.
    Cost:   one exchange by block and two by position; 17 numbers for each distinct position with a value, 17 rows for
            each position of the result. A change costs the sums that it changes: those of all later positions of the
            result.
    Law:    at every time the running sums of the rows at that time (tests/algorithms/test_maintained.py).
    Source: Blelloch, Prefix sums and their applications, 1990.

    Raises:
        UnknownColumnError: a name is not a column.
        TypeMismatchError: positions or values are not whole numbers.

    >>> import altneu as an
    >>> payments = an.source("payments", "account string, day int, amount long")
    >>> sums = an.algorithms.prefix_sums(payments, by="day", value="amount", per="account")
    >>> with an.Session() as session:
    ...     view = session.maintain("balances", sums)
    ...     session.insert("payments", [("ada", 1, 100), ("ada", 5, -30), ("bob", 2, 7)])
    ...     session.insert("payments", [("ada", 3, 50)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [('ada', 1, 100), ('ada', 3, 150), ('ada', 5, 120), ('bob', 2, 7)]
    """
    groups = [per] if isinstance(per, str) else list(per)
    placed = _places(values, groups, by, amount=value)
    requested = (placed if at is None else _places(at, groups, by)).select(*_keys(groups), "place").distinct()
    blocks = _blocks(placed).group_by(*_keys(groups), "level", "parent", "block").agg(amount="sum(amount)")
    siblings = _blocks(requested).join(blocks, on=[*_keys(groups), "level", "parent"])
    before = siblings.filter("`right.block` < block or (level = 0 and `right.block` = block)")
    parts = before.select(*_keys(groups), "place", "amount").concat(requested.select("*", amount="0L"))
    sums = parts.group_by(*_keys(groups), "place").agg(sum="sum(amount)")
    named = {**dict(zip(groups, _keys(groups), strict=True)), by: "place"}
    return sums.select(**named, sum="sum")


def _keys(groups: Sequence[str]) -> list[str]:
    return [f"key{i}" for i in range(len(groups))]


def _places(rows: Collection, groups: Sequence[str], by: str, **amount: str) -> Collection:
    """Rows as columns ``key0`` …, ``place`` and, of values, ``amount``, without nulls."""
    for name in (*groups, by, *amount.values()):
        if name not in rows.columns:
            raise UnknownColumnError(name, rows.columns)
    for name in (by, *amount.values()):
        kind = rows.schema.field(name).type
        if not pa.types.is_integer(kind):
            raise TypeMismatchError(
                f"positions and values must be whole numbers, got {name!r} of type {type_name(kind)}"
            )
    names = {**dict(zip(_keys(groups), groups, strict=True)), "place": by, **amount}
    present = " and ".join(f"{quote_name(name)} is not null" for name in names.values())
    return rows.filter(present).select(**{name: quote_name(column) for name, column in names.items()})


def _blocks(places: Collection) -> Collection:
    """Each row once for each level, with the number of its block there and of that block's block."""
    levels = places.generate_series("0", str(LEVELS), as_="level")
    block = "(CAST(place AS bigint) >> {half}) >> {half}"  # in two halves: Java takes a shift by 64 for none
    above = block.format(half=f"({BITS // 2} * (level + 1))")
    here = block.format(half=f"({BITS // 2} * level)")
    return levels.select("*", block=here, parent=f"if(level = {LEVELS}, 0L, {above})")
