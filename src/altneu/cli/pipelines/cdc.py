"""Auto CDC: events of keys as the rows of a table (SCD type 1), or as their history (type 2).

Both are views of the events: which event of a key is the later one is decided by the sequence, however late it comes.
"""

from __future__ import annotations

from altneu.cli.pipelines.elements import Cdc
from altneu.cli.pipelines.errors import refused, unsupported
from altneu.collections.collection import Collection
from altneu.errors.nearest import listed
from altneu.sql.queries import query
from altneu.types import quote_name, type_name, uncompared

START, END = "__START_AT", "__END_AT"
_SEQUENCE, _DELETED = "__autocdc_sequence", "__autocdc_deleted"
_BEFORE = "__autocdc_before_"
_RESERVED = (START, END, _SEQUENCE, _DELETED)


def events(cdc: Cdc, rows: Collection) -> Collection:
    """The events of a change feed: the columns of the table, the sequence, and whether the key is deleted.

    Raises:
        PipelineError: a column that there is not, or that has a name of auto CDC's own.
    """
    by_lower = {name.lower(): name for name in rows.columns}
    for name in rows.columns:
        if name.upper() in (START, END) or name.lower().startswith(("__spark_autocdc_", "__autocdc_")):
            raise refused(
                "AUTOCDC_RESERVED_COLUMN_NAME_CONFLICT",
                f"column {name!r} of {cdc.source!r} has a name of auto CDC's own",
            )

    def known(names: tuple[str, ...] | None) -> list[str]:
        missing = [name for name in names or () if name.lower() not in by_lower]
        if missing:
            raise refused(
                "AUTOCDC_COLUMNS_NOT_FOUND_IN_SCHEMA",
                f"{cdc.source!r} has no column {missing[0]!r}; there are: {listed(missing[0], rows.columns)}",
            )
        return [by_lower[name.lower()] for name in names or ()]

    keys, without = known(cdc.keys), known(cdc.without)
    chosen = known(cdc.columns) if cdc.columns is not None else [n for n in rows.columns if n not in without]
    absent = [key for key in keys if key not in chosen]
    if absent:
        raise refused("AUTOCDC_KEY_NOT_IN_SELECTED_SCHEMA", f"key {absent[0]!r} must be among the columns of the table")
    known(cdc.tracked), known(cdc.untracked)
    deleted = "false" if cdc.deleted is None else f"coalesce({cdc.deleted}, false)"
    return rows.select(*map(quote_name, chosen), **{_SEQUENCE: cdc.sequence, _DELETED: deleted})


def check_events(cdc: Cdc, rows: object) -> None:
    """Refuse new events without a key or without a sequence.

    Raises:
        PipelineError: naming the column and how many events.
    """
    from typing import Any

    table: Any = rows
    by_lower = {name.lower(): name for name in table.column_names}
    for name in cdc.keys:
        if nulls := table.column(by_lower[name.lower()]).null_count:
            raise refused(
                "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY",
                f"{nulls} events of {cdc.source!r} have no value in key {name!r}",
            )
    if nulls := table.column(_SEQUENCE).null_count:
        raise refused(
            "AUTOCDC_MICROBATCH_VALIDATION.NULL_SEQUENCE",
            f"{nulls} events of {cdc.source!r} have no value of {cdc.sequence}, by which they are ordered",
        )


def applied(cdc: Cdc, log: Collection) -> Collection:
    """The table that events make.

    Of two events of a key with one sequence, deletions are after the others, and then the greater row counts.

    Cost:   one exchange by the key; its events, in the order of the sequence.

    Raises:
        PipelineError: a change opens a record of a column that cannot be compared.
    """
    by_lower = {name.lower(): name for name in log.columns}
    keys = [quote_name(by_lower[key.lower()]) for key in cdc.keys]
    columns = [quote_name(n) for n in log.columns if n not in (_SEQUENCE, _DELETED)]
    key, shown, values = ", ".join(keys), ", ".join(columns), [c for c in columns if c not in keys]
    unordered = {quote_name(f.name): f.type for f in log.schema if uncompared(f.type)}
    order = ", ".join(f"to_json({c}) DESC" if c in unordered else f"{c} DESC" for c in (_DELETED, *values))
    if not cdc.history:
        text = f"""
            SELECT {shown} FROM (
              SELECT *, row_number() OVER (PARTITION BY {key} ORDER BY {_SEQUENCE} DESC, {order}) AS __autocdc_place
              FROM events
            ) WHERE __autocdc_place = 1 AND NOT {_DELETED}"""  # noqa: S608  # names of columns, quoted
        return query(text, {"events": log})
    tracked = _tracked(cdc, by_lower, values)
    for column in tracked:
        if column in unordered:
            raise unsupported(
                f"column {column} of {cdc.source!r}, which is {type_name(unordered[column])}, as one whose changes "
                "open records of a history: its values cannot be compared",
                "leave the column out of what opens a record (track_history_except_column_list, TRACK HISTORY ON * "
                "EXCEPT), or have the flow's query write it as a text, to_json",
            )
    same = " AND ".join([f"NOT {_before(_DELETED)}", *(f"{c} <=> {_before(c)}" for c in tracked)])
    lags = ", ".join(
        f"lag({c}) OVER (PARTITION BY {key} ORDER BY {_SEQUENCE}) AS {_before(c)}" for c in (_DELETED, *tracked)
    )
    rest = [c for c in values if c not in tracked]
    marked = f"""
        WITH one AS (
          SELECT * FROM (
            SELECT *, row_number() OVER (PARTITION BY {key}, {_SEQUENCE} ORDER BY {order}) AS __autocdc_place
            FROM events
          ) WHERE __autocdc_place = 1
        ), seen AS (SELECT *, {lags} FROM one),
        marked AS (
          SELECT *, CASE WHEN NOT {_DELETED} AND coalesce({same}, false) THEN 0 ELSE 1 END AS __autocdc_opens
          FROM seen
        )"""  # noqa: S608  # names of columns, quoted
    if not rest:  # rows that are alike in what is tracked are alike: the first says all
        text = f"""{marked}, opened AS (
              SELECT *, lead({_SEQUENCE}) OVER (PARTITION BY {key} ORDER BY {_SEQUENCE}) AS {END}
              FROM marked WHERE __autocdc_opens = 1
            )
            SELECT {shown}, {_SEQUENCE} AS {START}, {END} FROM opened WHERE NOT {_DELETED}"""  # noqa: S608  # names of columns, quoted
        return query(text, {"events": log})
    last = ", ".join(f"max_by({c}, {_SEQUENCE}) AS {c}" for c in values)
    text = f"""{marked}, numbered AS (
          SELECT *, sum(__autocdc_opens) OVER (PARTITION BY {key} ORDER BY {_SEQUENCE}) AS __autocdc_record
          FROM marked
        ), records AS (
          SELECT {key}, {last}, min({_SEQUENCE}) AS {START}, bool_or({_DELETED}) AS {_DELETED}
          FROM numbered GROUP BY {key}, __autocdc_record
        ), ended AS (SELECT *, lead({START}) OVER (PARTITION BY {key} ORDER BY {START}) AS {END} FROM records)
        SELECT {shown}, {START}, {END} FROM ended WHERE NOT {_DELETED}"""  # noqa: S608  # names of columns, quoted
    return query(text, {"events": log})


def _tracked(cdc: Cdc, by_lower: dict[str, str], values: list[str]) -> list[str]:
    """The columns of which a change opens a record."""
    if cdc.tracked:
        return [quote_name(by_lower[name.lower()]) for name in cdc.tracked]
    left = {quote_name(by_lower[name.lower()]) for name in cdc.untracked or ()}
    return [c for c in values if c not in left]


def _before(column: str) -> str:
    return quote_name(f"{_BEFORE}{column.strip('`')}")
