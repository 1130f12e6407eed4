"""The versions of a source's columns: what each had, and which columns are the same ones.

A column has a number for good, whatever it is called. A plan over a version goes on when the columns change as long as
the columns that it reads keep their types: its rows are those of the present version, brought into the form of the
earlier one (``logic``). So nothing that is stored changes its name, and only what reads a changed column is made anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from altneu.errors import SchemaError, UnknownColumnError
from altneu.expressions import Column, Expr, Literal
from altneu.expressions.construct import cast, literal
from altneu.linear import BoundLogic, Project
from altneu.operators.node import Columns
from altneu.plan.ir import Linear, Node, Source, walk
from altneu.plan.rewrite.transform import replaced
from altneu.types import type_name

WIDER = "of integers to wider ones, float to double, decimals with at least as many digits on both sides of the point"


@dataclass(frozen=True)
class Version:
    """The columns of a source at one time: ``numbers`` says which column each is."""

    schema: pa.Schema
    numbers: tuple[int, ...]

    @property
    def by_number(self) -> dict[int, pa.Field]:
        """The columns by their numbers."""
        return dict(zip(self.numbers, self.schema, strict=True))

    def with_type(self, number: int, kind: pa.DataType) -> Version:
        """The same columns, one of them in another type."""
        fields = [f.with_type(kind) if n == number else f for n, f in self.by_number.items()]
        return Version(pa.schema(fields), self.numbers)

    def number_of(self, column: str) -> int:
        """The number of a column.

        Raises:
            UnknownColumnError: there is none of this name.
        """
        if column not in self.schema.names:
            raise UnknownColumnError(column, self.schema.names)
        return self.numbers[self.schema.names.index(column)]


@dataclass(frozen=True)
class Versions:
    """The versions of one source, the present one last.

    ``defaults`` are, by number, the values that rows have in a column that was added after them; null if there is none.

    >>> then = Versions.of(pa.schema([("item", pa.string()), ("price", pa.int32())]))
    >>> now = (
    ...     then.added(pa.field("shop", pa.string()), "main")
    ...     .renamed("price", "cost")
    ...     .widened("cost", pa.int64())
    ... )
    >>> now.present.schema.names, len(now.all)
    (['item', 'cost', 'shop'], 4)
    >>> print(now.logic(now.all[0], now.present))
    select item, CAST(price AS bigint) as cost, 'main' as shop
    >>> [now.serving(columns) for columns in ({"item"}, {"shop"}, {"cost"})]
    [0, 1, 3]
    """

    all: tuple[Version, ...]
    defaults: Mapping[int, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: pa.Schema) -> Versions:
        """Of a source that has had no others."""
        return cls((Version(schema, tuple(range(len(schema)))),))

    @property
    def present(self) -> Version:
        """The last one."""
        return self.all[-1]

    def find(self, schema: pa.Schema) -> Version | None:
        """The last version with these columns."""
        return next((version for version in reversed(self.all) if version.schema.equals(schema)), None)

    # changes ----------------------------------------------------------------------------------------------------------

    def _next(self, version: Version, defaults: Mapping[int, Any] | None = None) -> Versions:
        return replace(self, all=(*self.all, version), defaults={**self.defaults, **(defaults or {})})

    def _refuse_taken(self, name: str) -> None:
        if name.lower() in {known.lower() for known in self.present.schema.names}:
            raise SchemaError(f"there is a column {name!r} already; it has: {', '.join(self.present.schema.names)}")

    def added(self, column: pa.Field, default: Any = None, at: int | None = None) -> Versions:
        """With a further column, at the end or at a place.

        Raises:
            SchemaError: there is one of this name; or it has no nulls, and earlier rows have no other value.
        """
        self._refuse_taken(column.name)
        if default is None and not column.nullable:
            raise SchemaError(
                f"column {column.name!r} is NOT NULL, and rows that are there already have no value of it: give it a "
                "DEFAULT, or let it be null"
            )
        number = 1 + max(n for version in self.all for n in version.numbers)
        fields, numbers = [*self.present.schema], [*self.present.numbers]
        place = len(fields) if at is None else at
        fields.insert(place, column)
        numbers.insert(place, number)
        return self._next(Version(pa.schema(fields), tuple(numbers)), {} if default is None else {number: default})

    def dropped(self, name: str) -> Versions:
        """Without a column.

        Raises:
            UnknownColumnError: there is none of this name.
            SchemaError: it is the only one.
        """
        number = self.present.number_of(name)
        pairs = [(n, f) for n, f in self.present.by_number.items() if n != number]
        if not pairs:
            raise SchemaError(f"{name!r} is the only column, and rows have at least one")
        return self._next(Version(pa.schema([f for _, f in pairs]), tuple(n for n, _ in pairs)))

    def renamed(self, name: str, to: str) -> Versions:
        """With another name for a column.

        Raises:
            UnknownColumnError: there is none of this name.
            SchemaError: there is one of the other name.
        """
        number = self.present.number_of(name)
        if name.lower() != to.lower():
            self._refuse_taken(to)
        fields = [f.with_name(to) if n == number else f for n, f in self.present.by_number.items()]
        return self._next(Version(pa.schema(fields), self.present.numbers))

    def widened(self, name: str, kind: pa.DataType, again: Sequence[int] = ()) -> Versions:
        """With a wider type of a column, also in copies of the earlier versions that stand at the places ``again``.

        Raises:
            UnknownColumnError: there is none of this name.
            SchemaError: the type is not wider.
        """
        number, known = self.present.number_of(name), self.present.schema.field(name).type
        if not widens(known, kind):
            raise SchemaError(
                f"column {name!r} is {type_name(known)}, and {type_name(kind)} does not widen that: some values would "
                f"change. A type widens {WIDER}. For another type add a column, fill it, and drop this one"
            )
        versions = [*self.all]
        for version in [*(self.all[place] for place in again), self.present]:
            copy = version.with_type(number, kind)
            if copy not in versions or version is self.present:
                versions.append(copy)
        return replace(self, all=tuple(versions))

    def was(self, name: str, earlier: str) -> bool:
        """Whether a column of the present version had this name earlier."""
        if name not in self.present.schema.names:
            return False
        number = self.present.number_of(name)
        return any(v.by_number[number].name == earlier for v in self.all if number in v.numbers)

    def had(self, name: str) -> bool:
        """Whether an earlier version had a column of this name."""
        return any(name in version.schema.names for version in self.all)

    # forms ------------------------------------------------------------------------------------------------------------

    def logic(self, version: Version, form: Version) -> BoundLogic:
        """Rows of one version in the form of another.

        A column that they lack has its default; and null where a type is narrower, which nothing may read then.
        """
        there = version.by_number
        outputs = []
        for number, wanted in form.by_number.items():
            value: Expr
            if number in there and widens(there[number].type, wanted.type):
                own = there[number]
                value = Column(own.name, own.type, own.nullable)
                value = value if own.type == wanted.type else cast(value, wanted.type)
            else:
                default = self.defaults.get(number)
                value = Literal(None, wanted.type) if default is None else literal(default, wanted.type)
            outputs.append((wanted.name, value))
        return BoundLogic((Project(tuple(outputs)),))

    def serving(self, columns: Collection[str]) -> int:
        """The place of the earliest version that has these columns of the present one, in the same types."""
        present = self.present
        read = {present.number_of(c): present.schema.field(c).type for c in columns}
        for place, version in enumerate(self.all):
            there = version.by_number
            if all(n in there and there[n].type == kind for n, kind in read.items()):
                return place
        raise AssertionError("the present version has its own columns")

    def as_of(self, version: Version, source: Source) -> Source:
        """A source with the columns of a version, in which its key may have other names."""
        own = self.find(source.schema)
        if own is None or version.schema.equals(source.schema):
            return source
        names = {n: f.name for n, f in version.by_number.items()}
        key = None if source.key is None else tuple(names.get(own.number_of(c), c) for c in source.key)
        return replace(source, schema=version.schema, key=key)


def widens(kind: pa.DataType, to: pa.DataType) -> bool:
    """Whether each value of a type is a value of another.

    >>> (
    ...     widens(pa.int32(), pa.int64()),
    ...     widens(pa.int64(), pa.int32()),
    ...     widens(pa.decimal128(5, 2), pa.decimal128(7, 4)),
    ... )
    (True, False, True)
    """
    if kind == to:
        return True
    if pa.types.is_integer(kind):
        if pa.types.is_integer(to):
            return bool(kind.bit_width < to.bit_width)
        if pa.types.is_decimal(to):
            return bool(to.precision - to.scale >= _DIGITS[kind.bit_width])
        return bool(pa.types.is_float64(to) and kind.bit_width <= 32)
    if pa.types.is_float32(kind):
        return bool(pa.types.is_float64(to))
    if pa.types.is_decimal(kind) and pa.types.is_decimal(to):
        return bool(to.scale >= kind.scale and to.precision - to.scale >= kind.precision - kind.scale)
    return bool(pa.types.is_date32(kind) and pa.types.is_timestamp(to) and to.tz is None)


_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}  # of the greatest integer of so many bits


def read_of(root: Node) -> dict[str, tuple[Source, Columns]]:
    """The columns that a plan reads of each source, by the source's fingerprint.

    What is not linear logic reads all of them, as does whoever reads the plan.
    """
    found: dict[str, tuple[Source, Columns]] = {}
    reads = [(below, node) for node in walk(root) for below in node.inputs]
    for below, reader in [*reads, (root, None)]:
        if isinstance(below, Source):
            every = frozenset(below.schema.names)
            columns = reader.logic.columns_read(below.schema) if isinstance(reader, Linear) else every
            _, known = found.get(below.fingerprint, (below, frozenset[str]()))
            found[below.fingerprint] = below, known | columns
    return found


@dataclass(frozen=True)
class Earlier:
    """An earlier version of a source, made of the ``present`` one by logic; ``same`` are columns that are called alike.

    These have the same types in both.
    """

    present: Source
    logic: BoundLogic
    same: Columns


def earlier(roots: Sequence[Node], known: Mapping[str, Versions]) -> dict[str, Earlier]:
    """The sources of plans that are earlier versions, by their fingerprints."""
    found = {}
    for source in [node for node in walk(*roots) if isinstance(node, Source) and node.name in known]:
        versions = known[source.name]
        version, present = versions.find(source.schema), versions.present
        if version is None or version is present or version.schema.equals(present.schema):
            continue
        pairs = [(n, f) for n, f in version.by_number.items() if n in present.numbers]
        now = present.by_number
        same = frozenset(f.name for n, f in pairs if (now[n].name, now[n].type) == (f.name, f.type))
        logic = versions.logic(present, version)
        found[source.fingerprint] = Earlier(versions.as_of(present, source), logic, same)
    return found


def over_earliest(root: Node, rewritten: Node, known: Mapping[str, Versions]) -> Node:
    """A plan over the earliest versions of its sources that have what it reads, as its ``rewritten`` form shows that.

    So what a plan is called does not depend on columns that it does not read. A source that is read whole stays.
    """
    instead: dict[str, Node] = {}
    for source, columns in read_of(rewritten).values():
        versions = known.get(source.name)
        at = None if versions is None else versions.find(source.schema)
        if versions is None or at is None or columns.issuperset(source.schema.names):
            continue
        until = replace(versions, all=versions.all[: versions.all.index(at) + 1])
        earliest = until.all[until.serving(columns)]
        if earliest is not at:
            instead[source.fingerprint] = Linear(until.as_of(earliest, source), until.logic(earliest, at))
    return replaced(root, instead) if instead else root
