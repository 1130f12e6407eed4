"""Why a row is in a view, for the page."""

from __future__ import annotations

from typing import Any

from altneu.page.cells import cell, cells_of, table_of
from altneu.page.console import PATIENCE
from altneu.page.monitor import Monitor
from altneu.page.replies import Refused
from altneu.page.rows import RowQuery
from altneu.views.view import View

MOST = 200  # rows of a source, or of an operator on the way, that are shown


def why(monitor: Monitor, view: str, id_: str) -> dict[str, Any]:
    """What ``view.explain_row`` says of the row of an id; of many input rows the first.

    Raises:
        Refused: the row is not there any more; or the session stays busy.
        AltneuError: as ``explain_row``.
    """
    if not (len(id_) == 16 and all(c in "0123456789abcdef" for c in id_)):
        raise Refused(400, '"row" must be the id of a row, as /api/rows returns it')
    with monitor.locked(PATIENCE):
        snapshot = monitor.snapshot
        if view not in snapshot.views:
            raise Refused(404, f"no view {view!r}")
        row = monitor.windows.select(snapshot, view, RowQuery()).row(id_)
        if row is None:
            raise Refused(404, "the row is no longer in the view: a step has removed it")
        explanation = View(monitor.engine, view).explain_row(row)
    return {
        "view": explanation.view,
        "row": {name: cell(value) for name, value in explanation.row.items()},
        "count": explanation.count,
        "at": list(explanation.at),
        "since": explanation.since,
        "sufficient": explanation.sufficient,
        "notes": list(explanation.notes),
        "inputs": [{"source": i.source, "kept": i.kept} | table_of(i.to_arrow(), MOST) for i in explanation.inputs],
        "operators": [
            {
                "number": s.number,
                "label": s.label,
                "rounds": list(s.rounds),
                "when": s.when,
                "known": s.known,
                "columns": s.rows.schema.names,
                "rows": cells_of(s.rows.slice(0, min(MOST, s.rows.count))),
                "total": s.rows.count,
                "inputs": list(s.inputs),
            }
            for s in explanation.supports
        ],
    }
