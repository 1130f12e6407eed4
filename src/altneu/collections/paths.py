"""Joins of several collections planned by hand: in which order a change of each of them meets the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import pyarrow as pa

from altneu.collections.collection import Collection, check_collection
from altneu.errors import PlanError, TypeMismatchError, UnknownColumnError
from altneu.operators.delta_join.paths import Extension, Part, Path, Variables
from altneu.plan import ir
from altneu.plan.rewrite.delta_joins import before_renaming
from altneu.types import no_key, type_name


class Relations:
    """Collections that are joined where columns of one name are equal, along paths that are planned by hand.

    ``join`` on collections leaves to altneu how a join is computed. Here every relation has a *path*, which says what
    a change of it meets, and in which order: it begins with ``changes`` and goes on with ``half_join``, ``lookup`` and
    ``extend``. ``join`` adds the paths up. A path alone has no meaning that could be read: what it finds depends on
    what had arrived before. So ``join`` takes one path for each relation, and their sum is the join, however changes
    are divided into steps, over any times, and inside loops.

    In one step the path of a relation meets old and new rows of the relations before it, in the order in which they are
    given here, and old rows of those behind it. So each match is made once, by the last of its rows to arrive.

    Shape:  columns of one name must be of one type; a null in a column that several relations have matches nothing.
    Cost:   no exchange with one shard, else one for each lookup; one arrangement of a relation for each key by which a
            path looks it up, shared with all joins on that key. A relation that only renames the columns of a
            collection shares the arrangements of that collection. A change costs the candidates along its path.
    Law:    the join of the paths is the join of the relations (tests/oracle/test_paths_by_hand.py).
    Source: ``dogsdogsdogs`` of differential dataflow; Ammar, McSherry, Salihoglu and Joglekar, Distributed evaluation
            of subgraph queries using worst-case optimal low-memory dataflows, 2018.

    Raises:
        PlanError: there are fewer than two relations, or one is not a collection.
        TypeMismatchError: columns of one name have several types, or a map is to be compared.

    >>> import altneu as an
    >>> edges = an.source("edges", "src long, dst long")
    >>> sides = an.Relations(
    ...     ab=edges.select(a="src", b="dst"),
    ...     bc=edges.select(b="src", c="dst"),
    ...     ac=edges.select(a="src", c="dst"),
    ... )
    >>> triangles = sides.join(
    ...     sides.changes("ab").extend("c", "bc", "ac"),
    ...     sides.changes("bc").extend("a", "ab", "ac"),
    ...     sides.changes("ac").half_join("ab").lookup("bc"),
    ... )
    >>> with an.Session() as session:
    ...     view = session.maintain("triangles", triangles)
    ...     session.insert("edges", [(1, 2), (2, 3), (1, 3), (3, 4)])
    ...     _ = session.advance()
    ...     view.to_pylist()
    [(1, 2, 3)]
    """

    def __init__(self, **relations: Collection) -> None:
        if len(relations) < 2:
            raise PlanError(f"Relations needs at least two collections, each by a name, got {len(relations)}")
        for name, relation in relations.items():
            check_collection(relation, f"relation {name!r}")
        self._collections = relations
        self._check_types()

    def __repr__(self) -> str:
        listed = (f"{name}=({', '.join(columns)})" for name, columns in self.columns.items())
        return f"Relations({', '.join(listed)})"

    @cached_property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each relation."""
        return MappingProxyType({name: tuple(c.columns) for name, c in self._collections.items()})

    def _check_types(self) -> None:
        first: dict[str, tuple[str, pa.DataType]] = {}
        for relation, collection in self._collections.items():
            for f in collection.schema:
                other, expected = first.setdefault(f.name, (relation, f.type))
                if f.type != expected:
                    raise TypeMismatchError(
                        f"column {f.name!r} must be of one type, got {type_name(expected)} in {other!r} and "
                        f"{type_name(f.type)} in {relation!r}; cast one of them with select"
                    )
                if other != relation and (what := no_key(f.type)):
                    raise TypeMismatchError(
                        f"column {f.name!r} of {other!r} and {relation!r} has {what}, and {what} cannot be compared; "
                        "select what you need of it, or call one of them otherwise"
                    )

    def changes(self, relation: str) -> Changes:
        """The beginning of a path: the changes of a relation.

        Raises:
            PlanError: ``relation`` is not the name of a relation.
        """
        return Changes(self, relation, self._variables(relation))

    def _variables(self, relation: str) -> tuple[str, ...]:
        if relation not in self.columns:
            raise PlanError(f"relation must be one of {_listed(self.columns)}, got {relation!r}")
        return self.columns[relation]

    @cached_property
    def _shared(self) -> frozenset[str]:
        counts = Counter(c for columns in self.columns.values() for c in columns)
        return frozenset(c for c, times in counts.items() if times > 1)

    def join(self, *paths: Changes) -> Collection:
        """The join of all relations: what the paths find, one for each relation, adds up to it.

        Shape:  every column once, in the order in which the relations have them; counts multiply.
        Cost:   as for ``Relations``. Logic right above it runs inside it, and reads the columns it needs only; tests
                of one relation's rows belong below it, as ``filter`` of that relation, for they are not moved there.

        Raises:
            PlanError: a relation has no path or several, a path does not meet all relations, or it belongs to others.
        """
        for path in paths:
            if not isinstance(path, Changes):
                raise PlanError(f"join needs paths, such as changes({next(iter(self.columns))!r}), got {path!r}")
            if path.relations is not self:
                raise PlanError(f"the path {path} is one of other relations: begin it with changes() of these")
            if absent := [name for name in self.columns if name not in path.met]:
                raise PlanError(f"the path {path} must meet every relation once; add {_listed(absent)}")
        begun = Counter(path.met[0] for path in paths)
        if wrong := [name for name in self.columns if begun[name] != 1]:
            found = ", ".join(f"{begun[name]} for {name!r}" for name in wrong)
            raise PlanError(f"join needs one path for each relation, which begins with its changes; got {found}")
        order = list(self.columns)
        planned = tuple(p.path for p in sorted(paths, key=lambda p: order.index(p.met[0])))
        parts = [before_renaming(c.node)[0] for c in self._collections.values()]
        fields: dict[str, pa.Field] = {}
        for collection in self._collections.values():
            for f in collection.schema:
                fields.setdefault(f.name, f)
        outputs = tuple((name, name) for name in fields)
        variables = tuple(map(self._called, self._collections.values()))
        schema = pa.schema(list(fields.values()))
        reason = "delta join, planned by hand"
        return Collection(ir.MultiJoin(tuple(parts), variables, outputs, schema, reason, planned=planned))

    @staticmethod
    def _called(collection: Collection) -> Variables:
        """The variables of a relation, in the order of the columns of what is arranged."""
        part, names = before_renaming(collection.node)
        called = {column: name for name, column in names.items()}
        return tuple(called[column] for column in part.schema.names)


@dataclass(frozen=True, repr=False)
class Changes:
    """The changes of one relation on their way through the others; ``Relations.changes`` begins them.

    ``columns`` are those that are bound so far. Each verb returns the path that is longer by one lookup.
    """

    relations: Relations
    relation: str
    columns: Variables
    met: tuple[str, ...] = ()
    _extensions: tuple[Extension, ...] = ()

    def __post_init__(self) -> None:
        if not self.met:
            object.__setattr__(self, "met", (self.relation,))

    def __repr__(self) -> str:
        return " -> ".join([self.relation, *(self._shown(e) for e in self._extensions)])

    def _shown(self, extension: Extension) -> str:
        names = list(self.relations.columns)
        return " and ".join(f"{names[part.relation]} by {', '.join(part.key)}" for part in extension.parts)

    @property
    def path(self) -> Path:
        """The path as the operator has it."""
        return Path(list(self.relations.columns).index(self.relation), self._extensions)

    def half_join(self, relation: str) -> Changes:
        """Join with the rows of a relation that are there: all columns of it become bound.

        It is half of a join, as it looks changes up and is not itself looked up for: the path that begins with the
        changes of the other relation is the other half.

        Cost:   one lookup for each change on its way; as many rows as match.

        Raises:
            PlanError: the relation is met already, no column of it is bound, or all of them are.
        """
        key, rest = self._met(relation)
        if not rest:
            raise PlanError(f"all columns of {relation!r} are bound, so half_join binds none: use lookup({relation!r})")
        shared = self.relations._shared
        part = Part(self._number(relation), key, tuple(c for c in rest if c not in shared))
        return self._then(Extension(tuple(c for c in rest if c in shared), (part,)), relation)

    def lookup(self, relation: str) -> Changes:
        """Keep what a relation has, with the product of both counts: all columns of it are bound already.

        Cost:   one lookup for each change on its way.

        Raises:
            PlanError: the relation is met already, or one of its columns is not bound yet.
        """
        key, rest = self._met(relation)
        if rest:
            raise PlanError(
                f"lookup needs all columns of {relation!r} to be bound, and {_listed(rest)} is not: use "
                f"half_join({relation!r}), or extend"
            )
        return self._then(Extension((), (Part(self._number(relation), key),)), relation)

    def extend(self, columns: str | Sequence[str], *relations: str) -> Changes:
        """Bind columns that several relations have, and meet all of these at once, the one with fewest rows first.

        For each change on its way, the relations *count* their rows that match what is bound; the one that has the
        fewest *proposes* its values of the columns, and the others *validate* them. Other columns of these relations
        are bound, too.

        Shape:  as ``half_join`` of the first relation and then of the others; counts multiply.
        Cost:   a lookup in each relation for each change on its way, and one in each for each row of the smallest.
        Source: Ngo, Porat, Ré and Rudra, Worst-case optimal join algorithms, 2012.

        Raises:
            PlanError: fewer than two relations; one is met already, has no bound column or none of ``columns``; a
                column is bound already, or would be bound by several relations and is not among ``columns``.
            UnknownColumnError: a relation has no such column.
        """
        adds = (columns,) if isinstance(columns, str) else tuple(columns)
        if not adds or len({*adds}) < len(adds):
            raise PlanError(f"extend needs one or several columns, each once, got {columns!r}")
        if len(relations) < 2 or len({*relations}) < len(relations):
            raise PlanError(
                "extend needs at least two relations, each once, which propose and validate, got "
                f"{_listed(relations)}; for one use half_join"
            )
        parts = []
        for name in relations:
            key, rest = self._met(name)
            for column in adds:
                if column in self.columns:
                    raise PlanError(f"extend binds columns, and {column!r} is bound already in the path {self}")
                if column not in rest:
                    raise UnknownColumnError(column, rest, f"relation {name!r}")
            own = tuple(c for c in rest if c not in adds)
            parts.append(Part(self._number(name), key, own, (*key, *adds) if own else ()))
        bound = Counter(c for part in parts for c in part.own)
        if several := [c for c, times in bound.items() if times > 1]:
            raise PlanError(f"extend would bind {_listed(several)} by several relations; name it among the columns")
        return self._then(Extension(adds, tuple(parts)), *relations)

    def _met(self, relation: str) -> tuple[Variables, Variables]:
        """The columns of a relation that are bound, and the others."""
        variables = self.relations._variables(relation)
        if relation in self.met:
            raise PlanError(f"the path {self} has met {relation!r} already: every relation is met once")
        key = tuple(c for c in variables if c in self.columns)
        if not key:
            raise PlanError(
                f"no column of {relation!r} is bound in the path {self}, which would pair everything with everything: "
                f"meet a relation first that has {_listed(variables)}"
            )
        return key, tuple(c for c in variables if c not in self.columns)

    def _number(self, relation: str) -> int:
        return list(self.relations.columns).index(relation)

    def _then(self, extension: Extension, *relations: str) -> Changes:
        return Changes(
            self.relations,
            self.relation,
            (*self.columns, *extension.binds),
            (*self.met, *relations),
            (*self._extensions, extension),
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
