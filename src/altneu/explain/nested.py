"""A picture with loops in it: what is in a loop is laid out by itself, and is one box of what is around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from altneu.explain.layout import Box, Edge, Laid, Name, Point, layered

ROOT = 0
INSIDE = 22.0  # between the outline of a loop and what is in it
TITLE = 22.0  # for what a loop is called


@dataclass
class Placed:
    """Boxes and outlines of loops by upper left corner and size, edges as the points that they pass, ends apart.

    ``rows`` is where the layer of each box begins and ends.
    """

    width: float
    height: float
    boxes: dict[Name, tuple[Point, Box]] = field(default_factory=dict)
    outlines: dict[int, tuple[Point, Box]] = field(default_factory=dict)
    lines: dict[Name, list[Point]] = field(default_factory=dict)
    rows: dict[Name, tuple[float, float]] = field(default_factory=dict)


@dataclass
class Nest:
    """Boxes with the scopes that they are in, scopes with those around them, and the edges between boxes.

    ``top`` are the boxes that are drawn first, ``end`` those that are drawn last.
    """

    boxes: Mapping[Name, Box]
    scope_of: Mapping[Name, int]
    parents: Mapping[int, int]
    edges: Sequence[Edge]
    top: frozenset[Name] = frozenset()
    end: frozenset[Name] = frozenset()
    _laid: dict[int, Laid] = field(default_factory=dict)
    _sizes: dict[Name, Box] = field(default_factory=dict)

    def placed(self) -> Placed:
        """Everything in its place.

        Law:    no two boxes overlap, and a box is inside the outlines of its loops (tests/explain/test_picture.py).
        """
        self._lay(ROOT)
        placed = Placed(self._laid[ROOT].width, self._laid[ROOT].height)
        self._put(ROOT, (0.0, 0.0), placed)
        return placed

    def _inside(self, scope: int) -> list[int]:
        return sorted(s for s, around in self.parents.items() if around == scope and s != scope)

    def _at(self, name: Name, scope: int) -> Name | None:
        """What a box is in a scope: itself, the loop in it that has it, or nothing if it is outside."""
        at = self.scope_of[name]
        if at == scope:
            return name
        while at != ROOT:
            if self.parents[at] == scope:
                return ("loop", at)
            at = self.parents[at]
        return None

    def _lay(self, scope: int) -> None:
        """Lay out a scope, those inside it first."""
        boxes = {name: box for name, box in self.boxes.items() if self.scope_of[name] == scope}
        for inner in self._inside(scope):
            self._lay(inner)
            laid = self._laid[inner]
            boxes["loop", inner] = Box(laid.width + 2 * INSIDE, laid.height + 2 * INSIDE + TITLE)
            self._sizes["loop", inner] = boxes["loop", inner]
        edges, entering, leaving = [], [], []
        for edge in self.edges:
            source, target = self._at(edge.source, scope), self._at(edge.target, scope)
            if source == target:
                continue
            if source is None:
                source = ("in", edge.name)
                entering.append(source)
            if target is None:
                target = ("out", edge.name)
                leaving.append(target)
            edges.append(Edge(edge.name, source, target))
        boxes |= dict.fromkeys((*entering, *leaving), Box(0.0, 0.0))
        top, end = [*entering, *(n for n in self.top if n in boxes)], [*leaving, *(n for n in self.end if n in boxes)]
        self._laid[scope] = layered(boxes, edges, top, end)

    def _put(self, scope: int, corner: Point, placed: Placed) -> None:
        """Note where everything in a scope is, the scope before those inside it."""
        laid = self._laid[scope]
        for name, place in laid.corners.items():
            at = _moved(place, corner)
            if name in self.boxes:
                placed.boxes[name] = (at, self.boxes[name])
                begin, end = laid.rows[name]
                placed.rows[name] = (begin + corner[1], end + corner[1])
            elif isinstance(name, tuple) and name[0] == "loop":
                placed.outlines[name[1]] = (at, self._sizes["loop", name[1]])
        for edge, points in laid.lines.items():
            passed, line = [_moved(point, corner) for point in points], placed.lines.get(edge, [])
            if ("in", edge) in laid.corners:
                x, y = _moved(laid.corners["in", edge], corner)
                line = [*line, (x, placed.outlines[scope][0][1]), (x, y), *passed]
            elif ("out", edge) in laid.corners:
                x, y = _moved(laid.corners["out", edge], corner)
                line = [*passed, (x, y), (x, placed.outlines[scope][0][1] + placed.outlines[scope][1].height), *line]
            else:
                line = passed
            placed.lines[edge] = line
        for inner in self._inside(scope):
            x, y = placed.outlines[inner][0]
            self._put(inner, (x + INSIDE, y + INSIDE + TITLE), placed)


def _moved(point: Point, by: Point) -> Point:
    return point[0] + by[0], point[1] + by[1]
