"""Sinks of pipelines: each row that a flow has arrives once, whatever is killed and whatever is new afterwards."""

from __future__ import annotations

import re

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from altneu.cli.pipelines import running
from altneu.cli.pipelines.running import Pipeline, Selection
from tests.pipelines.projects import Killed, Project, killed_after

SENT = """
from pyspark import pipelines as dp

DATA = spark.conf.get("shop.data")

@dp.materialized_view
def prices():
    return spark.read.schema("id BIGINT").json(DATA + "/prices")

dp.create_sink("sent", "{form}", {{"path": DATA + "/out"}})

@dp.append_flow(target="sent", name="sending")
def sending():
    return spark.readStream.schema("id BIGINT").json(DATA + "/new")
"""


@pytest.fixture(params=["json", "csv", "parquet", "delta"])
def sending(request, tmp_path):
    """A project with a sink of each form, and what tells which rows the sink has."""
    project = Project(tmp_path / "p")
    project.write("sent.py", SENT.format(form=request.param))
    for name in ("prices", "new"):
        project.put(f"{name}/1.json", [{"id": 1}])

    def ids():
        out = project.data / "out"
        if request.param == "delta":
            return sorted(DeltaTable(out).to_pyarrow_table()["id"].to_pylist())
        if request.param == "parquet":
            return sorted(pq.read_table(out)["id"].to_pylist())
        texts = [file.read_text() for file in out.glob("part-*")]
        return sorted(int(re.sub(r"\D", "", line)) for text in texts for line in text.splitlines())

    return project, ids


@pytest.mark.parametrize("new", ["prices", "new"])
def test_a_sink_has_each_row_once_whatever_is_new_after_a_kill(sending, monkeypatch, new):
    """The run after a kill has other steps than the one that was killed, or more to append in them."""
    project, ids = sending
    with monkeypatch.context() as patch:
        patch.setattr(running, "write", killed_after(running.write))
        with pytest.raises(Killed):
            Pipeline(str(project.spec)).run()
    project.put(f"{new}/2.json", [{"id": 2}])
    Pipeline(str(project.spec)).run()
    assert ids() == ([1, 2] if new == "new" else [1])


def test_a_sink_that_could_not_be_written_gets_its_rows_in_the_next_run(sending, monkeypatch):
    project, ids = sending
    with monkeypatch.context() as patch:
        patch.setattr(running, "write", killed_after(lambda *_: None))
        with pytest.raises(Killed):
            Pipeline(str(project.spec)).run()
    report = Pipeline(str(project.spec)).run()
    assert (ids(), report.files) == ([1], 0)


def test_flows_that_begin_again_append_everything_to_a_sink_again(sending):
    project, ids = sending
    Pipeline(str(project.spec)).run()
    project.put("new/2.json", [{"id": 2}])
    Pipeline(str(project.spec)).run(Selection(full_refresh_all=True))
    assert ids() == [1, 1, 2]
