"""The picture in docs/explain.md is the one of its example; ``ALTNEU_GOLDEN=write`` draws it anew."""

from __future__ import annotations

import doctest
import os
from pathlib import Path

from tests.explain.pictures import check, read

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_picture_in_the_documents_is_true():
    names: dict[str, object] = {}
    for example in doctest.DocTestParser().get_examples((DOCS / "explain.md").read_text(encoding="utf-8")):
        if example.source.startswith("print(session.explain"):
            break
        exec(example.source, names)  # noqa: S102  # the document's own lines
    with names["session"] as session:
        drawn, file = session.explain("kinds", form="svg"), DOCS / "explain_plan.svg"
    if os.environ.get("ALTNEU_GOLDEN") == "write":
        file.write_text(drawn, encoding="utf-8")
    shown, result = read(file.read_text(encoding="utf-8")), read(drawn)
    check(shown)
    assert shown.said == result.said
    assert {(line.source, line.target) for line in shown.lines} == {(line.source, line.target) for line in result.lines}
