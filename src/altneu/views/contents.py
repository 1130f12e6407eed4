"""The contents and errors of a collection that has state: of a view, of a snapshot of one, or of an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar import html
from altneu.columnar.canonical import canonical
from altneu.columnar.rows import Ints, Rows, array_of
from altneu.engine.engine import at_rest
from altneu.engine.reading import OnErrors, StateOfViews, Time, check_on_errors, refuse_without_contents
from altneu.errors import ERROR_SCHEMA, AltneuError, ReadError, ViewHasErrorsError
from altneu.errors.nearest import listed
from altneu.errors.texts import shortened
from altneu.operators.kernels.groups import NEGATIVE_MULTIPLICITY
from altneu.order import Epoch
from altneu.plan.failing import Told, Wording, names_own
from altneu.plan.physical import ViewPorts
from altneu.plan.rewrite import optimise
from altneu.provenance.finding import agreeing
from altneu.runtime.read import At, contents, first_rows, negatives, rows_with_key
from altneu.runtime.state import StateTable
from altneu.trace.update import Updates, consolidate
from altneu.types import to_ddl

_SHOWN = 3
_MOST_ROWS = 2**31  # beyond this one Arrow batch has no place for its texts


class Contents:
    """What can be read of a collection whose contents and errors are arranged."""

    def __init__(self, source: StateOfViews, name: str) -> None:
        self._source, self.name = source, name

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self._source.ports(self.name).schema

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
        with self._source.lock:
            updates = self._read(at, errors)
        if has_too_many_rows(updates):
            raise ReadError(
                f"view {self.name!r} has more than {_MOST_ROWS} rows, counts included; maintain its count(), which has "
                "each row once, with its number of copies"
            )
        return table_of(updates)

    def _read(self, at: Time, errors: OnErrors) -> Updates:
        check_on_errors(errors, ReadError)
        ports = self._source.ports(self.name)
        refuse_without_contents(ports, self.name)
        time = self._source.known(self.name).readable(at)
        updates = contents(self._source.table, ports.contents, time)
        if errors == "raise":
            self._raise_if_any(self._errors(time, updates))
        return updates

    def to_pylist(self, at: Time = None, errors: OnErrors = "raise") -> list[tuple[Any, ...]]:
        """The contents as Python tuples, in no particular order.

        A date or timestamp outside the years 1 to 9999, for which Python has no value, is the text of Spark's cast.
        """
        return Rows.from_batch(self.to_arrow(at, errors)).to_pylist()

    @property
    def key(self) -> tuple[str, ...]:
        """The columns by which the contents are arranged; ``get`` looks their values up."""
        ports = self._source.ports(self.name)
        return self._source.table.layouts[ports.contents].key

    def get(self, row: Any, at: Time = None, errors: OnErrors = "raise") -> list[tuple[Any, ...]]:
        """The rows that have some values, as Python tuples, each as often as its count says.

        ``row`` has values of columns by name, or only the value of the ``key`` (a tuple, where it has several columns).
        None finds null. The key of a view is its group or join key; ``collection.arrange_by(...)`` chooses another one.

        Cost:   O(log n) for the rows if all columns of the key are given, or of the key of another arrangement of the
                view's rows, such as an index; else a read of all contents. While another thread computes a step, the
                answer is that of before the step, and does not wait for it.

        >>> import altneu as an
        >>> orders = an.source("orders", "item string, price long")
        >>> with an.Session() as session:
        ...     totals = session.maintain("totals", orders.group_by("item").agg(total="sum(price)"))
        ...     session.insert("orders", [("tea", 3), ("jam", 5), ("tea", 4)])
        ...     _ = session.advance()
        ...     totals.key, totals.get("tea"), totals.get({"item": "oil"}), totals.get({"total": 5})
        (('item',), [('tea', 7)], [], [('jam', 5)])

        Raises:
            ReadError: a column or the number of values is not that of the view, or a value does not fit its column; or
                the view was made without contents.
            ViewHasErrorsError: the view has errors at that time, or one of the rows has a negative count.
            HistoryGoneError, NotYetKnownError: a time outside ``[since, frontier)``.
        """
        check_on_errors(errors, ReadError)
        with at_rest(self._source) as state:
            return Contents(state, self.name)._found(row, at, errors)

    def _found(self, row: Any, at: Time, errors: OnErrors) -> list[tuple[Any, ...]]:
        ports = self._source.ports(self.name)
        refuse_without_contents(ports, self.name)
        known = self._source.known(self.name)
        time, wanted = known.readable(at), self._values(row)
        table, given = self._source.table, set(wanted.schema.names)
        keys = {
            name: table.layouts[name].key for name in known.arrangements(self._source.arrangements(self.name), time)
        }
        by = next((name for name, key in keys.items() if key and given.issuperset(key)), None)
        if by is not None:
            updates = rows_with_key(table, by, time, wanted.select(keys[by]))
            updates = replace(updates, rows=updates.rows.select(self.schema.names))
        else:
            updates = contents(table, ports.contents, time)
        updates = agreeing(updates, wanted)
        if errors == "raise":
            self._raise_if_any(self._errors(time, updates))
        return repeated(updates).to_pylist()

    def _values(self, row: Any) -> Rows:
        """The values that are looked for, as one row of their columns.

        Raises:
            ReadError: they are not values of columns.
        """
        names, schema = self.schema.names, self.schema
        if isinstance(row, Mapping):
            values = dict(row)
            unknown = [name for name in values if name not in names]
            if unknown:
                raise ReadError(f"view {self.name!r} has no column {unknown[0]!r}; it has: {listed(unknown[0], names)}")
        else:
            parts = row if isinstance(row, tuple) else (row,)
            if len(parts) != len(self.key):
                raise ReadError(
                    f"the key of view {self.name!r} must be {len(self.key)} values ({', '.join(self.key)}), got "
                    f"{len(parts)}; give values of other columns by name: get({{{names[0]!r}: ...}})"
                )
            values = dict(zip(self.key, parts, strict=True))
        fields = [schema.field(name) for name in values]
        try:
            columns = tuple(canonical(array_of([values[field.name]], field.type)) for field in fields)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise ReadError(f"the values do not fit the columns of view {self.name!r}: {error}") from None
        return Rows(pa.schema(fields), columns, 1)

    def _repr_html_(self) -> str:
        """What a notebook shows: some rows with their counts, and how many updates are kept.

        Cost:   some hundred updates, however many the view has (``first_rows``).
        """
        return self._html()

    def _html(self, rows: int = html.SHOWN) -> str:
        """The first ``rows`` rows as HTML, as a notebook shows them."""
        try:
            with at_rest(self._source) as state:
                return Contents(state, self.name)._shown(rows)
        except AltneuError as error:  # of a closed session, for one
            return html.titled(self.name, html.note(str(error)))

    def _shown(self, shown: int) -> str:
        ports, known, table = self._source.ports(self.name), self._source.known(self.name), self._source.table
        until = "nothing is closed yet" if known.lower <= 0 else f"as of time {known.lower - 1}"
        failed = sum(map(table.rows, ports.errors))
        warning = [html.note("rows or groups may have failed: errors() lists them, if there are any")] if failed else []
        if ports.changes_only:
            what = html.note("maintained with contents=False: changes() and subscribe() have its changes")
            return html.titled(self.name, html.columns(self.schema), what, *warning, note=until)
        kept = table.rows(ports.contents)
        found, whole = first_rows(table, ports.contents, known.readable(None), shown)
        part = found.take(np.arange(min(shown, len(found))))
        counts = None if (part.diffs == 1).all() else part.diffs.tolist()
        if whole:
            below = f"{_many(len(found), 'distinct row')}" if len(found) > len(part) else ""
        else:
            below = f"{_many(len(part), 'row')} of a larger view, which keeps {_many(kept, 'update')}"
        size = [html.note(below)] if below else []
        return html.titled(self.name, html.rows(part.rows, counts, shown), *size, *warning, note=until)

    def errors(self, at: Time = None) -> pa.Table:
        """The rows and groups that failed, each once: operator, code, message, row. They disappear with their cause.

        For a view without contents negative counts are not among them, because the counts of its rows are not stored.
        """
        with self._source.lock:
            time, ports = self._source.known(self.name).readable(at), self._source.ports(self.name)
            if ports.changes_only:
                return self._told(stored_errors(self._source.table, ports, time))
            updates = contents(self._source.table, ports.contents, time)
            return self._told(self._errors(time, updates))

    def _told(self, errors: Rows) -> pa.Table:
        """Errors as they are stored, but with rows whose columns are those of the query."""
        table = pa.Table.from_batches([errors.to_batch()])
        if not any(map(names_own, errors.column("row").to_pylist())):
            return table
        wording = self._wording()
        rows = [wording.of(Told(str(o), str(m), str(r))).row or "{}" for o, _, m, r in errors.to_pylist()]
        return table.set_column(table.schema.get_field_index("row"), "row", pa.array(rows, pa.string()))

    def _wording(self) -> Wording:
        node = self._source.known(self.name).node
        return Wording(None if node is None else optimise(node))

    def _errors(self, time: At, updates: Updates) -> Rows:
        bad = negatives(updates, self.name, self._source.known(self.name).doubt)
        stored = stored_errors(self._source.table, self._source.ports(self.name), time)
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
        wording = self._wording()
        shown = []
        for operator, code, message, row in errors.slice(0, min(_SHOWN, errors.count)).to_pylist():
            told = wording.of(Told(str(operator), str(message), str(row)))
            of_row = f" (row {shortened(told.row)})" if told.row else ""
            shown.append(f"  {shortened(told.operator)}: {code}: {shortened(told.message)}{of_row}")
        more = f"\n  and {errors.count - _SHOWN} more" if errors.count > _SHOWN else ""
        doubt = self._source.known(self.name).doubt
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


def summary(title: str, source: StateOfViews, names: Sequence[str], lower: int) -> str:
    """What a notebook shows of a session or reader: its views, their columns, and how many updates each keeps."""
    lines = []
    with at_rest(source) as state:
        for name in names:
            ports = state.ports(name)
            kept = None if ports.changes_only else state.table.rows(ports.contents)
            lines.append((name, to_ddl(ports.schema), kept))
    table = html.table(["view", "columns", "updates kept"], lines, [False, False, True])
    return html.titled(title, table, note="nothing is closed yet" if lower <= 0 else f"closed up to time {lower - 1}")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


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


def has_too_many_rows(updates: Updates) -> bool:
    """Whether the rows are more than a table may have, each as often as its count says."""
    return bool(np.maximum(updates.diffs, 0).sum(dtype=np.float64) > _MOST_ROWS)


def table_of(updates: Updates) -> pa.Table:
    """Rows as a table, each as often as its count says."""
    rows = repeated(updates)
    return pa.Table.from_batches([rows.to_batch()]) if len(rows.schema) else pa.table({})
