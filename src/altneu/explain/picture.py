"""EXPLAIN as a picture: rows flow from the sources at the top to the views at the bottom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from html import escape
from importlib.resources import files

from altneu.explain.details import details
from altneu.explain.layout import Box, Edge, Name, Point
from altneu.explain.lettering import width_of, wrapped
from altneu.explain.model import Explained, ExplainedView, Operator
from altneu.explain.nested import Nest, Placed
from altneu.explain.text import measured, size_of

_COLUMNS, _NAME_LINES, _LINES = 42, 3, 2  # letters in a line of a box, and lines of its name and of each detail
_PAD, _LEAST, _MEASURED = 12.0, 120.0, 210.0
_MARGIN, _ARROW = 24.0, 6.0
_TAG = (30, 1)  # letters of what is said of an exchange, and lines
_SIZES = {
    "kind": (10.5, 15.0),
    "name": (13.0, 17.0),
    "mono": (11.0, 15.0),
    "soft": (12.0, 15.5),
    "measured": (12.0, 16.0),
}


@dataclass(frozen=True)
class _Drawn:
    """The lines of a box, each with its style, and the size of the box."""

    lines: tuple[tuple[str, str], ...]
    box: Box
    above: float = 0.0


def svg(explained: Explained, *, analyze: bool = False) -> str:
    """The operators as one SVG picture, in light or dark as its reader has it; nothing is fetched.

    Every operator is a group with ``data-operator``, its id, every view one with ``data-view``, every line one with
    ``data-from`` and ``data-to``. With ``analyze`` boxes have the measurements.

    Shape:  boxes do not overlap; a loop is an outline around what is in it.
    Cost:   less than a second for 200 operators.
    Law:    tests/explain/test_picture.py
    """
    return _Picture(explained, analyze=analyze).svg()


class _Picture:
    def __init__(self, explained: Explained, *, analyze: bool) -> None:
        self.explained, self.analyze = explained, analyze
        self.readers = explained.readers()
        self.drawn: dict[Name, _Drawn] = {o.id: self._operator_lines(o) for o in explained.operators}
        self.drawn |= {("view", v.name): _view_lines(v) for v in explained.views}
        self.edges = [Edge((a, o.id, n), a, o.id) for o in explained.operators for n, a in enumerate(o.inputs)]
        self.edges += [Edge((v.contents, v.name), v.contents, ("view", v.name)) for v in explained.views]
        self.placed = self._place()
        out, into = defaultdict[Name, list[Edge]](list), defaultdict[Name, list[Edge]](list)
        for edge in self.edges:
            out[edge.source].append(edge)
            into[edge.target].append(edge)
        self.starts = {e.name: p for name, edges in out.items() for e, p in self._ports(name, edges, below=True)}
        self.ends = {e.name: p for name, edges in into.items() for e, p in self._ports(name, edges, below=False)}

    # texts of boxes -------------------------------------------------------------------------------------------------

    def _operator_lines(self, operator: Operator) -> _Drawn:
        lines = [
            ("kind", operator.kind),
            *(("name", line) for line in wrapped(name_of(operator), _COLUMNS, _NAME_LINES)),
        ]
        lines += [("mono", line) for line in self._facts(operator)]
        lines += [("soft", line) for note in operator.notes for line in wrapped(note, _COLUMNS + 14, _LINES)]
        if self.analyze and operator.total is not None:
            lines.append(("measured", measured(operator.total)))
        least = _MEASURED if self.analyze else _LEAST
        drawn = _sized(lines, least, above=8.0 if operator.state else 0.0)
        head = width_of(operator.kind.upper(), 11.5) + 24 + width_of(operator.called, 12, bold=True) + 2 * _PAD
        tag = width_of(wrapped(_spread(operator) or "", *_TAG)[0], 11)
        return replace(drawn, box=Box(max(drawn.box.width, head, tag), drawn.box.height))

    def _facts(self, operator: Operator) -> Iterator[str]:
        """What an operator keeps and for whom."""
        if operator.state:
            yield from wrapped(f"key: {', '.join(operator.keys) or 'none, one group'}", _COLUMNS, 1)
            names = operator.state.removeprefix("arrangement ")
            yield from wrapped(f"keeps: {names}", _COLUMNS, _LINES)
        elif operator.logic and operator.kind != "linear":
            yield from wrapped(f"then {operator.logic}", _COLUMNS, _LINES)
        if operator.updates is not None:
            size = "" if operator.bytes is None else f", {size_of(operator.bytes)}"
            yield f"{operator.updates:,} updates{size}"
        if operator.shared_with:
            yield from wrapped(f"shared with {', '.join(operator.shared_with)}", _COLUMNS, _LINES)
        if operator.state and (many := len(self.readers[operator.id])) > 1:
            yield f"read by {many} operators"

    # where they go --------------------------------------------------------------------------------------------------

    def _place(self) -> Placed:
        scopes = self.explained.scopes
        around = {i: self._loop_around(i) for i in range(len(scopes))}
        parents = {i: self._loop_around(s.parent) for i, s in enumerate(scopes) if s.kind == "loop"}
        scope_of: dict[Name, int] = {o.id: around[o.scope] for o in self.explained.operators}
        scope_of |= {("view", v.name): 0 for v in self.explained.views}
        used = {*scope_of.values()}
        while more := {parents[i] for i in used if i} - used:
            used |= more
        boxes = {name: drawn.box for name, drawn in self.drawn.items()}
        top = frozenset(o.id for o in self.explained.operators if o.kind == "source")
        end = frozenset(name for name in boxes if isinstance(name, tuple))
        return Nest(boxes, scope_of, {i: p for i, p in parents.items() if i in used}, self.edges, top, end).placed()

    def _loop_around(self, scope: int) -> int:
        """The innermost loop that a scope is, or is in."""
        while scope > 0 and self.explained.scopes[scope].kind != "loop":
            scope = self.explained.scopes[scope].parent
        return max(scope, 0)

    # as SVG ---------------------------------------------------------------------------------------------------------

    def svg(self) -> str:
        width, height = self.placed.width + 2 * _MARGIN, self.placed.height + 2 * _MARGIN
        names = ", ".join(view.name for view in self.explained.views)
        size = f'viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" height="{_n(height)}"'
        aria = f'role="group" aria-label="{_q(f"Plan of {names}")}"'
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="altneu-plan" {size} {aria}>',
            f"<style>{files('altneu.explain').joinpath('picture.css').read_text(encoding='utf-8')}</style>",
            f'<rect class="page" width="{_n(width)}" height="{_n(height)}"/>',
            f'<g class="all" transform="translate({_n(_MARGIN)} {_n(_MARGIN)})">',
            *self._outlines(),
            *self._lines(),
            *self._tags(),
            *self._titles(),
            *map(self._operator, self.explained.operators),
            *map(self._view, self.explained.views),
            "</g></svg>",
        ]
        return "\n".join(parts) + "\n"

    def _outlines(self) -> Iterator[str]:
        for scope, ((x, y), box) in self.placed.outlines.items():
            yield (
                f'<g class="scope" data-scope="{scope}"><rect class="outline" x="{_n(x)}" y="{_n(y)}" '
                f'width="{_n(box.width)}" height="{_n(box.height)}" rx="14"/></g>'
            )

    def _titles(self) -> Iterator[str]:
        """What loops are called, above the lines that go into them."""
        for scope, ((x, y), _) in self.placed.outlines.items():
            name = f"↻ loop over {', '.join(self.explained.scopes[scope].names)}"
            yield f'<g class="scope"><text x="{_n(x + 14)}" y="{_n(y + 19)}">{_q(name)}</text></g>'

    def _lines(self) -> Iterator[str]:
        for edge in self.edges:
            start, end = self.starts[edge.name], self.ends[edge.name]
            out_of = (start[0], self.placed.rows[edge.source][1])  # beside a box may be higher ones
            down_to = (end[0], min(self.placed.rows[edge.target][0], end[1] - _ARROW))
            points = [start, out_of, *self.placed.lines[edge.name], down_to, end]
            yield self._line(edge, points)
        for operator in self.explained.operators:
            if operator.back is not None and operator.back in self.drawn:
                yield self._back(operator.back, operator.id)

    def _ports(self, name: Name, edges: list[Edge], *, below: bool) -> Iterator[tuple[Edge, Point]]:
        """Where lines leave a box, or come into it: beside each other, in the order in which they come."""
        (x, y), box = self.placed.boxes[name]

        def towards(edge: Edge) -> float:
            passed = self.placed.lines[edge.name]
            if passed:
                return passed[0 if below else -1][0]
            (other, _), size = self.placed.boxes[edge.target if below else edge.source]
            return other + size.width / 2

        ordered = sorted(edges, key=towards)
        apart = min(22.0, box.width * 0.7 / max(len(edges) - 1, 1))
        for i, edge in enumerate(ordered):
            yield edge, (x + box.width / 2 + (i - (len(edges) - 1) / 2) * apart, y + box.height if below else y)

    def _line(self, edge: Edge, points: list[Point]) -> str:
        reader = None if isinstance(edge.target, tuple) else self.explained[str(edge.target)]
        spread = reader is not None and reader.exchange is not None and edge.name == (edge.source, reader.id, 0)
        x, y = points[-1]
        points = [*points[:-1], (x, y - _ARROW)]
        data = f'data-from="{_q(str(edge.source))}" data-to="{_q(_id(edge.target))}"'
        head = f'<path class="head" d="M{_n(x - 4.5)} {_n(y - 8)}L{_n(x + 4.5)} {_n(y - 8)}L{_n(x)} {_n(y)}Z"/>'
        kind = "edge exchange" if spread else "edge"
        return f'<g class="{kind}" {data}><path class="line" d="{_path(points)}"/>{head}</g>'

    def _tags(self) -> Iterator[str]:
        """By what rows are spread on their way into an operator, above it and above all lines."""
        for operator in self.explained.operators:
            route = _spread(operator)
            if route is not None and operator.inputs:
                (x, y), shown = self.ends[operator.inputs[0], operator.id, 0], wrapped(route, *_TAG)[0]
                width = width_of(shown, 11) + 12
                place = f'x="{_n(x - width / 2)}" y="{_n(y - 30)}" width="{_n(width)}" height="17"'
                yield (
                    f'<g class="exchange" data-exchange="{_q(operator.id)}">'
                    f"<title>{_q(f'exchange {route[2:]}')}</title>"
                    f'<rect class="tag" {place} rx="8.5"/>'
                    f'<text x="{_n(x)}" y="{_n(y - 17.5)}" text-anchor="middle">{_q(shown)}</text></g>'
                )

    def _back(self, source: str, target: str) -> str:
        """The way from the end of a loop's body to the variable that it makes, beside everything in the loop."""
        (x0, y0), box0 = self.placed.boxes[source]
        (x1, y1), box1 = self.placed.boxes[target]
        start, end = (x0 + box0.width, y0 + box0.height / 2), (x1 + box1.width, y1 + box1.height / 2)
        loop = self._loop_around(self.explained[target].scope)
        (left, _), outline = self.placed.outlines[loop]
        beside = left + outline.width - 10
        path = f"M{_n(start[0])} {_n(start[1])}H{_n(beside)}V{_n(end[1])}H{_n(end[0] + _ARROW)}"
        head = f'<path class="head" d="M{_n(end[0] + 8)} {_n(end[1] - 4.5)}v9L{_n(end[0])} {_n(end[1])}Z"/>'
        data = f'data-from="{_q(source)}" data-to="{_q(target)}"'
        return f'<g class="edge back" {data}><path class="line" d="{path}"/>{head}</g>'

    def _operator(self, operator: Operator) -> str:
        (x, y), box = self.placed.boxes[operator.id]
        classes = [operator.kind.replace(" ", "-")]
        if operator.tells_cost:
            classes.append(operator.called)
        if operator.state:
            classes.append("keeps")
        if operator.shared_with or (operator.state and len(self.readers[operator.id]) > 1):
            classes.append("shared")
        tooltip = "\n".join(f"{name}: {value}" for name, value in details(operator, analyze=self.analyze))
        bound = ""
        if operator.tells_cost:
            bound = (
                f'<text class="bound" x="{_n(box.width - _PAD)}" y="{_n(self.drawn[operator.id].above + 18)}" '
                f'text-anchor="end">{operator.called}</text>'
            )
        return (
            f'<g class="{" ".join(classes)}" data-operator="{_q(operator.id)}" tabindex="0" role="img" '
            f'transform="translate({_n(x)} {_n(y)})"><title>{_q(tooltip)}</title>{self._shape(operator, box)}'
            f"{''.join(_texts(self.drawn[operator.id]))}{bound}</g>"
        )

    def _shape(self, operator: Operator, box: Box) -> str:
        w, h = _n(box.width), box.height
        if not operator.state:
            round_ = 16 if operator.kind == "source" else 5
            bar = f'<rect class="bar" width="4" height="{_n(h - 10)}" x="0.5" y="5"/>' if operator.tells_cost else ""
            return f'<rect class="box" width="{w}" height="{_n(h)}" rx="{round_}"/>{bar}'
        half, lid = _n(box.width / 2), 7
        drum = f"M0 {lid}A{half} {lid} 0 0 1 {w} {lid}V{_n(h - lid)}A{half} {lid} 0 0 1 0 {_n(h - lid)}Z"
        behind = f'<path class="box" transform="translate(5 -5)" d="{drum}"/>' if operator.shared_with else ""
        bar = f'<rect class="bar" width="4" height="{_n(h - 2 * lid - 8)}" x="0.8" y="{lid + 6}"/>'
        return (
            f'{behind}<path class="box" d="{drum}"/><path class="lid" d="M0 {lid}A{half} {lid} 0 0 0 {w} {lid}"/>{bar}'
        )

    def _view(self, view: ExplainedView) -> str:
        drawn, aria = self.drawn["view", view.name], f'role="img" aria-label="{_q(f"view {view.name}")}"'
        (x, y), box = self.placed.boxes["view", view.name]
        return (
            f'<g class="view" data-view="{_q(view.name)}" tabindex="0" {aria} transform="translate({_n(x)} {_n(y)})">'
            f'<rect class="box" width="{_n(box.width)}" height="{_n(box.height)}" rx="10"/>{"".join(_texts(drawn))}</g>'
        )


def _spread(operator: Operator) -> str | None:
    """The text of an exchange."""
    if operator.exchange is None:
        return None
    return f"⇄ by {', '.join(operator.exchange)}" if operator.exchange else "⇄ to one shard"


def name_of(operator: Operator) -> str:
    """What an operator is called where its kind is said beside it."""
    name = operator.label
    if operator.logic and operator.kind != "linear":
        name = name.removesuffix(f", then {operator.logic}")
    for prefix in (f"{operator.kind} ", "reduce "):
        name = name.removeprefix(prefix)
    return name.strip() or operator.label


def _view_lines(view: ExplainedView) -> _Drawn:
    cost = f"bounded by {view.bound} ({view.called})"
    lines = [("kind", "view"), *(("name", line) for line in wrapped(view.name, _COLUMNS, _NAME_LINES)), ("soft", cost)]
    if view.by_arrival:
        lines.append(("soft", "depends on when rows come"))
    return _sized(lines, _LEAST)


def _sized(lines: Iterable[tuple[str, str]], least: float, above: float = 0.0) -> _Drawn:
    drawn = tuple(lines)
    width = (
        max(width_of(text, _SIZES[style][0], bold=style == "name", fixed=style == "mono") for style, text in drawn)
        + 2 * _PAD
    )
    height = sum(_SIZES[style][1] for style, _ in drawn) + 14 + 1.5 * above
    return _Drawn(drawn, Box(max(width, least), height), above)


def _texts(drawn: _Drawn) -> Iterator[str]:
    y = drawn.above + 4
    for style, text in drawn.lines:
        y += _SIZES[style][1]
        yield f'<text class="{style}" x="{_n(_PAD)}" y="{_n(y)}">{_q(text)}</text>'


def _path(points: list[Point]) -> str:
    """A line through points that leaves and reaches each of them straight down."""
    (x, y), *rest = points
    path = [f"M{_n(x)} {_n(y)}"]
    for a, b in rest:
        middle = (y + b) / 2
        straight = abs(a - x) < 0.5
        path.append(f"L{_n(a)} {_n(b)}" if straight else f"C{_n(x)} {_n(middle)} {_n(a)} {_n(middle)} {_n(a)} {_n(b)}")
        x, y = a, b
    return "".join(path)


def _id(name: Name) -> str:
    return f"view {name[1]}" if isinstance(name, tuple) else str(name)


def _n(value: float) -> str:
    """A number with one digit after the point."""
    return f"{value:.1f}".removesuffix(".0")


def _q(text: str) -> str:
    """A text as XML has it; what no XML may have becomes a sign for it."""
    return escape("".join(c if c.isprintable() or c == "\n" else "�" for c in text))
