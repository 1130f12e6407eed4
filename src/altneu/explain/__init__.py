"""EXPLAIN: what every operator of a view costs, before and while it runs; as a text, a picture, a page, or data."""

from altneu.explain.model import (
    EventTimes,
    Explained,
    ExplainedScope,
    ExplainedView,
    Facts,
    Measured,
    Operator,
)
from altneu.explain.page import page
from altneu.explain.picture import svg
from altneu.explain.plans import explained, refuse_unbounded
from altneu.explain.render import FORMS, Form, rendered
from altneu.explain.text import seconds_of, text

__all__ = [
    "FORMS",
    "EventTimes",
    "Explained",
    "ExplainedScope",
    "ExplainedView",
    "Facts",
    "Form",
    "Measured",
    "Operator",
    "explained",
    "page",
    "refuse_unbounded",
    "rendered",
    "seconds_of",
    "svg",
    "text",
]
