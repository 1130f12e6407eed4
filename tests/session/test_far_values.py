"""Dates and timestamps that Python has no value for: in steps, beside functions and failures, in every reader."""

from __future__ import annotations

import json
import pickle
import random
import sqlite3
from datetime import UTC, date, datetime
from functools import partial

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import altneu as an
from altneu import Session
from altneu.cli import main
from altneu.columnar.python_values import (
    BeyondPython,
    arrow_values,
    beyond_python,
    exception_text,
    python_values,
    value_text,
)
from altneu.columnar.rows import Rows
from altneu.errors import ViewHasErrorsError
from altneu.page.cells import cells_of

DAYS = an.source("days", "k long, d date", keep=True)
LONG_AGO = -719163  # days from 1970-01-01 back to 0000-12-31, before Python's first date
FAR = DAYS.select("k", d="date_add(d, 400)")
GIVEN = [(1, date(9999, 12, 31)), (2, date(2020, 1, 1))]
SHOWN, NEAR = "+10001-02-03", date(2021, 2, 4)


def column(counts, kind):
    return pa.array(counts, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)


KINDS = {
    "date": (pa.date32(), [0, 3_000_000, LONG_AGO, 2**31 - 1, -(2**31), None]),
    "timestamp": (pa.timestamp("us", "UTC"), [0, 2**62, -(2**62), 2**63 - 1, -(2**63), None]),
    "timestamp_ntz": (pa.timestamp("us"), [0, 2**62, -(2**62), 2**63 - 1, -(2**63), None]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_value_has_the_text_that_spark_casts_it_to(kind):
    data_type, counts = KINDS[kind]
    far = an.source("far", f"x {kind}")
    with Session() as session:
        view = session.maintain("v", far.select("x", text="cast(x as string)"))
        session.insert("far", pa.table({"x": column(counts, data_type)}))
        session.advance()
        actual = view.to_pylist()
        assert len(actual) == len(counts)
        texts = [(x, text) for x, text in actual if isinstance(x, BeyondPython)]
        assert len(texts) == 4
        assert all(x == text == beyond_python(text, data_type) for x, text in texts)
        session.retract("far", [(x,) for x, _ in actual])  # they go back as they came
        session.advance()
        assert view.to_pylist() == []


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_any_depth_become_python_and_columns_again(kind):
    data_type, counts = KINDS[kind]
    leaves = python_values(column(counts, data_type))
    chance = random.Random(kind)
    types = {
        pa.list_(data_type): lambda: [chance.choice(leaves) for _ in range(chance.randrange(4))],
        pa.struct([("n", pa.int64()), ("x", data_type)]): lambda: {"n": 1, "x": chance.choice(leaves)},
        pa.map_(pa.string(), data_type): lambda: [(c, chance.choice(leaves)) for c in "abc"[: chance.randrange(4)]],
        pa.list_(pa.struct([("x", pa.list_(data_type))])): lambda: [{"x": [chance.choice(leaves)]}, {"x": None}, None],
    }
    for nested, make in types.items():
        values = [None if chance.random() < 0.2 else make() for _ in range(60)]
        result = arrow_values(values, nested)
        result.validate(full=True)
        assert result.type == nested
        assert python_values(result) == values
        assert python_values(result.slice(7, 20)) == values[7:27]
        assert pickle.loads(pickle.dumps(values)) == values  # noqa: S301


FUNCTIONS = {
    "map": FAR.map(lambda r: (r.k,), "k long"),
    "filter": FAR.filter(lambda r: r.k > 0).select("k"),
    "flat_map": FAR.flat_map(lambda r: [(r.k,)], "k long"),
    "explode": FAR.explode(lambda r: [((r.k,), 1)], "k long"),
    "join_function": FAR.join_function(lambda r: [((r.k,), None, 1)], "k long"),
    "reduce": FAR.group_by("k").reduce(lambda *_: [1], "n long").select("k"),
    "reduce by date": FAR.group_by("d").reduce(lambda _, rows: [rows[0][0].k], "k long").select("k"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("nested", [False, True])
def test_a_function_given_such_a_row_is_an_error_row_and_the_others_go_on(name, nested):
    plan = FUNCTIONS[name]
    if nested and name == "map":
        plan = FAR.select("k", x="array(struct(d))").map(lambda r: (r.k,), "k long")
    with Session() as session:
        view = session.maintain("v", plan)
        session.insert("days", GIVEN)
        session.advance()
        assert view.to_arrow(errors="ignore").column("k").to_pylist() == [2]
        (failed,) = view.errors().to_pylist()
        assert failed["code"] == "PYTHON_VALUE"
        assert SHOWN in failed["message"]
        assert "cast the column to string" in failed["message"]
        with pytest.raises(ViewHasErrorsError, match="PYTHON_VALUE"):
            view.to_pylist()
        session.retract("days", GIVEN[:1])
        session.advance()
        assert view.to_pylist() == [(2,)]


def test_an_error_beside_such_a_value_shows_its_text():
    with Session() as session:
        view = session.maintain("v", DAYS.select("k", "d", x="1 div (k - 1)"))
        session.insert("days", pa.table({"k": [1], "d": column([3_000_000], pa.date32())}))
        session.advance()
        (failed,) = view.errors().to_pylist()
        assert json.loads(failed["row"])["d"] == "+10183-09-21"


def test_every_reader_shows_the_text(tmp_path):
    seen, answer = [], []
    with Session(path=tmp_path / "store") as session:
        inspected = FAR.inspect(lambda row, *_: answer.append(row.d))
        view = session.maintain("v", inspected)
        view.subscribe(lambda row, *_: seen.append(row.d))
        session.insert("days", GIVEN)
        session.advance()
        assert sorted(view.to_pylist()) == [(1, SHOWN), (2, NEAR)]
        assert session.sql("SELECT max(d) AS d FROM v").to_pylist() == [(SHOWN,)]
        assert session.sql("VALUES (DATE '+10001-02-03')").to_pylist() == [(SHOWN,)]
        assert sorted(map(str, seen)) == sorted(map(str, answer)) == [SHOWN, str(NEAR)]
        assert sorted(cells_of(Rows.from_batch(view.to_arrow()))) == [[1, SHOWN], [2, str(NEAR)]]
        assert "+10001-02-03" in str(session.sql("SELECT d FROM v WHERE k = 1"))
        assert SHOWN in str(view.explain_row(view.to_pylist()[-1 if view.to_pylist()[-1][0] == 1 else 0]))
        assert view.changes().num_rows == 2
    with an.read(tmp_path / "store") as reader:
        assert sorted(reader.view("v").to_pylist()) == [(1, SHOWN), (2, NEAR)]


def test_a_table_of_a_database_has_the_text_and_follows_it(tmp_path):
    connect = partial(sqlite3.connect, tmp_path / "tables.db")
    with Session(path=tmp_path / "store") as session:
        view = session.maintain("v", FAR)
        stamped = session.maintain("w", FAR.select("k", t="cast(d as timestamp)"))
        sinks = [an.sinks.database(view, connect, "t", mode="upsert", key=["k"]),
                 an.sinks.database(stamped, connect, "u", mode="upsert", key=["k"])]  # fmt: skip
        for given in (GIVEN, [(3, date(9999, 12, 30))]):
            session.insert("days", given)
            session.advance()
            for sink in sinks:
                sink.run()
        session.retract("days", GIVEN[:1])
        session.advance()
        for sink in sinks:
            sink.run()
    with sqlite3.connect(tmp_path / "tables.db") as connection:
        assert connection.execute("SELECT * FROM t ORDER BY k").fetchall() == [(2, str(NEAR)), (3, "+10001-02-02")]
        assert connection.execute("SELECT t FROM u WHERE k = 3").fetchall() == [("+10001-02-02 00:00:00",)]


def test_a_parquet_file_may_hold_them(tmp_path):
    stamps = pa.table({"t": column([2**62, 0], pa.timestamp("us", "UTC"))})
    pq.write_table(stamps, tmp_path / "stamps.parquet")
    stamped = an.source("stamped", "t timestamp")
    with Session() as session:
        view = session.maintain("v", stamped.map(lambda r: (r.t.year,), "x int"))
        session.insert("stamped", pq.read_table(tmp_path / "stamps.parquet"))
        session.advance()
        assert view.to_arrow(errors="ignore").to_pylist() == [{"x": 1970}]
        assert view.errors().num_rows == 1
    assert python_values(column([0], pa.timestamp("us", "UTC"))) == [datetime(1970, 1, 1, tzinfo=UTC)]


def test_the_page_and_the_command_line_show_the_text(tmp_path):
    with Session(path=tmp_path / "store") as session:
        session.maintain("v", FAR)
        session.insert("days", GIVEN)
        session.advance()
        with session.serve() as served, httpx.Client(base_url=served.url, timeout=30) as client:
            answer = client.get("api/rows", params={"view": "v", "filter": SHOWN}).json()
        assert answer["rows"] == [[1, SHOWN]]
    asked = ["query", "--path", str(tmp_path / "store"), "SELECT d FROM v WHERE k = 1"]
    for form in ([], ["--json"]):
        done = CliRunner().invoke(main, [*asked, *form], catch_exceptions=False)
        assert (done.exit_code, SHOWN in done.stdout) == (0, True)


class _SilentError(Exception):
    def __str__(self):
        raise RuntimeError


class _Shy:
    def __repr__(self):
        raise RuntimeError

    def __int__(self):
        raise AttributeError("not today")


def _raise(error):
    raise error


ODD = {
    "a message that is no text": lambda _: _raise(ValueError("no \ud800")),
    "a message that cannot be made": lambda _: _raise(_SilentError()),
    "a value that shows nothing of itself": lambda _: (_Shy(),),
    "a result that is no text": lambda _: ("\ud800",),
    "a result beyond 64 bits": lambda _: (2**70,),
}


@pytest.mark.parametrize("name", ODD)
def test_what_functions_raise_and_give_becomes_error_rows(name):
    with Session() as session:
        kind = "string" if "text" in name else "long"
        mapped = session.maintain("mapped", DAYS.map(ODD[name], f"x {kind}"))
        reduced = session.maintain("reduced", DAYS.group_by("k").reduce(lambda k, _: [ODD[name](k)], f"x {kind}"))
        counted = session.maintain("counted", DAYS.threshold(ODD[name]))
        session.insert("days", GIVEN)
        session.advance()
        assert [view.errors().num_rows for view in (mapped, reduced, counted)] == [2, 2, 2]
        session.retract("days", GIVEN)
        session.advance()
        assert [view.errors().num_rows for view in (mapped, reduced, counted)] == [0, 0, 0]


def test_texts_of_messages_are_bounded():
    assert exception_text(_SilentError()) == "_SilentError (its message cannot be made)"
    assert len(value_text(["x" * 10] * 10_000)) < 1100
    assert value_text(_Shy()) == "a _Shy"
