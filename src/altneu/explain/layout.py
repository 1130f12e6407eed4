"""Where the boxes of a picture go: layers from top to bottom, loops as boxes of their own.

Which box is beside which is decided by igraph's layered layout (Sugiyama et al.), which knows points; what is done here
is to give the points the sizes of the boxes and to move each as near as may be to what it is joined with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Name = Hashable
Point = tuple[float, float]
BESIDE = 28.0  # between two boxes of a layer
APART = 60.0  # between pictures that are not joined
BELOW = 46.0  # between two layers
LINE = 14.0  # what a line takes up that passes a layer
_SWEEPS = 12


@dataclass(frozen=True)
class Box:
    """Something with a size: a place in the picture."""

    width: float
    height: float


@dataclass
class Laid:
    """Boxes by their upper left corners, edges as the points that they pass, both from the upper left corner of all.

    ``rows`` is where the layer of each box begins and ends: beside a box may be higher ones.
    """

    width: float
    height: float
    corners: dict[Name, Point] = field(default_factory=dict)
    lines: dict[Name, list[Point]] = field(default_factory=dict)
    rows: dict[Name, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Edge:
    """A line from one box to another, under a name of its own."""

    name: Name
    source: Name
    target: Name


def layered(
    boxes: Mapping[Name, Box], edges: Sequence[Edge], top: Iterable[Name] = (), end: Iterable[Name] = ()
) -> Laid:
    """Place boxes in layers, so that every edge goes down; ``top`` are in the first layer, ``end`` in the last one.

    What is not joined is placed side by side.

    Shape:  edges make no circle; no two boxes overlap, and no edge passes through a box.
    """
    whole, first, last = Laid(0.0, 0.0), {*top}, {*end}
    for names in _components(boxes, edges):
        some = [edge for edge in edges if edge.source in names]
        part = _layered({n: boxes[n] for n in boxes if n in names}, some, first & names, last & names)
        left = whole.width + APART if whole.corners else 0.0
        whole.corners |= {name: (x + left, y) for name, (x, y) in part.corners.items()}
        whole.rows |= part.rows
        whole.lines |= {name: [(x + left, y) for x, y in line] for name, line in part.lines.items()}
        whole.width, whole.height = left + part.width, max(whole.height, part.height)
    return whole


def _components(boxes: Mapping[Name, Box], edges: Sequence[Edge]) -> list[set[Name]]:
    """Boxes that are joined, in the order in which they are given."""
    from igraph import Graph

    names = [*boxes]
    number = {name: i for i, name in enumerate(names)}
    graph = Graph(n=len(names), edges=[(number[e.source], number[e.target]) for e in edges])
    return [{names[i] for i in found} for found in sorted(graph.connected_components(), key=min)]


def _layered(boxes: Mapping[Name, Box], edges: Sequence[Edge], top: Iterable[Name], end: Iterable[Name]) -> Laid:
    """Place boxes that are joined."""
    layers = _layers(boxes, edges, top, end)
    sizes, paths = dict(boxes), dict[Name, list[Name]]()
    for edge in edges:  # a line has a place in every layer that it passes
        between: list[Name] = []
        for layer in range(layers[edge.source] + 1, layers[edge.target]):
            between.append(("passes", edge.name, layer))
            layers[between[-1]], sizes[between[-1]] = layer, Box(LINE, 0.0)
        paths[edge.name] = [edge.source, *between, edge.target]
    steps = [step for path in paths.values() for step in pairwise(path)]
    rows = _ordered(layers, steps)
    centres = _centres(rows, steps, sizes)
    tops, heights, at = [], [], 0.0
    for row in rows:
        heights.append(max(sizes[name].height for name in row))
        tops.append(at)
        at += heights[-1] + BELOW
    left = min(centres[name] - size.width / 2 for name, size in sizes.items())
    width = max(centres[name] + size.width / 2 for name, size in sizes.items()) - left
    corners = {
        name: (centres[name] - left - box.width / 2, tops[layers[name]] + _lowered(heights[layers[name]], box))
        for name, box in boxes.items()
    }
    extents = {name: (tops[layers[name]], tops[layers[name]] + heights[layers[name]]) for name in boxes}
    laid = Laid(width, at - BELOW, corners, rows=extents)
    for name, path in paths.items():
        inner = [
            (centres[step] - left, y)
            for step in path[1:-1]
            for y in (tops[layers[step]], tops[layers[step]] + heights[layers[step]])
        ]
        laid.lines[name] = inner
    return laid


def _lowered(height: float, box: Box) -> float:
    """How far a box is below the top of its layer: in the middle, but near the top beside what is very high."""
    return min((height - box.height) / 2, BELOW)


def _layers(
    boxes: Mapping[Name, Box], edges: Sequence[Edge], top: Iterable[Name], end: Iterable[Name]
) -> dict[Name, int]:
    """Each below all that it reads, and what nothing is read by but one further below right above that."""
    reads, read = defaultdict[Name, list[Name]](list), defaultdict[Name, list[Name]](list)
    for edge in edges:
        reads[edge.target].append(edge.source)
        read[edge.source].append(edge.target)
    layers: dict[Name, int] = {}
    waiting = {name: len(reads[name]) for name in boxes}
    ready, order = [name for name in boxes if not waiting[name]], list[Name]()
    while ready:
        name = ready.pop()
        order.append(name)
        layers[name] = 1 + max((layers[n] for n in reads[name]), default=-1)
        for reader in read[name]:
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    first, last = {*top}, max(layers.values())
    for name in end:
        layers[name] = last
    for name in reversed(order):
        if read[name] and not reads[name] and name not in first:
            layers[name] = min(layers[n] for n in read[name]) - 1
    return layers


def _ordered(layers: Mapping[Name, int], steps: Sequence[tuple[Name, Name]]) -> list[list[Name]]:
    """The boxes and lines of each layer from left to right, with few crossings."""
    from igraph import Graph

    names = [*layers]
    number = {name: i for i, name in enumerate(names)}
    graph = Graph(n=len(names), edges=[(number[a], number[b]) for a, b in steps], directed=True)
    found: Any = graph.layout_sugiyama(layers=[layers[name] for name in names], maxiter=200)
    rows: list[list[Name]] = [[] for _ in range(1 + max(layers.values()))]
    for i in sorted(range(len(names)), key=lambda i: (found[i][0], i)):
        rows[layers[names[i]]].append(names[i])
    return rows


def _centres(
    rows: list[list[Name]], steps: Sequence[tuple[Name, Name]], sizes: Mapping[Name, Box]
) -> dict[Name, float]:
    """Where each is from left to right: near what it is joined with, in the order given, with room between."""
    above, below = defaultdict[Name, list[Name]](list), defaultdict[Name, list[Name]](list)
    for a, b in steps:
        below[a].append(b)
        above[b].append(a)
    centres: dict[Name, float] = {}
    for row in rows:
        _put(row, [0.0] * len(row), sizes, centres)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            near = above if down and sweep < _SWEEPS - 2 else below if sweep < _SWEEPS - 2 else None
            wanted = []
            for name in row:
                joined = [*above[name], *below[name]] if near is None else near[name]
                wanted.append(sum(centres[n] for n in joined) / len(joined) if joined else centres[name])
            _put(row, wanted, sizes, centres)
    return centres


def _put(row: Sequence[Name], wanted: Sequence[float], sizes: Mapping[Name, Box], centres: dict[Name, float]) -> None:
    """Put a row where its boxes want to be, as far as they leave each other room.

    The sum of the squares of what they are off is least: neighbours that would overlap go together (isotonic regression
    by pooling adjacent violators).
    """
    offsets = [0.0]
    for a, b in pairwise(row):
        offsets.append(offsets[-1] + (sizes[a].width + sizes[b].width) / 2 + BESIDE)
    pools: list[tuple[float, int]] = []  # mean, how many
    for place, offset in zip(wanted, offsets, strict=True):
        mean, count = place - offset, 1
        while pools and pools[-1][0] > mean:
            other, many = pools.pop()
            mean, count = (mean * count + other * many) / (count + many), count + many
        pools.append((mean, count))
    means = [mean for mean, count in pools for _ in range(count)]
    for name, mean, offset in zip(row, means, offsets, strict=True):
        centres[name] = mean + offset
