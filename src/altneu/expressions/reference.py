"""docs/functions.md, written from the registry: ``python -m altneu.expressions.reference > docs/functions.md``."""

from __future__ import annotations

import re
import sys
from itertools import groupby

from altneu.expressions import catalogue, registry
from altneu.expressions.aggregate_calls import AGGREGATES
from altneu.expressions.registry import Function
from altneu.expressions.window import FUNCTIONS as WINDOW_FUNCTIONS

_HEAD = """\
# Functions and operators

`python -m altneu.expressions.reference` generates this page from the registry of functions; do not edit it by hand.

Expressions are Spark SQL with ANSI semantics (Spark 4.3), in the session time zone UTC. Tests compare every group below
with Spark itself, on nulls, NaN, infinities, extreme values, empty and unusual texts, leap days and distant dates. If
an expression fails on a row, the view's errors contain a row with Spark's error class; `TRY_CAST` and the `try_`
functions return NULL instead. Of `CASE`, `if`, `coalesce`, `AND` and `OR`, altneu evaluates for each row only the
branch that the row takes, so the other branches cannot fail.
"""

_WRITTEN_WITH_OTHERS = (
    ("a BETWEEN b AND c", "`a >= b AND a <= c`."),
    ("a IS [NOT] DISTINCT FROM b", "`NOT (a <=> b)`, `a <=> b`."),
    ("a IS [NOT] TRUE, FALSE, UNKNOWN", "`a <=> true`, `a <=> false`, `a IS NULL`."),
    ("nullif(a, b)", "NULL where a = b, else a."),
    ("CASE a WHEN b THEN c … END", "`CASE WHEN a = b THEN c … END`."),
)

_ELSEWHERE = (
    (
        "explode(xs), explode_outer(xs), posexplode(xs), posexplode_outer(xs), inline(xs), inline_outer(xs)",
        "Rows of the elements of an array or of the entries of a map, in SELECT, in FROM or in LATERAL VIEW.",
    ),
    (
        "variant_explode(v), variant_explode_outer(v)",
        (
            "Rows of the fields of a variant's object or the elements of its array, with columns pos, key and value, "
            "in SELECT, in FROM or in LATERAL VIEW."
        ),
    ),
    ("stack(n, a, b, …)", "The values as n rows with columns col0, col1 …, in SELECT, in FROM or in LATERAL VIEW."),
    ("range([start, ]end[, step])", "Rows of whole numbers, in FROM."),
    ("window(t, duration[, slide[, start]])", "The window of time of a row, in GROUP BY."),
    (
        "session_window(t, gap)",
        (
            "The session of a row, in GROUP BY: from its first row's time to its last row's and the gap after that. "
            "A row that comes within the gap, or when it ends, continues the session. The gap is a constant, or "
            "a CASE of constants: a session then ends with the latest of its rows and their gaps."
        ),
    ),
    ("grouping(a), grouping_id(a, …)", "Which keys a row of GROUP BY ROLLUP, CUBE or GROUPING SETS is not grouped by."),
    ("nullif(a, b)", "NULL where a = b, else a."),
    ("between(a, b, c)", "`a >= b AND a <= c`."),
    ("struct(a, b, …)", "A struct of the values."),
    ("elt(n, a, b, …)", "The n-th of the texts, from one; an error if there is none."),
    ("decode(a, b, c, …[, d])", "c where `a <=> b`, and so on; else d, or NULL."),
    ("nullifzero(a), zeroifnull(a)", "NULL where a is 0, else a; 0 where a is NULL, else a."),
    ("assert_true(a[, message])", "NULL; the row becomes an error row if a is not true."),
    ("typeof(a)", "The name of the type, with its collation, and the units of an interval."),
    ("collation(s)", "The name of a text's collation, by default `SYSTEM.BUILTIN.UTF8_BINARY`."),
    ("current_timezone()", "Always `UTC`."),
    (
        "t + make_interval([years, months, weeks, days, hours, minutes, seconds]), t - make_interval(…)",
        "A date or timestamp moved by the months, then the days, then the rest; a date by months and days only.",
    ),
    (
        (
            "boolean(a), tinyint(a), smallint(a), int(a), bigint(a), float(a), double(a), decimal(a), string(a), "
            "binary(a), date(a), time(a), timestamp(a)"
        ),
        "The value converted to the type.",
    ),
)
"""Functions of SQL that are no entries of the registry."""

_WINDOWS = """\
Use these functions in `window(…)`, and in SQL with `OVER (…)`, like any aggregate
([window_functions.md](window_functions.md)). All but the ranks accept `IGNORE NULLS`."""

_AGGREGATE_COST = (
    "Counts, sums, averages, variances and the related statistics, and the aggregates of bits keep a few numbers for "
    "each group, so the cost of a step is in proportion to the change; and so it is if they are DISTINCT. "
    "Extremes, `any_value`, `max_by`, `max_by(a, b, n)`, percentiles and `mode` keep the values in order and read a "
    "few of them; so does `slice(collect_list(a), 1, n)`. Sets of values and joined texts that are DISTINCT are built "
    "again from the distinct values of their group. Lists and other joined texts are as long as their group and are "
    "built again from its rows, and so are all aggregates beside one of these."
)

_TAIL = """\
## Unsupported functions, and differences from Spark

* You can add functions of your own, PySpark's UDFs among them ([functions_of_users.md](functions_of_users.md)).
* altneu refuses some functions when the plan is built: functions that are not listed here (the error suggests similar
  names); functions whose result would differ when a row is retracted (`rand`, `uuid`, `current_timestamp` …); window
  functions and subqueries inside an expression; aggregates outside of `agg`; aggregates that depend on the order of
  arrival (`first` and `last` without an order, `histogram_numeric`); and aggregates that return sketches.
* Where Spark leaves the result undefined, altneu decides by the values: ties of `mode`, `max_by` and `min_by`, the
  order of lists and joined texts, `any_value`. The `approx_` aggregates are exact in altneu.
* altneu computes sums exactly and rounds at the end, also for variances and the related statistics. So intermediate
  sums do not overflow (Spark's `try_sum` may be null where altneu returns a number), and the last digits may differ
  from Spark's.
* Regular expressions are those of RE2, which differ from Java's: there is no look-around, no back reference and no
  possessive quantifier. `$` matches only at the end of the text. Inside a class `[` and `&&` are plain characters, so
  there is no intersection, and `[:alpha:]` is a POSIX class. `(?i)` folds case for all of Unicode, `\\b` knows ASCII
  letters only, `\\s` does not match a vertical tab, and only `\\n` stops `.`. A pattern that matches the empty text and
  has an assertion, such as `\\s*$`, matches it directly behind another match in Java, and not in RE2:
  `regexp_replace('a ', '\\s*$', '-')` is `a-`, in Spark `a--`.
* JSON is read as Spark reads it, and written so: numbers with a point as doubles, single quotes accepted, what follows
  a document not read. Documents of more than 200 arrays and objects in one another are none (Spark: 1000). Of equal
  names `from_json` keeps the last in a map.
* Formats must be constants, and so must the second argument of `round`, `ceil` and `floor`. Patterns may be columns:
  altneu compiles each distinct pattern of a batch once, and a row whose pattern is not a regular expression becomes an
  error row.
* Floats print as in Java 19 and later (the shortest digits that read back), and -0.0 equals 0.0 everywhere. There is
  no negative zero in rows, which a row with 0.0 has to retract: `CAST(-0.0F AS STRING)` is `0.0`, in Spark `-0.0`.
* Where Spark silently wraps around, altneu reports an error: `div` of decimals beyond bigint, decimals beyond the range
  of timestamps. `-x` and `abs(x)` of decimals of more than 34 digits are exact.
* altneu sorts the entries of a map by their keys, so that a map can be retracted with its entries in any order;
  `map_keys`, `map_values`, `map_entries` and a cast to a text show this order. Spark keeps the order of construction.
* Functions that produce several rows are verbs: `.explode("xs")`, `.unnest`, `.generate_series`. A series of months
  adds each step to the previous value; Spark's `sequence` adds all of them to the start
  ([linear.md](linear.md#counts)).
* As in Spark, dates range to the year 5881580 and timestamps to the year 294247, and equally far into the past.
  Python's own types only cover the years 1 to 9999. For values beyond them, `to_pylist`, subscriptions, database sinks,
  pages and error rows show the result of a cast to string (`'+10000-01-01'`); you may insert and retract the same text.
  A row with such a value that reaches a Python function becomes an error row (PYTHON_VALUE). `to_arrow` and Parquet
  files contain the value itself.
* As in Spark, a value has at most 2,147,483,647 bytes and an array at most 2,147,483,632 elements. A row whose value
  would be larger becomes an error row (VALUE_TOO_LARGE, COLLECTION_SIZE_LIMIT_EXCEEDED), whichever function
  produces it. altneu checks the size before it allocates memory, except in `regexp_replace`, `translate`, `hex` and
  `base64`.
* A time of day without a date (`'12:00:00'`, or a TIME) is not a timestamp. (Spark adds today's date, which changes.)
* Texts have collations as in Spark: `s COLLATE name` explicitly, a column (`s STRING COLLATE name` in a schema, or a
  column of a query) and `CAST(s AS STRING COLLATE name)` implicitly, and a constant takes that of what it is compared
  with. Two explicit ones do not mix, nor do two implicit ones; the columns of a set operation have equal ones.
  Comparisons, IN, joins, ORDER BY, windows, GROUP BY, grouping sets, DISTINCT, UNION, EXCEPT, INTERSECT (with ALL,
  too), UNPIVOT, `stack`, `count(DISTINCT …)`, `min`, `max`, `mode`, `min_by`, `max_by`, `any_value`, `lag`, `lead`,
  `first`, `last`, `nth_value` and `listagg` obey them. Of texts that a collation does not tell apart Spark shows any;
  altneu's GROUP BY, DISTINCT, set operations, `mode` and `min` show the least by its bytes, and `max` the greatest.
  With several such columns each shows its own, so that no one row may have them all. An array of texts has the
  collation of its texts, in a column (`xs ARRAY<STRING COLLATE name>`) as well: `collect_list`, `array_agg`, `split`
  by UTF8_LCASE and `array` give one, and comparisons, keys, `array_contains`, `array_position`, `arrays_overlap`,
  `explode`, elements, `array_join`, `slice`, `concat`, `filter`, `exists`, `forall` and lambdas of `transform` obey it.
  Collations pass through functions whose value none changes: `upper`,
  `lower`, `concat`, `concat_ws`, `substring`, `left`, `right`, `repeat`, `reverse`, `lpad`, `rpad`, `trim` without
  characters, `coalesce`, `nullif`, `if`, CASE, `overlay`, `mask`, `hex` and `conv`. Functions that read bytes, such
  as `md5`, `hash`, `base64`, `to_date` and `from_json`, take texts with any. `greatest` and `least` obey them and
  give the first of equal texts. By UTF8_LCASE there are also `contains`, `startswith`, `endswith`, `instr`, `locate`,
  `find_in_set`, `replace`, `translate`, `trim` of characters, `split_part`, `substring_index`, LIKE, ILIKE, RLIKE and
  `regexp_count`, `_extract`, `_instr`, `_replace` and `_substr`; and by `_RTRIM` of it and of UTF8_BINARY the first
  five, `replace`, `translate`, `ltrim` and `substring_index`. What is left is refused by name, such as LIKE by
  UNICODE, `initcap` by anything but UTF8_BINARY (it follows ICU's boundaries of words), structs, maps and arrays of
  arrays with such texts, `array_distinct`, `array_sort` and others that would compare elements, and `collect_set` and
  `array_agg(DISTINCT …)`, which show any of equal texts; `CAST(s AS STRING)` and `CAST(xs AS ARRAY<STRING>)` have no
  collation. In Python, the verbs that take names of columns as keys (`group_by`, `join`, `distinct`) refuse such
  columns; expressions and orders obey their collations, and so do DataFrames of a session's sources and views. A
  DataFrame that Spark has made of rows with such a column is refused where a view reads it, and in DataFrames that a
  view gives a column has none.
* Without case, Java and RE2 do not take the same letters for one: where a regular expression is applied by
  UTF8_LCASE, a text with one of `İ`, U+0131, `ẞ`, U+017F and U+212A is an error row (COLLATION_UNKNOWN_CHARACTER),
  and a pattern with one, with `\\p`, or with a range of letters outside ASCII is refused.
* An interval has the units of Spark's type, such as `INTERVAL DAY` of a difference of dates, in its text, in `typeof`,
  in `extract` and where it moves a date. Inside arrays, maps and structs it has all of them, DAY TO SECOND, and so has
  a column of a table.
* There are the collations `UTF8_BINARY` and `UTF8_LCASE`, and with the extra `collations`
  (`pip install 'altneu[collations]'`) `UNICODE` and Spark's languages (`de`, `en_USA`, `sr_Latn`), these also with
  `_CI` and `_AI`, and all of them with `_RTRIM`. Refused are `blo`, `br`, `kk_Arab` and `uz`, as DuckDB's ICU 66 does
  not have the order that Spark's ICU 78 gives them.
* ICU 66 has no place, or another one, for some characters: those that came after Unicode 13 (the emoji 🫠 for example)
  and some thousand rare ones (old numerals, some Han characters, `₨`). A text with one of these, or with a mark on a
  quotation mark, becomes an error row (COLLATION_UNKNOWN_CHARACTER) where a collation of ICU's compares it. So do four
  Han characters in Chinese, U+0E3A in Thai, typographic quotation marks in `kl`, and `ß` by `_AI` without `_CI`, where
  ICU's comparison, which Spark asks, and ICU's sort keys disagree on whether it is `ss`.
* By a collation of ICU's, texts are ordered by their sort keys. Spark compares two texts of Latin letters by a shortcut
  of ICU's that puts `ß` behind every accent: here `'aß' < 'äß'`, as the sort keys of Spark's ICU say too, and in Spark
  it is false. What is equal is the same, except in Thai with a mark behind punctuation, where they disagree as well.
* TIME has microseconds: `time`, which is `time(6)`; other precisions are refused. Spark keeps nanoseconds that it does
  not show, of `time_from_seconds(1.1234567)` for example. Medians and percentiles of times of day are refused, but
  `approx_percentile` is not. Delta tables and tables of databases have no times of day here. Spark takes and gives them
  from 4.1 on, where `spark.sql.timeType.enabled` is set.
* A VARIANT is Spark's pair of bytes, value and metadata; `to_pylist` and Python functions have both, and take them. It
  is not compared: it cannot be a key of GROUP BY, DISTINCT, joins, ORDER BY or a map, and `any_value` and `first`
  refuse it as well. At most 200 arrays and objects are in one another (Spark: 1000), and an array is not extended by
  more than a million nulls (VALUE_TOO_LARGE). A TIME or an interval does not become a variant; `from_json` and
  `from_csv` do not read one, nor does `json` of a source. Delta and Iceberg tables, databases and feeds have no
  variants here; Parquet files do.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    ordered = sorted(registry.functions(), key=lambda f: f.group)
    for group, members in groupby(ordered, key=lambda f: f.group):
        parts.append(
            f"## {group}\n\n| expression | result |\n|---|---|\n" + "\n".join(_line(f) for f in members) + "\n"
        )
    others = "\n".join(f"| `{usage}` | {doc} |" for usage, doc in _WRITTEN_WITH_OTHERS)
    parts.append(f"## Shorthand for other expressions\n\n| expression | result |\n|---|---|\n{others}\n")
    rows = "\n".join(f"| `{usage}` | {doc} |" for usage, doc in AGGREGATES)
    parts.append(
        f"## Aggregates\n\nUse these in `group_by(…).agg(…)`; each may have a `FILTER (WHERE …)`. {_AGGREGATE_COST}\n\n"
        f"| expression | result |\n|---|---|\n{rows}\n"
    )
    rows = "\n".join(f"| `{usage}` | {doc} |" for usage, doc in WINDOW_FUNCTIONS)
    parts.append(f"## Window functions\n\n{_WINDOWS}\n\n| expression | result |\n|---|---|\n{rows}\n")
    rows = "\n".join(f"| `{usage}` | {doc} |" for usage, doc in _ELSEWHERE)
    parts.append(f"## Elsewhere in SQL\n\n| expression | result |\n|---|---|\n{rows}\n")
    parts.append(_catalogue())
    parts.append(_TAIL)
    return "\n".join(parts)


def _catalogue() -> str:
    """Spark's own list: what is supported, what is refused and why."""
    reasons: dict[str, list[str]] = {}
    for name in catalogue.SPARK:
        reason = catalogue.refusal(name)
        if reason is not None:
            reasons.setdefault(reason, []).append(name)
    known = catalogue.supported()
    rows = "\n".join(f"| {', '.join(f'`{n}`' for n in names)} | {reason} |" for reason, names in reasons.items())
    shown = ", ".join(f"`{n}`" for n in known if n.isidentifier())
    lacking = sum(name in catalogue.LACKING for name in catalogue.SPARK)
    refused = len(catalogue.SPARK) - len(known) - lacking
    return (
        f"## Spark's list\n\nOf the {len(catalogue.SPARK)} functions and operators that "
        f"`spark.catalog.listFunctions()` names in Spark 4.3, altneu supports {len(known)}, and refuses {refused} by "
        f"design{f'; it does not have {lacking} yet' if lacking else ''}. The table says why, and what to use instead; "
        "a test compares the list with Spark's. `SHOW FUNCTIONS LIKE 'map%'` lists functions.\n\n"
        f"| not supported | why |\n|---|---|\n{rows}\n\nSupported, beside the operators: {shown}.\n"
    )


def listing() -> list[tuple[str, str, str, str]]:
    """Every function by name: its group, how it is written and what it gives.

    >>> [line[:3] for line in listing() if line[0] in ("count_if", "md5", "ntile")]
    [('count_if', 'Aggregates', 'count_if(a)'), ('md5', 'Digests', 'md5(b)'), ('ntile', 'Window functions', 'ntile(n)')]
    """
    tables = (("Aggregates", AGGREGATES), ("Window functions", WINDOW_FUNCTIONS), ("Elsewhere", _ELSEWHERE))
    everything = [(group, usage, doc) for group, table in tables for usage, doc in table]
    everything += [(f.group, f.usage, f.doc) for f in registry.functions()]
    lines = []
    for name in registry.names():
        registered = registry.FUNCTIONS.get(name)
        if registered is not None:
            lines.append((name, registered.group, registered.usage, registered.doc))
            continue
        written = re.compile(rf"\b{name}\(|`{name}`")
        lines.append((name, *next(line for line in everything if written.search(line[1] + line[2]))))
    return lines


def _line(function: Function) -> str:
    usage = function.usage.replace("|", "\\|")
    others = [a for a in function.aliases if a not in function.usage and a.isidentifier()]
    also = f" Also {', '.join(f'`{a}`' for a in others)}." if others else ""
    return f"| `{usage}` | {function.doc.replace('|', chr(92) + '|')}{also} |"


if __name__ == "__main__":
    sys.stdout.write(page())
