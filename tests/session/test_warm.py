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

FRESH = """
import importlib, json, pkgutil, sys
from numba.core.dispatcher import Dispatcher
import altneu as an
from altneu.warm import warm

def kernels():
    found = {}
    for module in pkgutil.walk_packages(an.__path__, "altneu."):
        if module.name != "altneu.runtime.spark.daemon":
            for name, value in vars(importlib.import_module(module.name)).items():
                if isinstance(value, Dispatcher) and value.__module__ == module.name:
                    found[f"{module.name}.{name}"] = len(value.signatures)
    return found

if sys.argv[1] == "warm":
    warm()
before = kernels()

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

print(json.dumps([name for name, count in kernels().items() if count > before[name]]))
"""


@pytest.fixture(scope="module")
def fresh():
    """The kernels that are new to a process of its own, with warming first and without."""

    def new(how):
        done = subprocess.run([sys.executable, "-c", FRESH, how], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    return {how: new(how) for how in ("warm", "cold")}


def test_the_first_calls_need_kernels(fresh):
    used = {
        "join.pairs._expand",
        "json.scan.scan",
        "json.parts.copy_texts",
        "json.parts.find_items",
        "linear.series._find_cuts",
    }
    assert {f"altneu.operators.{name}" for name in used} <= set(fresh["cold"])


def test_after_warming_none_of_them_is_new(fresh):
    assert fresh["warm"] == []


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
