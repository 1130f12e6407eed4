"""Docstrings as Markdown: the slots of altneu's docstrings become a list, examples become blocks of code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_SLOT = r"^(?:Shape|Units|Cost|Law|Source): +\S.*(?:\n +\S.*)*\n?"  # with the lines that go on, which are indented
_SLOTS = re.compile(rf"(?:{_SLOT})+", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> .*(?:\n.*\S.*)*", re.MULTILINE)  # up to an empty line, as doctest has it


class Slots(Extension):
    """Rewrites every docstring before it is read as one of Google's style."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """An object was found, with or without a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    r"""A docstring with slots and examples in Markdown.

    >>> print(as_markdown("What it is.\nCost:   nothing,\n        ever.\nLaw:    it holds."))
    What it is.
    <BLANKLINE>
    * **Cost:** nothing,
      ever.
    * **Law:** it holds.
    <BLANKLINE>
    """
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example.group()}\n```", _SLOTS.sub(_as_list, text))


def _as_list(slots: re.Match[str]) -> str:
    lines = re.sub(r"^ +", "  ", slots.group(), flags=re.MULTILINE)
    return "\n" + re.sub(r"^(\w+): +", r"* **\1:** ", lines, flags=re.MULTILINE) + "\n"
