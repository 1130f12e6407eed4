"""The graph of the views: operators with their state and work, and the picture, which is updated."""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from typing import Any

from altneu.explain import Explained, Facts, Measured, Operator, explained, svg
from altneu.explain.details import details
from altneu.explain.text import seconds_of, size_of
from altneu.page.snapshot import Snapshot

_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)


def explained_of(snapshot: Snapshot, view: str | None, known: Facts) -> Explained:
    """The operators of one view or of all views as of a snapshot, with measurements."""
    sizes, none = snapshot.sizes, (0, 0)
    rows, size = (lambda name: sizes.get(name, none)[0]), (lambda name: sizes.get(name, none)[1])
    facts = replace(known, rows=rows, bytes=size, event_times=None)
    with snapshot.lock:
        return explained(snapshot.plan, view, facts)


def graph_payload(plan: Explained) -> dict[str, Any]:
    """What changes from step to step."""
    return {"operators": [_operator(o) for o in plan.operators], "views": [v.to_dict() for v in plan.views]}


def _operator(operator: Operator) -> dict[str, Any]:
    total, last = operator.total, operator.last
    return {
        "id": operator.id,
        "label": operator.label,
        "kind": operator.kind,
        "called": operator.called,
        "inputs": list(operator.inputs),
        "arrangement": operator.arrangement,
        "updates": operator.updates,
        "bytes": operator.bytes,
        "retained": None
        if operator.updates is None
        else f"{operator.updates:,} updates, {size_of(operator.bytes or 0)}",
        "did": None if total is None else did(total),
        "total": None if total is None else asdict(total),
        "last": None if last is None else asdict(last),
        "details": details(operator),
    }


def did(total: Measured) -> str:
    """What an operator did, as short as its box may be.

    >>> did(Measured(1200, 3, 1, 0.0125, 2, 2)), did(Measured())
    ('1,200 in, 3 out, 12.5 ms, 1 failed', 'nothing')
    """
    if not total.steps:
        return "nothing"
    failed = f", {total.errors:,} failed" if total.errors else ""
    return f"{total.rows_in:,} in, {total.rows_out:,} out, {seconds_of(total.seconds)}{failed}"


def picture(plan: Explained) -> str:
    """The picture as SVG, with a line in each box for what is measured; its style is ``picture.css``.

    The page's policy forbids a style inside.
    """
    return _STYLE.sub("", svg(plan, analyze=True))
