"""The site: it builds without a warning, fetches nothing from elsewhere, and its reference has everything public."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

import altneu
from altneu import testing
from scripts import site_docstrings, site_pages

ROOT = Path(__file__).resolve().parents[2]
FETCHED = {"src", "srcset", "data", "poster"}  # what a browser fetches by itself; and <link href>


class Elsewhere(HTMLParser):
    """The addresses on other hosts that a page has a browser fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)
        styles = re.findall(r"<style[^>]*>(.*?)</style>", page, re.DOTALL)
        self.found += [address for style in styles for address in fetched_by_style(style)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        fetched = FETCHED | {"href"} if tag == "link" else FETCHED
        self.found += [value for name, value in attrs if name in fetched and value and is_elsewhere(value)]


def is_elsewhere(address: str) -> bool:
    return bool(re.match(r"\s*(?:https?:)?//", address))


def fetched_by_style(style: str) -> list[str]:
    return [address for address in re.findall(r"url\([\"']?([^)\"']+)", style) if is_elsewhere(address)]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("module", [site_docstrings, site_pages])
def test_examples_of_what_builds_it(module):
    assert doctest.testmod(module).attempted > 0
    assert doctest.testmod(module).failed == 0


def test_every_document_is_a_page(site):
    for document in (ROOT / "docs").rglob("*.md"):
        assert (site / document.relative_to(ROOT / "docs").with_suffix(".html")).exists()


def test_nothing_is_fetched_from_elsewhere(site):
    pages, styles = list(site.rglob("*.html")), list(site.rglob("*.css"))
    assert len(pages) > 30
    assert styles
    assert {str(page): found for page in pages if (found := Elsewhere(page.read_text()).found)} == {}
    assert {str(style): found for style in styles if (found := fetched_by_style(style.read_text()))} == {}
    assert Elsewhere('<link href="//fonts.example/a.css"><style>a{background:url(https://b.example/c)}</style>').found


def test_search_is_part_of_the_site(site):
    index = (site / "search" / "search_index.json").read_text()
    assert "tutorial.html#1-install" in index
    assert "reference/session.html#altneu.Session.advance" in index


def public() -> list[str]:
    """What the reference has to have: everything that altneu gives, and what its modules and classes give."""
    result = []
    for name in altneu.__all__:
        value = getattr(altneu, name)
        if isinstance(value, ModuleType):
            made_here = [n for n in getattr(value, "__all__", vars(value)) if not n.startswith("_")]
            result += [f"{value.__name__}.{n}" for n in made_here if name != "logic" and is_documented(value, n)]
        else:
            result.append(f"altneu.{name}")
    result += [f"altneu.testing.{name}" for name in testing.__all__]
    for kind in (altneu.Collection, altneu.View):
        result += [f"altneu.{kind.__name__}.{name}" for name in dir(kind) if is_documented(kind, name)]
    return result


def is_documented(owner: object, name: str) -> bool:
    """Whether it is public, and a function or a class of altneu's."""
    value = getattr(owner, name)
    return not name.startswith("_") and callable(value) and str(value.__module__).startswith("altneu")


def test_the_reference_has_everything_public(site):
    pages = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    there = set(re.findall(r'id="(altneu[\w.]*)"', pages))
    assert {"altneu.sinks.parquet", "altneu.errors.StoreError", "altneu.Collection.asof_join"} <= set(public())
    assert [name for name in public() if name not in there] == []
    assert "altneu.Session.advance" in there


def test_the_reference_leaves_no_public_member_out():
    pages = (ROOT / "docs" / "reference").glob("*.md")
    assert [page.name for page in pages if "filters:" in page.read_text()] == []


def test_slots_of_docstrings_are_lists(site):
    page = (site / "reference" / "algorithms.html").read_text()
    assert "<li><strong>Cost:</strong> a loop" in page
    assert "<p>Cost:" not in page


def test_links_out_of_the_documents_lead_to_pages(site):
    page = (site / "formalism.html").read_text()
    assert 'href="architecture.html"' in page
    assert (site / "architecture.html").exists()
    assert ".md)" not in re.sub(r"<code>.*?</code>", "", page, flags=re.DOTALL)
