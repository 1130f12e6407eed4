"""Where the boxes of a picture go: layers from top to bottom, each box near what it is joined with.

The method is that of Sugiyama, Tagawa and Toda: a layer for every box, an order within the layers with few crossings, a
place for every box. A line that passes a layer has a place there too.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import pairwise
from operator import mul

Name = Hashable
Point = tuple[float, float]
Rows = list[list[Name]]
Neighbours = Mapping[Name, Sequence[Name]]
BESIDE = 28.0  # between two boxes of a layer
APART = 60.0  # between pictures that are not joined
BELOW = 46.0  # between two layers
LINE = 14.0  # what a line takes up that passes a layer
STRAIGHT = 6.0  # how much more a line keeps its place than a box
_SWEEPS = 24


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

    width: float = 0.0
    height: float = 0.0
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

    Boxes that are not joined are placed side by side.

    Shape:  edges make no circle; no two boxes overlap, and no edge passes through a box.
    """
    whole, first, last = Laid(), {*top}, {*end}
    for names in _components(boxes, edges):
        own = [edge for edge in edges if edge.source in names]
        part = _layered({n: boxes[n] for n in boxes if n in names}, own, first & names, last & names)
        left = whole.width + APART if whole.corners else 0.0
        whole.corners |= {name: (x + left, y) for name, (x, y) in part.corners.items()}
        whole.rows |= part.rows
        whole.lines |= {name: [(x + left, y) for x, y in line] for name, line in part.lines.items()}
        whole.width, whole.height = left + part.width, max(whole.height, part.height)
    return whole


def _components(boxes: Iterable[Name], edges: Iterable[Edge]) -> list[set[Name]]:
    """Boxes that are joined, in the order in which they are given."""
    component = {name: {name} for name in boxes}
    for edge in edges:
        one, other = component[edge.source], component[edge.target]
        if one is not other:
            one |= other
            component |= dict.fromkeys(other, one)
    return list({id(names): names for names in component.values()}.values())


def _layered(boxes: Mapping[Name, Box], edges: Sequence[Edge], top: set[Name], end: set[Name]) -> Laid:
    """Place boxes that are joined."""
    layers, sizes = _layers(boxes, edges, top, end), dict(boxes)
    paths: dict[Name, list[Name]] = {}
    above, below = defaultdict[Name, list[Name]](list), defaultdict[Name, list[Name]](list)
    for edge in edges:
        passed: list[Name] = [("passes", edge.name, i) for i in range(layers[edge.source] + 1, layers[edge.target])]
        layers |= {place: i for i, place in enumerate(passed, layers[edge.source] + 1)}
        sizes |= dict.fromkeys(passed, Box(LINE, 0.0))
        paths[edge.name] = passed
        for a, b in pairwise([edge.source, *passed, edge.target]):
            below[a].append(b)
            above[b].append(a)
    rows = _ordered(layers, above, below)
    centres = _centres(rows, above, below, sizes)
    heights = [max(sizes[name].height for name in row) for row in rows]
    tops = [sum(heights[:i]) + i * BELOW for i in range(len(rows))]
    extents = [(y, y + height) for y, height in zip(tops, heights, strict=True)]
    left = min(centres[name] - size.width / 2 for name, size in sizes.items())
    right = max(centres[name] + size.width / 2 for name, size in sizes.items())
    laid = Laid(right - left, extents[-1][1])
    for name, box in boxes.items():
        layer = layers[name]  # in its middle, but near its top beside a box that is much higher
        y = tops[layer] + min((heights[layer] - box.height) / 2, BELOW)
        laid.corners[name], laid.rows[name] = (centres[name] - left - box.width / 2, y), extents[layer]
    for name, passed in paths.items():
        laid.lines[name] = [(centres[place] - left, y) for place in passed for y in extents[layers[place]]]
    return laid


def _layers(boxes: Iterable[Name], edges: Iterable[Edge], top: set[Name], end: set[Name]) -> dict[Name, int]:
    """Each below all that it reads; what reads nothing right above its first reader, unless it is to be at the top."""
    reads, readers = {name: list[Name]() for name in boxes}, defaultdict[Name, list[Name]](list)
    for edge in edges:
        reads[edge.target].append(edge.source)
        readers[edge.source].append(edge.target)
    layers: dict[Name, int] = {}
    for name in TopologicalSorter(reads).static_order():
        layers[name] = 1 + max((layers[n] for n in reads[name]), default=-1)
    layers |= dict.fromkeys(end, max(layers.values()))
    for name in layers:
        if readers[name] and not reads[name] and name not in top:
            layers[name] = min(layers[n] for n in readers[name]) - 1
    return layers


def _ordered(layers: Mapping[Name, int], above: Neighbours, below: Neighbours) -> Rows:
    """The boxes and lines of each layer from left to right, with few crossings.

    Sweeps down and up put each at the mean place of its neighbours; the best order met is taken.
    """
    rows: Rows = [[] for _ in range(1 + max(layers.values()))]
    for name in _depth_first(layers, above, below):
        rows[layers[name]].append(name)
    best, fewest = rows, _crossings(rows, below)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        place: dict[Name, float] = {name: i / len(row) for row in rows for i, name in enumerate(row)}
        ordered: Rows = []
        for row in rows if down else reversed(rows):
            near = above if down else below
            means = {n: sum(place[m] for m in near[n]) / len(near[n]) if near[n] else place[n] for n in row}
            ordered.append(sorted(row, key=means.__getitem__))
            place |= {name: i / len(row) for i, name in enumerate(ordered[-1])}
        rows = ordered if down else ordered[::-1]
        if (crossings := _crossings(rows, below)) < fewest:
            best, fewest = rows, crossings
    return best


def _depth_first(names: Iterable[Name], above: Neighbours, below: Neighbours) -> list[Name]:
    """All, each soon after what it reads, from the boxes that read nothing on."""
    waiting, seen = [name for name in names if not above[name]][::-1], dict[Name, None]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen[name] = None
            waiting += reversed(below[name])
    return list(seen)


def _crossings(rows: Rows, below: Neighbours) -> int:
    """How many pairs of lines cross between the layers."""
    place = {name: i for row in rows for i, name in enumerate(row)}
    crossings = 0
    for row in rows:
        passed: list[int] = []
        for ends in ([place[n] for n in below[name]] for name in row):
            crossings += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return crossings


def _centres(rows: Rows, above: Neighbours, below: Neighbours, sizes: Mapping[Name, Box]) -> dict[Name, float]:
    """Where each is from left to right: near its neighbours, in the order given, with room between."""
    centres: dict[Name, float] = {}
    for row in rows:
        _put(row, [(0.0, 1.0)] * len(row), sizes, centres)
    for sweep in range(_SWEEPS):
        down, last = sweep % 2 == 0, sweep >= _SWEEPS - 2
        for row in rows if down else reversed(rows):
            targets = []
            for name in row:
                near = [*(above[name] if down or last else ()), *(below[name] if last or not down else ())]
                # Lines that pass layers are to be straight.
                weights = [1.0 if sizes[name].height or sizes[n].height else STRAIGHT for n in near] or [1.0]
                places = [centres[n] for n in near or [name]]
                targets.append((sum(map(mul, places, weights)) / sum(weights), sum(weights)))
            _put(row, targets, sizes, centres)
    return centres


def _put(
    row: Sequence[Name], targets: Sequence[tuple[float, float]], sizes: Mapping[Name, Box], centres: dict[Name, float]
) -> None:
    """Put a row where its boxes want to be, each with a weight, as far as they leave each other room.

    The weighted sum of the squares of what they are off is least: neighbours that would overlap go together (isotonic
    regression by pooling adjacent violators).
    """
    offsets = [0.0]
    for a, b in pairwise(row):
        offsets.append(offsets[-1] + (sizes[a].width + sizes[b].width) / 2 + BESIDE)
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    for (place, own), offset in zip(targets, offsets, strict=True):
        mean, weight, count = place - offset, own, 1
        while pools and pools[-1][0] > mean:
            other, heavy, many = pools.pop()
            mean = (mean * weight + other * heavy) / (weight + heavy)
            weight, count = weight + heavy, count + many
        pools.append((mean, weight, count))
    means = [mean for mean, _, count in pools for _ in range(count)]
    for name, mean, offset in zip(row, means, offsets, strict=True):
        centres[name] = mean + offset
