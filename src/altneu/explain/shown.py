"""A plan that shows itself: on a terminal as its text, in a notebook as its picture."""

from __future__ import annotations

from altneu.explain.model import Explained
from altneu.explain.picture import svg
from altneu.explain.text import text


class ShownPlan(Explained):
    """What ``session.explained`` returns."""

    def __repr__(self) -> str:
        return text(self)

    def _repr_html_(self) -> str:
        return f'<div style="overflow:auto">{svg(self)}</div>'
