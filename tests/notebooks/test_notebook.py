"""The notebook of examples/ runs in a kernel of its own, and the cell with a live view changes after every step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "notebook.ipynb"


class Watched(NotebookClient):
    """Remembers what cells were made to show instead of what they showed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.updated: list[str] = []

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] == "update_display_data":
            self.updated.append(msg["content"]["data"]["text/html"])
        return super().process_message(msg, cell, cell_index)


PATIENT = "from altneu.runtime import progress; progress.PATIENCE = 1e9"
"""On a slow machine steps of a few rows take longer than progress waits."""


def run(cells: nbformat.NotebookNode) -> Watched:
    """Run cells; nothing but what they ask for is shown in them."""
    first = next(cell for cell in cells.cells if cell.cell_type == "code")
    first.source = f"{PATIENT}\n{first.source}"
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    client = Watched(cells, timeout=300, kernel_name="python3")
    client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    return client


def shown(cell: nbformat.NotebookNode) -> str:
    """The HTML of a cell."""
    return "".join(output["data"]["text/html"] for output in cell.outputs if "data" in output)


@pytest.fixture(scope="module")
def executed() -> Watched:
    return run(nbformat.read(EXAMPLE, as_version=4))


def cell_with(executed: Watched, text: str) -> nbformat.NotebookNode:
    (found,) = [cell for cell in executed.nb.cells if cell.cell_type == "code" and text in cell.source]
    return found


def test_a_live_view_is_shown_anew_after_every_step(executed):
    assert len(executed.updated) == 4
    assert ["salt" in text for text in executed.updated] == [False, True, True, False]
    assert [f"as of time {time}" in text for time, text in enumerate(executed.updated, 1)] == [True] * 4
    assert shown(cell_with(executed, "total.live()")) == executed.updated[-1]


@pytest.mark.parametrize(
    ("source", "texts"),
    [
        ("orders = an.source", ["Collection", ">price</td>", ">bigint</td>"]),
        ("session.maintain", [">tea</td>", ">7</td>", "as of time 0"]),
        ("explain_row", ["source orders", ">jam</td>", "the query over these rows alone has it"]),
        ("session.explained", ["<svg", "sum(price)"]),
        ("session.sql", ["Result", ">total bigint</th>"]),
    ],
)
def test_what_cells_show(executed, source, texts):
    html = shown(cell_with(executed, source))
    assert [text for text in texts if text not in html] == []


def test_the_example_shows_in_its_file_what_running_it_shows(executed):
    stored = nbformat.read(EXAMPLE, as_version=4)
    assert [*map(outputs, stored.cells)] == [*map(outputs, executed.nb.cells)]


def outputs(cell: nbformat.NotebookNode) -> list[Any]:
    kept = [{**output} for output in cell.get("outputs", ())]
    for output in kept:
        output.pop("metadata", None)
    return kept


SLOW = """
import time
import altneu as an
rows = an.source("rows", "n long")
session = an.Session()
view = session.maintain("slow", rows.map(lambda row: (time.sleep(row.n), row.n)[1:], "n long"))
session.insert("rows", [(0,)])
_ = session.advance()
"""


LONG = """
session.insert("rows", [(4,)])
_ = session.advance()
print(sorted(view.to_pylist()))
"""


def test_a_step_that_takes_long_says_so_in_its_cell_until_it_is_over():
    cells = [
        SLOW,
        f"progress.PATIENCE = 2.0\n{LONG}",
        "1 + 1",
    ]
    executed = run(nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, cells)]))
    said = [text for text in executed.updated if text]
    assert said
    assert all("altneu" in text or "step" in text for text in said), said
    assert len(set(said)) >= 2  # the seconds count
    assert executed.updated[-1] == ""
    quick, slow, after = executed.nb.cells
    assert not [output for output in quick.outputs if output.output_type == "display_data"]
    assert [output.output_type for output in slow.outputs] == ["display_data", "stream"]
    assert slow.outputs[0]["data"]["text/html"] == ""
    assert slow.outputs[1]["text"] == "[(0,), (4,)]\n"
    assert [output.output_type for output in after.outputs] == ["execute_result"]
