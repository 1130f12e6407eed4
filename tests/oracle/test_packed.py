"""Every operator over blocks that are packed however small they are, and columns that are gathered by kernels.

What is done in pieces where there is much of it is done so here: batches are built, groups reduced and joins handed on
a few rows at a time.
"""

from __future__ import annotations

import pytest

from altneu import Session
from altneu.columnar import columns
from altneu.operators import extend, join, rounds
from altneu.runtime import base
from altneu.trace import batch
from tests.oracle import test_asof, test_delta_joins, test_loops, test_operators
from tests.oracle.runners import Judge, Runner

SCENES = {
    "operators": (test_operators, [3, 8]),
    "loops": (test_loops, [2, 5]),
    "delta joins": (test_delta_joins, [2, 4]),
    "as-of joins": (test_asof, [3, test_asof.TIMES]),
}


@pytest.fixture(autouse=True)
def packed(monkeypatch):
    """Whether anything was packed is asked at the end."""
    made = []
    init = batch.PackedBlock.__init__

    def counted(self, *given, **told):
        made.append(1)
        init(self, *given, **told)

    monkeypatch.setattr(batch.PackedBlock, "__init__", counted)
    monkeypatch.setattr(batch, "PACKED_ROWS", 1)
    monkeypatch.setattr(columns, "FEW", 2)
    small = {batch: "BUILT_ROWS", rounds: "MOST_ROWS", join: "CHUNK", extend: "CHUNK", base: "MANY_ROWS"}
    for module, constant in small.items():
        monkeypatch.setattr(module, constant, 3)
    monkeypatch.setattr(base, "GATHERED", 4)
    yield
    assert made


@pytest.mark.parametrize("scene", SCENES)
def test_in_memory(scene):
    module, cuts = SCENES[scene]
    plans = dict(list(module.PLANS.items())[:: 3 if scene == "operators" else 1])
    judge = Judge(plans, module.HISTORY)
    runner = Runner("memory", lambda _: Session(), together=True)
    for name, trace in runner.run(plans, module.SOURCES, module.HISTORY, cuts).items():
        judge.check(name, trace)


def test_reopened_after_every_advance(tmp_path_factory):
    folder = lambda: tmp_path_factory.mktemp("store")  # noqa: E731
    judge = Judge(test_loops.PLANS, test_loops.HISTORY)
    runner = Runner("durable", lambda path: Session(path=path, shards=2), folder, reopened=True, together=True)
    for name, trace in runner.run(test_loops.PLANS, test_loops.SOURCES, test_loops.HISTORY, [2, 5]).items():
        judge.check(name, trace)
