"""docs/functions.md, written from the registry: ``python -m altneu.expressions.reference > docs/functions.md``."""

from __future__ import annotations

import sys
from itertools import groupby

from altneu.expressions import registry
from altneu.expressions.aggregate_calls import AGGREGATES
from altneu.expressions.registry import Function
from altneu.expressions.window import FUNCTIONS as WINDOW_FUNCTIONS

_HEAD = """\
# Functions and operators

Written from the registry by `python -m altneu.expressions.reference`; do not edit.

Expressions are Spark SQL with ANSI semantics (Spark 4.3), in the session time zone UTC. Tests compare every group below
with Spark itself, on nulls, NaN, infinities, extremes, empty and odd texts, leap days and far dates. A row on which an
expression fails is an error in the view's error collection, under Spark's error class; `TRY_CAST` and the `try_`
functions give NULL instead. Branches that a row does not take (`CASE`, `if`, `coalesce`, the right side of `AND` and
`OR`) cannot fail it.
"""

_WRITTEN_WITH_OTHERS = (
    ("a BETWEEN b AND c", "`a >= b AND a <= c`."),
    ("a IS [NOT] DISTINCT FROM b", "`NOT (a <=> b)`, `a <=> b`."),
    ("a IS [NOT] TRUE, FALSE, UNKNOWN", "`a <=> true`, `a <=> false`, `a IS NULL`."),
    ("nullif(a, b)", "NULL where a = b, else a."),
    ("CASE a WHEN b THEN c … END", "`CASE WHEN a = b THEN c … END`."),
)

_WINDOWS = """\
In `window(…)` and in SQL, each with `OVER (…)`, as every aggregate may have it
([window_functions.md](window_functions.md)). `IGNORE NULLS` follows all but the ranks."""

_AGGREGATE_COST = (
    "Counts, sums, averages, variances and their kin and bits keep a few numbers per group and cost the change, unless "
    "they are DISTINCT; every other aggregate keeps the group's rows, which are read and ranked again when the group "
    "changes: percentiles then find their place in O(log n), `mode` looks at every value, lists and joined texts are "
    "made anew."
)

_TAIL = """\
## What is refused, and what differs

* Refused when the plan is built: functions that are not listed (by name, with near matches), those whose result would
  differ when a row is retracted (`rand`, `uuid`, `current_timestamp` …), window functions and subqueries inside an
  expression, aggregates outside of `agg`, and aggregates that depend on the order of arrival (`first`, `last`,
  `histogram_numeric`); sketches.
* Where Spark leaves the choice open, the values decide: ties of `mode`, `max_by` and `min_by`, the order of lists and
  joined texts, `any_value`. What Spark's `approx_` aggregates come near to is exact here.
* Sums, and variances and their kin, are computed from exact sums and rounded at the end: they do not overflow on the
  way (Spark's `try_sum` may be null where this is a number), and differ from Spark's in the last digits.
* Regular expressions are RE2's, which differ from Java's: no look-around, no back references, no possessive
  quantifiers. `$` is the end of the text only. Inside a class `[` and `&&` are characters and `[:alpha:]` is a POSIX
  class; there is no intersection. `(?i)` folds case for all of Unicode, `\\b` knows ASCII letters only, `\\s` has no
  vertical tab, `.` stops at `\\n` alone.
* Formats must be constants, and so must the second argument of `round`, `ceil` and `floor`. Patterns may be columns:
  each distinct pattern of a batch is compiled once, and a row whose pattern is not a regular expression is an error
  row.
* Floats print as from Java 19 on (the shortest digits that read back), and -0.0 is 0.0 everywhere.
* Where Spark silently wraps around, altneu gives an error: `div` of decimals beyond bigint, decimals beyond the range
  of timestamps. `-x` and `abs(x)` of decimals of more than 34 digits are exact.
* The entries of a map are in the order of their keys, whatever order they came in, so that a map is retracted as it was
  inserted; `map_keys`, `map_values`, `map_entries` and a cast to a text show it. Spark keeps the order of making.
* Functions that make rows are verbs: `.explode("xs")`, `.unnest`, `.generate_series`. A series by months adds to the
  value before, and Spark's `sequence` to the start ([linear.md](linear.md#counts)).
* As in Spark, dates reach the year 5881580 and timestamps the year 294247, and as far back. Python's own types only
  cover the years 1 to 9999. For values beyond them, `to_pylist`, subscriptions, database sinks, pages and error rows
  give the text of a cast to string (`'+10000-01-01'`); the same text may be inserted and retracted. A row with such a
  value that reaches a Python function becomes an error row (PYTHON_VALUE). `to_arrow` and Parquet files hold the
  value itself.
* As in Spark, a value has at most 2,147,483,647 bytes and an array at most 2,147,483,632 elements. A row whose value
  would be larger is an error row (VALUE_TOO_LARGE, COLLECTION_SIZE_LIMIT_EXCEEDED), whatever function
  would make it. No memory is taken for the value, but by `regexp_replace`, `translate`, `hex` and `base64`.
* A text that is a time of day without a date (`'12:00:00'`) is no timestamp: Spark takes today's date.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    ordered = sorted(registry.functions(), key=lambda f: f.group)
    for group, members in groupby(ordered, key=lambda f: f.group):
        parts.append(f"## {group}\n\n| | |\n|---|---|\n" + "\n".join(_line(f) for f in members) + "\n")
    others = "\n".join(f"| `{usage}` | {doc} |" for usage, doc in _WRITTEN_WITH_OTHERS)
    parts.append(f"## Written with others\n\n| | |\n|---|---|\n{others}\n")
    rows = "\n".join(f"| `{usage}` | {doc} |" for usage, doc in AGGREGATES)
    parts.append(
        f"## Aggregates\n\nIn `group_by(…).agg(…)`, each with `FILTER (WHERE …)`. {_AGGREGATE_COST}\n\n"
        f"| | |\n|---|---|\n{rows}\n"
    )
    rows = "\n".join(f"| `{usage}` | {doc} |" for usage, doc in WINDOW_FUNCTIONS)
    parts.append(f"## Window functions\n\n{_WINDOWS}\n\n| | |\n|---|---|\n{rows}\n")
    parts.append(_TAIL)
    return "\n".join(parts)


def _line(function: Function) -> str:
    usage = function.usage.replace("|", "\\|")
    others = [a for a in function.aliases if a not in function.usage and a.isidentifier()]
    also = f" Also {', '.join(f'`{a}`' for a in others)}." if others else ""
    return f"| `{usage}` | {function.doc.replace('|', chr(92) + '|')}{also} |"


if __name__ == "__main__":
    sys.stdout.write(page())
