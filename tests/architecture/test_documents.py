"""The documents say what is there: their examples run, and the tests, files and links they name exist."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
names = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=names)


@each_document
def test_examples_run(path: Path) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed, _ = doctest.testfile(str(path), module_relative=False, optionflags=flags, encoding="utf-8")
    assert failed == 0


def test_the_formalism_has_examples_to_run() -> None:
    text = (ROOT / "docs" / "formalism.md").read_text()
    assert len(doctest.DocTestParser().get_examples(text)) >= 10


def test_one_figure_says_how_long_the_kernels_take_to_compile() -> None:
    places = ["README.md", "docs/tutorial.md", "src/altneu/warm/__main__.py", "src/altneu/cli/checks.py"]
    sentences = [
        " ".join(sentence.split())
        for place in places
        for sentence in re.split(r"[.;]\s", (ROOT / place).read_text())
        if re.search(r"compil\w+", sentence) and re.search(r"(?i)minute", sentence)
    ]
    assert len(sentences) >= len(places)
    assert [s for s in sentences if "two to three minutes" not in s] == []


@each_document
def test_tests_that_are_named_exist(path: Path) -> None:
    named = re.findall(r"tests/[\w./]+\w(?:::\w+)?", path.read_text())
    missing = []
    for name in named:
        file, _, test = name.partition("::")
        where = ROOT / file
        if not where.exists() or (test and f"def {test}(" not in where.read_text()):
            missing.append(name)
    assert missing == []


@each_document
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text()
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text)]
    local = [target for target in targets if target and "://" not in target]
    assert [target for target in local if not (path.parent / target).exists()] == []
    anchors = {
        re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }
    inner = re.findall(r"\]\(#([^)\s]+)\)", text)
    assert [anchor for anchor in inner if anchor not in anchors] == []


MODULES = sorted((ROOT / "src").rglob("*.py"))


def test_laws_in_docstrings_name_tests_that_exist() -> None:
    named = [(module, name) for module in MODULES for name in re.findall(r"tests/[\w./]+\w", module.read_text())]
    assert [f"{module.relative_to(ROOT)} names {name}" for module, name in named if not (ROOT / name).exists()] == []
