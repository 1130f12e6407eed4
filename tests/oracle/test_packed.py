"""Every operator over blocks that are packed however small they are, and columns that are gathered by kernels.

What is done in pieces where there is much of it is done so here: batches are built, groups reduced and joins handed on
a few rows at a time.
"""

from __future__ import annotations

import pytest

from altneu import Session
from altneu.columnar import columns
from altneu.operators.arrange import operation as arranging
from altneu.operators.delta_join import extend
from altneu.operators.join import pairs as join
from altneu.operators.kernels import located
from altneu.operators.loop import operation as looping
from altneu.operators.reduce import rounds
from altneu.runtime import base
from altneu.trace import batch
from tests.oracle import asof_cases, delta_joins_cases, loops_cases, operators_cases
from tests.oracle.runners import Judge, Runner

SCENES = {
    "operators": (operators_cases, [3, 8]),
    "loops": (loops_cases, [2, 5]),
    "delta joins": (delta_joins_cases, [2, 4]),
    "as-of joins": (asof_cases, [3, asof_cases.TIMES]),
}


@pytest.fixture(autouse=True)
def packed(monkeypatch):
    """Whether anything was packed is asked at the end."""
    result = []
    init = batch.PackedBlock.__init__

    def counted(self, *given, **told):
        result.append(1)
        init(self, *given, **told)

    monkeypatch.setattr(batch.PackedBlock, "__init__", counted)
    monkeypatch.setattr(batch, "PACKED_ROWS", 1)
    monkeypatch.setattr(columns, "FEW", 2)
    small = {batch: "BUILT_ROWS", rounds: "MOST_ROWS", join: "CHUNK", extend: "CHUNK", base: "MANY_ROWS"}
    small |= {arranging: "MANY_ROWS", looping: "MANY_ROWS"}
    for module, constant in small.items():
        monkeypatch.setattr(module, constant, 3)
    monkeypatch.setattr(base, "GATHERED", 4)
    monkeypatch.setattr(located, "SMALL", 0)  # groups in an order are read in part
    yield
    assert result


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
    judge = Judge(loops_cases.PLANS, loops_cases.HISTORY)
    runner = Runner("durable", lambda path: Session(path=path, shards=2), folder, reopened=True, together=True)
    for name, trace in runner.run(loops_cases.PLANS, loops_cases.SOURCES, loops_cases.HISTORY, [2, 5]).items():
        judge.check(name, trace)
