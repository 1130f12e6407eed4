"""Loops on random graphs, by the thousand: what sessions show at every time, beside recomputation and a second engine.

    python -m tests.oracle.agree --runs 10000 --seed 1 --reference FOLDER

A *run* is one small graph with its history of inserts and deletes; many of them travel in one session, each with its
trial in every row. A batch of them draws how the history is cut into steps, how much of the past is kept, whether rows
arrive before their time, and the number of shards. The folder holds an engine that is slow and plain (``engine.py``,
with the loops of ``check_loops.py``); every run is done there on its own, cut in the same way.
"""

from __future__ import annotations

import importlib
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import click

import altneu as an
from altneu import Collection, Session
from tests.oracle.histories import History, Update, random_cuts, undone
from tests.oracle.recompute import Multiset, Row
from tests.oracle.runners import Judge, Runner

EDGES = an.source("edges", "trial int, src long, dst long, weight long")
ROOTS = an.source("roots", "trial int, node long")
SOURCES = {"edges": EDGES, "roots": ROOTS}
NODES, TIMES, LASTS, TRIALS = 8, 6, 3, 64
ARCS = EDGES.select("trial", "src", "dst")


def _along(nodes: Collection, edges: Collection) -> Collection:
    """From nodes to those that edges lead to; other columns of a node go with it."""
    rest = [c for c in nodes.columns if c not in ("trial", "node")]
    joined = nodes.join(edges, on={"trial": "trial", "node": "src"})
    return joined.select("trial", *rest, node="dst").select(*nodes.columns)


def _turned(edges: Collection) -> Collection:
    return edges.select("trial", src="dst", dst="src")


def _reach() -> Collection:
    return ROOTS.iterate(lambda x: _along(x, ARCS).concat(ROOTS).distinct())


def _least(own: Collection, edges: Collection) -> Collection:
    """The least label that leads to each node."""
    return own.iterate(lambda x: _along(x, edges).concat(own).group_by("trial", "node").agg(label="min(label)"))


def _components() -> Collection:
    return _least(ROOTS.distinct().select("trial", "node", label="node"), ARCS.concat(_turned(ARCS)))


def _even_odd() -> Collection:
    def step(even: Collection, odd: Collection) -> tuple[Collection, Collection]:
        return _along(odd, ARCS).concat(ROOTS).distinct(), _along(even, ARCS).distinct()

    even, odd = an.recursive(step, even=ROOTS.filter("false"), odd=ROOTS.filter("false"))
    return even.select("trial", "node", which="'even'").concat(odd.select("trial", "node", which="'odd'"))


def _trim(edges: Collection) -> Collection:
    """The edges both of whose ends have the same least label."""
    labels = _least(edges.select("trial", node="dst", label="dst").distinct(), edges)
    starts = edges.join(labels, on={"trial": "trial", "src": "node"}).select("trial", "src", "dst", a="label")
    return starts.join(labels, on={"trial": "trial", "dst": "node"}).filter("a = label").select("trial", "src", "dst")


def _strong() -> Collection:
    return ARCS.distinct().iterate(lambda x: _turned(_trim(_turned(_trim(x)))))


def _temporal() -> Collection:
    """Edges that are there for a while, and nodes from their own time on."""
    edges = EDGES.temporal("weight", f"weight + {LASTS}").select("trial", "src", "dst")
    begun = "logical_now() >= node - 2"
    return ROOTS.filter(begun).iterate(lambda x: _along(x, edges).concat(ROOTS).distinct().filter(begun))


def _peeled() -> Collection:
    """Arcs whose ends have two each or more, when the others are gone."""
    both = ARCS.concat(_turned(ARCS)).filter("src <> dst").distinct()

    def keep(x: Collection) -> Collection:
        many = x.group_by("trial", "src").agg(n="count(*)").filter("n >= 2").select("trial", node="src")
        left = x.semijoin(many, on={"trial": "trial", "src": "node"})
        return left.semijoin(many, on={"trial": "trial", "dst": "node"})

    return both.iterate(keep)


class Witness(Protocol):
    """Whoever else can tell what a family's loop gives at every time, over all runs."""

    def contents(self, family: Family, history: History, cuts: Sequence[int]) -> list[Multiset]: ...


class Reference:
    """A second engine, out of a folder: one run at a time, every operator in plain Python."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(folder))
        self.engine: Any = importlib.import_module("engine")
        self.loops: Any = importlib.import_module("check_loops")

    def contents(self, family: Family, history: History, cuts: Sequence[int]) -> list[Multiset]:
        """What the second engine's graph of the family shows, run by run."""
        result: list[Multiset] = [Counter() for _ in range(cuts[-1])]
        by_trial: dict[int, History] = {}
        for source, updates in history.items():
            for update in updates:
                by_trial.setdefault(update[0][0], {name: [] for name in history})[source].append(update)
        for trial, own in by_trial.items():
            self._run(family, own, cuts, lambda at, row, n, t=trial: result[at].update({(t, *row): n}))
        return result

    def _run(
        self, family: Family, history: History, cuts: Sequence[int], tell: Callable[[int, Row, int], None]
    ) -> None:
        lattice = self.engine.Epoch(cuts[-1])
        graph = self.engine.Graph(lattice)
        roots, edges, extra = graph.input(), graph.input(), graph.input()
        shown = graph.out(family.second(self.loops, graph, roots, edges, extra))
        for lower, upper in pairwise([0, *cuts]):
            parts = {name: [u for u in updates if lower <= u[1] < upper] for name, updates in history.items()}
            feeds = [
                (roots, [(row[1], t, n) for row, t, n in parts["roots"]]),
                (edges, [update for u in parts["edges"] for update in family.arcs(u)]),
                (extra, [((n, ()), max(0, n - 2), 1) for n in range(NODES)] if lower == 0 else []),
            ]
            graph.step(lambda time, a=lower, b=upper: a <= time < b, [lower], feeds)
        for at in range(cuts[-1]):
            for row, n in self.engine.contents(lattice, shown.hist[0], at).items():
                tell(at, row if isinstance(row, tuple) else (row,), n)


Arcs = Iterator[tuple[Row, int, int]]


def _plain(update: Update) -> Arcs:
    (_, a, b, _), t, n = update
    yield (a, b), t, n


def _windowed(update: Update) -> Arcs:
    (_, a, b, weight), t, n = update
    yield (a, b), max(t, weight), n
    yield (a, b), max(t, weight + LASTS), -n


def _reach_second(loops: Any, graph: Any, roots: Any, edges: Any, _: Any) -> Any:
    return loops.reach(graph, roots, edges)


def _components_second(loops: Any, graph: Any, roots: Any, edges: Any, _: Any) -> Any:
    return loops.cc(graph, roots.distinct(), edges)


def _even_odd_second(loops: Any, graph: Any, roots: Any, edges: Any, _: Any) -> Any:
    turned = loops.mutual(graph, roots, edges)
    return turned.map(lambda row: (row[1], row[0]))


def _strong_second(loops: Any, graph: Any, _roots: Any, edges: Any, _: Any) -> Any:
    return loops.scc(graph, edges)


def _temporal_second(loops: Any, graph: Any, roots: Any, edges: Any, begun: Any) -> Any:
    def only_begun(nodes: Any, begun: Any) -> Any:
        return nodes.map(lambda node: (node, ())).join(begun).map(lambda row: row[0])

    def body(x: Any, scope: Any) -> Any:
        met = x.map(lambda node: (node, ())).join(edges.enter(scope)).map(lambda row: row[1][1])
        return only_begun(met.concat(roots.enter(scope)).distinct(), begun.enter(scope))

    return loops.iterate(graph, only_begun(roots, begun), body, graph.root)


def _peeled_second(loops: Any, graph: Any, _roots: Any, edges: Any, _: Any) -> Any:
    turn = lambda arc: (arc[1], arc[0])  # noqa: E731
    ends = lambda row: (row[1][0], row[0])  # noqa: E731 -- (key, (other, ())) to (other, key)
    both = edges.concat(edges.map(turn)).filter(lambda arc: arc[0] != arc[1]).distinct()

    def body(x: Any, _: Any) -> Any:
        many = x.reduce(lambda _, arcs: {(): 1} if sum(arcs.values()) >= 2 else {})
        return x.join(many).map(ends).join(many).map(ends)

    return loops.iterate(graph, both, body, graph.root)


@dataclass(frozen=True)
class Family:
    """One loop in two forms: as a collection, and as a graph of the second engine (its arcs made by ``arcs``)."""

    name: str
    plan: Collection
    second: Callable[[Any, Any, Any, Any, Any], Any]
    arcs: Callable[[Update], Arcs] = _plain


FAMILIES = (
    Family("reach", _reach(), _reach_second),
    Family("components", _components(), _components_second),
    Family("even and odd", _even_odd(), _even_odd_second),
    Family("strong components", _strong(), _strong_second),
    Family("edges for a while", _temporal(), _temporal_second, _windowed),
    Family("peeling", _peeled(), _peeled_second),
)


@dataclass(frozen=True)
class Batch:
    """Runs that travel together, and how."""

    history: History
    cuts: list[int]
    retain: int | str | None
    ahead: bool
    shards: int

    @classmethod
    def draw(cls, rng: random.Random, trials: int) -> Batch:
        """A history in which no count is ever below zero, and at whose end nothing is left."""
        drawn = [_run(rng, trial) for trial in range(trials)]
        history = {name: [update for run in drawn for update in run[name]] for name in SOURCES}
        if rng.random() < 0.5:
            end = undone(history, TIMES)
            history = {name: updates + end[name] for name, updates in history.items()}
        times = TIMES + LASTS
        cuts = rng.choice([list(range(1, times + 1)), [times], random_cuts(rng, times)])
        return cls(history, cuts, rng.choice([None, None, 2, "all"]), rng.random() < 0.3, rng.randint(1, 3))

    def check(self, family: Family, reference: Witness | None) -> None:
        """Run the batch and compare it at every time with recomputation, and with the second engine if there is one.

        Raises:
            AssertionError: something is shown that should not be, or the other way round.
        """
        opened = lambda _: Session(shards=self.shards, retain=self.retain)  # type: ignore[arg-type] # noqa: E731
        plans = {family.name: family.plan}
        trace = Runner("memory", opened, ahead=self.ahead).run(plans, SOURCES, self.history, self.cuts)[family.name]
        Judge(plans, self.history).check(family.name, trace)
        if reference is not None:
            second = reference.contents(family, self.history, self.cuts)
            known = {(family.name, at): (found, set()) for at, found in enumerate(second)}
            Judge(plans, self.history, known).check(family.name, trace)


def _run(rng: random.Random, trial: int) -> History:
    """A graph that is there at first, more or less, and then changes; some are long chains, which take many rounds."""
    nodes, chained = rng.randint(2, NODES), rng.choice([0.0, 0.3, 0.9])

    def edge() -> Row:
        start = rng.randrange(nodes)
        end = min(start + 1, nodes - 1) if rng.random() < chained else rng.randrange(nodes)
        return trial, start, end, rng.randrange(TIMES)

    def root() -> Row:
        return trial, 0 if rng.random() < chained else rng.randrange(nodes)

    edges = _changing(rng, edge, first=rng.randint(0, 2 * nodes), later=rng.randint(0, 5))
    return {"edges": edges, "roots": _changing(rng, root, first=rng.randint(0, 2), later=rng.randint(0, 2))}


def _changing(rng: random.Random, make: Callable[[], Row], first: int, later: int) -> list[Update]:
    """Rows at the beginning, and up to so many changes at every later time: one comes, goes, or comes once more."""
    held = [make() for _ in range(first)]
    updates = [(row, 0, 1) for row in held]
    for at in range(1, TIMES):
        for _ in range(rng.randint(0, later)):
            if held and rng.random() < 0.5:
                updates.append((held.pop(rng.randrange(len(held))), at, -1))
            else:
                held.append(rng.choice(held) if held and rng.random() < 0.1 else make())
                updates.append((held[-1], at, 1))
    return updates


def agree(family: Family, runs: int, seed: int, reference: Witness | None = None, trials: int = TRIALS) -> None:
    """Do so many runs of a family, in batches of ``trials``.

    Raises:
        AssertionError: what is shown is wrong; a note names the batch, by its seed and number.
    """
    for number, start in enumerate(range(0, runs, trials)):
        batch = Batch.draw(random.Random(f"{seed} {family.name} {number}"), min(trials, runs - start))
        try:
            batch.check(family, reference)
        except Exception as error:
            error.add_note(
                f"seed {seed}, batch {number}: cuts {batch.cuts}, retain {batch.retain}, {batch.shards} shards"
            )
            raise


@click.command()
@click.option("--runs", default=10_000, help="How many, equally many of each family.")
@click.option("--seed", default=1)
@click.option("--reference", type=click.Path(path_type=Path), help="The folder of a second engine.")
def main(runs: int, seed: int, reference: Path | None) -> None:
    """Do many runs of every family of loops, and say how many agree and how long that took."""
    second = None if reference is None else Reference(reference)
    done, began = 0, time.perf_counter()
    for i, family in enumerate(FAMILIES):
        some, started = runs * (i + 1) // len(FAMILIES) - done, time.perf_counter()
        agree(family, some, seed, second)
        done += some
        click.echo(f"{family.name:20} {some:6,} runs agree  {time.perf_counter() - started:7.1f} s")
    witnesses = "recomputation" + (" and the second engine" if second else "")
    click.echo(f"{'all':20} {done:6,} runs agree with {witnesses}, {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
