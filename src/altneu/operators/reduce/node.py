"""What functions of groups mean: the node, and what it knows of its reducer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, TypeVar

import pyarrow as pa

from altneu.columnar.ranking import Order
from altneu.linear import Function
from altneu.operators.asof.rule import MixedSides
from altneu.operators.node import AtEachTime, Columns, Key, Node, Unary, all_columns
from altneu.operators.reduce.calls import Aggregate, FirstRows, State, WindowCall

F_co = TypeVar("F_co", covariant=True)


class Families(Protocol[F_co]):
    """The families of functions of groups that there are kernels for: a reducer names its own, and says of what it is.

    So each reducer has a kernel, and each family one that takes what the reducers say, and mypy sees what is missing.
    """

    def aggregates(self, calls: tuple[Aggregate, ...], *, default_row: bool) -> F_co:
        """SQL aggregates; with ``default_row`` of the empty collection too."""

    def totals(self, calls: tuple[Aggregate, ...]) -> F_co:
        """Sums of groups of any sign, where they are not all zero."""

    def distinct(self) -> F_co:
        """Rows whose count is positive, once."""

    def counts(self, column: str) -> F_co:
        """Rows with their counts in a column."""

    def threshold(self, function: Function, *, with_row: bool) -> F_co:
        """Rows as often as a function says for their count, or for the row and its count."""

    def first_rows(self, k: int, order: tuple[Order, ...]) -> F_co:
        """The first rows in an order."""

    def windows(self, calls: tuple[WindowCall, ...], first: FirstRows | None, *, backward: bool) -> F_co:
        """Every row with its window functions, computed in the reverse order if ``backward``, or some first rows."""

    def python(
        self,
        function: Function,
        result: pa.Schema,
        first: tuple[int, tuple[Order, ...]] | None,
        *,
        with_diffs: bool,
        signed: bool,
    ) -> F_co:
        """Rows that a Python function makes of a group, or of so many first rows in an order."""

    def as_of(self, sides: MixedSides) -> F_co:
        """The left rows of the group, joined with the right ones."""


class OrderedRows(ABC):
    """The rows of a group in order that a function has to read at a step.

    ``sums_of_wide`` are columns of 64 bits whose sums fail where they leave their range: groups are read whole if
    that may be.
    """

    sums_of_wide: tuple[str, ...] = ()

    @property
    @abstractmethod
    def cost(self) -> str:
        """What reading them costs at a step."""


@dataclass(frozen=True)
class Ends(OrderedRows):
    """How many rows, counted as often as they are there, a function needs from the front and the back of an order.

    If ``valued``, nulls come first in the order, and the front begins behind them; if ``nulls_last`` too, they come
    last, and the back ends before them. If ``with_ties``, all rows at the
    front are needed that are equal in the order to one of the first; with ``distinct``, too, the first are so many
    places in the order, and not rows. With ``either`` the last are needed only where there may be no first, or, if
    nulls come last, the first only where there may be no last.
    If ``standing``, times are not totally ordered: only rows that are there throughout the step count as first rows,
    and the rows before them are read as well.
    """

    first: int = 0
    last: int = 0
    valued: bool = False
    nulls_last: bool = False
    with_ties: bool = False
    distinct: bool = False
    either: bool = False
    standing: bool = False

    @property
    def rows(self) -> int:
        """How many rows that is, of any group."""
        return self.first + self.last

    @property
    def cost(self) -> str:
        """The ends and the changed rows; every row of the group where no ends are known to suffice."""
        if self.standing:
            return f"({self.rows} + |change| + rows before these that come and go) log n"
        if self.with_ties:
            return f"(first {self.first} {'values' if self.distinct else 'rows'} with ties + |change|) log n"
        return f"({self.rows} + |change|) log n" if self.rows else "rows of the groups touched"


@dataclass(frozen=True)
class Around(OrderedRows):
    """How many units of multiplicity functions need on both sides of each row that a step touches.

    One half of them are rows whose results may change, the other what these are made of. ``values`` are columns, and
    how many rows on which they are not null are needed there. If ``with_ties``, it matters which rows are equal in the
    order. ``bounds`` are columns that hold ends of frames, of the type of the one column of the order.
    """

    units: int
    sums_of_wide: tuple[str, ...] = ()
    values: tuple[tuple[str, int], ...] = ()
    with_ties: bool = False
    bounds: tuple[str, ...] = ()

    @property
    def reads_others(self) -> bool:
        """Whether it needs other rows than those that a step touches and their peers."""
        return self.units > 0 or bool(self.values)

    @property
    def cost(self) -> str:
        """Some rows for each change; with those that are null before some values come."""
        if not self.values and not self.bounds:
            return f"{2 * self.units + 1} |change| log n"
        units = [f"{2 * self.units} rows"] if self.units else []
        sought = [f"rows up to {max(n for _, n in self.values)} not null on both sides"] if self.values else []
        framed = ["rows of two frames"] if self.bounds else []
        return f"|change| ({' + '.join([*units, *sought, *framed, 'log n'])})"


_ALL_BEHIND = "rows behind the first changed one"


@dataclass(frozen=True)
class Suffix(OrderedRows):
    """All rows from so many units of multiplicity before the first that a step touches on.

    Of the rows before these the ``first`` units, and for each of ``extremes``, a column and whether the greatest is
    meant, a row that has it. With ``peers`` it matters how many distinct values of the order are before. ``bounds`` are
    columns that hold ends of frames: the rows begin two frames before the first that a step touches. The rows
    ``beside`` the touched ones are needed as well. If it ``settles``, nothing but the first units and the extremes of
    the rows up to a row matter to it, and the rows end where these are what they were.
    """

    units: int
    sums_of_wide: tuple[str, ...] = ()
    first: int = 0
    extremes: tuple[tuple[str, bool], ...] = ()
    peers: bool = False
    bounds: tuple[str, ...] = ()
    beside: Around | None = None
    settles: bool = False

    @property
    def cost(self) -> str:
        """The rows whose results may change, which is what running functions make."""
        fixed = f"{self.first + len(self.extremes)} + " if self.first or self.extremes else ""
        values = () if self.beside is None else self.beside.values
        sought = f"rows up to {max(n for _, n in values)} not null + " if values else ""
        framed = "rows of two frames + " if self.bounds or (self.beside and self.beside.bounds) else ""
        behind = "rows from the first changed one to where results stay" if self.settles else _ALL_BEHIND
        return f"({fixed}|change| + {sought}{framed}{behind}) log n"


@dataclass(frozen=True)
class Quantiles(OrderedRows):
    """At which fractions of the way through an order, without the nulls at its front, a function needs rows.

    With ``of_words`` it sees nothing of a row but what the row's word tells, so that one row of each word is enough.
    """

    fractions: tuple[float, ...]
    of_words: bool = False

    @property
    def rows(self) -> int:
        """How many rows that is, for each that is new."""
        return len(self.fractions)

    @property
    def cost(self) -> str:
        """Some rows for each change."""
        return f"{self.rows + 1} |change| log n"


@dataclass(frozen=True)
class Within(OrderedRows):
    """The rows that may share a frame with one that a step touches; ``bounds`` are columns that hold ends of frames.

    They have the type of the one column of the order.
    """

    bounds: tuple[str, ...]
    sums_of_wide: tuple[str, ...] = ()

    @property
    def cost(self) -> str:
        """The rows of frames for each change."""
        return "|change| (rows of two frames + log n)"


Needed = Ends | Around | Suffix | Within | Quantiles
"""The rows of a group in order that a function has to read at a step."""

WHOLE = Ends()
"""No ends: the whole group."""


@dataclass(frozen=True)
class Part:
    """Aggregates of a reducer that are computed from one state of a group, at these ``places`` among all.

    ``columns`` are the one whose distinct values, or in whose order rows, are kept, or several that share their values.
    Of equally frequent values those that are greater come first if it is ``descending``.
    """

    places: tuple[int, ...]
    state: State = "sums"
    columns: tuple[str, ...] = ()
    descending: bool = False


class Reducer(ABC):
    """What becomes of each group of rows; fingerprints are made of its repr, which distinguishes it from all others."""

    is_whole: ClassVar[bool] = False
    """Whether groups are equal rows."""

    @abstractmethod
    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """The columns of the result over rows of a schema; ``key`` are those of the key."""

    def filled(self, below: Columns) -> Columns:  # no column is left out
        """Columns of the result that hold no null, beside the key, where those ``below`` hold none in the input."""
        return below if self.picks_rows else frozenset()

    @abstractmethod
    def of_family(self, families: Families[F_co]) -> F_co:
        """Its family, called with what it says of itself."""

    @property
    def accumulable(self) -> bool:
        """Whether the state is a few numbers per group and not the group."""
        return False

    @property
    def additive(self) -> bool:
        """Whether the row that is made of some rows of a group may take their place in it."""
        return False

    @property
    def accumulated(self) -> Hashable:
        """What distinguishes its sums from those of other reducers; all that count rows have the same."""
        return "counts"

    @property
    def makes_sets(self) -> bool:
        """Whether every row of the result is there once."""
        return False

    @property
    def consolidates(self) -> bool:
        """Whether no two updates of the result have equal row and time."""
        return False

    def with_order(self, below: Node, key: Key) -> Reducer:  # most read their groups whole
        """The same over groups whose rows are in order, if few of them then have to be read."""
        return self

    def state_order(self, schema: pa.Schema, key: Key) -> tuple[Order, ...]:
        """The order in which the rows of a group are to lie; none where it makes no difference."""
        return ()

    def needed(self, schema: pa.Schema, key: Key) -> Needed:
        """Which rows are read in that order."""
        return WHOLE

    @property
    def parts(self) -> tuple[Part, ...]:
        """Its parts, where a group is kept as several states and not as its rows."""
        return ()

    @property
    def keeps_sets(self) -> bool:
        """Whether a set is made of itself."""
        return False

    @property
    def picks_rows(self) -> bool:
        """Whether its rows are rows of the group, those that are picked."""
        return False

    @property
    def witnesses(self) -> Sequence[Mapping[str, str]]:
        """Where a result rests on a row for each of its values: of columns of such a row, those that show the value.

        None: it rests on the group.
        """
        return ()

    def functions(self) -> Iterable[Function]:
        """The Python functions that it calls."""
        return ()

    def with_functions(self, change: Callable[[Function], Function]) -> Reducer:
        """The reducer with each of them changed."""
        return self

    def reads(self, below: Node, key: Key, needed: Columns) -> Columns:  # all decide what is made
        """The columns that are read of the input when these are needed of the result."""
        return all_columns(below)

    def at_least(self, needed: Columns) -> Columns:
        """What is computed when these columns are needed."""
        return needed

    def fewer(self, node: Reduce, needed: Columns) -> Node:  # nothing is left out
        """A node with this reducer, without columns that are not needed."""
        return node


@dataclass(frozen=True, eq=False)
class Reduce(AtEachTime, Unary, tag="Reduce"):
    """A function of each group of rows with equal key; an empty group yields nothing.

    Of a collection that another reduce keeps in ``orders`` within the same groups, and of which the input is only some
    columns, its first rows in an order are read there (``plan.rewrite.share_orders``). If the best rows of groups only
    improve, and it reads no others, it ``keeps_best`` rows instead of groups (``plan.rewrite.keep_best``).
    """

    key: Key
    reducer: Reducer
    orders: tuple[tuple[Order, ...], ...] = ()
    keeps_best: bool = False

    @property
    def title(self) -> str:
        """The reducer and the key."""
        return f"{self.reducer}, group by {', '.join(self.key)}" if self.key else f"{self.reducer}, one group"

    @property
    def noun(self) -> str:
        """An aggregate."""
        return "an aggregate or distinct"

    @property
    def accumulable(self) -> bool:
        """Whether the state is a few numbers per group and not the group."""
        return self.reducer.accumulable

    def _schema(self) -> pa.Schema:
        """What the reducer makes of the key columns and the input's."""
        schema = self.input.schema
        return pa.schema(self.reducer.columns(schema, [schema.field(k) for k in self.key]))

    def describe(self) -> str:
        """Key and reducer."""
        return (
            f"{self.key} {self.reducer!r}"
            + f" in {self.orders!r}" * bool(self.orders)
            + " of the best" * self.keeps_best
        )

    @property
    def lowered_first(self) -> Sequence[Node]:
        """With the input what lies in an order; that alone if nothing else is read."""
        if not self.orders:
            return self.inputs
        (kept,) = self.input.inputs
        return (self.input, kept) if self.reducer.parts else (kept,)

    def arrangement(self, i: int) -> Hashable:
        """The key, and the sums that are the state of each group."""
        return (self.key, self.reducer.accumulated) if self.accumulable else self.key

    def lineage(self, i: int) -> Mapping[str, str]:
        """The key: a group is there as a whole or not at all."""
        return {k: k for k in self.key}

    @property
    def filled(self) -> Columns:
        """What the reducer says."""
        return self.reducer.filled(self.input.never_null) & frozenset(self.schema.names)

    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """The rows of the group."""
        columns = self.input.schema.names if self.reducer.is_whole else self.key
        return {c: c for c in columns if c in known}

    def reads(self, i: int, needed: Columns) -> Columns:
        """What the reducer reads."""
        return self.reducer.reads(self.input, self.key, needed)

    def at_least(self, needed: Columns) -> Columns:
        """One column, and one aggregate."""
        return super().at_least(self.reducer.at_least(needed))

    @property
    def picks(self) -> bool:
        """Numbers are made of columns, whatever others there are."""
        return self.accumulable

    def keeping(self, needed: Columns, inputs: Sequence[Node]) -> Node:
        """Without what is not needed."""
        return self.reducer.fewer(replace(self, input=inputs[0]), needed)

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """An empty group makes nothing."""
        return empty[0]

    def is_set(self, inputs: Sequence[bool]) -> bool:
        """As the reducer says."""
        return self.reducer.makes_sets

    def is_consolidated(self, inputs: Sequence[bool]) -> bool:
        """As the reducer says."""
        return self.reducer.consolidates

    def same_as(self, sets: Sequence[bool], consolidated: Sequence[bool]) -> Node | None:
        """A set where the reducer makes it of itself."""
        return self.input if sets[0] and self.reducer.keeps_sets else None

    def functions(self) -> Iterable[Function]:
        """Those of the reducer."""
        return self.reducer.functions()

    def with_functions(self, change: Callable[[Function], Function]) -> Node:
        """With those of the reducer changed."""
        return replace(self, reducer=self.reducer.with_functions(change))

    @property
    def moves_times(self) -> bool:
        """The results of a group are removed when its rows change."""
        return True

    @property
    def hosts(self) -> bool:
        """It does."""
        return True
