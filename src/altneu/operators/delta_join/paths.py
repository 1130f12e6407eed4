"""Delta paths: in which order the update of one relation of a join meets the others.

A join of several relations is written with *variables*: each column of a relation is one, and columns that must be
equal are the same. For every relation there is a path, which starts with an update of it and binds the variables of the
others in *extensions*. An extension binds one set of variables, and every relation that has them and is otherwise bound
takes part: the one with the fewest candidates proposes, the others validate. With one such relation this is a delta
join; with several it is what makes joins of cyclic patterns worst-case optimal: no intermediate result is greater than
the greatest answer that relations of these sizes can have.

Source: Ngo, Porat, Ré and Rudra, Worst-case optimal join algorithms, 2012; Ammar, McSherry, Salihoglu and Joglekar,
Distributed evaluation of subgraph queries using worst-case optimal low-memory dataflows, 2018.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

Variables = tuple[str, ...]
Keyed = tuple[int, Variables]
"""A relation, by its number, and the variables that it is arranged by."""


@dataclass(frozen=True)
class Part:
    """A relation's part in an extension.

    It offers candidates from its arrangement by ``key``; ``own`` are the variables that it binds beside the common
    ones. A candidate of another is validated in the same arrangement when it binds nothing of its own, else by
    ``validate_key``.
    """

    relation: int
    key: Variables
    own: Variables = ()
    validate_key: Variables = ()

    @property
    def arrangements(self) -> tuple[Keyed, ...]:
        """What it reads."""
        keys = (self.key, self.validate_key) if self.validate_key else (self.key,)
        return tuple((self.relation, key) for key in keys)


@dataclass(frozen=True)
class Extension:
    """A step of a path: ``adds`` are bound, together with what each of ``parts`` has of its own."""

    adds: Variables
    parts: tuple[Part, ...]

    @property
    def binds(self) -> Variables:
        """All variables that are bound by it, in order."""
        return (*self.adds, *(v for part in self.parts for v in part.own))

    def __str__(self) -> str:
        return " and ".join(f"{part.relation} by {', '.join(part.key)}" for part in self.parts)


@dataclass(frozen=True)
class Path:
    """What happens to an update of ``relation``."""

    relation: int
    extensions: tuple[Extension, ...]

    @property
    def arrangements(self) -> frozenset[Keyed]:
        """What its extensions read."""
        return frozenset(a for e in self.extensions for part in e.parts for a in part.arrangements)

    def describe(self) -> str:
        """All of it but what follows from the variables of the relations."""
        return " -> ".join([str(self.relation), *(f"{e} adds {', '.join(e.binds)}" for e in self.extensions)])


def delta_paths(relations: Sequence[Variables]) -> tuple[Path, ...]:
    """A path for every relation; where there is a choice, along arrangements that earlier ones read.

    They do not depend on what a session has arranged for others, so that a plan is the same whenever it is made.

    >>> triangle = [("a", "b"), ("b", "c"), ("a", "c")]
    >>> for path in delta_paths(triangle):
    ...     print(path.relation, *path.extensions, sep=" -> ")
    0 -> 1 by b and 2 by a
    1 -> 0 by b and 2 by c
    2 -> 0 by a and 1 by c
    >>> [str(p.extensions[0]) for p in delta_paths([("x", "n"), ("x", "y"), ("y", "m")])]
    ['1 by x', '2 by y', '1 by y']
    """
    counts = Counter(v for variables in relations for v in dict.fromkeys(variables))
    shared = {v for v, times in counts.items() if times > 1}
    read: set[Keyed] = set()
    paths = []
    for start in range(len(relations)):
        path = _path(relations, start, shared, read)
        read |= path.arrangements
        paths.append(path)
    return tuple(paths)


def _path(relations: Sequence[Variables], start: int, shared: set[str], read: set[Keyed]) -> Path:
    bound = set(relations[start])
    rest = [i for i in range(len(relations)) if i != start]
    extensions = []
    while rest:
        candidates = [e for e in _extensions(relations, rest, bound, shared) if _is_connected(e)]
        if not candidates:
            raise ValueError(f"the relations {rest} have no variable in common with {sorted(bound)}")
        best = max(candidates, key=lambda e: _worth(e, read))
        extensions.append(best)
        bound.update(best.binds)
        done = {part.relation for part in best.parts}
        rest = [i for i in rest if i not in done]
    return Path(start, tuple(extensions))


def _is_connected(extension: Extension) -> bool:
    return all(part.key for part in extension.parts)


def _worth(extension: Extension, read: set[Keyed]) -> tuple[bool, int, int, int]:
    """What binds nothing first, then what most take part in, then what exists already."""
    reads = {a for part in extension.parts for a in part.arrangements}
    return not extension.adds, len(extension.parts), -len(reads - read), -len(extension.binds)


def _extensions(
    relations: Sequence[Variables], rest: Sequence[int], bound: set[str], shared: set[str]
) -> list[Extension]:
    """All possible next extensions: relations that lack the same shared variables are extended together."""
    groups: dict[Variables, list[int]] = {}
    for i in rest:
        groups.setdefault(tuple(v for v in relations[i] if v not in bound and v in shared), []).append(i)
    extensions = []
    for adds, lacking in groups.items():
        together = [i for i in lacking if not bound.isdisjoint(relations[i])] or lacking
        if not adds:  # nothing is proposed: each is looked up by all that is bound of it
            extensions += [Extension((), (_part(relations[i], i, bound, shared, ()),)) for i in together]
        else:
            parts = [_part(relations[i], i, bound, shared, adds if len(together) > 1 else ()) for i in together]
            extensions.append(Extension(adds, tuple(parts)))
    return extensions


def _part(variables: Variables, number: int, bound: set[str], shared: set[str], adds: Variables) -> Part:
    key = tuple(v for v in variables if v in bound)
    own = tuple(v for v in variables if v not in bound and v not in shared)
    return Part(number, key, own, (*key, *adds) if own and adds else ())


def is_cyclic(relations: Sequence[Variables]) -> bool:
    """Whether the pattern has a cycle: whether ears can not be taken off until nothing is left.

    Source: Graham; Yu and Ozsoyoglu, 1979 (GYO reduction).

    >>> is_cyclic([("a", "b"), ("b", "c"), ("a", "c")]), is_cyclic([("a", "b"), ("b", "c"), ("c", "d")])
    (True, False)
    """
    edges = [set(v) for v in relations]
    while True:
        counts = Counter(v for e in edges for v in e)
        trimmed = [{v for v in e if counts[v] > 1} for e in edges]
        remaining: list[set[str]] = []
        for i, e in enumerate(trimmed):
            if not any(e <= other for j, other in enumerate(trimmed) if j != i and (e != other or j < i)):
                remaining.append(e)
        if remaining == edges:
            return len(remaining) > 1
        edges = remaining
