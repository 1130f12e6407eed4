"""Texts that are kept in files and compared with what is made now.

``ALTNEU_GOLDEN=write make test`` writes them anew; the difference is then for a person to read.
"""

from __future__ import annotations

import os
from pathlib import Path

from altneu.plan import ir

HERE = Path(__file__).parent


def check(name: str, text: str) -> None:
    """Compare a text with the file of this name."""
    file = HERE / f"{name}.txt"
    if os.environ.get("ALTNEU_GOLDEN") == "write":
        file.write_text(text)
    assert text == file.read_text()


def tree(node: ir.Node, depth: int = 0) -> str:
    """A plan as indented text, what it reads below it."""
    shown = str(node.logic) if isinstance(node, ir.Linear) else node.describe()
    lines = [f"{'  ' * depth}{type(node).__name__} {shown}".rstrip()]
    return "\n".join([*lines, *(tree(child, depth + 1) for child in node.inputs)])
