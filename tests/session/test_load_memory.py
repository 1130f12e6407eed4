"""What the first load of a loop takes in memory: it follows the rows that come of it, not the matches on the way."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

import altneu as an
from altneu.operators.base import ArrangementState
from altneu.runtime.schedule import Run
from altneu.trace.merging import Merge
from altneu.trace.spine import Spine

EDGES = an.source("edges", "x long, z long")
MATCH = 40  # bytes: two columns, a time and a round, a diff


def closure():
    """The pairs that a path leads from and to, by joining what there is with itself."""

    def longer(paths):
        joined = paths.join(paths, on={"z": "x"}).select("x", z="right.z")
        return joined.concat(EDGES).distinct()

    return EDGES.iterate(longer)


def all_pairs(nodes: int) -> pa.Table:
    """Edges from every node to every other: n * n pairs, of which n * n * n matches come in a round."""
    return pa.table({"x": np.repeat(np.arange(nodes), nodes), "z": np.tile(np.arange(nodes), nodes)})


def loaded(nodes: int) -> tuple[an.Session, int]:
    """A session with the closure of a complete graph, and the bytes that were added at most while it was computed."""
    session = an.Session()
    view = session.maintain("paths", closure())
    session.insert("edges", all_pairs(2))
    session.advance()
    session.insert("edges", all_pairs(nodes))
    tracemalloc.start()
    session.advance()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert view.to_arrow().num_rows == nodes * nodes
    return session, peak


def test_a_load_takes_memory_by_the_rows_and_not_by_the_matches():
    few, many = 64, 200
    sizes = {}
    for nodes in (few, many):
        session, peak = loaded(nodes)
        sizes[nodes] = sum(size for _, size in session._engine.table.sizes().values()) / nodes**2
        assert peak < max(0.4 * MATCH * nodes**3, 32 << 20)
    assert sizes[many] <= sizes[few]  # bytes kept of a row


@pytest.fixture
def uncollected():
    """No cycle of references is collected meanwhile."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive():
    """What steps make; the class of an object is asked without the object, which may be a proxy of one that is gone."""
    return [one for one in gc.get_objects() if type(one) in (Run, ArrangementState)]


def test_nothing_of_a_step_outlives_it(uncollected):
    """States that rounds went through would double what is kept, until Python collects cycles."""
    before = {id(one) for one in alive()}  # of other tests' sessions
    session, _ = loaded(8)
    actual = [one for one in alive() if id(one) not in before]
    assert not [one for one in actual if type(one) is Run]
    kept = {id(state) for state in session._engine.table.live.values()}
    assert all(id(one) in kept for one in actual if type(one) is ArrangementState)


@pytest.mark.parametrize("times", [1, 3])
def test_what_is_of_one_time_is_not_merged_again_after_the_rounds(monkeypatch, times):
    """Folding history takes as long as all merges of a load, and there is nothing to fold within one time."""
    folded, again = Spine.compacted, []

    def noting(spine, *bounds):
        after = folded(spine, *bounds)
        known = {id(batch) for batch in spine.batches}
        merges = any(isinstance(node, Merge) for node in spine.nodes)
        again.append(0 if merges else sum(len(b) for b in after.batches if id(b) not in known))
        return after

    session = an.Session()
    view = session.maintain("paths", closure())
    session.insert("edges", all_pairs(2))
    session.advance()
    monkeypatch.setattr(Spine, "compacted", noting)
    edges = all_pairs(60)
    for time in range(times):
        session.insert("edges", edges.slice(time * 1000, 1000 if time < times - 1 else None), time=1 + time)
    session.advance(to=1 + times)
    assert view.to_arrow().num_rows == 60 * 60
    assert again
    assert (sum(again) == 0) == (times == 1)
