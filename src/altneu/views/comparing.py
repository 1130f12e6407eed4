"""Comparing two views: the rows that differ, each with its count in both, wherever the views are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Ints, Rows
from altneu.engine.reading import OnErrors, StateOfViews, check_on_errors, refuse_without_contents
from altneu.errors import HistoryGoneError, PlanError, ReadError, SchemaError, UnknownColumnError
from altneu.order import Epoch
from altneu.runtime.batch_writer import ranges
from altneu.runtime.inputs import whole_number
from altneu.runtime.read import At
from altneu.runtime.spill import BUCKETS, Spill, ordered, weights_of
from altneu.runtime.stored import StoredBatch
from altneu.trace.batch import Batch, Description, Layout, find_in, reaches
from altneu.trace.update import Updates, consolidate
from altneu.types import to_ddl
from altneu.views.view import View, state_of

ROOM = 256 << 20  # bytes of both views that are in memory at once
COUNTS = ("left_count", "right_count")
_NUMBER = "#number"

Shared = str | int
"""What tells that two batches are the same one: the checksum of its segment, or the object."""


def compare(
    left: View,
    right: View,
    columns: Sequence[str] | None = None,
    *,
    at: int | tuple[int | None, int | None] | None = None,
    errors: OnErrors = "raise",
) -> pa.Table:
    """The rows that two views do not have equally often, with their counts in each.

    Both may be of any session, fork or reader. They are compared at the last time that both have closed, or at ``at``:
    one time, or one for each, None for the last. Of views with two times all event times count. With ``columns`` rows
    are compared by these alone, and counts are of rows that are equal in them; otherwise both views have columns of the
    same names and types, in whatever order. An empty table says that the views are equal.

    Shape:  the columns, then ``left_count`` and ``right_count`` (long), 0 where a view has no such row; one row for
            each that differs, in no order.
    Cost:   one read of both, a part at a time, so that memory holds the rows that differ and at most 256 MiB of the
            others, or the rows of one key. If both are arranged by the same columns, segments that they share, as a
            fork and its store do, are only read where other rows differ, and nothing is written. Otherwise larger views
            go through a temporary file.
    Law:    the difference of the contents as multisets (tests/oracle/test_compare.py).

    Raises:
        PlanError: the columns of the views differ.
        HistoryGoneError, NotYetKnownError: a view cannot be read at the time; ``at`` gives others.
        ViewHasErrorsError: a view has errors at the time; ``errors="ignore"`` compares the rest.
        ReadError: a view has no contents.

    >>> import altneu as an
    >>> orders = an.source("orders", "item string, price long")
    >>> with an.Session() as session:
    ...     old = session.maintain("old", orders.group_by("item").agg(total="sum(price)"))
    ...     new = session.maintain(
    ...         "new", orders.filter("price > 3").group_by("item").agg(total="sum(price)")
    ...     )
    ...     session.insert("orders", [("tea", 3), ("tea", 4), ("jam", 5)])
    ...     _ = session.advance()
    ...     for row in sorted(an.compare(old, new).to_pylist(), key=str):
    ...         print(row)
    {'item': 'tea', 'total': 4, 'left_count': 0, 'right_count': 1}
    {'item': 'tea', 'total': 7, 'left_count': 1, 'right_count': 0}
    """
    for view in (left, right):
        if not isinstance(view, View):
            raise PlanError(f"compare needs two views, of sessions or readers, got {view!r:.200}")
    check_on_errors(errors, ReadError)
    schema = _schema(left, right, columns)
    with ExitStack() as locked:
        for lock in {
            id(state.lock): state.lock for state in sorted((state_of(left), state_of(right)), key=id)
        }.values():
            locked.enter_context(lock)
        times = _times(left, right, at)
        if errors == "raise":
            for view, time in zip((left, right), times, strict=True):
                view.raise_errors(time)
        sides = [_Side.of(state_of(view), view.name, time) for view, time in zip((left, right), times, strict=True)]
        found = list(_differences(sides[0], sides[1], schema))
    parts = [Rows(schema, rows.columns, rows.count) for rows, _ in found]
    rows = Rows.concat(parts, schema)
    counts = np.concatenate([counts for _, counts in found], axis=1) if found else np.empty((2, 0), np.int64)
    fields = [*schema, *(pa.field(name, pa.int64()) for name in COUNTS)]
    return pa.Table.from_arrays([*rows.columns, *map(pa.array, counts)], schema=pa.schema(fields))


def _schema(left: View, right: View, columns: Sequence[str] | None) -> pa.Schema:
    """The columns to compare by, which may be null where those of either view may."""
    if isinstance(columns, str):
        raise PlanError(f"columns must be a list of names, got {columns!r}")
    if columns is None and {*left.schema.names} != {*right.schema.names}:
        raise PlanError(f"{left!r} and {right!r} have different columns; columns=[...] names those to compare them by")
    names = left.schema.names if columns is None else [*columns]
    if len({*names}) != len(names):
        raise PlanError(f"columns must be different ones, got {names!r}")
    fields = []
    for name in names:
        for view in (left, right):
            if name not in view.schema.names:
                raise UnknownColumnError(name, view.schema.names, f"the comparison of view {view.name}")
            if name in COUNTS:
                raise SchemaError(f"view {view.name!r} has a column {name!r}, which is the name of a count here")
        one, other = (view.schema.field(name) for view in (left, right))
        if one.type != other.type:
            types = (to_ddl(pa.schema([field])) for field in (one, other))
            raise PlanError(
                f"column {name!r} has other types in view {left.name!r} and {right.name!r}: {', '.join(types)}"
            )
        fields.append(one.with_nullable(one.nullable or other.nullable))
    return pa.schema(fields)


def _times(left: View, right: View, at: int | tuple[int | None, int | None] | None) -> tuple[At, At]:
    """The times at which two views are read."""
    known = [state_of(view).known(view.name) for view in (left, right)]
    if isinstance(at, tuple):
        if len(at) != 2:
            raise ReadError(f"at must be a time, or two, one for each view, got {at!r}")
        wanted = [None if time is None else whole_number(time, "at") for time in at]
    else:
        both = min(one.lower for one in known) - 1 if at is None else whole_number(at, "at")
        wanted = [None, None] if at is None and both < 0 else [both, both]  # before the first step there is nothing
    try:
        first, second = [one.readable(time) for one, time in zip(known, wanted, strict=True)]
    except HistoryGoneError as error:
        last = tuple(one.lower - 1 for one in known)
        raise HistoryGoneError(f"{error}; at={last!r} compares the last of each") from error
    return first, second


@dataclass(frozen=True)
class _Part:
    """A batch: what tells it from others, and how it is opened."""

    same: Shared
    whole: bool  # whether all of its updates count at the time
    batch: Batch


@dataclass(frozen=True)
class _Side:
    """The contents of a view at a time, as batches that are opened where they are read."""

    layout: Layout
    at: At
    parts: tuple[_Part, ...]

    @classmethod
    def of(cls, state: StateOfViews, name: str, at: At) -> _Side:
        """The contents of a view of a session or a reader."""
        ports, table = state.ports(name), state.table
        refuse_without_contents(ports, name)
        layout, parts = table.layouts[ports.contents], list[_Part]()
        for shard in table.shards_of(ports.contents):
            key = ports.contents, shard
            stored = table.stored.get(key) if key not in table.fresh else None
            batches = list[tuple[Shared, Batch]]()
            if stored is not None:
                batches += [(_named(batch), table.files.batch(layout, batch)) for batch in stored["batches"]]
            elif (there := table.get(*key)) is not None:
                batches += [(id(batch), batch) for batch in there.spine.batches]
            for same, batch in batches:
                whole = not reaches(batch.description.upper.elements, at[0] + 1)
                parts.append(_Part(same, whole, batch))
        return cls(layout, at, tuple(parts))

    def less(self, names: Counter[Shared]) -> tuple[_Side, list[Batch]]:
        """Without some of the batches; and these."""
        left, taken, rest = Counter(names), list[Batch](), list[_Part]()
        for part in self.parts:
            if left[part.same] > 0:
                left[part.same] -= 1
                taken.append(part.batch)
            else:
                rest.append(part)
        return _Side(self.layout, self.at, tuple(rest)), taken

    @property
    def nbytes(self) -> int:
        """Bytes of all batches, about."""
        return sum(part.batch.nbytes for part in self.parts)

    def between(self, lower: int, upper: int, schema: pa.Schema) -> Updates:
        """What counts at the time, of a range of key hashes, not yet added up."""
        found = [block for part in self.parts for block in part.batch.between(lower, upper).blocks]
        return Updates.concat([_counting(block.updates(), self.at, schema) for block in found], schema, 1)

    def pieces(self, schema: pa.Schema) -> Iterator[Updates]:
        """All that counts at the time, not yet added up, piece by piece."""
        for lower, upper in ranges(self.nbytes, ROOM // 4):
            for part in self.parts:
                for block in part.batch.between(lower, upper).blocks:
                    yield _counting(block.updates(), self.at, schema)


def _named(batch: StoredBatch) -> Shared:
    """The checksum of a batch's segment; of one inside a commit, which is small, something that no other has."""
    data = batch["data"]
    return str(data["segment"]["checksum"]) if "segment" in data else id(batch)


def _counting(updates: Updates, at: At, schema: pa.Schema) -> Updates:
    """The updates that count at a time, with the columns of a schema."""
    own = np.array(at[: len(updates.times)], np.int64)[:, None]
    early = np.asarray((updates.times <= own).all(axis=0))
    updates = updates if early.all() else updates.filter(early)
    chosen = updates.rows.select(schema.names)
    rows = Rows(schema, chosen.columns, chosen.count)
    return Updates(rows, np.zeros((1, len(updates)), np.int64), updates.diffs)


def _differences(left: _Side, right: _Side, schema: pa.Schema) -> Iterator[tuple[Rows, Ints]]:
    """The rows that differ, with their counts, part by part."""
    key = left.layout.key
    if key == right.layout.key and {*key} <= {*schema.names} and _types(left, key) == _types(right, key):
        yield from _along_the_key(left, right, schema)
    elif left.nbytes + right.nbytes <= ROOM:
        one, other = (Updates.concat([*side.pieces(schema)], schema, 1) for side in (left, right))
        yield from _differing(one, other)
    else:
        yield from _by_buckets(left, right, schema)


def _types(side: _Side, key: Sequence[str]) -> list[pa.DataType]:
    return [side.layout.schema.field(name).type for name in key]


def _along_the_key(left: _Side, right: _Side, schema: pa.Schema) -> Iterator[tuple[Rows, Ints]]:
    """Both are sorted by the hashes of the same key: a range of these after the other.

    What both have in common adds the same to both, so it is looked up for the rows that differ by the others.
    """
    names = [Counter(part.same for part in side.parts if part.whole or left.at == right.at) for side in (left, right)]
    common = names[0] & names[1]
    left, shared = left.less(common)
    right, _ = right.less(common)

    def counted_in_both(rows: Rows) -> Updates:
        batches = [batch for batch in shared if len(batch)]
        keys = rows.select(left.layout.key)
        keys = Rows(left.layout.key_schema, keys.columns, keys.count)
        one = _distinct(keys)
        matches = find_in(batches, hash_rows(one), one)
        found = Updates(left.layout.join(one.take(matches.probe), matches.values), matches.times, matches.diffs)
        return _counting(found, left.at, schema)

    for lower, upper in ranges(left.nbytes + right.nbytes, ROOM):
        mine, others = (side.between(lower, upper, schema) for side in (left, right))
        yield from _differing(mine, others, counted_in_both if shared else None)


def _distinct(rows: Rows) -> Rows:
    once = Updates(rows, np.zeros((1, rows.count), np.int64), np.ones(rows.count, np.int64))
    return consolidate(once, Epoch()).rows


def _by_buckets(left: _Side, right: _Side, schema: pa.Schema) -> Iterator[tuple[Rows, Ints]]:
    """Both are put away by the hash of the row, in a temporary file: some of the hashes after the others."""
    weights = np.zeros(BUCKETS, np.int64)
    with Spill() as spill:
        for port, side in enumerate((left, right)):
            for piece in side.pieces(schema):
                packed, ends = ordered(piece, hash_rows(piece.rows))
                spill.write(port, packed, ends)
                weights += weights_of(packed, ends)
        before = np.concatenate([[0], np.cumsum(weights)])
        cuts = np.searchsorted(before, np.arange(0, int(before[-1]) + ROOM, ROOM), side="right") - 1
        for cut in pairwise(sorted({0, *np.minimum(cuts, BUCKETS).tolist(), BUCKETS})):
            one, other = (Updates.concat([*spill.read(port, cut)], schema, 1) for port in (0, 1))
            yield from _differing(one, other)


def _differing(
    left: Updates, right: Updates, common: Callable[[Rows], Updates] | None = None
) -> Iterator[tuple[Rows, Ints]]:
    """The rows that two lists of updates do not have equally often, with their counts, and those that both have."""
    schema = left.schema
    less = Updates(right.rows, right.times, -right.diffs)
    rows = consolidate(Updates.concat([left, less], schema, 1), Epoch()).rows
    if not rows.count:
        return
    counts = np.zeros((2, rows.count), np.int64)
    numbered = _numbered(rows)
    for i, part in enumerate((left, right)):
        _add(counts[i : i + 1], numbered, part)
    if common is not None:
        _add(counts, numbered, common(rows))
    yield rows, counts


def _numbered(rows: Rows) -> Batch:
    """Distinct rows, arranged by themselves, each with its place."""
    fields = [*rows.schema, pa.field(_NUMBER, pa.int64())]
    layout = Layout(pa.schema(fields), tuple(rows.schema.names), Epoch())
    columns = (*rows.columns, pa.array(np.arange(rows.count)))
    once = np.zeros((1, rows.count), np.int64), np.ones(rows.count, np.int64)
    updates = Updates(Rows(layout.schema, columns, rows.count), *once)
    return Batch.build(updates, layout, Description.interval(Epoch(), 0, 1))


def _add(counts: Ints, numbered: Batch, updates: Updates) -> None:
    """Add the diffs of updates to the counts of the rows that are numbered."""
    if len(updates):
        matches = find_in([numbered], hash_rows(updates.rows), updates.rows)
        places = np.asarray(matches.values.column(_NUMBER))
        for line in counts:
            np.add.at(line, places, updates.diffs[matches.probe])
