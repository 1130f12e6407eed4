"""A Python function that is called twice for whatever it is given, and has to give the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.errors import ImpureFunctionError

_SHOWN = 300


class Checked:
    """A function that is called twice and raises an error if the two results or exceptions differ.

    Cost:   two calls for one, and a comparison of the results.

    Raises:
        ImpureFunctionError: they differ; names the function, the row and both results.
    """

    def __init__(self, call: Callable[..., Any], title: str) -> None:
        self.call, self.title = call, title
        self.__name__ = str(getattr(call, "__name__", type(call).__name__))  # plans are told apart by it

    def __call__(self, *args: Any) -> Any:
        """What the function gives."""
        first, second = _outcome(self.call, args), _outcome(self.call, args)
        if not same(first, second):
            raise ImpureFunctionError(impure(self.title, args, first[0], second[0]))
        result, error = first
        if error is not None:
            raise error
        return result


def _outcome(call: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    try:
        result = call(*args)
        return list(result) if isinstance(result, Iterator) else result, None
    except Exception as error:  # noqa: BLE001 -- what it raises is compared, and then raised
        return f"{type(error).__name__}: {error}", error


def same(one: Any, other: Any) -> bool:
    """Whether two results are equal in type and value; NaN is equal to NaN."""
    if isinstance(one, Exception):
        return type(one) is type(other) and str(one) == str(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, float | np.floating):
        return bool(one == other or (one != one and other != other))  # noqa: PLR0124
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and same(one.tolist(), other.tolist())
    if isinstance(one, pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table):
        return one.equals(other) or same(one.to_pylist(), other.to_pylist())
    if hasattr(one, "equals"):  # of pandas
        return bool(one.equals(other))
    return bool(one == other)


def impure(title: str, args: tuple[Any, ...], first: Any, second: Any) -> str:
    """What is said of a function that gave two results for the same arguments."""
    rows = args[0].to_pylist() if args and isinstance(args[0], pa.RecordBatch) else None
    if rows is not None:
        of_rows = (
            isinstance(first, _COLUMNS) and isinstance(second, _COLUMNS) and len(first) == len(second) == len(rows)
        )
        pairs = zip(rows, first.to_pylist(), second.to_pylist(), strict=True) if of_rows else ()
        shown, first, second = next((t for t in pairs if not same(t[1], t[2])), (rows, first, second))
    else:
        shown = [one.asdict() if hasattr(one, "asdict") else one for one in args]
        shown = shown[0] if len(shown) == 1 else shown
    return (
        f"the Python function {title} returned {_short(first)} and then {_short(second)} for {_short(shown)}. Its "
        "result must depend on its arguments alone: a retraction calls it again, and removes what it returns then. "
        "Nothing of the step is committed; correct the function, or discard the inserted rows with session.discard()"
    )


_COLUMNS = pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
