"""How a view is kept, as a commit tells it, is read back exactly."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import ReadError, StoreCorruptError
from altneu.order import Epoch, Product
from altneu.plan.physical import ViewPorts
from altneu.runtime.described import Described
from altneu.trace.batch import Layout

SCHEMA = pa.schema(
    [
        pa.field("a b", pa.int64(), nullable=False),
        ("s", pa.struct([pa.field("x", pa.list_(pa.field("element", pa.string(), nullable=False)), nullable=False)])),
        ("m", pa.map_(pa.string(), pa.decimal128(20, 3))),
        ("t", pa.timestamp("us", "UTC")),
    ]
)


@pytest.mark.parametrize("lattice", [Epoch(), Product(Epoch(), Epoch())])
@pytest.mark.parametrize("order", [(), (("t", False, True),), (("t", True, False), ("m", False, True))])
@pytest.mark.parametrize("changes_only", [False, True])
def test_told_and_read_back(lattice, order, changes_only):
    errors = Layout(pa.schema([("code", pa.string())]), ("code",), Epoch())
    layouts = {"contents": Layout(SCHEMA, ("a b",), lattice, order), "errors": errors}
    names = ("system", "event") if lattice.width == 2 else None
    described = Described(ViewPorts("contents", ("errors",), SCHEMA, changes_only), layouts, names)
    again = Described.from_json(json.loads(json.dumps(described.to_json())))
    assert again == described
    layouts |= {"by s": Layout(SCHEMA, ("s",), lattice, order), "numbers": Layout(SCHEMA, ("s",), lattice)}
    more = Described(described.ports, layouts, names, {"contents": "f", "by s": "g"}, {"by s": "numbers"})
    assert Described.from_json(json.loads(json.dumps(more.to_json()))) == more
    computed = replace(more, sources={"a": lattice.width, "b": 1}, coordinates=("known", "day", "shift"))
    assert Described.from_json(json.loads(json.dumps(computed.to_json()))) == computed
    assert again.ports.schema.equals(SCHEMA, check_metadata=True)


@pytest.mark.parametrize("damage", [{"contents": {}}, {"schema": "?"}, {"errors": None}, {"coordinates": ["one"]}])
def test_what_is_no_description_is_refused(damage):
    layout = Layout(SCHEMA, ("a b",), Epoch())
    answer = Described(ViewPorts("c", (), SCHEMA), {"c": layout}, None).to_json()
    with pytest.raises(StoreCorruptError, match=r"describes a view in a form that this version cannot read"):
        Described.from_json(answer | damage)


def test_a_view_of_an_earlier_altneu_is_described_when_it_is_maintained_again(tmp_path):
    plan = an.source("s", "a long")
    with an.Session(path=tmp_path) as session:
        session.maintain("v", plan)
        session.insert("s", [(1,)])
        session.advance()
        value = dict(session._engine.journal.views["v"])
        kept = value.pop("kept"), value.pop("lower")
        session._engine.journal.store.commit(session._engine.journal.store.frontier, {"view/v": value})
    with an.read(tmp_path) as reader:
        assert reader.views == ["v"]
        with pytest.raises(ReadError, match=r"without the layout of view 'v'.*maintain the view there, and advance"):
            reader.view("v")
        with an.Session(path=tmp_path) as session:
            session.maintain("v", plan)
            session.advance()
            assert session._engine.journal.store.state["view/v"]["kept"] == kept[0]
        reader.refresh()
        assert reader.view("v").to_pylist() == [(1,)]
