"""From a report to one self-contained HTML page."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from altneu.page import uplot
from examples.report.model import Cell, Report, StepRecord, Table, Text, percentile

_PLACE = re.compile(r"\{\{(\w+)\}\}")


def write(report: Report, path: str | Path) -> Path:
    """Write ``report`` to ``path`` (its folder is made) and return the path.

    Cost:   about 70 KB, and 40 bytes a step and view.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(render(report), encoding="utf-8")
    return target


def render(report: Report) -> str:
    """Return the page as text. Its content security policy forbids the browser to fetch anything.

    >>> page = render(Report("A & B", steps=[StepRecord("1", 0.5, 10, {"v": 3}, 7)]))
    >>> "<title>A &amp; B</title>" in page, "http-equiv" in page
    (True, True)
    """
    parts = {
        "title": html.escape(report.title),
        "summary": "".join(f"<p>{html.escape(line)}</p>" for line in report.summary),
        "facts": _facts(report),
        "tables": "".join(_table(table) for table in report.tables),
        "charts": _CHARTS if report.steps else "",
        "steps": _steps(report.steps) if report.steps else "",
        "texts": "".join(_text(text) for text in report.texts),
        "data": _json(report),
        "uplot_css": uplot.asset("uPlot.min.css"),
        "uplot_js": uplot.asset("uPlot.iife.min.js"),
        "css": _asset("report.css"),
        "js": _asset("report.js"),
    }
    return _PLACE.sub(lambda place: parts[place[1]], _asset("report.html"))


_CHARTS = "".join(
    f'<section><h2>{title}</h2><p class="note">{note}</p><div class="chart" id="{name}"></div></section>'
    for name, title, note in (
        ("latency", "Time per step", "On a logarithmic scale, with the median and the slowest step in a hundred."),
        ("changes", "Rows changed per step", "Changes that came in, and changes of each view that went out (stacked)."),
        ("state", "State after each step", "Rows held in all arrangements, the contents of the views among them."),
    )
)


def _asset(name: str) -> str:
    return files("examples.report").joinpath(name).read_text(encoding="utf-8").strip()


def _facts(report: Report) -> str:
    if not report.facts:
        return ""
    tiles = "".join(
        f"<div><dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd></div>" for name, value in report.facts.items()
    )
    return f'<dl class="facts">{tiles}</dl>'


def _cell(value: Cell) -> str:
    if isinstance(value, bool):
        return '<td class="good">✓ yes</td>' if value else '<td class="bad">✗ no</td>'
    if isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    if isinstance(value, float):
        return f'<td class="number">{_significant(value)}</td>'
    return f"<td>{html.escape(value or '')}</td>"


def _significant(value: float) -> str:
    """Three significant digits, thousands apart, no exponent for everyday sizes.

    >>> [_significant(x) for x in (0.00123, 0.5, 12.3456, 1234567.0, 0.0)]
    ['0.00123', '0.5', '12.3', '1,234,567', '0']
    """
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _table(table: Table) -> str:
    numeric = [_is_number(column) for column in zip(*table.rows, strict=True)] or [False] * len(table.columns)
    head = "".join(
        f'<th scope="col"{" class=number" if right else ""}>{html.escape(name)}</th>'
        for name, right in zip(table.columns, numeric, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    title = f"<h2>{html.escape(table.title)}</h2>" if table.title else ""
    content = f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"
    return f'<section>{title}<div class="wide"><table>{content}</table></div>{note}</section>'


def _is_number(column: tuple[Cell, ...]) -> bool:
    return any(isinstance(value, int | float) and not isinstance(value, bool) for value in column)


def _text(text: Text) -> str:
    return f"<section><h2>{html.escape(text.title)}</h2><pre>{html.escape(text.text)}</pre></section>"


def _steps(steps: Sequence[StepRecord]) -> str:
    """The numbers behind the charts, folded away: for readers without a screen, and for copying."""
    views = list(steps[0].changes_out)
    columns = ["step", "seconds", "changes in", *(f"out: {view}" for view in views), "state rows", "ran in"]
    rows: list[Sequence[Cell]] = [
        (
            s.label,
            round(s.seconds, 4),
            s.changes_in,
            *(s.changes_out.get(v, 0) for v in views),
            s.state_rows,
            s.placement,
        )
        for s in steps
    ]
    return f"<details><summary>All steps as a table</summary>{_table(Table('', columns, rows))}</details>"


def _json(report: Report) -> str:
    steps = report.steps
    seconds = [step.seconds for step in steps]
    views = (
        sorted({view for step in steps for view in step.changes_out}, key=list(steps[0].changes_out).index)
        if steps
        else []
    )
    data = {
        "labels": [step.label for step in steps],
        "seconds": [round(value, 6) for value in seconds],
        "p50": percentile(seconds, 0.5) if steps else None,
        "p99": percentile(seconds, 0.99) if steps else None,
        "changes_in": [step.changes_in for step in steps],
        "changes_out": {view: [step.changes_out.get(view, 0) for step in steps] for view in views},
        "state": [step.state_rows for step in steps],
    }
    # Inside a script element only "</" could end it early.
    return json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
