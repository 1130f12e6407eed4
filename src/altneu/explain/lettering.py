"""How wide a text is, about: boxes are made as large as their texts, without asking a browser."""

from __future__ import annotations

import textwrap
import unicodedata

# Widths of DejaVu Sans, which is wider than the fonts that browsers choose before it, in thousandths of its size.
_WIDTHS = {
    **dict.fromkeys("ijlI|'", 300),
    **dict.fromkeys('ft,.:;!/\\()[]-r "`', 400),
    **dict.fromkeys("ckvxyzsJ?{}_*", 560),
    **dict.fromkeys("mMWw@%", 980),
    **dict.fromkeys("<>=+#~^&", 840),
    **dict.fromkeys("NOQDGHU", 790),
}
_REST, _CAPITAL, _WIDE = 640, 700, 1050
_FIXED = 0.61


def width_of(text: str, size: float, *, bold: bool = False, fixed: bool = False) -> float:
    """About how many pixels a text is wide, rather more than less; ``fixed`` in a font of one width.

    >>> width_of("mill", 10) < width_of("mmmm", 10) < width_of("mmmm", 10, bold=True)
    True
    """
    if fixed:
        return len(text) * size * _FIXED
    return sum(map(_width, text)) * size / 1000 * (1.1 if bold else 1.0)


def _width(letter: str) -> int:
    width = _WIDTHS.get(letter)
    if width is not None:
        return width
    if unicodedata.east_asian_width(letter) in "WF":
        return _WIDE
    return _CAPITAL if letter.isupper() else _REST


def wrapped(text: str, columns: int, lines: int) -> list[str]:
    """A text in lines of so many letters; what does not fit into so many lines is left out, with a sign that it is.

    >>> wrapped("filter delay > 0; select carrier", 14, 2)
    ['filter delay >', '0; select …']
    """
    wrapped_lines = textwrap.wrap(text, columns, break_long_words=True) or [""]
    if len(wrapped_lines) <= lines:
        return wrapped_lines
    last = wrapped_lines[lines - 1]
    return [*wrapped_lines[: lines - 1], (last if len(last) <= columns - 2 else last[: columns - 2].rstrip()) + " …"]
