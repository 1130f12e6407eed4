"""All that is known of an operator, as names and values."""

from __future__ import annotations

from collections.abc import Iterator

from altneu.explain.model import ExplainedView, Operator
from altneu.explain.text import exchange, measured, size_of


def details(operator: Operator, *, analyze: bool = True) -> list[tuple[str, str]]:
    """All that is known of an operator, as names and values for people; without ``analyze`` nothing measured."""
    return [(name, value) for name, value in _known(operator, analyze=analyze) if value]


def view_details(view: ExplainedView) -> list[tuple[str, str]]:
    """What is known of a view as a whole."""
    pairs = [
        ("cost per step", f"bounded by {view.bound} ({view.called})"),
        ("exchanges", str(view.exchanges)),
        ("errors", f"of {view.errors} operator(s), each a set, kept apart" if view.errors else "none are possible"),
    ]
    if view.by_arrival:
        pairs.append(("depends on when rows come", "a view added later starts from the present"))
    return pairs


def _known(operator: Operator, *, analyze: bool) -> Iterator[tuple[str, str]]:
    yield "operator", operator.label
    yield "kind", operator.kind
    if operator.tells_cost:
        yield "cost per step", f"{operator.cost} ({operator.called})"
    yield "key", ", ".join(operator.keys)
    yield "exchange", exchange(operator) if operator.tells_exchange else ""
    yield "state", operator.state
    if operator.updates is not None:
        yield "updates kept", f"{operator.updates:,}"
    if operator.bytes is not None:
        yield "bytes kept", size_of(operator.bytes)
    yield "in", ", in ".join(operator.within)
    yield "shared with", ", ".join(operator.shared_with)
    yield "needed by", ", ".join(operator.views)
    for note in operator.notes:
        yield "join plan", note
    yield "event times of a group", operator.event_times or ""
    if analyze and operator.total is not None:
        yield "measured", measured(operator.total)
    if analyze and operator.last is not None:
        yield "in the last advance", measured(operator.last)
