"""Logical nodes: descriptions of collections, with the facts that rules, lowering and provenance need of them.

Nodes know nothing of rows. An operator's node is in its folder, in ``node.py``; ``altneu.plan.ir`` has all of them.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from altneu.expressions import Column
from altneu.linear import Function, Project
from altneu.types import to_ddl

T = TypeVar("T")
Key = tuple[str, ...]
Columns = frozenset[str]
Outputs = tuple[tuple[str, int, str], ...]
"""The columns of a node with two sides: name, side, column of that side."""


def inputs_first(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """A function of a node that calls itself on the node's inputs: computed once a node, inputs before the node.

    So a plan may be of any depth, and what is shared costs once. Results are stored with the nodes, which never change.

    Cost:   one call of ``function`` for each node that it was not called with before.
    """
    place = f"#{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def stored(node: Any) -> T:
        results = node.__dict__
        if place not in results:
            if all(place in below.__dict__ for below in node.inputs):
                results[place] = function(node)
            else:
                for below in ordered(node, without=lambda n: place in n.__dict__):
                    below.__dict__[place] = function(below)
        result: T = results[place]
        return result

    return stored


class Node(ABC):
    """A collection, described.

    ``tag`` is what fingerprints call a class, whatever it is renamed to: stored views are found by them.

    A fact is abstract where a wrong value makes wrong rows: which columns correspond (``lineage``, ``decides``,
    ``reads``), when there are no rows (``is_nothing``), whether inputs are added up (``is_sum``), and what depends on
    times (``moves_times``, ``reads_times``, ``is_by_arrival``, ``arrival_verb``). ``Leaf``, ``Unary``, ``Whole`` and
    ``AtEachTime`` state those that follow from their definitions. A fact has a default where the default is right for
    every operator and only loses an optimization or a word: nothing is a set, nothing is consolidated, nothing equals
    an input, no column is left out, no logic runs inside. Four defaults are right for all operators but a few kinds,
    which override them: ``functions`` and ``with_functions`` (those that call Python), ``free`` and ``moments`` (those
    that enter a loop or a moment), ``stays`` and ``arranged_by`` (those requested by name), and ``shown`` (those that
    have columns that their input has not, or calls otherwise).
    """

    tag: ClassVar[str]
    schema: pa.Schema

    def __init_subclass__(cls, tag: str = "") -> None:
        super().__init_subclass__()
        if tag:
            cls.tag = tag

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Collections this one is computed from."""
        return ()

    @abstractmethod
    def describe(self) -> str:
        """One line that distinguishes this node from any other over the same inputs."""

    @property
    @inputs_first
    def fingerprint(self) -> str:
        """Stable across processes: equal plans have equal fingerprints, so that they share state."""
        text = "\n".join([self.tag, self.describe(), to_ddl(self.schema), *(i.fingerprint for i in self.inputs)])
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    @property
    def title(self) -> str:
        """One line for a reader of explanations."""
        return type(self).__name__.lower()

    @property
    def noun(self) -> str:
        """What messages about other operators call one like it."""
        return "another operator"

    def over(self, inputs: Sequence[Node]) -> Node:
        """The node over other inputs, in the order of ``inputs``; itself when they are those it has."""
        if all(new is old for new, old in zip(inputs, self.inputs, strict=True)):
            return self
        return replace(self, **dict(_changed(self, iter(inputs))))  # type: ignore[type-var]

    # which column is which ------------------------------------------------------------------------------------------

    @abstractmethod
    def lineage(self, i: int) -> Mapping[str, str]:
        """For columns of the node, those of an input that have the same values on every row that counts.

        From columns of the node to columns of the input. A test of these columns may be applied to the input instead:
        what fails there makes no row here that passes.
        """

    @abstractmethod
    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """Which rows of an input decide rows of the node of which some columns are known.

        They agree with these on the columns of the input that are named here, each with the node's column of its value:
        from columns of the input to columns of the node.
        """

    @property
    @inputs_first
    def never_null(self) -> Columns:
        """Columns that hold no null, whatever the schema says; it is part of the fingerprint, and so stays as it is."""
        handed = [
            frozenset(mine for mine, theirs in self.lineage(i).items() if theirs in below.never_null)
            for i, below in enumerate(self.inputs)
        ]
        combine = frozenset.intersection if self.is_sum else frozenset.union
        declared = frozenset(field.name for field in self.schema if not field.nullable)
        return declared | self.filled | (combine(*handed) if handed else frozenset())

    @property
    def filled(self) -> Columns:  # no column is left out
        """Columns without nulls that the node computes; ``never_null`` adds those that it hands on."""
        return frozenset()

    # which columns are read -----------------------------------------------------------------------------------------

    @abstractmethod
    def reads(self, i: int, needed: Columns) -> Columns:
        """The columns of an input that the node reads when these are needed of it."""

    def at_least(self, needed: Columns) -> Columns:
        """The columns that the node retains when these are needed: at least one, so that its rows remain rows."""
        return needed or frozenset(self.schema.names[:1])

    @property
    def picks(self) -> bool:
        """Whether it reads single columns of its input itself, so that cutting the input to them gains nothing."""
        return False

    def keeping(self, needed: Columns, inputs: Sequence[Node]) -> Node:  # nothing is left out
        """The node over inputs that have what it reads, without columns that are not needed of it.

        It may have more columns than are needed, if leaving them out would save nothing.
        """
        return self.over(inputs)

    # what is retained -----------------------------------------------------------------------------------------------

    @property
    def lowered_first(self) -> Sequence[Node]:
        """The collections that its operations read: its inputs, if it reads no others in their place."""
        return self.inputs

    def arrangement(self, i: int) -> Hashable | None:  # no input is arranged
        """What distinguishes the arrangement of an input from others of it; None where it is not arranged."""
        return None

    # what its rows are ----------------------------------------------------------------------------------------------

    @abstractmethod
    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """Whether the node is empty whatever rows sources have, given which of its inputs are."""

    def is_set(self, inputs: Sequence[bool]) -> bool:  # nothing is known
        """Whether every row has multiplicity 1, given for which inputs that is so."""
        return False

    def is_consolidated(self, inputs: Sequence[bool]) -> bool:  # nothing is known
        """Whether no two updates have equal row and time, given for which inputs that is so."""
        return False

    @property
    def needs_every_input(self) -> bool:
        """Whether each row is made of a row of every input, and not of one of any."""
        return False

    @property
    def hands_on(self) -> bool:
        """Whether its rows are those of its input, requested by name: rules leave what is below as it is."""
        return False

    @property
    def hosts(self) -> bool:
        """Whether linear logic that alone reads its rows may run inside its operation."""
        return False

    @property
    @abstractmethod
    def moves_times(self) -> bool:
        """Whether one of its rows may come or go because another row of its input does.

        So it is with a function of a group: the rows of the group that stay have another result. A rule then moves no
        test below it that knows of times.
        """

    @property
    @abstractmethod
    def arrival_verb(self) -> str | None:
        """The verb of a node that depends on when rows arrive, and so is refused in loops and over two times."""

    @property
    @abstractmethod
    def is_by_arrival(self) -> bool:
        """Whether its rows depend on when the rows of its input arrived, and not on these rows alone."""

    @property
    @abstractmethod
    def reads_times(self) -> bool:
        """Whether its rows depend on the times of its input as values, and not on their order alone."""

    @property
    @abstractmethod
    def is_sum(self) -> bool:
        """Whether its rows are those of all of its inputs together, so that copies of one input cancel another's."""

    @property
    def stays(self) -> bool:
        """Whether it is there for its own sake, even where nothing is made of it."""
        return False

    @property
    def arranged_by(self) -> Key | None:
        """The columns by which its rows are arranged whether another node reads them or not."""
        return None

    def same_as(self, sets: Sequence[bool], consolidated: Sequence[bool]) -> Node | None:  # nothing is known
        """The collection that it equals, given which of its inputs are sets, and which are consolidated."""
        return None

    def without(self, empty: Sequence[bool]) -> Node:  # each is needed
        """The node without those of its inputs that are empty, where it is the same without them."""
        return self

    def shown(self, i: int) -> Mapping[str, str]:
        """Of columns of an input, the node's columns that show their values for the row that a row comes from.

        Of the rows that ``decides`` selects, it selects those that a row of the node rests on. Override it in a node
        that has columns that the input has not, or calls them otherwise.
        """
        return {c: c for c in self.schema.names}

    # Python functions -----------------------------------------------------------------------------------------------

    def functions(self) -> Iterable[Function]:
        """Those that it calls."""
        return ()

    def with_functions(self, change: Callable[[Function], Function]) -> Node:
        """The node with each of them changed."""
        return self

    # loops and moments ----------------------------------------------------------------------------------------------

    def free(self, below: frozenset[int]) -> frozenset[int]:
        """The levels of loops whose variables the node reads, when those are ``below`` that its inputs read."""
        return below

    def moments(self, below: dict[int, int]) -> dict[int, int]:
        """The depth of the moments that its rows are in, by level, when this is what its inputs' rows are in."""
        return below


def _changed(node: Node, inputs: Iterator[Node]) -> Iterator[tuple[str, Any]]:
    for field in fields(node):  # type: ignore[arg-type]
        value = getattr(node, field.name)
        if isinstance(value, Node):
            yield field.name, next(inputs)
        elif isinstance(value, tuple) and value and all(isinstance(v, Node) for v in value):
            yield field.name, tuple(next(inputs) for _ in value)


class AtEachTime(Node):
    """A collection whose rows at each time follow from the rows of its inputs at that time, whenever they arrived."""

    @property
    def reads_times(self) -> bool:
        """It does not."""
        return False

    @property
    def is_by_arrival(self) -> bool:
        """It is not."""
        return False

    @property
    def arrival_verb(self) -> str | None:
        """It has none."""
        return None


class Leaf(AtEachTime):
    """A collection that is computed from no other."""

    is_sum = False
    moves_times = False

    def lineage(self, i: int) -> Mapping[str, str]:
        """It has no input."""
        raise IndexError(i)

    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """It has no input."""
        raise IndexError(i)

    def reads(self, i: int, needed: Columns) -> Columns:
        """It has no input."""
        raise IndexError(i)

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """Not known."""
        return False


class Derived(Node):
    """A collection whose columns follow from those of its inputs."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return _schema_of(self)

    def _schema(self) -> pa.Schema:
        raise NotImplementedError(type(self).__name__)


@inputs_first
def _schema_of(node: Node) -> pa.Schema:
    return node._schema() if isinstance(node, Derived) else node.schema


@dataclass(frozen=True, eq=False)
class Unary(Derived):
    """A collection made of one other; where nothing else is said it has the same columns."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)

    @property
    def is_sum(self) -> bool:
        """There is one input."""
        return False

    def _schema(self) -> pa.Schema:
        """That of the input."""
        return self.input.schema


class Whole(Derived):
    """A collection whose rows are distinguished by all of their columns: rules leave its inputs as they are."""

    def lineage(self, i: int) -> Mapping[str, str]:
        """None."""
        return {}

    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """A row is the same row of an input."""
        return same_columns(self.inputs[i], known)

    def reads(self, i: int, needed: Columns) -> Columns:
        """All columns."""
        return all_columns(self.inputs[i])

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """Not known."""
        return False

    @property
    def moves_times(self) -> bool:
        """Taken to be so: no rule moves a test below it."""
        return True


def all_columns(node: Node) -> Columns:
    """The columns of a node."""
    return frozenset(node.schema.names)


def same_columns(below: Node, known: Columns) -> dict[str, str]:
    """The columns of an input that are known of a node whose rows are rows of it."""
    return {c: c for c in below.schema.names if c in known}


def up_to(below: Node, fixed: Columns, needed: Columns) -> Columns:
    """Columns of an input whose ties are decided by all of them in turn: those behind all that are needed may go."""
    names = below.schema.names
    last = max((at for at, n in enumerate(names) if n in needed - fixed), default=-1)
    return fixed | frozenset(names[: last + 1])


def own_columns(outputs: Outputs, known: Columns) -> list[dict[str, str]]:
    """Of both sides of a node the columns whose values are known, each with the output that has the value."""
    own: list[dict[str, str]] = [{}, {}]
    for name, side, column in outputs:
        if name in known:
            own[side].setdefault(column, name)
    return own


def projection(schema: pa.Schema, columns: Columns) -> Project:
    """Of a schema's columns some."""
    return Project(tuple((f.name, Column(f.name, f.type, f.nullable)) for f in schema if f.name in columns))


def inputs_of(node: Node) -> Sequence[Node]:
    """The inputs of a node."""
    return node.inputs


def ordered(
    *roots: Node,
    below: Callable[[Node], Sequence[Node]] = inputs_of,
    key: Callable[[Node], Hashable] = id,
    without: Callable[[Node], bool] = lambda _: False,
) -> Iterator[Node]:
    """The roots and the nodes below them, inputs first, each ``key`` once; those ``without`` which with all below them.

    Nothing is recursive here, so that a plan may be of any depth.

    Cost:   a visit for each node, and a look at each of its inputs.
    """
    seen: set[Hashable] = set()
    todo = [(root, False) for root in reversed(roots)]
    while todo:
        node, is_entered = todo.pop()
        if is_entered:
            yield node
        elif (place := key(node)) not in seen and not without(node):
            seen.add(place)
            todo.append((node, True))
            todo += [(lower, False) for lower in reversed(below(node))]


def walk(*roots: Node) -> Iterator[Node]:
    """Every node below the roots, inputs first, each fingerprint once."""
    return ordered(*roots, key=lambda node: node.fingerprint)
