"""Views: collections that a session maintains, and how they are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from altneu.columnar import html
from altneu.engine.engine import Engine
from altneu.engine.reading import Followed, OnErrors, Readings, Time, updates_table
from altneu.engine.subscription import Form, OnChange, OnTimeEnd, Subscription
from altneu.errors import ReadError
from altneu.errors.elsewhere import NamedElsewhere
from altneu.order import Antichain, Epoch
from altneu.trace.update import Updates, consolidate
from altneu.types import to_ddl
from altneu.views.contents import Contents
from altneu.views.live import live

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from altneu.provenance import Explanation


class View(Contents, NamedElsewhere):
    """A maintained collection of a session, by name.

    Reading never computes: the contents are there since the last ``advance``.
    """

    _what = "a view"
    _instead: ClassVar = {
        **dict.fromkeys(("toPandas", "to_pandas"), "use to_arrow().to_pandas()"),
        "to_polars": "use polars.from_arrow(view.to_arrow())",
        **dict.fromkeys(("collect", "toLocalIterator"), "use to_pylist(), or df().collect() on Spark"),
        "count": "use to_arrow().num_rows, or df().count() on Spark",
        "show": "use df().show() on Spark, or print(view.to_pylist())",
        "lookup": "use get(key)",
        "explain": "use session.explain(name), or explain_row(row)",
        **dict.fromkeys(
            ("filter", "where", "select", "groupBy", "group_by", "join", "orderBy"),
            "use session.sql(query) or session.peek(collection), or df() on Spark",
        ),
    }

    def __init__(self, readings: Readings, name: str) -> None:
        super().__init__(readings, name)
        self._readings = readings
        self._followed = Followed(readings, name)

    def __repr__(self) -> str:
        return f"View({self.name}: {to_ddl(self.schema)})"

    @property
    def changes_only(self) -> bool:
        """Whether it has ``contents=False``: then it can be followed but not read."""
        return self._readings.ports(self.name).changes_only

    @property
    def coordinates(self) -> tuple[str, ...] | None:
        """The names of its two times; None if it has one."""
        return self._readings.coordinates(self.name)

    @property
    def frontier(self) -> Antichain:
        """The times at which it may change again; empty if it never does.

        With two times these are pairs. ``{(5, 3)}`` says that no time before 5 and no event time before 3 changes:
        what is known of these event times is final, so that the view can be read about them at any time, ``at=(9, 2)``.
        Rows and temporal filters of the future, and sources with one time, add elements with event time 0.

        Law:    tests/oracle/test_closed_events.py.
        """
        with self._readings.lock:
            return self._readings.frontier(self.name)

    @property
    def since(self) -> int:
        """The least time that can be read."""
        return self._readings.known(self.name).since

    def df(self, at: Time = None, errors: OnErrors = "raise") -> DataFrame:
        """The contents as a Spark DataFrame; large ones are read by Spark's own tasks, not through the driver.

        The DataFrame shows the present view, even after later steps, as long as its segments exist. A column of its
        schema has ``nullable=False`` only if it holds no null, whatever rows come: a count, a rank, a column NOT NULL.

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
        again. So a function sees each update at least once, and exactly once if it never raises. If it raises for the
        snapshot, ``subscribe`` raises the error, and there is no subscription.

        Raises:
            HistoryGoneError: ``as_of`` is no longer retained.
            ReadError: ``up_to`` lies before ``as_of``; ``snapshot=True`` of a view without contents; or what is to be
                called is no function.
        """
        with self._readings.lock:
            rest = {"snapshot": snapshot, "as_of": as_of, "up_to": up_to, "form": form}
            subscription = Subscription(self._followed, on_change, on_time_end, **rest)  # type: ignore[arg-type]
            self._readings.subscribers.add(subscription)
            if subscription.pushes:
                try:
                    subscription.poll()
                except BaseException:  # whoever called has nothing to close, and each later step would raise this again
                    subscription.close()
                    raise
            return subscription

    def live(self, rows: int = html.SHOWN) -> Subscription:
        """Show the view in a cell of a notebook, and show it anew there after every step; needs the extra ``notebook``.

        It shows the first ``rows`` rows as the last line of a cell would. The subscription that it returns ends it:
        ``close()``. A reader's view shows what ``reader.refresh()`` finds. Once the session is closed the cell stays as
        it is.

        Cost:   of each step, the reading of the rows that are shown (some hundred updates).

        Raises:
            MissingExtraError: IPython is not installed.
            ReadError: it is not called in a notebook or in IPython; ``rows`` is not a positive number.
        """
        return live(self, self.subscribe, rows)

    def explain_row(self, row: Mapping[str, Any] | Sequence[Any], at: Time = None) -> Explanation:
        """Why a row is in the view at a time: the input rows that it depends on, and how it was computed.

        ``row`` is a tuple of all columns, or a dictionary of enough of them to identify the row. altneu follows the
        plan back through the arrangements: for a sum to all rows of the group, for a minimum to those that have it,
        through a loop round by round, through ``integrate`` and feedback to earlier times. The rows of a source are
        listed with their times if they are stored: by a source declared with ``keep=True``, or by a join or reduce with
        whole rows; else by what they have in common.

        Cost:   lookups if arrangements have the needed keys, else a pass over the state; a loop is run again,
                and so is what rests on earlier times. Nothing is stored or committed.
        Law:    the query over the input rows alone has the row as often, which is computed and said
                (``Explanation.sufficient``; tests/provenance/test_explain_row.py and test_over_time.py).
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


def net_changes(updates: Updates) -> Updates:
    """What is left of updates when those of equal rows are added up, whenever they happened; all at time 0."""
    at_once = Updates(updates.rows, np.zeros((1, len(updates)), np.int64), updates.diffs)
    return consolidate(at_once, Epoch())


def followed(view: View) -> Followed:
    """A view as what follows it sees it: a sink, the data source."""
    return view._followed


def state_of(view: View) -> Readings:
    """What a view is read from."""
    return view._readings
