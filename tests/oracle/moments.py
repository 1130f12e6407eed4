"""The oracle of calculus: collections as all of their updates, at times with a coordinate for every scope.

What differentiate and integrate make depends on when rows came, so contents at a time do not say it: here a collection
is a table of (row, time) and counts. A time is a tuple: the epoch, then the event time, rounds and flags, of the scopes
that the collection is in, the outermost first. Whatever is not about scopes is asked of ``recompute`` at every join of
input times, and what it says is taken apart into updates. Nothing here is shared with the engine's lattices.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from altneu.plan import ir
from altneu.plan.rewrite import optimise
from tests.oracle.recompute import Errors, Multiset, _meaning, evaluate, without_zeros
from tests.oracle.runners import Judge

Time = tuple[int, ...]
Path = tuple[str, ...]  # of a scope, from outside in: "event", "loop", "moment"
MOST_ROUNDS = 40
LAST = 12  # nothing comes or goes by itself later


def less_equal(path: Path, s: Time, t: Time) -> bool:
    if not path:
        return s <= t
    if path[-1] == "moment" and s[:-1] == t[:-1]:
        return s[-1] <= t[-1]
    return less_equal(path[:-1], s[:-1], t[:-1]) and (path[-1] == "moment" or s[-1] <= t[-1])


def join(path: Path, s: Time, t: Time) -> Time:
    if not path:
        return max(s, t)
    both = join(path[:-1], s[:-1], t[:-1])
    if path[-1] == "moment":
        return (*both, int((both == s[:-1] and s[-1]) or (both == t[:-1] and t[-1])))
    return (*both, max(s[-1], t[-1]))


def closure(path: Path, times: Iterable[Time]) -> list[Time]:
    """All joins of times, in an order that agrees with theirs."""
    found: set[Time] = set()
    for time in times:
        if time not in found:
            found |= {time, *(join(path, time, other) for other in found)}
    return sorted(found)


@dataclass(frozen=True)
class Moving:
    """A collection: the scope that it is in, and its updates, consolidated."""

    path: Path
    updates: Mapping[tuple[Any, Time], int]

    @classmethod
    def of(cls, path: Path, updates: Iterable[tuple[Any, Time, int]]) -> Moving:
        total: Counter[tuple[Any, Time]] = Counter()
        for row, time, diff in updates:
            total[row, time] += diff
        return cls(path, {key: diff for key, diff in total.items() if diff})

    def each(self) -> Iterable[tuple[Any, Time, int]]:
        return ((row, time, diff) for (row, time), diff in self.updates.items())

    def at(self, time: Time) -> Multiset:
        held: Multiset = Counter()
        for row, t, diff in self.each():
            if less_equal(self.path, t, time):
                held[row] += diff
        return without_zeros(held)

    def inside(self, path: Path) -> Moving:
        """As it is seen in a scope further in: from round 0 on, at the earlier moment."""
        assert path[: len(self.path)] == self.path, (self.path, path)
        zeros = (0,) * (len(path) - len(self.path))
        return Moving(path, {(row, time + zeros): diff for (row, time), diff in self.updates.items()})

    def outside(self) -> Moving:
        """As it is seen where its scope is: what later moments had is forgotten, what rounds had adds up."""
        moment = self.path[-1] == "moment"
        return Moving.of(self.path[:-1], ((r, t[:-1], d) for r, t, d in self.each() if not (moment and t[-1])))


@dataclass
class Meaning:
    """What collections are when sources had these updates, and which errors there are."""

    sources: Mapping[str, Moving]
    done: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    loops: dict[int, tuple[int, list[Moving]]] = field(default_factory=dict)  # by level: change, variables
    errors: dict[str, Moving] = field(default_factory=dict)  # by origin
    changes: int = 0

    def of(self, node: ir.Node) -> Moving:
        key = (id(node), *((level, self.loops[level][0]) for level in sorted(ir._free(node))))
        if key not in self.done:
            self.done[key] = self._of(node)
        return self.done[key]

    def _of(self, node: ir.Node) -> Moving:
        match node:
            case ir.Source(name):
                return self.sources[name]
            case ir.Variable(level, index):
                return self.loops[level][1][index]
            case ir.Result(loop, index):
                return self._loop(loop)[index]
            case ir.EnterAt(below, rounds, level):
                actual = self.of(below).inside(self.loops[level][1][0].path)
                at = lambda row: evaluate(rounds, row, below.schema) or 0  # noqa: E731
                return Moving.of(actual.path, ((r, (*t[:-1], max(t[-1], at(r))), d) for r, t, d in actual.each()))
            case ir.Differentiate():
                actual = self._entered(node, node.depth - 1)
                blips = (((r, (*t, 0), d), (r, (*t, 1), -d)) for r, t, d in actual.each())
                return Moving.of((*actual.path, "moment"), (u for both in blips for u in both))
            case ir.ToNeu():
                actual = self._entered(node, node.depth)
                return Moving.of(actual.path, ((r, (*t[:-1], 1), d) for r, t, d in actual.each()))
            case ir.TellMoment():
                actual = self._entered(node, node.depth)
                name = lambda t: "neu" if t[-1] else "alt"  # noqa: E731
                return Moving.of(actual.path, (((*r, name(t)), (*t[:-1], 0), d) for r, t, d in actual.each()))
            case ir.Integrate():
                actual = self.of(node.input)
                return actual.outside() if len(self._moments(node, node.depth)) == len(actual.path) else actual
            case _:
                return self._operator(node)

    def _moments(self, node: ir.Moments, depth: int) -> Path:
        around = self.of(node.input).path
        if node.level >= 0:
            around = self.loops[node.level][1][0].path
        while node.level < 0 and around and around[-1] == "moment":
            around = around[:-1]
        return around + ("moment",) * depth

    def _entered(self, node: ir.Moments, depth: int) -> Moving:
        return self.of(node.input).inside(self._moments(node, depth))

    def _operator(self, node: ir.Node) -> Moving:
        below = {id(n): self.of(n) for n in node.inputs}
        path = max((b.path for b in below.values()), key=len, default=())
        below = {key: found.inside(path) for key, found in below.items()}
        times = {(0,) * (1 + len(path)), *(t for found in below.values() for _, t in found.updates)}
        if isinstance(node, ir.Linear) and not node.logic.keeps_times:
            assert not path
            times |= {(t,) for t in range(LAST)}
        result, failed = _Apart(path), _Apart(path)
        for time in closure(path, times):

            def held(n: ir.Node, at: int, time: Time = time) -> Multiset:
                return below[id(n)].at(time if at == time[0] else (at,))

            errors = _Counted()
            result.add(time, _meaning(node, held, {}, errors, time[0]))
            failed.add(time, errors)
        self.errors[node.fingerprint] = failed.moving()
        return result.moving()

    def _loop(self, loop: ir.Loop) -> list[Moving]:
        """Variables round by round, until they stay as they are."""
        around = self.loops.get(loop.level)
        path = (*max((self.of(n).path for n in ir.read_from_outside(loop)), key=len, default=()), "loop")
        initial = [self.of(n).inside(path) for n in loop.initial]
        now = initial
        for _ in range(MOST_ROUNDS):
            self.changes += 1
            self.loops[loop.level] = self.changes, now
            results = [self.of(body).inside(path) for body in loop.bodies]
            after = [_next(initial[i], made, loop, loop.step(i)) for i, made in enumerate(results)]
            if after == now:
                break
            now = after
        else:
            raise AssertionError("the loop does not settle")
        if around is not None:
            self.loops[loop.level] = around
        return [made.outside() for made in results]

    def failed(self, time: Time) -> Errors:
        """The errors that are there at a time, seen from outside of all scopes; each origin has its own."""
        result: Errors = set()
        for inside in self.errors.values():
            moving = inside
            while moving.path and moving.path[-1] != "event":
                moving = moving.outside()
            result |= set(moving.at(time[: 1 + len(moving.path)]))
        return result


def _next(first: Moving, made: Moving, loop: ir.Loop, step: int) -> Moving:
    """What a variable is: as it began, and a step later what its body makes in the place of that."""
    change = [*made.each(), *((r, t, -d) for r, t, d in first.each())]
    later = [(r, (*t[:-1], t[-1] + step), d) for r, t, d in change]
    return Moving.of(first.path, [*first.each(), *(u for u in later if not loop.stops or u[1][-1] < loop.max_rounds)])


class _Counted(Counter[Any]):
    """Errors with how often each is there: as often as its row."""

    def add(self, error: Any) -> None:
        self[error] += 1

    def __ior__(self, errors: Iterable[Any]) -> Self:  # type: ignore[override, misc]
        for error in errors:
            self.add(error)
        return self


@dataclass
class _Apart:
    """Contents at times in their order, taken apart into updates."""

    path: Path
    updates: dict[Time, Multiset] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, time: Time, contents: Mapping[Any, int]) -> None:
        left: Counter[Any] = Counter(contents)
        for t, change in self.updates.items():
            if less_equal(self.path, t, time):
                left.subtract(change)
        self.updates[time] = without_zeros(left)

    def moving(self) -> Moving:
        return Moving.of(self.path, ((r, t, d) for t, change in self.updates.items() for r, d in change.items()))


@dataclass
class CalculusJudge(Judge):
    """A judge of plans of which the answer depends on when rows came."""

    meanings: dict[str, tuple[Moving, Callable[[Time], Errors]]] = field(default_factory=dict)

    def expected(self, name: str, time: int) -> tuple[Multiset, Errors]:
        if name not in self.meanings:
            sources = {n: Moving.of((), ((r, (t,), d) for r, t, d in found)) for n, found in self.history.items()}
            rewritten, written = Meaning(sources), Meaning(sources)
            contents = rewritten.of(optimise(self.plans[name].node))
            assert contents == written.of(self.plans[name].node), f"{name}: rewriting changes what it means"
            self.meanings[name] = contents, rewritten.failed  # rewriting may drop the error of what nobody reads
        contents, failed = self.meanings[name]
        return contents.at((time,)), failed((time,))
