"""Sums of everything up to a place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from altneu.algorithms.graph import check_function
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


def prefix_scan(
    values: Collection,
    combine: Callable[[Any, Any], Any],
    *,
    by: str = "position",
    value: str = "value",
    per: str | Sequence[str] = (),
    at: Collection | None = None,
    version: str | int | None = None,
) -> Collection:
    """``prefix_sums`` with a function in place of ``+``: for each position, all values up to it combined in order.

    ``combine(left, right)`` makes one value of two that are next to each other, ``left`` being before ``right``. It
    must be pure and associative, that is ``combine(combine(a, b), c) == combine(a, combine(b, c))``; it need not be
    commutative. Composing functions or multiplying matrices along a line, the state of an automaton after each
    event, and texts that are joined have this form. Values of one position are combined in the order of the values.
    Rows with a null position, group or value do not count. Before the first value the scan is null. Where ``combine``
    raises, the position is an error row.

    Positions are divided into blocks as for ``prefix_sums``; each block is combined from its 16 parts.

    Shape:  columns ``per``, ``by``, and ``scan`` (of the type of the values): one row for each position.
    Cost:   17 exchanges by block, two by position; 17 values for each distinct position with a value, 17 rows for each
            position of the result. A change calls the function about 16 times at each of 17 levels, and up to 255 times
            for each position whose scan changes: all later ones of the result.
    Law:    at every time what a plain loop over the sorted rows gives (tests/algorithms/test_running.py).
    Source: Blelloch, Prefix sums and their applications, 1990; ``prefix_sum`` of differential dataflow.

    Raises:
        UnknownColumnError: a name is not a column.
        TypeMismatchError: positions are not whole numbers.
        PlanError: ``combine`` is not a function.

    >>> import altneu as an
    >>> moves = an.source("moves", "position int, value string")
    >>> with an.Session() as session:
    ...     view = session.maintain(
    ...         "paths", an.algorithms.prefix_scan(moves, lambda left, right: left + right)
    ...     )
    ...     session.insert("moves", [(10, "a"), (30, "c")])
    ...     _ = session.advance()
    ...     session.insert("moves", [(20, "b")])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(10, 'a'), (20, 'ab'), (30, 'abc')]
    """
    check_function(combine, "combine")
    groups = [per] if isinstance(per, str) else list(per)
    keys, folded = _keys(groups), partial(_folded, combine)
    placed = _places(values, groups, by, whole=False, amount=value)
    requested = (placed if at is None else _places(at, groups, by)).select(*keys, "place").distinct()
    kind = placed.schema.field("amount").type
    schema = pa.schema([pa.field("amount", kind)])
    parts = placed.group_by(*keys, "place").reduce(folded, schema, version=version)
    blocks = parts.select(*keys, parent=_shifted("place", 1), block="CAST(place AS bigint)", amount="amount")
    every = blocks.select("*", level="0")
    for level in range(1, LEVELS + 1):
        combined = blocks.group_by(*keys, "parent").reduce(folded, schema, version=version)
        above = "0L" if level == LEVELS else _shifted("parent", 1)
        blocks = combined.select(*keys, parent=above, block="parent", amount="amount")
        every = every.concat(blocks.select("*", level=str(level)))
    siblings = _blocks(requested).join(every, on=[*keys, "level", "parent"])
    before = siblings.filter("`right.block` < block or (level = 0 and `right.block` = block)")
    ordered = before.select(*keys, "place", depth=f"{LEVELS} - level", at="`right.block`", amount="amount")
    none = requested.select(*keys, "place", depth="-1", at="0L", amount=f"CAST(NULL AS {type_name(kind)})")
    scans = ordered.concat(none).group_by(*keys, "place").reduce(folded, schema, version=version)
    named = {**dict(zip(groups, keys, strict=True)), by: "place"}
    return scans.select(**named, scan="amount")


def _folded(combine: Callable[[Any, Any], Any], _key: tuple[Any, ...], rows: list[Any]) -> Iterator[tuple[Any]]:
    """The values of rows, which come in order, combined; null is the scan of nothing."""
    result = None
    for row, count in rows:
        value = row.amount if count == 1 else _repeated(combine, row.amount, count)
        if value is not None:
            result = value if result is None else combine(result, value)
    yield (result,)


def _repeated(combine: Callable[[Any, Any], Any], value: Any, count: int) -> Any:
    """A value combined with itself, in as many calls as the count has bits, twice."""
    result = None
    while value is not None and count:
        if count & 1:
            result = value if result is None else combine(result, value)
        count >>= 1
        value = combine(value, value) if count else value
    return result


def _keys(groups: Sequence[str]) -> list[str]:
    return [f"key{i}" for i in range(len(groups))]


def _places(rows: Collection, groups: Sequence[str], by: str, *, whole: bool = True, **amount: str) -> Collection:
    """Rows as columns ``key0`` …, ``place`` and, of values, ``amount``, without nulls."""
    for name in (*groups, by, *amount.values()):
        if name not in rows.columns:
            raise UnknownColumnError(name, rows.columns)
    for name in (by, *amount.values()) if whole else (by,):
        kind = rows.schema.field(name).type
        if not pa.types.is_integer(kind):
            raise TypeMismatchError(
                f"positions{' and values' if whole and amount else ''} must be whole numbers, got {name!r} of type "
                f"{type_name(kind)}"
            )
    names = {**dict(zip(_keys(groups), groups, strict=True)), "place": by, **amount}
    present = " and ".join(f"{quote_name(name)} is not null" for name in names.values())
    return rows.filter(present).select(**{name: quote_name(column) for name, column in names.items()})


def _blocks(places: Collection) -> Collection:
    """Each row once for each level, with the number of its block there and of that block's block."""
    levels = places.generate_series("0", str(LEVELS), as_="level")
    above, here = _shifted("place", "(level + 1)"), _shifted("place", "level")
    return levels.select("*", block=here, parent=f"if(level = {LEVELS}, 0L, {above})")


def _shifted(place: str, levels: int | str) -> str:
    """The number of the block, so many levels up, in which a place lies."""
    half = f"({BITS // 2} * {levels})"  # in two halves: Java takes a shift by 64 for none
    return f"(CAST({place} AS bigint) >> {half}) >> {half}"
