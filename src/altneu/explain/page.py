"""EXPLAIN as a page: the picture to move about in, and all that is known of the operator that is clicked on."""

from __future__ import annotations

import json
import re
from html import escape
from importlib.resources import files
from typing import Any

from altneu.explain.details import details, view_details
from altneu.explain.model import Explained
from altneu.explain.picture import svg
from altneu.explain.text import text

_PLACE = re.compile(r"\{\{(\w+)\}\}")


def page(explained: Explained, *, analyze: bool = False) -> str:
    """The picture as a page of its own, with everything inside: it fetches nothing, and its policy forbids it to.

    The picture is moved by dragging and scaled by the wheel (panzoom, MIT licence, which lies in ``panzoom/`` as
    published); a click on an operator tells all that is known of it.
    """
    names = [view.name for view in explained.views]
    many = f"{len(explained.operators)} operators"
    parts = {
        "title": escape(f"Plan of {names[0]}" if len(names) == 1 else f"Plan of {len(names)} views"),
        "summary": escape(f"{many}; measured: {explained.run}" if analyze and explained.run else many),
        "picture": svg(explained, analyze=analyze),
        "text": escape(text(explained, analyze=analyze)),
        "data": json.dumps(_data(explained, analyze=analyze)).replace("<", "\\u003c"),
        "css": _asset("page.css"),
        "js": _asset("page.js"),
        "panzoom": _asset("panzoom/panzoom.min.js"),
    }
    return _PLACE.sub(lambda place: parts[place[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return files("altneu.explain").joinpath(name).read_text(encoding="utf-8").strip()


def _data(explained: Explained, *, analyze: bool) -> dict[str, Any]:
    """The page's texts on each operator and view."""
    readers = explained.readers()
    data = {
        operator.id: _entry(
            operator.label,
            details(operator, analyze=analyze),
            list(dict.fromkeys(operator.inputs)),
            [
                *dict.fromkeys(readers[operator.id]),
                *(f"view {v.name}" for v in explained.views if v.contents == operator.id),
            ],
        )
        for operator in explained.operators
    }
    for view in explained.views:
        data[f"view {view.name}"] = _entry(f"view {view.name}", view_details(view), [view.contents], [])
    return data


def _entry(label: str, pairs: list[tuple[str, str]], inputs: list[str], readers: list[str]) -> dict[str, Any]:
    words = " ".join([label, *(value for _, value in pairs)]).lower()
    return {"label": label, "details": pairs, "inputs": inputs, "readers": readers, "words": words}
