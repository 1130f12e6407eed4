"""Texts in messages, of which nobody reads a hundred thousand characters."""

from __future__ import annotations

LONGEST = 1_000


def shortened(text: str) -> str:
    """A text of at most ``LONGEST`` characters: the beginning of one that is longer, and how long it is.

    >>> shortened("short"), len(shortened("x" * 5_000))
    ('short', 1020)
    """
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"
