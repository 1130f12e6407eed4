"""All that is known of an operator, as names and values."""

from __future__ import annotations

from collections.abc import Iterator

from altneu.explain.model import Operator
from altneu.explain.text import exchange, measured, size_of


def details(operator: Operator) -> list[tuple[str, str]]:
    """All that is known of an operator, as names and values for people."""
    return [(name, value) for name, value in _told(operator) if value]


def _told(operator: Operator) -> Iterator[tuple[str, str]]:
    yield "operator", operator.label
    yield "kind", operator.kind
    if operator.tells_cost:
        yield "cost per step", f"{operator.bound} ({operator.called})"
    yield "key", ", ".join(operator.keys)
    yield "exchange", exchange(operator) if operator.tells_exchange else ""
    yield "state", operator.state
    if operator.updates is not None:
        yield "updates kept", f"{operator.updates:,}"
    if operator.bytes is not None:
        yield "bytes kept", size_of(operator.bytes)
    yield "shared with", ", ".join(operator.shared_with)
    yield "needed by", ", ".join(operator.views)
    for note in operator.notes:
        yield "join plan", note
    yield "event times of a group", operator.event_times or ""
    if operator.total is not None:
        yield "measured", measured(operator.total)
    if operator.last is not None:
        yield "in the last advance", measured(operator.last)
