"""Random histories of updates, for property tests with Hypothesis."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.columnar.rows import array_of
from altneu.errors import InputError
from altneu.errors.extras import require
from altneu.expressions.documents import Object
from altneu.expressions.variants.binary import encoded
from altneu.plan import ir
from altneu.session import Session
from altneu.testing.asserting import assert_contents
from altneu.types import VARIANT

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

Row = tuple[Any, ...]
Names = tuple[str, str]
_NAMES, _OWN = ("time", "diff"), ("#time", "#diff")  # the latter are no names of columns


@dataclass(frozen=True)
class History:
    """Updates of sources: for each a table with its columns, ``time`` and ``diff``; all times are below ``times``."""

    sources: Mapping[str, pa.Schema]
    updates: Mapping[str, Sequence[tuple[Row, int, int]]]
    times: int

    def table(self, source: str, lower: int = 0, upper: int | None = None, *, names: Names = _NAMES) -> pa.Table:
        """The updates of a source at times from ``lower`` up to but not including ``upper``.

        ``names`` are the names of the columns of times and diffs.
        """
        upper = self.times if upper is None else upper
        some = [(*row, time, diff) for row, time, diff in self.updates[source] if lower <= time < upper]
        schema = self.sources[source]
        for name in names:
            schema = schema.append(pa.field(name, pa.int64()))
        columns = list(zip(*some, strict=True)) or [()] * len(schema)
        return pa.table([array_of(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)

    def insert_into(self, session: Session, lower: int = 0, upper: int | None = None) -> None:
        """Insert the updates at these times into the sources that the session reads."""
        for source in self.sources:
            if source in session.sources and (some := self.table(source, lower, upper, names=_OWN)).num_rows:
                session.insert(source, some, time=_OWN[0], diff=_OWN[1])

    def at(self, time: int, *, names: Names = _NAMES) -> dict[str, pa.Table]:
        """The rows of each source at a time, as updates at that time: each row once, with its count as ``diff``."""
        histories = {}
        for source, updates in self.updates.items():
            counts: Counter[Row] = Counter()
            for row, t, diff in updates:
                if t <= time:
                    counts[row] += diff
            some = [(row, time, n) for row, n in counts.items() if n]
            histories[source] = History({source: self.sources[source]}, {source: some}, time + 1).table(
                source, names=names
            )
        return histories


def histories(
    sources: Mapping[str, Collection] | Sequence[Collection],
    *,
    times: int = 4,
    changes: int = 4,
    columns: Mapping[str, SearchStrategy[Any]] | None = None,
    negative: bool = False,
) -> SearchStrategy[History]:
    """A Hypothesis strategy for histories of sources: inserts, duplicates, retractions and corrections.

    There are up to ``changes`` changes of each source at each of ``times`` times. Values are drawn from small sets, so
    that keys coincide, and include nulls where a column allows them, empty strings and zeros. ``columns`` gives other
    strategies, by ``column`` or ``source.column``. Counts are never negative, unless ``negative=True``.

    Needs Hypothesis: ``pip install 'altneu[testing]'``.

    >>> import altneu as an
    >>> from hypothesis import given, settings, strategies as st
    >>> orders = an.source("orders", "item string, price long")
    >>> totals = orders.group_by("item").agg(total="sum(price)")
    >>> @settings(max_examples=5, deadline=None, database=None)
    ... @given(histories([orders], columns={"price": st.integers(0, 9)}), cuts(4))
    ... def totals_stay_right(history, steps):
    ...     assert_incremental(totals, history, steps)
    >>> totals_stay_right()
    """
    require("testing", "altneu.testing.histories")
    from hypothesis import strategies as st

    schemas = {node.name: node.schema for node in map(_source, _collections(sources))}
    rows = {name: _rows(name, schema, columns or {}) for name, schema in schemas.items()}

    @st.composite
    def drawn(draw: Callable[[SearchStrategy[Any]], Any]) -> History:
        updates: dict[str, list[tuple[Row, int, int]]] = {name: [] for name in schemas}
        for name in schemas:
            counts: Counter[Row] = Counter()
            for time in range(times):
                for _ in range(draw(st.integers(0, changes))):
                    for row, diff in _change(draw, counts, rows[name], negative=negative):
                        counts[row] += diff
                        updates[name].append((row, time, diff))
        return History(schemas, updates, times)

    return drawn()


def _change(
    draw: Callable[[SearchStrategy[Any]], Any], counts: Counter[Row], rows: SearchStrategy[Row], *, negative: bool
) -> list[tuple[Row, int]]:
    """One change: an insert, a duplicate, a retraction or a replacement; it shrinks towards an insert."""
    from hypothesis import strategies as st

    there = sorted((row for row, n in counts.items() if n > 0), key=repr)
    kinds = ["comes"] + ["again", "goes", "gives way"] * bool(there) + ["never was"] * negative
    kind = draw(st.sampled_from(kinds))
    if kind == "comes":
        return [(draw(rows), draw(st.integers(1, 2)))]
    if kind == "never was":
        return [(draw(rows), -1)]
    row = draw(st.sampled_from(there))
    if kind == "again":
        return [(row, 1)]
    if kind == "goes":
        return [(row, -draw(st.integers(1, counts[row])))]
    return [(row, -1), (draw(rows), 1)]


def cuts(times: int) -> SearchStrategy[list[int]]:
    """A strategy for the steps that close the times: the upper bound of each step, the last of which is ``times``.

    It shrinks towards a single step.
    """
    from hypothesis import strategies as st

    inner = st.sets(st.integers(1, max(times - 1, 1))) if times > 1 else st.just(set[int]())
    return inner.map(lambda some: sorted({*some, times}))


def replay(
    collections: Collection | Mapping[str, Collection],
    history: History,
    steps: Sequence[int] | None = None,
    **options: Any,
) -> Iterator[Session]:
    """Replay a history in a session step by step (by default one step for each time), and yield the session after each.

    The views have the names of the collections; a single collection becomes ``view``. ``options`` are those of the
    session: ``spark=``, ``path=``, ``placement=``; by default all history is retained (``retain="all"``).
    """
    named = {"view": collections} if isinstance(collections, Collection) else collections
    bounds = list(range(1, history.times + 1)) if steps is None else list(steps)
    with Session(**({"retain": "all"} | options)) as session:
        for name, collection in named.items():
            session.maintain(name, collection)
        lower = 0
        for upper in bounds:
            history.insert_into(session, lower, upper)
            session.advance(to=upper)
            lower = upper
            yield session


def assert_incremental(
    collections: Collection | Mapping[str, Collection],
    history: History,
    steps: Sequence[int] | None = None,
    **options: Any,
) -> None:
    """Assert that after every step of a history, and at every time before, views equal a computation from scratch.

    The computation from scratch is a new session into which all rows of a time are inserted at once. This tests the
    parts of a pipeline that altneu cannot guarantee: Python functions that are not pure, orders that are not total,
    results that depend on times.

    Raises:
        AssertionError: they differ; names the view and the time, and shows the rows.
    """
    named = {"view": collections} if isinstance(collections, Collection) else dict(collections)
    for session in replay(named, history, steps, **options):
        for time in range(session.view(next(iter(named))).since, session.lower):
            with Session() as scratch:
                for name, collection in named.items():
                    scratch.maintain(name, collection)
                for source, rows in history.at(time, names=_OWN).items():
                    if source in scratch.sources and rows.num_rows:
                        scratch.insert(source, rows, time=_OWN[0], diff=_OWN[1])
                scratch.advance(to=time + 1)
                for name in named:
                    expected = scratch.view(name).to_arrow(errors="ignore")
                    actual = session.view(name).to_arrow(time, errors="ignore")
                    try:
                        assert_contents(actual, expected)
                    except AssertionError as error:
                        raise AssertionError(f"view {name} at time {time}, steps to {session.lower}: {error}") from None


def _collections(sources: Mapping[str, Collection] | Sequence[Collection]) -> Sequence[Collection]:
    return list(sources.values()) if isinstance(sources, Mapping) else list(sources)


def _source(collection: Collection) -> ir.Source:
    if not isinstance(collection.node, ir.Source):
        raise InputError(f"histories needs sources, such as an.source(...), got {collection!r}")
    if collection.node.coordinates:
        raise InputError(f"source {collection.node.name!r} has two times, but histories need sources with one")
    return collection.node


def _rows(source: str, schema: pa.Schema, columns: Mapping[str, SearchStrategy[Any]]) -> SearchStrategy[Row]:
    from hypothesis import strategies as st

    each = []
    for field in schema:
        own = columns.get(f"{source}.{field.name}", columns.get(field.name))
        values = own if own is not None else _values(field.type)
        each.append(values if own is not None or not field.nullable else st.none() | values)
    return st.tuples(*each)


def _values(kind: pa.DataType) -> SearchStrategy[Any]:
    """A few values of a type, the simplest first; nested values are hashable tuples."""
    from hypothesis import strategies as st

    if pa.types.is_list(kind):
        return st.lists(st.none() | _values(kind.value_type), max_size=2).map(tuple)
    if pa.types.is_decimal(kind):
        unit = Decimal(1).scaleb(-kind.scale)
        return st.sampled_from([Decimal(0).quantize(unit), unit, -unit])
    if kind == VARIANT:
        return st.sampled_from([tuple(encoded(tree)) for tree in (1, [True, None], Object([("a", 1)]))])
    for is_it, values in _SIMPLE:
        if is_it(kind):
            return st.sampled_from(values)
    raise InputError(f"a column of type {kind} needs a strategy: columns={{name: strategy}}")


_SIMPLE: tuple[tuple[Callable[[pa.DataType], bool], list[Any]], ...] = (
    (pa.types.is_boolean, [False, True]),
    (pa.types.is_integer, [0, 1, 2, -1]),
    (pa.types.is_floating, [0.0, 1.5, -2.0]),
    (pa.types.is_string, ["a", "b", ""]),
    (pa.types.is_binary, [b"", b"\x00"]),
    (pa.types.is_date, [dt.date(2024, 2, 29), dt.date(1970, 1, 1)]),
    (pa.types.is_timestamp, [dt.datetime.fromisoformat(day) for day in ("2024-02-29T12:00", "1970-01-01")]),
    (pa.types.is_time, [dt.time(0), dt.time(23, 59, 59, 999_999)]),
    (pa.types.is_duration, [dt.timedelta(0), dt.timedelta(days=1)]),
)
