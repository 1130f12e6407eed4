"""Messages of a feed: updates and progress; a message is checked completely before any part of it is used."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NoReturn

_SHOWN = 80  # characters of a message in an error
_MEMBERS = ("updates", "progress", "Updates", "Progress")
_LONG = 1 << 63
_DIGITS = 20  # of the longest number of 64 bits, with its sign; longer ones are times or diffs of nothing
_TOO_DEEP = "its lists and objects are nested too deeply to be read: a few hundred levels are the most"


@dataclass(frozen=True)
class Update:
    """``data`` (canonical JSON of an object) changes by ``diff`` at ``time``."""

    data: str
    time: int
    diff: int


@dataclass(frozen=True)
class Progress:
    """The number of distinct updates of each time in ``[lower, upper)``; times not in ``counts`` have none."""

    lower: int
    upper: int
    counts: Mapping[int, int]


class Refused(ValueError):  # noqa: N818 -- a signal to the feed, which says which message it was
    """A message is malformed; the feed adds which one."""


def read(message: object) -> list[Update] | Progress:
    """The updates or the progress in a message, which is a JSON string or the parsed value.

    The names of its members may be as Rust writes them, and the bounds of progress lists of one time, as antichains.

    >>> read('{"updates": [[{"x": 1.50}, 3, 1]]}')
    [Update(data='{"x":1.50}', time=3, diff=1)]
    >>> read({"progress": {"lower": 0, "upper": 4, "counts": [[3, 1]]}})
    Progress(lower=0, upper=4, counts={3: 1})
    >>> read('{"Progress": {"lower": [0], "upper": [4], "counts": []}}')
    Progress(lower=0, upper=4, counts={})

    Raises:
        Refused: it is not a message.
    """
    document = _parsed(message) if isinstance(message, str | bytes | bytearray) else message
    contents = (
        [(name, document[name]) for name in _MEMBERS if name in document] if isinstance(document, Mapping) else []
    )
    if len(contents) != 1:
        raise Refused("a message must be an object with updates or with progress")
    ((name, content),) = contents
    return _progress(content) if name.lower() == "progress" else [_update(u) for u in _list(content, "updates")]


def show(message: object) -> str:
    """The beginning of a message."""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes | bytearray) else message
    return _cut(text if isinstance(text, str) else _written(text))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _quoted(value: object) -> str:
    """A value inside a message, as Python shows it: strings have quotes."""
    return _cut(str(value) if isinstance(value, _Written) else _written(value))


def _written(value: object) -> str:
    try:
        return repr(value)
    except (RecursionError, ValueError):  # too deep, or a number of more digits than Python writes
        return f"something too large to show, of type {type(value).__name__}"


class _Written(str):
    """A number as it was written, so that no digit is lost."""

    __slots__ = ()


def _parsed(text: str | bytes | bytearray) -> Any:
    try:
        return json.loads(text, parse_float=_Written, parse_int=_integer, parse_constant=_refused)
    except ValueError as error:
        raise Refused(f"it is not JSON: {error}") from None
    except RecursionError:
        raise Refused(_TOO_DEEP) from None


def _integer(text: str) -> int | _Written:
    return int(text) if len(text) <= _DIGITS else _Written(text)


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number in JSON")


def _update(item: object) -> Update:
    if not isinstance(item, list | tuple) or len(item) != 3:
        raise Refused(f"an update must be [data, time, diff], got {_quoted(item)}")
    data, time, diff = item
    if not isinstance(data, Mapping):
        raise Refused(f"the data of an update must be an object with the columns, got {_quoted(data)}")
    try:
        text = _canonical(data)
    except (TypeError, ValueError) as error:
        raise Refused(f"the data of an update is not JSON: {error}") from None
    except RecursionError:
        raise Refused(_TOO_DEEP) from None
    return Update(text, _time(time), _whole(diff, "the diff", -_LONG))


def _progress(item: object) -> Progress:
    if not isinstance(item, Mapping) or not {"lower", "upper", "counts"} <= item.keys():  # one cut short closes nothing
        raise Refused(f"progress must be an object with lower, upper and counts, got {_quoted(item)}")
    lower, upper = _bound(item["lower"]), _bound(item["upper"])
    if upper < lower:
        raise Refused(f"the upper bound of the progress, {upper}, lies before the lower one, {lower}")
    counts: dict[int, int] = {}
    for pair in _list(item["counts"], "counts"):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise Refused(f"a count must be [time, count], got {_quoted(pair)}")
        time, count = _time(pair[0]), _whole(pair[1], "a count", 0)
        if not lower <= time < upper:
            raise Refused(f"there is a count for time {time}, which does not lie in [{lower}, {upper})")
        if counts.setdefault(time, count) != count:
            raise Refused(f"there are two counts for time {time}, {counts[time]} and {count}")
    return Progress(lower, upper, {t: n for t, n in counts.items() if n})


def _list(value: object, what: str) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise Refused(f"{what} must be a list, got {_quoted(value)}")
    return value


def _bound(value: object) -> int:
    """A time, or an antichain of one: an empty one would close times without end, and a session has always a next."""
    if isinstance(value, list | tuple):
        if len(value) != 1:
            raise Refused(f"a bound of progress must be one time, got {_quoted(value)}")
        (value,) = value
    return _time(value)


def _time(value: object) -> int:
    return _whole(value, "a time", 0)


def _whole(value: object, what: str, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < _LONG:
        interval = "of 64 bits" if least else "from 0 to 2^63 - 1"
        raise Refused(f"{what} must be a whole number {interval}, got {_quoted(value)}")
    return value


def _canonical(value: object) -> str:
    """JSON of a value, without white space, with members sorted by name and numbers as they were written.

    Raises:
        TypeError, ValueError: the value has no JSON.
    """
    if isinstance(value, Mapping):
        members = sorted((_name(n), v) for n, v in value.items())
        return f"{{{','.join(f'{n}:{_canonical(v)}' for n, v in members)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_canonical, value))}]"
    if isinstance(value, _Written):
        return str(value)
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        raise ValueError(f"{value} is not a number in JSON")
    if isinstance(value, int) and abs(value) >= _LONG:
        value = Decimal(value)  # of which Python writes any number of digits
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the name of a member must be a string, got {name!r}")
    return json.dumps(name)
