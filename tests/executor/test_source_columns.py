"""The columns that a source has and had are told in a commit as what changes, and read back exactly."""

from __future__ import annotations

import base64
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import altneu as an
from altneu.errors import StoreCorruptError
from altneu.plan.versions import Version, Versions
from altneu.runtime.described import schema_to_text
from altneu.runtime.source_columns import columns_in, keys_of, told

FIRST = Versions.of(
    pa.schema(
        [
            pa.field("a b", pa.int32(), nullable=False),
            pa.field("s", pa.string(), metadata={"altneu.mark": "collate UTF8_LCASE"}),
            ("x", pa.struct([pa.field("y", pa.list_(pa.field("element", pa.decimal128(5, 2), nullable=False)))])),
        ]
    )
)


def added(versions, draw):
    name, default = f"c{len(versions.all)}", draw(st.sampled_from([None, Decimal("1.50")]))
    place = draw(st.integers(0, len(versions.present.numbers)))
    return versions.added(pa.field(name, pa.decimal128(5, 2)), default, place)


def dropped(versions, draw):
    names = versions.present.schema.names
    return versions.dropped(draw(st.sampled_from(names))) if len(names) > 1 else versions


def renamed(versions, draw):
    return versions.renamed(draw(st.sampled_from(versions.present.schema.names)), f"r{len(versions.all)}")


def widened(versions, draw):
    known = [f.name for f in versions.present.schema if f.type == pa.decimal128(5, 2)]
    again = draw(st.lists(st.integers(0, len(versions.all) - 1), unique=True, max_size=2))
    number = versions.present.number_of(draw(st.sampled_from(known))) if known else None
    again = [place for place in again if number in versions.all[place].numbers]
    name = None if number is None else versions.present.by_number[number].name
    return versions if name is None else versions.widened(name, pa.decimal128(9, 2), again)


CHANGES = st.lists(st.sampled_from([added, dropped, renamed, widened]), min_size=1, max_size=4)


def exactly(versions):
    return [(schema_to_text(v.schema), v.numbers) for v in versions.all], dict(versions.defaults)


def put(state, known, versions, before):
    """Commit versions as the journal does."""
    values, stale = told(known, versions, before)
    state.update(json.loads(json.dumps(values)))
    for key in stale:
        state.pop(key, None)
    return values


@given(st.data(), st.lists(CHANGES, min_size=1, max_size=4))
def test_told_as_changes_and_read_back(data, commits):
    state, before, versions = {}, None, FIRST
    for changes in [[], *commits]:
        for change in changes:
            versions = change(versions, data.draw)
        values = put(state, "a/b", versions, before)
        assert values.keys() <= {*keys_of("a/b", versions)}
        assert exactly(columns_in(state)["a/b"]) == exactly(versions)
        before = versions
    assert state.keys() == {*keys_of("a/b", versions)}


@given(st.data(), CHANGES, CHANGES)
def test_what_an_earlier_altneu_told_as_a_whole_goes_on_as_changes(data, first, then):
    versions = FIRST
    for change in first:
        versions = change(versions, data.draw)
    whole = [{"schema": schema_to_text(v.schema), "numbers": list(v.numbers)} for v in versions.all]
    values, _ = told("s", versions, None)
    defaults = {}
    for value in values.values():
        defaults |= value.get("defaults", {})
    state = {"schema/s": {"versions": whole, **({"defaults": defaults} if defaults else {})}}
    before = columns_in(state)["s"]
    assert exactly(before) == exactly(versions)
    for change in then:
        versions = change(versions, data.draw)
    assert "schema/s" not in put(state, "s", versions, before)
    assert exactly(columns_in(state)["s"]) == exactly(versions)


def test_a_source_with_other_columns_than_before_leaves_no_change_of_those():
    state, before = {}, FIRST.renamed("s", "t").dropped("x").added(pa.field("n", pa.int64()), 7)
    put(state, "s", before, None)
    put(state, "t", before, None)
    other = Versions.of(pa.schema([("k", pa.int64())])).renamed("k", "l")
    put(state, "s", other, before)
    assert exactly(columns_in(state)["s"]) == exactly(other)
    assert exactly(columns_in(state)["t"]) == exactly(before)
    assert state.keys() == {*keys_of("s", other), *keys_of("t", before)}


def test_columns_in_another_order_are_read_back():
    fields = [*FIRST.present.schema]
    versions = Versions((*FIRST.all, Version(pa.schema([fields[2], fields[0], fields[1]]), (2, 0, 1))))
    state = {}
    put(state, "s", versions, None)
    assert exactly(columns_in(state)["s"]) == exactly(versions)


def test_defaults_that_are_known_later_are_told_with_the_next_version():
    versions = Versions(FIRST.renamed("s", "t").all, {0: 5})
    state = {}
    put(state, "s", FIRST, None)
    assert "schema/s" not in put(state, "s", versions, FIRST)
    assert exactly(columns_in(state)["s"]) == exactly(versions)


@pytest.mark.parametrize(
    "damage",
    [
        {"columns/s/1": {"columns": [{"place": 0}]}},
        {"columns/s/1": {"columns": [{"place": 0, "number": 3, "schema": "?"}]}},
        {"columns/s/3": {}},
        {"schema/s": {}},
        {"schema/s": {"versions": [{"schema": base64.b64encode(b"x").decode(), "numbers": [0]}]}},
    ],
)
def test_what_tells_no_columns_is_refused(damage):
    state = {}
    put(state, "s", FIRST.renamed("s", "t"), None)
    with pytest.raises(StoreCorruptError, match="tells the columns of a source in a form that this version cannot"):
        columns_in(state | damage)


def test_what_a_dropped_table_had_is_deleted(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.sql("CREATE TABLE t (k INT); ALTER TABLE t ADD COLUMN n INT; ALTER TABLE t RENAME COLUMN n TO m")
        state = session._engine.journal.store.state
        assert {k for k in state if k.endswith(("/t", "/t/1", "/t/2")) and k.startswith(("schema", "columns"))} == {
            "schema/t",
            "columns/t/1",
            "columns/t/2",
        }
        session.sql("DROP TABLE t")
        assert not [key for key in state if key.startswith(("schema/", "columns/"))]
        session.sql("CREATE TABLE t (k INT)")
        session.insert("t", [(1,)])
        session.advance()
    with an.Session(path=tmp_path) as session:
        assert session.sql("SELECT * FROM t").to_pylist() == [(1,)]
