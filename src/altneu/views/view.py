"""Views: what a session keeps right, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Ints, Rows
from altneu.engine.engine import Engine
from altneu.engine.reading import Followed, OnErrors, Readings, Time, refuse_without_contents, updates_table
from altneu.engine.subscription import Form, OnChange, OnTimeEnd, Subscription
from altneu.errors import ERROR_SCHEMA, ReadError, ViewHasErrorsError
from altneu.operators.kernels.groups import NEGATIVE_MULTIPLICITY
from altneu.order import Epoch
from altneu.plan.physical import ViewPorts
from altneu.runtime.read import At, contents, negatives
from altneu.runtime.state import StateTable
from altneu.trace.update import Updates, consolidate
from altneu.types import to_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from altneu.provenance import Explanation

_SHOWN = 3
_MOST_ROWS = 2**31  # beyond this one Arrow batch has no place for its texts


class View:
    """A maintained collection of a session, by name.

    Reading never computes: the contents are there since the last ``advance``.
    """

    def __init__(self, readings: Readings, name: str) -> None:
        self._readings, self.name = readings, name
        self._followed = Followed(readings, name)

    def __repr__(self) -> str:
        return f"View({self.name}: {to_ddl(self.schema)})"

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self._readings.ports(self.name).schema

    @property
    def changes_only(self) -> bool:
        """Whether it has ``contents=False``: then it can be followed but not read."""
        return self._readings.ports(self.name).changes_only

    @property
    def coordinates(self) -> tuple[str, str] | None:
        """The names of its two times; None if it has one."""
        return self._readings.coordinates(self.name)

    @property
    def since(self) -> int:
        """The least time that can be read."""
        return self._readings.known(self.name).since

    def to_arrow(self, at: Time = None, errors: OnErrors = "raise") -> pa.Table:
        """The contents at a time (default: the last closed one), each row as often as its count says.

        A view with two times is read at both, ``at=(system, event)``: the knowledge of one time about the other. None
        is the last of either; ``at=system`` includes all event times.

        ``errors="ignore"`` reads a view that has errors: its contents may then be wrong.
        Cost:   reads the view's arrangement, nothing else.

        Raises:
            ViewHasErrorsError: the view has errors at that time, or a row whose count is negative.
            HistoryGoneError, NotYetKnownError: a time outside ``[since, frontier)``.
            ReadError: the view was made without contents.
        """
        with self._readings.lock:
            updates = self._read(at, errors)
        if np.maximum(updates.diffs, 0).sum(dtype=np.float64) > _MOST_ROWS:
            raise ReadError(
                f"view {self.name!r} has more than {_MOST_ROWS} rows, counts included; maintain its count(), "
                "which has each row once with how often it is there"
            )
        rows = repeated(updates)
        return pa.Table.from_batches([rows.to_batch()]) if len(rows.schema) else pa.table({})

    def _read(self, at: Time, errors: OnErrors) -> Updates:
        if errors not in ("raise", "ignore"):
            raise ReadError(f'errors must be "raise" or "ignore", got {errors!r}')
        ports = self._readings.ports(self.name)
        refuse_without_contents(ports, self.name)
        time = self._readings.known(self.name).readable(at)
        updates = contents(self._readings.table, ports.contents, time)
        if errors == "raise":
            self._raise_if_any(self._errors(time, updates))
        return updates

    def to_pylist(self, at: Time = None, errors: OnErrors = "raise") -> list[tuple[Any, ...]]:
        """The contents as Python tuples, in no particular order.

        A date or timestamp outside the years 1 to 9999, for which Python has no value, is the text of Spark's cast.
        """
        return Rows.from_batch(self.to_arrow(at, errors)).to_pylist()

    def df(self, at: Time = None, errors: OnErrors = "raise") -> DataFrame:
        """The contents as a Spark DataFrame; large ones are read by Spark's own tasks, not through the driver.

        The DataFrame shows the present view, even after later steps, as long as its segments exist.

        Raises:
            ReadError: the session has no Spark; use ``to_arrow()``.
            ViewHasErrorsError: as ``to_arrow``; negative counts of a large view fail Spark's tasks, when they run.
        """
        with self._readings.lock:
            return self._readings.frame(self, at, errors)

    def changes(
        self,
        time_column: str | None = None,
        diff_column: str = "diff",
        *,
        since: int | None = None,
        until: int | None = None,
        net: bool = False,
    ) -> pa.Table:
        """The updates of the last advance, or all after a time: the row's columns, then its time and diff.

        ``since`` is a closed time: the contents at ``since`` and the changes since then make the contents at ``until``
        (default: the last closed time); -1 is before everything. They are available as long as the session (``retain``)
        or a reader (``an.read(path, since=...)``) retains the history. With ``net`` opposite changes cancel, and there
        is no time.

        The time is called ``time`` by default; a view with two times has both, under the source's names, or, with
        ``time_column``, the second as ``<time_column>_event``.

        Raises:
            SchemaError: the view has a column of one of these names; choose others.
            HistoryGoneError: changes after ``since`` are no longer retained.
            NotYetKnownError: ``since`` or ``until`` is not closed yet.
        """
        with self._readings.lock:
            followed = self._followed
            names = () if net else followed.time_names(time_column)
            followed.check_names((*names, diff_column))
            if since is None and until is None:
                updates = self._readings.last_changes(self.name)
            else:
                after = -1 if since is None else since
                updates = followed.updates(*followed.known.range_after(after, until))
        if net:
            updates = net_changes(updates)
        return updates_table(updates, names, diff_column)

    def subscribe(
        self,
        on_change: OnChange | None = None,
        on_time_end: OnTimeEnd | None = None,
        *,
        snapshot: bool | None = None,
        as_of: int | None = None,
        up_to: int | None = None,
        form: Form = "rows",
    ) -> Subscription:
        """Follow the changes, from now on or from a time on.

        After each commit ``on_change(row, time, diff)`` is called for every update of each time it closed, in order of
        time, then ``on_time_end(time)``: that time and earlier ones are complete. It is called for times with changes
        and for the last closed time. With ``form="arrow"`` ``on_change`` gets one table per time, as from
        ``changes()``. Without functions the subscription is an iterator: ``for table in view.subscribe()``.

        It begins with a snapshot: the contents at ``as_of`` (default: the last closed time), as updates at that time;
        without a snapshot, with the changes after ``as_of``. A view without contents has no snapshot and delivers
        changes only. ``as_of`` may be in the future. The subscription ends before ``up_to``.

        If a function raises, ``advance`` raises the error, but its step is committed; the next step delivers that time
        again. So a function sees each update at least once, and exactly once if it never raises.

        Raises:
            HistoryGoneError: ``as_of`` is no longer retained.
            ReadError: ``up_to`` lies before ``as_of``; or ``snapshot=True`` of a view without contents.
        """
        with self._readings.lock:
            rest = {"snapshot": snapshot, "as_of": as_of, "up_to": up_to, "form": form}
            subscription = Subscription(self._followed, on_change, on_time_end, **rest)  # type: ignore[arg-type]
            self._readings.subscribers.add(subscription)
            subscription.poll() if subscription.pushes else None
            return subscription

    def explain_row(self, row: Mapping[str, Any] | Sequence[Any], at: Time = None) -> Explanation:
        """Why a row is in the view at a time: the input rows that it depends on, and how it was computed.

        ``row`` is a tuple of all columns, or a dictionary of enough of them to identify the row. altneu follows the
        plan back through the arrangements: for a sum to all rows of the group, for a minimum to those that have it,
        through a loop round by round. The rows of a source are listed with their times if they are stored: by a source
        declared with ``keep=True``, or by a join or reduce with whole rows; else by what they have in common.

        Cost:   lookups if arrangements have the needed keys, else a pass over the state; a loop is run again. Nothing
                is stored or committed.
        Law:    the query over the input rows alone has the row as often, which is computed and said
                (``Explanation.sufficient``; tests/provenance/test_explain_row.py).
        Source: Chothia et al., Explaining Outputs in Modern Data Analytics, VLDB 2016.

        Raises:
            ReadError: there is no such row, or there are several; or the view is read without its plan.
            HistoryGoneError, NotYetKnownError: as ``to_arrow``.

        >>> import altneu as an
        >>> orders = an.source("orders", "item string, price long", keep=True)
        >>> with an.Session() as session:
        ...     view = session.maintain("total", orders.group_by("item").agg(total="sum(price)"))
        ...     session.insert("orders", [("tea", 3), ("tea", 4), ("jam", 5)])
        ...     _ = session.advance()
        ...     print(view.explain_row(("tea", 7)))
        {"item": "tea", "total": 7} is in view total at time 0
          source orders
            {"item": "tea", "price": 3} at time 0
            {"item": "tea", "price": 4} at time 0
          by way of
            select item, `#0` as total: {"item": "tea", "total": 7}
              sum(price), group by item: {"item": "tea"}
                select item, price as #arg0: 2 distinct rows
                  source orders: 2 distinct rows
          the query over these rows alone has it
        """
        from altneu.provenance import explain_row

        if not isinstance(self._readings, Engine):
            raise ReadError(
                f"a reader has the rows of view {self.name!r} but not its query; call explain_row in the session that "
                "maintains it, or in one opened on the store with the same views"
            )
        with self._readings.lock:
            return explain_row(self._readings, self.name, row, at)

    def errors(self, at: Time = None) -> pa.Table:
        """The rows and groups that failed, each once: operator, code, message, row. They disappear with their cause.

        For a view without contents negative counts are not among them, because the counts of its rows are not stored.
        """
        with self._readings.lock:
            time, ports = self._readings.known(self.name).readable(at), self._readings.ports(self.name)
            if ports.changes_only:
                return pa.Table.from_batches([stored_errors(self._readings.table, ports, time).to_batch()])
            updates = contents(self._readings.table, ports.contents, time)
            return pa.Table.from_batches([self._errors(time, updates).to_batch()])

    def _errors(self, time: At, updates: Updates) -> Rows:
        bad = negatives(updates, self.name, self._readings.known(self.name).doubt)
        stored = stored_errors(self._readings.table, self._readings.ports(self.name), time)
        return stored if bad is None else _each_once([Updates(stored, *_ones(stored.count)), bad])

    def raise_errors(self, time: At) -> None:
        """Raise if an operator below the view has an error at a time.

        Raises:
            ViewHasErrorsError: naming the first of them.
        """
        self._raise_if_any(self._errors(time, Updates.empty(self.schema, 1)))

    def _raise_if_any(self, errors: Rows) -> None:
        if not errors.count:
            return
        shown = [
            f"  {op}: {code}: {message} (row {row})"
            for op, code, message, row in errors.slice(0, min(_SHOWN, errors.count)).to_pylist()
        ]
        more = f"\n  and {errors.count - _SHOWN} more" if errors.count > _SHOWN else ""
        doubt = self._readings.known(self.name).doubt
        if NEGATIVE_MULTIPLICITY not in errors.column("code").to_pylist():
            doubt = ""
        elif doubt:
            doubt = (
                f" A count below zero may also mean that {doubt}: Session(check_functions=True) calls them twice and "
                "says where they differ."
            )
        raise ViewHasErrorsError(
            f"{self._title} has {errors.count} error(s):\n" + "\n".join(shown) + more + "\n"
            "They go away when the rows that cause them are retracted or corrected. " + self._remedy + doubt
        )

    @property
    def _title(self) -> str:
        """What errors call it."""
        return f"view {self.name!r}"

    @property
    def _remedy(self) -> str:
        """What may be done about rows that fail."""
        return 'view.errors() lists them; errors="ignore" reads the rest, which may be wrong.'


def stored_errors(table: StateTable, ports: ViewPorts, time: At) -> Rows:
    """The errors of the operators below a view at a time, each once."""
    found_by_origin = [contents(table, name, time) for name in ports.errors]
    return _each_once([consolidate(p, table.lattice) for p in found_by_origin if len(p)])  # over shards


def _each_once(parts: list[Updates]) -> Rows:
    """A set: counts of two origins cancel nothing."""
    if not parts:
        return Rows.empty(ERROR_SCHEMA)
    together = Updates.concat([Updates(p.rows, *_ones(len(p))) for p in parts], ERROR_SCHEMA, 1)
    return consolidate(together, Epoch()).rows


def _ones(count: int) -> tuple[Ints, Ints]:
    """So many updates at time 0, each of one row."""
    return np.zeros((1, count), np.int64), np.ones(count, np.int64)


def repeated(updates: Updates) -> Rows:
    """Rows as often as their counts say; none for a count below zero."""
    if (updates.diffs == 1).all():
        return updates.rows
    return updates.rows.take(np.repeat(np.arange(len(updates)), np.maximum(updates.diffs, 0)))


def net_changes(updates: Updates) -> Updates:
    """What is left of updates when those of equal rows are added up, whenever they happened; all at time 0."""
    at_once = Updates(updates.rows, np.zeros((1, len(updates)), np.int64), updates.diffs)
    return consolidate(at_once, Epoch())


def followed(view: View) -> Followed:
    """A view as what follows it sees it: a sink, the data source."""
    return view._followed
