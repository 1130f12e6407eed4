"""What mkdocs is told beyond mkdocs.yml: pages from files outside docs/, and links that hold on the site too.

The documents are written to be read in the repository. So a link may lead to a file that is no page: to one of
``MOVED``, which becomes a page, or to any other, whose name then stands on the site without a link.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import TYPE_CHECKING, Any

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
MOVED = {"ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changelog.md", "bench/README.md": "measurements.md"}
_PLACES = {page: file for file, page in MOVED.items()}

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]+)?\)")
_SESSION = re.compile(r"^```python(?=[^\n]*\n>>> )", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are written elsewhere in the repository."""
    for file, page in MOVED.items():
        files.append(File.generated(config, page, content=(ROOT / file).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Mend links, and show examples as what was typed and what was answered."""
    here = page.file.src_uri
    file = _PLACES.get(here, f"docs/{here}")
    return _SESSION.sub("```pycon", _LINK.sub(lambda link: mended(link, file, here), markdown))


def mended(link: re.Match[str], file: str, here: str) -> str:
    """A link in a file of the repository, as it is to be on the page that is made of it.

    >>> def shown(text, file, here):
    ...     return _LINK.sub(lambda link: mended(link, file, here), text)
    >>> shown("[how](../ARCHITECTURE.md#a-step)", "docs/formalism.md", "formalism.md")
    '[how](architecture.md#a-step)'
    >>> shown("[loops](docs/loops.md)", "ARCHITECTURE.md", "architecture.md")
    '[loops](loops.md)'
    >>> shown("[these tests](../tests/sql/test_queries.py)", "docs/queries.md", "queries.md")
    'these tests (`tests/sql/test_queries.py`)'
    """
    text, target, anchor = link.group(1), link.group(2), link.group(3) or ""
    if "://" in target:
        return link.group(0)
    path = normpath(str(PurePosixPath(file).parent / target))
    page = MOVED.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
    if page is not None:
        return f"[{text}]({relpath(page, str(PurePosixPath(here).parent))}{anchor})"
    return text if path in text else f"{text} (`{path}`)"
