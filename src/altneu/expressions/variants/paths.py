"""Paths such as ``$.a[0]['b c']`` into variants: what is found at them, and trees that are changed there.

Source: Spark's ``VariantPathParser`` and ``VariantBuilder``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from altneu.expressions.documents import Object
from altneu.expressions.each import RowFailure
from altneu.expressions.variants.binary import Reader

Step = str | int
Path = tuple[Step, ...]
_STEP = re.compile(r"\.(?P<name>[^.\[]+)|\['(?P<single>[^']*)'\]|\[\"(?P<double>[^\"]*)\"\]|\[(?P<index>\d+)\]")
_MOST = (1 << 31) - 1
_MOST_NULLS = 1_000_000


@lru_cache(maxsize=1024)
def parsed(text: str) -> Path | None:
    """The names and indices of a path; None if it is none.

    >>> parsed("$.a[0]['b c']"), parsed("$"), parsed("a"), parsed("$..a")
    (('a', 0, 'b c'), (), None, None)
    """
    if not text.startswith("$"):
        return None
    steps: list[Step] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            return None
        found = match.lastgroup
        assert found is not None
        if found == "index":
            if int(match[found]) > _MOST:
                return None
            steps.append(int(match[found]))
        else:
            steps.append(match[found])
        at = match.end()
    return tuple(steps)


def place_of(reader: Reader, path: Path) -> int | None:
    """Where the value at a path is; None if there is none.

    Cost:   the fields of the objects, and the elements of the arrays, on the way.
    """
    at: int | None = 0
    for step in path:
        assert at is not None
        at = reader.member(at, step) if isinstance(step, str) else reader.element(at, step)
        if at is None:
            return None
    return at


def written(path: Path) -> str:
    """The text of a path.

    >>> written(("a", 0, "b c", "d.e"))
    "$.a[0].b c['d.e']"
    """
    parts = ["$"]
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif step and not set(step) & {".", "["}:
            parts.append(f".{step}")
        else:
            parts.append(f"['{step}']" if "'" not in step else f'["{step}"]')
    return "".join(parts)


# changes --------------------------------------------------------------------------------------------------------------


class Mismatch(RowFailure):
    """A path goes into a value that is not of the kind that it says."""

    def __init__(self, path: Path, depth: int) -> None:
        super().__init__(
            "VARIANT_PATH_TYPE_MISMATCH",
            f"the path `{written(path)}` does not fit the value at `{written(path[:depth])}`, which is of another kind",
        )


def deleted(tree: Any, path: Path, depth: int = 0) -> Any:
    """A tree without what is at a path; itself if nothing is."""
    step, last = path[depth], depth == len(path) - 1
    if isinstance(step, str) and isinstance(tree, Object):
        return Object(
            (name, deleted(member, path, depth + 1) if name == step else member)
            for name, member in tree
            if not (last and name == step)
        )
    if isinstance(step, int) and _is_array(tree):
        return [
            deleted(element, path, depth + 1) if i == step else element
            for i, element in enumerate(tree)
            if not (last and i == step)
        ]
    return tree


def inserted(tree: Any, path: Path, value: Any, depth: int = 0) -> Any:
    """A tree with a field or an element more, of which later ones come behind; what is missing above it is made.

    Raises:
        RowFailure: a value on the way is of another kind, or the field is there.
    """
    step, last = path[depth], depth == len(path) - 1
    if not last:
        return _changed(tree, path, depth, lambda inner: inserted(inner, path, value, depth + 1), value)
    _check(tree, path, depth)
    if isinstance(step, str):
        return Object([*tree, (step, value)])  # which is refused when it is written if the field is there
    return [*tree[:step], *_nulls(step - len(tree)), value, *tree[step:]]


def replaced(tree: Any, path: Path, value: Any, depth: int = 0, *, create: bool = True) -> Any:
    """A tree with another value at a path; what is missing is made if ``create``.

    Raises:
        RowFailure: a value on the way is of another kind.
    """
    if depth == len(path):
        return value
    change = lambda inner: replaced(inner, path, value, depth + 1, create=create)  # noqa: E731
    return _changed(tree, path, depth, change, value, create=create)


def appended(tree: Any, path: Path, value: Any, depth: int = 0) -> Any:
    """A tree with an element behind those of the array at a path; itself if nothing is there.

    Raises:
        RowFailure: what is there is no array, or a value on the way is of another kind.
    """
    if depth == len(path):
        if not _is_array(tree):
            raise Mismatch(path, depth)
        return [*tree, value]
    return _changed(tree, path, depth, lambda inner: appended(inner, path, value, depth + 1), value, create=False)


def without_nulls(tree: Any, *, arrays: bool) -> Any:
    """A tree without fields that are null, and without such elements if ``arrays``."""
    if isinstance(tree, Object):
        return Object((name, without_nulls(member, arrays=arrays)) for name, member in tree if not _is_null(member))
    if isinstance(tree, list):
        return [without_nulls(one, arrays=arrays) for one in tree if not (arrays and _is_null(one))]
    return tree


def _is_null(tree: Any) -> bool:
    return tree is None or tree == b"\x00"


def _is_array(tree: Any) -> bool:
    return isinstance(tree, list) and not isinstance(tree, Object)


def _check(tree: Any, path: Path, depth: int) -> None:
    if not (isinstance(tree, Object) if isinstance(path[depth], str) else _is_array(tree)):
        raise Mismatch(path, depth)


def _changed(
    tree: Any, path: Path, depth: int, change: Callable[[Any], Any], value: Any, *, create: bool = True
) -> Any:
    """A tree with what is at one step changed, or made if it is missing."""
    _check(tree, path, depth)
    step = path[depth]
    if isinstance(step, str):
        if any(name == step for name, _ in tree):
            return Object((name, change(member) if name == step else member) for name, member in tree)
        return Object([*tree, (step, _made(path, depth + 1, value))]) if create else tree
    if step < len(tree):
        return [change(element) if i == step else element for i, element in enumerate(tree)]
    return [*tree, *_nulls(step - len(tree)), _made(path, depth + 1, value)] if create else tree


def _made(path: Path, depth: int, value: Any) -> Any:
    """A value inside of what the rest of a path says."""
    for step in reversed(path[depth:]):
        value = Object([(step, value)]) if isinstance(step, str) else [*_nulls(step), value]
    return value


def _nulls(count: int) -> list[None]:
    """Elements before one that is put behind the end of an array."""
    if count > _MOST_NULLS:
        raise RowFailure("VALUE_TOO_LARGE", f"an array of a variant is not extended by more than {_MOST_NULLS} nulls")
    return [None] * count
