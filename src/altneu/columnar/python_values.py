"""Values of columns as Python has them, and as a text where Python has none.

Python's dates and timestamps are those of the years 1 to 9999, Spark's and Arrow's reach further: a date to the year
5881580, a timestamp to 294247. Whatever makes Python values of columns does so here, so that one far date in a column
stops neither a step nor a reader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu.errors import TooWideError

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 -- counted in UTC throughout
_DAY = 86_400_000_000
_SHOWN = 1000
_FAR = re.compile(r"([+-]?)(\d{4,7})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6})\d*)?(?:Z|\+00(?::?00)?)?)?")


class BeyondPython(str):
    """The text, as Spark casts it to one, of a date or timestamp for which Python has no value.

    It goes wherever the value would: into error rows, JSON and tables of text, and back into a column.

    >>> found = python_values(pa.array([0, 2932897], pa.int32()).cast(pa.date32()))
    >>> found, found[1].since_1970
    ([datetime.date(1970, 1, 1), '+10000-01-01'], 2932897)
    """

    __slots__ = ("since_1970",)

    since_1970: int
    """Days since 1970-01-01, or microseconds since its midnight."""

    def __new__(cls, text: str, since_1970: int) -> Self:
        """The text of the value that is so many days or microseconds after 1970 begins."""
        self = super().__new__(cls, text)
        self.since_1970 = since_1970
        return self

    def __reduce__(self) -> tuple[type[BeyondPython], tuple[str, int]]:
        """Its text and its number."""
        return BeyondPython, (str(self), self.since_1970)


def python_values(column: pa.Array) -> list[Any]:
    """The values of a column, with ``BeyondPython`` where Python has none, at any depth.

    Bytes of a string that are not valid UTF-8 become the replacement character.

    Cost:   that of ``to_pylist``, and some microseconds a value in a column that has one beyond Python.
    """
    return readable(column)[0]


def readable(column: pa.Array) -> tuple[list[Any], list[int]]:
    """The values of a column, and the positions of those for which, in whole or in part, Python has no value."""
    try:
        return column.to_pylist(), []
    except (OverflowError, ValueError):
        values, beyond = [], []
        for position, scalar in enumerate(column):
            try:
                values.append(scalar.as_py())
            except (OverflowError, ValueError):
                values.append(_text(scalar))
                beyond.append(position)
        return values, beyond


def _text(scalar: Any) -> Any:
    """A value that Python does not have, or that has such a one inside."""
    kind = scalar.type
    if not scalar.is_valid:
        return None
    if pt.is_date32(kind):
        return BeyondPython(date_text(scalar.value), scalar.value)
    if pt.is_timestamp(kind):
        return BeyondPython(timestamp_text(scalar.value), scalar.value)
    if pt.is_string(kind):
        return scalar.as_buffer().to_pybytes().decode("utf-8", "replace")
    if pt.is_struct(kind):
        return {field.name: python_values(_one(scalar[i]))[0] for i, field in enumerate(kind)}
    if pt.is_map(kind):
        entries = scalar.values
        return list(zip(python_values(entries.field(0)), python_values(entries.field(1)), strict=True))
    if pt.is_list(kind):
        return python_values(scalar.values)
    return str(scalar)


def _one(scalar: Any) -> pa.Array:
    return pa.array([scalar], scalar.type)


def arrow_values(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """The column of Python values, among which there may be such as ``python_values`` gave.

    >>> far = BeyondPython("+10000-01-01", 2932897)
    >>> arrow_values([[far], None], pa.list_(pa.date32())).type
    ListType(list<item: date32[day]>)

    Raises:
        pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError: a value does not fit the type.
        TooWideError: the values are more bytes than one column holds.
    """
    try:
        array = pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        if not any(_has_beyond(value) for value in values):
            raise
        return _mixed(values, kind)
    if isinstance(array, pa.ChunkedArray):
        raise TooWideError(f"{len(values)} values of {kind} are more than one column can hold; give fewer at a time")
    return array


def _has_beyond(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_beyond(part) for pair in value.items() for part in pair)
    return isinstance(value, BeyondPython) or (isinstance(value, list | tuple) and any(map(_has_beyond, value)))


def _mixed(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A column some of whose values are beyond Python."""
    absent = pa.array([value is None for value in values], pa.bool_())
    if pt.is_struct(kind):
        fields = [arrow_values([None if v is None else v.get(f.name) for v in values], f.type) for f in kind]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=absent)
    if pt.is_map(kind):
        pairs = [list(v.items()) if isinstance(v, Mapping) else v for v in values]
        keys, items = ([pair[i] for one in pairs if one is not None for pair in one] for i in range(2))
        columns = arrow_values(keys, kind.key_type), arrow_values(items, kind.item_type)
        return pa.MapArray.from_arrays(_offsets(pairs), *columns, type=kind)
    if pt.is_list(kind):
        inner = arrow_values([x for v in values if v is not None for x in v], kind.value_type)
        return pa.ListArray.from_arrays(_offsets(values), inner, type=kind)
    if not (pt.is_date32(kind) or pt.is_timestamp(kind)):
        return pa.array(values, kind)
    plain = pa.array([None if isinstance(value, BeyondPython) else value for value in values], kind)
    far = [value.since_1970 if isinstance(value, BeyondPython) else None for value in values]
    counts = pa.array(far, pa.int32() if pt.is_date32(kind) else pa.int64()).cast(kind)
    return pc.coalesce(plain, counts)


def _offsets(values: Sequence[Any]) -> pa.Array:
    """Where lists begin, null for a list that is null."""
    at, offsets = 0, []
    for value in values:
        offsets.append(None if value is None else at)
        at += 0 if value is None else len(value)
    return pa.array([*offsets, at], pa.int32())


def date_text(days: int) -> str:
    """A date as Spark prints it: years outside 0000 to 9999 with a sign.

    >>> date_text(0), date_text(2932897), date_text(-719529)
    ('1970-01-01', '+10000-01-01', '-0001-12-31')
    """
    year, month, day = civil(days)
    if 0 <= year <= 9999:
        return f"{year:04d}-{month:02d}-{day:02d}"
    return f"{'-' if year < 0 else '+'}{abs(year):04d}-{month:02d}-{day:02d}"


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a count of days since 1970-01-01, in the proleptic Gregorian calendar."""
    cycles, rest = divmod(days + 719468, 146097)
    shifted = (date(2000, 3, 1) + timedelta(rest)).timetuple()
    return shifted.tm_year - 2000 + 400 * cycles, shifted.tm_mon, shifted.tm_mday


def timestamp_text(micros: int) -> str:
    """A timestamp in UTC as Spark prints it, without trailing zeros of the second.

    >>> timestamp_text(1_500_000), timestamp_text(-1)
    ('1970-01-01 00:00:01.5', '1969-12-31 23:59:59.999999')
    """
    days, rest = divmod(micros, _DAY)
    clock = (_EPOCH + timedelta(microseconds=rest)).strftime("%H:%M:%S")
    fraction = f".{rest % 1_000_000:06d}".rstrip("0").rstrip(".")
    return f"{date_text(days)} {clock}{fraction}"


def beyond_python(text: str, kind: pa.DataType) -> BeyondPython:
    """A date or timestamp that a database gave as a text, and that Python has no value for.

    >>> (
    ...     beyond_python("10000-01-01", pa.date32()),
    ...     beyond_python("+10000-01-01 00:00:00.5", pa.timestamp("us")).since_1970,
    ... )
    ('+10000-01-01', 253402300800500000)

    Raises:
        ValueError: the text is not a date or timestamp.
    """
    match = _FAR.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no date or timestamp")
    sign, year, month, day, *clock = match.groups()
    shifted = int(f"{sign}{year}")
    cycles, within = divmod(shifted - 2000, 400)
    days = (date(2000 + within, int(month), int(day)) - date(1970, 1, 1)).days + 146097 * cycles
    if pt.is_date32(kind):
        return BeyondPython(date_text(days), days)
    hour, minute, second = (int(part or 0) for part in clock[:3])
    micros = days * _DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + int((clock[3] or "").ljust(6, "0"))
    return BeyondPython(timestamp_text(micros), micros)


def exception_text(error: BaseException) -> str:
    r"""The type and the message of an exception, as a string that a column can hold.

    >>> exception_text(ValueError("no \ud800"))
    'ValueError: no \\ud800'
    """
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 -- an exception of somebody's own, whose __str__ fails
        text = f"{type(error).__name__} (its message cannot be made)"
    return _storable(text)


def reason(error: BaseException) -> str:
    """The message alone."""
    return exception_text(error).removeprefix(f"{type(error).__name__}: ")


def value_text(value: object) -> str:
    """The ``repr`` of a function's result, shortened to fit into a message.

    >>> value_text("x" * 5000)[-8:]
    "xxxx'..."
    """
    try:
        text = repr(value) if not isinstance(value, str | bytes) else repr(value[:_SHOWN])
    except Exception:  # noqa: BLE001 -- a value of somebody's own, whose __repr__ fails
        text = f"a {type(value).__name__}"
    cut = len(text) > _SHOWN or (isinstance(value, str | bytes) and len(value) > _SHOWN)
    return _storable(text[: _SHOWN + 2]) + ("..." if cut else "")


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
