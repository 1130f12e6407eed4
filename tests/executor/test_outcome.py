"""The record that a stage, a segment and a step return, and its way from a task of Spark to the driver."""

from __future__ import annotations

import json

import pyarrow as pa

import altneu as an
from altneu.runtime.files import from_ipc, to_ipc
from altneu.runtime.local import ShardView
from altneu.runtime.measured import Counted
from altneu.runtime.outcome import Outcome
from altneu.runtime.state import Names, batch_from_json, state_from_json, updates_from_batch
from altneu.runtime.stored import MessageRef
from altneu.trace.batch import Batch
from tests.operators.support import updates_of

NUMBERS = an.source("numbers", "k long, v long")


def rows_of(updates):
    return sorted(zip(updates.rows.to_pylist(), updates.times.T.tolist(), updates.diffs.tolist(), strict=True))


def test_an_outcome_is_the_same_after_its_way_from_a_task():
    written: dict[str, bytes] = {}

    def write(batches, schema):
        name = f"b{len(written)}"
        written[name] = to_ipc(batches, schema)
        return {"blob": name}

    def open_data(data):
        return from_ipc(written[data["blob"]])

    def opened(node, data):
        assert node == 7
        return [updates_from_batch(batch, NUMBERS.schema, 1) for batch in open_data(data)]

    with an.Session() as session:
        session.maintain("kept", NUMBERS)
        session.insert("numbers", [(k % 3, k) for k in range(20)])
        session.advance()
        session.insert("numbers", [(1, 1)], time=9)
        session.advance(to=3)
        snapshot = ShardView(session._engine.table, 0)
        states = {(name, 0): snapshot[name] for name in snapshot}
        (state,) = states.values()
    sent = [(1, 4, MessageRef(2, {"blob": "b9"}, part=0))]
    new = {
        "one": [state.spine.batches[0]],
        "none": [Batch.empty(state.spine.layout, state.spine.batches[0].description)],
    }
    shown = [updates_of(NUMBERS.schema, [((1, 2), 0, 1)]), updates_of(NUMBERS.schema, [((3, 4), 1, -1)])]
    result = Outcome(
        states=states,
        new=new,
        inspected={7: shown},
        received={"numbers": 3},
        sent=sent,
        passed=5,
        measured=Counted({2: [1, 2, 0, 0.5]}),
    )
    value = json.loads(json.dumps(result.to_json(Names(write))))
    again = Outcome.from_json(value, opened)
    assert (again.placement, again.states, again.received, again.passed) == ("spark", {}, {"numbers": 3}, 5)
    assert (again.sent, again.measured) == (sent, result.measured)
    assert again.stored.keys() == states.keys()
    for key, stored in again.stored.items():
        layout = states[key].spine.layout
        actual = state_from_json(layout, stored, open_data)
        assert [rows_of(b.updates()) for b in actual.spine.batches] == [
            rows_of(b.updates()) for b in states[key].spine.batches
        ]
        assert rows_of(actual.future.updates()) == rows_of(states[key].future.updates())
    (named,) = again.new["one"]
    batch = batch_from_json(state.spine.layout, named, open_data)
    assert rows_of(batch.updates()) == rows_of(state.spine.batches[0].updates())
    assert not again.new["none"], "an empty batch is not written"
    assert [rows_of(part) for part in again.inspected[7]] == [rows_of(part) for part in shown]
    assert pa.types.is_int64(again.inspected[7][0].schema.field("k").type)


def test_what_several_shards_return_adds_up():
    total = Outcome()
    for shard in range(3):
        part = Outcome(passed=1, received={"numbers": shard}, measured=Counted({0: [1, 2, 0, 0.5]}))
        part.stored[("one", shard)] = {"batches": [], "hold": []}
        part.sent.append((shard, 0, MessageRef(1)))
        total.add(part)
    assert (total.passed, total.received, total.measured.counts) == (3, {"numbers": 3}, {0: [3, 6, 0, 1.5]})
    assert list(total.stored) == [("one", 0), ("one", 1), ("one", 2)]
    assert [shard for shard, *_ in total.sent] == [0, 1, 2]
