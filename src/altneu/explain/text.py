"""EXPLAIN as text: a tree of operators, the view's contents first."""

from __future__ import annotations

import math

from altneu.explain.model import CALLED, Explained, ExplainedView, Measured, Operator

_DEEPEST = 60  # levels of a tree that lines are indented by
_UNITS = ("KB", "MB", "GB", "TB")


def text(explained: Explained, *, analyze: bool = False) -> str:
    """The operators of each view as a tree, the view's contents first; with ``analyze`` what they did."""
    lines = [line for view in explained.views for line in ("", *_view(explained, view, analyze=analyze))]
    return "\n".join([*lines[1:], *explained.notes])


def _view(explained: Explained, view: ExplainedView, *, analyze: bool) -> list[str]:
    lines = [f"view {view.name}"]
    shown: set[str] = set()

    todo = [(view.contents, 1)]
    while todo:
        name, depth = todo.pop()
        operator = explained[name]
        repeated = operator.id in shown and operator.inputs
        parts = _parts(operator, analyze=analyze)
        lines.append(
            f"{_indented(depth)}{operator.label}"
            + (f"  [{'; '.join(parts)}]" if parts else "")
            + ("  (shared, shown above)" if repeated else "")
        )
        if not repeated:
            shown.add(operator.id)
            lines.extend(f"{_indented(depth + 1)}| {note}" for note in operator.notes)
            todo += [(below, depth + 1) for below in reversed(operator.inputs)]
    if view.errors:
        lines.append(f"  errors of {view.errors} operator(s), each a set, kept apart")
    lines.append(f"  {view.exchanges} exchange(s); the cost of a step is bounded by {view.bound} ({view.called})")
    if view.by_arrival:
        lines.append("  depends on when rows come: a view added later starts from the present")
    if view.refresh:
        lines.append(f"  refresh: {view.refresh}")
    if analyze:
        lines.append(f"  measured: {explained.run}")
    return lines


def _indented(depth: int) -> str:
    """What a line begins with; further in than ``_DEEPEST`` it says how far."""
    return "  " * depth if depth <= _DEEPEST else f"{'  ' * _DEEPEST}{depth}: "


def _parts(operator: Operator, *, analyze: bool) -> list[str]:
    """What is said of an operator beside its name."""
    parts = []
    if operator.keys:
        parts.append(f"key: {', '.join(operator.keys)}")
    if operator.kind in ("arrangement", "commands", "consolidate", "inspect"):
        parts.append(f"exchange: {exchange(operator)}")
    if operator.state:
        count = "" if operator.updates is None else f", {operator.updates:,} updates"
        size = f", {size_of(operator.bytes)}" if analyze and operator.bytes is not None else ""
        with_them = f", shared with {', '.join(operator.shared_with)}" if operator.shared_with else ""
        parts.append(f"state: {operator.state}{count}{size}{with_them}")
    if operator.tells_cost:
        parts.append(f"cost per step: {operator.cost} ({CALLED[operator.bound]})")
    if operator.event_times is not None:
        parts.append(f"a correction recomputes its event time and each later one of its group: {operator.event_times}")
    if analyze and operator.total is not None:
        parts.append(f"measured: {measured(operator.total)}")
    return parts


def exchange(operator: Operator) -> str:
    """By which key rows are spread on their way to an operator."""
    return "none" if operator.exchange is None else ", ".join(operator.exchange) or "to one shard"


def measured(work: Measured) -> str:
    """What an operator did, in words.

    >>> measured(Measured(1200, 3, 0, 0.0125, 2, 2))
    '1,200 rows in, 3 out, 12.5 ms in 2 steps'
    >>> measured(Measured())
    'nothing'
    """
    if not work.steps:
        return "nothing"
    errors = f", {_many(work.errors, 'error')}" if work.errors else ""
    rounds = f" of {work.rounds:,} rounds" if work.rounds > work.steps else ""
    rows = "row" if work.rows_in == 1 else "rows"
    many = _many(work.steps, "step")
    return f"{work.rows_in:,} {rows} in, {work.rows_out:,} out{errors}, {seconds_of(work.seconds)} in {many}{rounds}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def seconds_of(seconds: float) -> str:
    """A duration with three digits.

    >>> [seconds_of(value) for value in (0.0000004, 0.00125, 2.5, 7201.0)]
    ['0.4 µs', '1.25 ms', '2.5 s', '7,201 s']
    """
    for factor, unit in ((1e6, "µs"), (1e3, "ms")):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"


def size_of(count: int) -> str:
    """Bytes in the unit that fits.

    >>> [size_of(value) for value in (0, 1023, 1536, 5 << 30)]
    ['0 B', '1,023 B', '1.5 KB', '5.0 GB']
    """
    if count < 1024:
        return f"{count:,} B"
    power = min(int(math.log(count, 1024)), len(_UNITS))
    return f"{count / 1024**power:,.1f} {_UNITS[power - 1]}"
