"""docs/functions.md is what the registry says, and the registry is what was promised."""

from __future__ import annotations

from pathlib import Path

from altneu.expressions import registry
from altneu.expressions.reference import page

DOCUMENT = Path(__file__).parents[2] / "docs" / "functions.md"


def test_the_page_is_up_to_date():
    assert page() == DOCUMENT.read_text(encoding="utf-8"), (
        "run: python -m altneu.expressions.reference > docs/functions.md"
    )


def test_about_a_hundred_functions_and_more():
    assert len(registry.functions()) > 200


def test_every_function_is_documented():
    for function in registry.functions():
        assert function.doc.endswith("."), function.name
        assert function.usage, function.name
        assert not set(function.aliases) & set(registry.NON_DETERMINISTIC), function.name
