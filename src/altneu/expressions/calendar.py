"""The proleptic Gregorian calendar over arrays of days since 1970-01-01.

Source: Howard Hinnant, chrono-Compatible Low-Level Date Algorithms, 2013.
"""

from __future__ import annotations

import numpy as np

from altneu.expressions.vector import Mask, Values

_MONTH_LENGTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)


def days_from_civil(year: Values, month: Values, day: Values) -> Values:
    """Days since the epoch of dates given as int64 years, months 1 to 12 and days.

    >>> days_from_civil(np.array([2000]), np.array([3]), np.array([1])).tolist()
    [11017]
    """
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def civil_from_days(days: Values) -> tuple[Values, Values, Values]:
    """Year, month and day of days since the epoch, as int64.

    >>> [part.tolist() for part in civil_from_days(np.array([11016]))]
    [[2000], [2], [29]]
    """
    moved = days.astype(np.int64) + 719_468
    era = moved // 146_097
    of_era = moved - era * 146_097
    year_of_era = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5 + 1
    month = np.where(shifted < 10, shifted + 3, shifted - 9)
    return year_of_era + era * 400 + (month <= 2), month, day


def is_leap(year: Values) -> Mask:
    """Whether years have 366 days."""
    return np.asarray((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)), np.bool_)


def month_length(year: Values, month: Values) -> Values:
    """Number of days of months 1 to 12."""
    return _MONTH_LENGTHS[month - 1] + ((month == 2) & is_leap(year))


def add_months(days: Values, months: Values) -> Values:
    """Dates moved by months, the day cut to the length of the month.

    >>> add_months(np.array([30]), np.array([1])).tolist()  # 1970-01-31
    [58]
    """
    year, month, day = civil_from_days(days)
    total = year * 12 + month - 1 + months
    year, month = total // 12, total % 12 + 1
    return days_from_civil(year, month, np.minimum(day, month_length(year, month)))
