"""What linear logic over a collection means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from altneu.linear import BoundLogic, Filter, FilterFunction, Function, Negate
from altneu.linear.asked import Cut
from altneu.linear.called import functions_of, with_functions
from altneu.linear.lineage import handed_on, without_nulls
from altneu.linear.normal import is_empty, normalise
from altneu.operators.node import Columns, Node, Unary, projection


@dataclass(frozen=True, eq=False)
class Linear(Unary, tag="Linear"):
    """Linear logic, update by update."""

    logic: BoundLogic

    def _schema(self) -> pa.Schema:
        """What the logic makes of the input's schema."""
        return self.logic.output(self.input.schema)

    @cached_property
    def cut(self) -> Cut:
        """The logic over the input's rows as rules ask about it."""
        return Cut(self.logic, self.input.schema)

    def describe(self) -> str:
        """Every step with the parts that its text leaves out."""
        return self.logic.digest

    @property
    def title(self) -> str:
        """The steps."""
        return str(self.logic)

    def lineage(self, i: int) -> Mapping[str, str]:
        """The columns that every step hands on."""
        return handed_on(self.logic, self.input.schema)

    @property
    def filled(self) -> Columns:
        """What the steps compute of columns without nulls."""
        return without_nulls(self.logic, self.input.schema, self.input.never_null)

    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """Rows that agree on what is handed on."""
        return {old: new for new, old in self.lineage(i).items() if new in known}

    def reads(self, i: int, needed: Columns) -> Columns:
        """What the steps read that make the needed columns."""
        return self._narrowed(needed).columns_read(self.input.schema)

    @property
    def picks(self) -> bool:
        """It does."""
        return True

    def keeping(self, needed: Columns, inputs: Sequence[Node]) -> Node:
        """Logic that gives the needed columns."""
        return Linear(inputs[0], self._narrowed(needed))

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """Over nothing, and where every row is dropped."""
        return empty[0] or is_empty(normalise(self.logic, self.input.schema))

    def is_set(self, inputs: Sequence[bool]) -> bool:
        """Where rows are dropped and nothing else is done."""
        return inputs[0] and self._only(Filter, FilterFunction)

    def is_consolidated(self, inputs: Sequence[bool]) -> bool:
        """Where rows are dropped or negated and nothing else is done."""
        return inputs[0] and self._only(Filter, FilterFunction, Negate)

    @property
    def moves_times(self) -> bool:
        """Where it reads them; rules ask its logic, step by step."""
        return self.reads_times

    @property
    def arrival_verb(self) -> str | None:
        """None."""
        return None

    @property
    def is_by_arrival(self) -> bool:
        """A delayed row follows from the row and its time."""
        return False

    @property
    def reads_times(self) -> bool:
        """Where a delay or a bound does."""
        return not self.logic.keeps_times

    def functions(self) -> Iterable[Function]:
        """Those of its steps and delays."""
        return functions_of(self.logic)

    def with_functions(self, change: Callable[[Function], Function]) -> Node:
        """The steps and delays with others."""
        changed = with_functions(self.logic, change)
        return self if changed is self.logic else Linear(self.input, changed)

    def _only(self, *kinds: type) -> bool:
        return all(isinstance(s, kinds) for s in self.logic.steps) and not self.logic.delay

    def _narrowed(self, needed: Columns) -> BoundLogic:
        schema = self.schema
        if needed.issuperset(schema.names):
            return self.logic
        return normalise(self.logic.followed_by(BoundLogic((projection(schema, needed),))), self.input.schema)
