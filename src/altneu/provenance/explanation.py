"""The explanation of a row: its input rows, the operators between, and whether the input rows alone produce it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from altneu.columnar import html
from altneu.columnar.rows import Rows
from altneu.engine.reading import updates_table
from altneu.operators.kernels.spans import show_row
from altneu.order import LARGEST
from altneu.trace.update import Updates

_SHOWN = 10


@dataclass(frozen=True)
class InputRows:
    """Rows of a source that a row rests on.

    ``updates`` are theirs, up to the time of the explanation. Where nothing keeps the source's rows (``kept`` is
    false), only some of their columns are known, and neither times nor counts.
    """

    source: str
    updates: Updates
    kept: bool
    times: tuple[str, ...]

    def to_arrow(self) -> pa.Table:
        """The rows with their times and diffs, as ``view.changes()`` shows updates; where not kept, known columns."""
        if not self.kept:
            return pa.Table.from_batches([self.updates.rows.to_batch()])
        return updates_table(self.updates, self.times[: len(self.updates.times)], "diff")


@dataclass(frozen=True)
class Support:
    """One operator on the way: which of its rows the row rests on, and the operators that these come from.

    ``rounds`` are the rounds of the loop it is in, outermost loop first; ``when`` is the time or moment of the rows, if
    it is another than that of the explanation (``"time 3"``, ``"alt(3)"``). Where ``known`` is false the rows are not
    kept, and only some of their columns are known.
    """

    number: int
    label: str
    rows: Rows
    inputs: tuple[int, ...]
    known: bool = True
    rounds: tuple[int, ...] = ()
    when: str = ""


@dataclass(frozen=True)
class Explanation:
    """Why a row is in a view.

    ``count`` is how often it is there at the time ``at``. ``sufficient`` says that the view's query over the input
    rows alone has the row as often (it was computed); None where not all input rows are kept. ``since`` is the time up
    to which times are compacted: updates at or before it are shown at it. ``notes`` say what could not be followed,
    and what to do about it.
    """

    view: str
    row: Mapping[str, Any]
    count: int
    at: tuple[int, ...]
    since: int
    inputs: tuple[InputRows, ...]
    supports: tuple[Support, ...]
    sufficient: bool | None
    notes: tuple[str, ...] = ()

    def to_arrow(self, source: str) -> pa.Table:
        """The rows of one source with their times and diffs.

        Raises:
            KeyError: the row does not rest on rows of that source.
        """
        tables = [rows.to_arrow() for rows in self.inputs if rows.source == source]
        if tables:  # of rows that are not kept, several sets of columns may be known
            return max(tables, key=lambda table: len(table.schema))
        known = ", ".join(rows.source for rows in self.inputs) or "(none)"
        raise KeyError(
            f"the row was not computed from rows of a source {source!r}; it was computed from rows of: {known}"
        )

    def to_dict(self) -> dict[str, Any]:
        """The whole explanation as lists and dictionaries, with values of Python's types."""
        return {
            "view": self.view,
            "row": dict(self.row),
            "count": self.count,
            "at": list(self.at),
            "since": self.since,
            "sufficient": self.sufficient,
            "notes": list(self.notes),
            "inputs": [
                {
                    "source": rows.source,
                    "kept": rows.kept,
                    "columns": rows.to_arrow().schema.names,
                    "rows": [list(row) for row in Rows.from_batch(rows.to_arrow()).to_pylist()],
                }
                for rows in self.inputs
            ],
            "operators": [
                {
                    "number": s.number,
                    "label": s.label,
                    "rounds": list(s.rounds),
                    "when": s.when,
                    "known": s.known,
                    "columns": s.rows.schema.names,
                    "rows": [list(row) for row in s.rows.to_pylist()],
                    "inputs": list(s.inputs),
                }
                for s in self.supports
            ],
        }

    def __str__(self) -> str:
        """The input rows and the way from them, as a tree."""
        often = "" if self.count == 1 else f", {self.count} times"
        shown = show_row(list(self.row), tuple(self.row.values()))
        lines = [f"{shown} is in view {self.view} at time {_time(self.at)}{often}"]
        for rows in self.inputs:
            lines += _input_lines(rows, self.since)
        by_number = {s.number: s for s in self.supports}
        seen: set[int] = set()

        def show(number: int, depth: int) -> None:
            support = by_number[number]
            lines.append(f"{'  ' * depth}{_support_line(support)}")
            if number in seen and support.inputs:
                lines[-1] += "  (shown above)"
                return
            seen.add(number)
            for below in support.inputs:
                show(below, depth + 1)

        if self.supports:
            lines.append("  by way of")
            show(self.supports[0].number, 2)
        lines += [f"  {note}" for note in self.notes]
        if self.sufficient is not None:
            lines.append(f"  the query over these rows alone {'has' if self.sufficient else 'does not have'} it")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: the row, a table of the rows of each source, and on a click the way from them."""
        often = "" if self.count == 1 else f", {self.count} times"
        parts = [html.table(list(self.row), [list(self.row.values())])]
        for rows in self.inputs:
            table = rows.to_arrow()
            stored = "" if rows.kept else "whose rows are not stored: columns that are known"
            more = [html.note(f"and {table.num_rows - html.SHOWN:,} more")] if table.num_rows > html.SHOWN else []
            shown = Rows.from_batch(table.slice(0, html.SHOWN).combine_chunks())
            parts.append(html.titled(f"source {rows.source}", html.rows(shown), *more, note=stored))
        parts += [html.note(note) for note in self.notes]
        if self.sufficient is not None:
            has = "has" if self.sufficient else "does not have"
            parts.append(html.note(f"the query over these rows alone {has} it"))
        parts.append(html.folded("how it was computed", html.preformatted(str(self))))
        return html.titled(f"in view {self.view}", *parts, note=f"at time {_time(self.at)}{often}")


def _time(at: tuple[int, ...]) -> str:
    shown = ["last" if time == LARGEST else str(time) for time in at]
    return shown[0] if len(at) == 1 else f"({', '.join(shown)})"


def _input_lines(inputs: InputRows, since: int) -> list[str]:
    updates, names = inputs.updates, inputs.updates.schema.names
    rows = updates.rows.to_pylist()
    if not inputs.kept:
        lines = [f"  source {inputs.source}, whose rows are not stored: rows with"]
        texts = [show_row(names, row) if names else "any values" for row in rows]
    else:
        lines = [f"  source {inputs.source}"]
        texts = [
            f"{show_row(names, row)} {_when(tuple(time), since)}{'' if diff == 1 else f', {diff:+} times'}"
            for row, time, diff in zip(rows, updates.times.T.tolist(), updates.diffs.tolist(), strict=True)
        ]
    lines += [f"    {line}" for line in texts[:_SHOWN]]
    if len(texts) > _SHOWN:
        lines.append(f"    … and {len(texts) - _SHOWN:,} more")
    return lines


def _when(time: tuple[int, ...], since: int) -> str:
    return f"{'by' if 0 < time[0] <= since else 'at'} time {_time(time)}"


def _support_line(support: Support) -> str:
    rows, names = support.rows, support.rows.schema.names
    at = f" in round {', '.join(map(str, support.rounds))}" if support.rounds else ""
    at += f" at {support.when}" * bool(support.when)
    if not support.known:
        return f"{support.label}{at}: rows that are not stored"
    if rows.count == 1:
        return f"{support.label}{at}: {show_row(names, rows.to_pylist()[0])}"
    return f"{support.label}{at}: {rows.count:,} distinct rows"
