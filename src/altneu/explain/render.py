"""EXPLAIN in the requested form."""

from __future__ import annotations

import json
from typing import Literal, get_args

from altneu.errors import PlanError
from altneu.explain.model import Explained
from altneu.explain.page import page
from altneu.explain.picture import svg
from altneu.explain.text import text

Form = Literal["text", "json", "svg", "html"]
FORMS: tuple[Form, ...] = get_args(Form)


def rendered(explained: Explained, form: Form = "text", *, analyze: bool = False) -> str:
    """An explanation, in one of its forms.

    Raises:
        PlanError: there is no such form.
    """
    match form:
        case "text":
            return text(explained, analyze=analyze)
        case "json":
            return json.dumps(explained.to_dict(analyze=analyze), indent=2, ensure_ascii=False)
        case "svg":
            return svg(explained, analyze=analyze)
        case "html":
            return page(explained, analyze=analyze)
        case _:
            raise PlanError(f"EXPLAIN has no form {form!r}; it has {', '.join(FORMS)}")
