"""Which of the names that there are may have been meant by one that there is not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], most: int = 1, cutoff: float = 0.6) -> list[str]:
    """The names most like one that is unknown, whatever their case; those that are alike behind their tables together.

    What is before the last dot counts only where names share it: a table may be misspelt, or be another one.

    >>> (
    ...     nearest("Dealy", ["delay", "carrier"]),
    ...     nearest("f.dealy", ["f.delay", "g.deal"]),
    ...     nearest("b", ["a", "c"]),
    ... )
    (['delay'], ['f.delay'], [])
    >>> nearest("dealy", ["f.delay", "g.delay", "carrier"]), nearest("db.orders", ["sales.orders"])
    (['f.delay', 'g.delay'], ['sales.orders'])
    """
    names = [one for one in dict.fromkeys(known) if one != name and not one.startswith("#")]
    before, _, last = name.lower().rpartition(".")
    beside = [one for one in names if before and one.lower().rpartition(".")[0] == before]
    by_end: dict[str, list[str]] = {}
    for one in beside or names:
        by_end.setdefault(one.lower().rpartition(".")[2], []).append(one)
    close = difflib.get_close_matches(last, by_end, most, cutoff)
    return [one for end in close for one in by_end[end]]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """What to end a message about an unknown name with: a question, or nothing where no name is like it.

    >>> did_you_mean("totls", ["orders", "totals"]), did_you_mean("x", ["orders", "totals"])
    ("; did you mean 'totals'?", '')
    """
    close = nearest(name, known)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""


def listed(name: str, known: Iterable[str]) -> str:
    """All names that there are, and which of them may have been meant: to end a message about an unknown name with.

    >>> listed("totls", ["orders", "totals"]), listed("x", [])
    ("orders, totals; did you mean 'totals'?", '(none)')
    """
    names = list(known)
    return f"{', '.join(names) or '(none)'}{did_you_mean(name, names)}"
