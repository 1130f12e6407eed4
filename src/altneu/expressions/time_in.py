"""Text read as dates and timestamps, in the forms of Spark's casts."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.expressions.calendar import days_from_civil, month_length
from altneu.expressions.vector import Mask, Values, Vector

_DATE = r"^(?P<sign>[+-]?)(?P<year>\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?P<rest>[ T].*)?)?)?$"
_CLOCK = (
    r"^[ T](?P<hour>\d{1,2})(?::(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d*))?)?)?"
    r"(?P<zone>[ ]?[A-Za-z+-].*)?$"
)
_OFFSET = (
    r"^(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hour>\d{1,2})(?::?(?P<minute>\d{2})(?::?(?P<second>\d{2}))?|:(?P<single>\d))?$"
)
_TIME = (
    r"^T?(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d*))?)?"
    r"(?:\s*(?P<half>[AaPp])[Mm])?$"
)
_DAY = 86_400_000_000
_NO_OFFSET = ("Z", "UTC", "GMT", "UT")


def _mask(array: Any) -> Mask:
    return Vector(T.BOOLEAN, arrow=array.fill_null(False)).values


def _number(part: pa.Array, missing: int) -> Values:
    filled = pc.if_else(pc.equal(part, ""), str(missing), part)
    return Vector(T.LONG, arrow=pc.cast(pc.fill_null(filled, str(missing)), T.LONG)).values


def _calendar(text: pa.Array) -> tuple[Values, Mask, pa.Array]:
    """Days, where they are bad, and what comes after the date."""
    parts = pc.extract_regex(text, _DATE)
    matched = np.asarray(parts.is_valid())
    sign, year, month, day = (parts.field(i) for i in range(4))
    years = _number(year, 1970)
    years = np.where(_mask(pc.equal(sign, "-")), -years, years)
    months, days = _number(month, 1), _number(day, 1)
    good = matched & (months >= 1) & (months <= 12) & (days >= 1)
    safe = np.where(good, months, 1)
    good = good & (days <= month_length(years, safe))
    count = days_from_civil(years, safe, np.where(good, days, 1))
    good = good & (count >= -(2**31)) & (count < 2**31)
    return np.where(good, count, 0), ~good, pc.fill_null(parts.field(4), "")


def dates(text: pa.Array) -> tuple[Values, Mask]:
    """Days since the epoch, and where the text is not a date."""
    days, bad, _ = _calendar(text)
    return days.astype(np.int32), bad


def timestamps(text: pa.Array, *, zoned: bool) -> tuple[Values, Mask]:
    """Microseconds since the epoch, and where the text is not a timestamp; a zone counts only when ``zoned``."""
    days, bad, rest = _calendar(text)
    micros, clock_bad = _clock(rest, days, zoned=zoned)
    far = (days > 106_751_991) | (days < -106_751_992)
    bad = bad | clock_bad | far
    return np.where(bad, 0, np.where(far, 0, days) * _DAY + micros), bad


def _clock(rest: pa.Array, days: Values, *, zoned: bool) -> tuple[Values, Mask]:
    bare = _mask(pc.equal(rest, ""))
    if bare.all():
        return np.zeros(len(bare), np.int64), np.zeros(len(bare), np.bool_)
    parts = pc.extract_regex(rest, _CLOCK)
    matched = np.asarray(parts.is_valid())
    hour, minute, second = (_number(parts.field(i), 0) for i in range(3))
    good = matched & (hour < 24) & (minute < 60) & (second < 60)
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.fill_null(parts.field(3), ""), 6, "0"), 0, 6)
    micros = ((hour * 60 + minute) * 60 + second) * 1_000_000 + _number(fraction, 0)
    zone = pc.fill_null(pc.utf8_trim(parts.field(4), " "), "")
    if bool(_mask(pc.not_equal(zone, "")).any()):
        offset, zone_bad = _offsets(zone, days * _DAY + micros)
        good = good & ~zone_bad
        if zoned:
            micros = micros - offset
    return np.where(good, micros, 0), ~(good | bare)


def times(text: pa.Array) -> tuple[Values, Mask]:
    """Microseconds since midnight, and where the text is not a time of day."""
    parts = pc.extract_regex(text, _TIME)
    matched = np.asarray(parts.is_valid())
    hour, minute, second = (_number(parts.field(i), 0) for i in range(3))
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.fill_null(parts.field(3), ""), 6, "0"), 0, 6)
    half = pc.ascii_upper(pc.fill_null(parts.field(4), ""))
    named, late = _mask(pc.not_equal(half, "")), _mask(pc.equal(half, "P"))
    good = matched & (minute < 60) & (second < 60)
    good &= np.where(named, (hour >= 1) & (hour <= 12), hour < 24)
    hour = np.where(named, hour % 12 + 12 * late, hour)
    micros = ((hour * 60 + minute) * 60 + second) * 1_000_000 + _number(fraction, 0)
    return np.where(good, micros, 0), ~good


def _offsets(zone: pa.Array, local: Values) -> tuple[Values, Mask]:
    """Microseconds to take away per row, one look at each distinct zone."""
    offset, bad = np.zeros(len(zone), np.int64), np.zeros(len(zone), np.bool_)
    encoded = zone.dictionary_encode()
    codes = np.asarray(encoded.indices)
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        result = zone_offsets(name, local[rows])
        if result is None:
            bad[rows] = True
        else:
            offset[rows] = result
    return offset, bad


def zone_offsets(name: str, local: Values) -> Values | None:
    """Microseconds east of UTC of local times in a zone; None when there is no such zone."""
    if name == "" or name in _NO_OFFSET:
        return np.zeros(len(local), np.int64)
    fixed = fixed_offset(name)
    if fixed is not None:
        return np.full(len(local), fixed)
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
    wall = pa.array(local, T.TIMESTAMP_NTZ)
    before, after = (
        pc.assume_timezone(wall, name, ambiguous="earliest", nonexistent=side) for side in ("earliest", "latest")
    )
    utc = after.cast(T.LONG).to_numpy()
    gap = before.cast(T.LONG).to_numpy() != utc
    if not gap.any():
        return local - utc
    # A wall clock that was skipped is read with the offset that held before, as Java reads it
    offset = pc.local_timestamp(before).cast(T.LONG).to_numpy() - before.cast(T.LONG).to_numpy()
    return np.where(gap, offset, local - utc)


def fixed_offset(name: str) -> int | None:
    """Microseconds of an offset such as ``+01:00`` or ``UTC-8``; None when it is none."""
    import re

    match = re.match(_OFFSET, name)
    if match is None:
        return None
    minutes = int(match["minute"] or match["single"] or 0)
    if int(match["hour"]) > 18 or minutes > 59 or int(match["second"] or 0) > 59:
        return None
    seconds = (int(match["hour"]) * 60 + minutes) * 60 + int(match["second"] or 0)
    return seconds * (-1_000_000 if match["sign"] == "-" else 1_000_000)
