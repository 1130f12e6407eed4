"""What an SVG of a plan shows, read back from its text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Rectangle:
    """A place in the picture."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Rectangle) -> bool:
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom

    def inside(self, other: Rectangle) -> bool:
        across = other.left <= self.left and self.right <= other.right
        return across and other.top <= self.top and self.bottom <= other.bottom

    def holds(self, x: float, y: float) -> bool:
        """Whether a point is well inside."""
        return self.left + 1 < x < self.right - 1 and self.top + 1 < y < self.bottom - 1


@dataclass(frozen=True)
class Line:
    """A line from one box to another, as points close to each other."""

    source: str
    target: str
    points: list[tuple[float, float]]
    back: bool


@dataclass(frozen=True)
class Picture:
    """Boxes and lines by the ids of operators; views are "view" and their name, as in the picture."""

    boxes: dict[str, Rectangle]
    outlines: dict[int, Rectangle]
    lines: list[Line]
    tags: dict[str, tuple[str, Rectangle]]
    said: dict[str, str]
    size: tuple[float, float]


def read(svg: str) -> Picture:
    """Read a picture; it has to be well-formed."""
    root = ET.fromstring(svg)  # noqa: S314  # our own text
    size = tuple(float(root.attrib[n]) - 48 for n in ("width", "height"))
    boxes, said, outlines, tags, lines = {}, {}, {}, {}, []
    for group in root.iter(f"{SVG}g"):
        name = group.get("data-operator") or ("data-view" in group.attrib and f"view {group.get('data-view')}")
        if name:
            assert name not in boxes
            boxes[name] = _box(group)
            said[name] = "\n".join(text.text or "" for text in group.findall(f"{SVG}text"))
        elif "data-scope" in group.attrib:
            outlines[int(group.attrib["data-scope"])] = _rectangle(group.find(f"{SVG}rect"), 0.0, 0.0)
        elif "data-from" in group.attrib:
            back = "back" in group.attrib["class"].split()
            points = [] if back else _points(group.find(f"{SVG}path").attrib["d"])
            lines.append(Line(group.attrib["data-from"], group.attrib["data-to"], points, back))
        elif "data-exchange" in group.attrib:
            text = group.find(f"{SVG}text").text
            tags[group.attrib["data-exchange"]] = text, _rectangle(group.find(f"{SVG}rect"), 0.0, 0.0)
    return Picture(boxes, outlines, lines, tags, said, size)


def _box(group: ET.Element) -> Rectangle:
    x, y = map(float, re.findall(r"[-\d.]+", group.attrib["transform"]))
    shape = next(e for e in group if e.get("class") == "box" and "transform" not in e.attrib)
    if shape.tag == f"{SVG}rect":
        return _rectangle(shape, x, y)
    width, bottom = re.match(r"M0 7A\S+ 7 0 0 1 (\S+) 7V(\S+)A", shape.attrib["d"]).groups()
    return Rectangle(x, y, x + float(width), y + float(bottom) + 7)


def _rectangle(rect: ET.Element, x: float, y: float) -> Rectangle:
    left, top = x + float(rect.get("x", 0)), y + float(rect.get("y", 0))
    return Rectangle(left, top, left + float(rect.attrib["width"]), top + float(rect.attrib["height"]))


def _points(path: str) -> list[tuple[float, float]]:
    """Points along a path of lines and cubic curves."""
    result: list[tuple[float, float]] = []
    for command, text in re.findall(r"([MLC])([-\d. ]+)", path):
        numbers = list(map(float, text.split()))
        if command == "M":
            result.append((numbers[0], numbers[1]))
            continue
        ends = [result[-1], *zip(numbers[::2], numbers[1::2], strict=True)]
        if command == "L":
            ends = [ends[0], ends[0], ends[1], ends[1]]
        result += [_curve(ends, step / 24) for step in range(1, 25)]
    return result


def _curve(ends: list[tuple[float, float]], t: float) -> tuple[float, float]:
    weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3)
    return tuple(sum(w * end[i] for w, end in zip(weights, ends, strict=True)) for i in (0, 1))  # type: ignore[return-value]


def check(picture: Picture) -> None:
    """No two boxes overlap, boxes are in the picture, lines go down and pass through no box."""
    boxes = sorted(picture.boxes.items(), key=lambda item: item[1].left)
    for i, (name, box) in enumerate(boxes):
        for other, there in boxes[i + 1 :]:
            if there.left >= box.right:
                break
            assert not box.overlaps(there), f"{name} and {other} overlap"
        assert box.inside(Rectangle(-0.2, -0.2, picture.size[0] + 0.2, picture.size[1] + 0.2)), name
    tags = sorted((tag for _, tag in picture.tags.values()), key=lambda tag: tag.left)
    for i, tag in enumerate(tags):
        assert not any(tag.overlaps(box) for _, box in boxes)
        assert not any(tag.overlaps(other) for other in tags[i + 1 :] if other.left < tag.right)
    for line in picture.lines:
        assert {line.source, line.target} <= picture.boxes.keys()
        for x, y in line.points[1:-1]:
            through = [name for name, box in boxes if box.left < x < box.right and box.holds(x, y)]
            assert not through, f"the line from {line.source} to {line.target} passes through {through}"
        assert all(b[1] >= a[1] - 0.11 for a, b in pairwise(line.points))
