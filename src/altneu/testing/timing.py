"""The laws of times of one's own, tested with Hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from altneu.errors.extras import require
from altneu.order import Embedding

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def assert_time_laws(
    embedding: Embedding[Any],
    times: SearchStrategy[Any],
    less_equal: Callable[[Any, Any], bool],
    *,
    examples: int = 200,
) -> None:
    """Assert that an embedding keeps an order and its least upper bounds, as ``altneu.order.Embedding`` asks.

    ``times`` is a Hypothesis strategy for times and ``less_equal(a, b)`` the order that they are meant to have. Each
    law is tested on ``examples`` triples.

    Needs Hypothesis: ``pip install 'altneu[testing]'``.

    Raises:
        AssertionError: names the law and the least times found for which it does not hold.

    >>> from hypothesis import strategies as st
    >>> from altneu.order import Lexicographic
    >>> pairs = st.tuples(st.integers(0, 9), st.integers(0, 9))
    >>> assert_time_laws(Lexicographic("at", 10), pairs, lambda a, b: a <= b, examples=20)
    >>> assert_time_laws(Lexicographic("at", 10), pairs, lambda a, b: a[0] <= b[0] and a[1] <= b[1])
    Traceback (most recent call last):
    AssertionError: Lexicographic('at', 10): coordinates are ordered as times are: (0, 1) is not at or before ...
    ...
    """
    require("testing", "altneu.testing.assert_time_laws")
    from hypothesis import given, settings

    @settings(max_examples=examples, deadline=None, database=None, derandomize=True, report_multiple_bugs=False)
    @given(times, times, times)
    def laws(a: Any, b: Any, c: Any) -> None:
        _check(embedding, less_equal, (a, b, c))

    laws()


def _check(embedding: Embedding[Any], less_equal: Callable[[Any, Any], bool], three: tuple[Any, Any, Any]) -> None:
    codes = [_coordinates(embedding, time) for time in three]
    for a, code in zip(three, codes, strict=True):
        if (again := embedding.decode(code)) != a:
            raise AssertionError(f"{embedding}: decode undoes encode: decode(encode({a!r})) is {again!r}")
        for b, other in zip(three, codes, strict=True):
            _ordered(embedding, less_equal, a, b, code, other)
    a, b, c = three
    bound = embedding.join(a, b)
    code = _coordinates(embedding, bound)
    if code != tuple(max(pair) for pair in zip(*codes[:2], strict=True)):
        raise AssertionError(f"{embedding}: the join of {a!r} and {b!r} has the coordinates {code}, not their greatest")
    for below in (a, b):
        if not less_equal(below, bound):
            raise AssertionError(
                f"{embedding}: the join of {a!r} and {b!r} is {bound!r}, which is not beyond {below!r}"
            )
    if less_equal(a, c) and less_equal(b, c) and not less_equal(bound, c):
        raise AssertionError(f"{embedding}: the join of {a!r} and {b!r} is {bound!r}, but {c!r} is a lesser bound")


def _coordinates(embedding: Embedding[Any], time: Any) -> tuple[int, ...]:
    code = embedding.encode(time)
    numbers = type(code) is tuple and all(type(c) is int and 0 <= c < 2**62 for c in code)
    if not numbers or len(code) != embedding.coordinates:
        raise AssertionError(
            f"{embedding}: coordinates are a tuple of {embedding.coordinates} whole numbers from 0 to 2^62 - 1: "
            f"encode({time!r}) is {code!r}"
        )
    return code


def _ordered(
    embedding: Embedding[Any],
    less_equal: Callable[[Any, Any], bool],
    a: Any,
    b: Any,
    code: tuple[int, ...],
    other: tuple[int, ...],
) -> None:
    meant, found = less_equal(a, b), all(x <= y for x, y in zip(code, other, strict=True))
    if meant != found:
        first, second = ("is", "are not") if meant else ("is not", "are")
        raise AssertionError(
            f"{embedding}: coordinates are ordered as times are: {a!r} {first} at or before {b!r}, but its coordinates "
            f"{code} {second} at most {other}"
        )
