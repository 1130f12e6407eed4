"""Change events become the table they tell of."""

from __future__ import annotations

import json
import random

import pytest

import altneu as an

FIELDS = "id long, name string, n int"


def envelope(op, before, after, *, wrapped=False):
    event = {"op": op, "before": before, "after": after, "ts_ms": 1}
    return json.dumps({"schema": {"type": "struct"}, "payload": event} if wrapped else event)


def history(rng, events):
    """Events of a table at random, and the table after each."""
    table, told = {}, []
    for _ in range(events):
        key = rng.randint(1, 5)
        fresh = {"id": key, "name": rng.choice(["a", "b", None]), "n": rng.randint(0, 3)}
        if key not in table:
            op, before, after = rng.choice("cr"), None, fresh
        else:
            op, before, after = rng.choice([("u", table[key], fresh), ("d", table[key], None)])
        table = {k: v for k, v in table.items() if k != key} | ({key: after} if after else {})
        told.append((envelope(op, before, after, wrapped=rng.random() < 0.5), sorted(map(key_of, table.values()))))
    return told


def key_of(row):
    return (row["id"], row["name"] or "", row["n"])


def shown(view):
    return sorted((i, name or "", n) for i, name, n in view.to_pylist())


@pytest.mark.parametrize("name", ["debezium-customers.jsonl", "debezium-customers-no-schema.jsonl"])
def test_the_sample_gives_its_table(data_dir, name):
    documents = (data_dir / "cdc" / name).read_text().splitlines()
    customers = an.source("customers", "value string")
    fields = "id int, first_name string, last_name string, email string"
    topic = an.source("topic", "offset long, value string")
    with an.Session() as session:
        view = session.maintain("customers", customers.join_function(an.cdc.debezium(fields)))
        keyed = session.maintain("keyed", an.cdc.debezium_upsert(topic, fields, key="id"))
        session.insert("customers", documents)
        session.insert("topic", list(enumerate(documents)))
        session.advance()
        for found in (view, keyed):
            assert sorted(found.to_pylist()) == [
                (1001, "Sally", "Thomas", "sally.thomas@acme.com"),
                (1002, "George", "Bailey", "gbailey@foobar.com"),
                (1003, "Edward", "Walker", "ed@walker.com"),
                (1004, "Anne1", "Kretchmar", "annek@noanswer.org"),
                (1005, "add", "add2", "add"),
            ]


@pytest.mark.parametrize("seed", range(6))
def test_the_events_of_a_history_give_its_table(seed):
    """At every moment, with row images and by key; for the latter in any order, twice."""
    rng = random.Random(seed)
    told = history(rng, 30)
    people, topic = an.source("people", "value string"), an.source("topic", "offset long, value string")
    with an.Session() as session:
        view = session.maintain("people", people.join_function(an.cdc.debezium(FIELDS)))
        keyed = session.maintain("keyed", an.cdc.debezium_upsert(topic, FIELDS, key="id"))
        for offset, (event, table) in enumerate(told):
            session.insert("people", [event])
            session.insert("topic", [(offset, event)])
            session.advance()
            assert shown(view) == table
            assert shown(keyed) == table
    shuffled = [(i, event) for i, (event, _) in enumerate(told)] * 2
    rng.shuffle(shuffled)
    with an.Session() as session:
        keyed = session.maintain("keyed", an.cdc.debezium_upsert(topic, FIELDS, key="id"))
        for i in range(0, len(shuffled), 7):
            session.insert("topic", shuffled[i : i + 7])
            session.advance()
        assert shown(keyed) == told[-1][1]


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (envelope("u", None, {"id": 1, "name": "a", "n": 1}), "MISSING_BEFORE"),
        (envelope("d", None, None), "MISSING_BEFORE"),
        (envelope("c", None, None), "MISSING_AFTER"),
        (envelope("t", None, None), "TRUNCATED_TABLE"),
        (envelope("x", None, None), "UNKNOWN_OPERATION"),
        ("{", "INVALID_JSON"),
        (envelope("c", None, {"id": "one", "name": "a", "n": 1}), "JSON_TYPE"),
    ],
)
def test_what_cannot_be_decoded_is_an_error_row_until_it_is_retracted(document, code):
    people = an.source("people", "value string")
    with an.Session() as session:
        view = session.maintain("people", people.join_function(an.cdc.debezium(FIELDS)))
        session.insert("people", [document, None])
        session.advance()
        assert [e["code"] for e in view.errors().to_pylist()] == [code]
        session.retract("people", [document])
        session.advance()
        assert view.to_pylist() == []


def test_a_member_that_nobody_reads_is_not_parsed():
    people = an.source("people", "value string")
    garbage = envelope("c", None, {"id": 1, "name": {"not": "a text"}, "n": "no number"})
    with an.Session() as session:
        view = session.maintain("ids", people.join_function(an.cdc.debezium(FIELDS)).select("id"))
        session.insert("people", [garbage])
        session.advance()
        assert view.to_pylist() == [(1,)]
        assert "after.n " not in session.explain("ids")


def test_upsert_keeps_the_last_word_on_each_key():
    stream = an.source("stream", "id long, name string, offset long")
    with an.Session() as session:
        view = session.maintain("now", an.cdc.upsert(stream, key="id", value="name", order="offset"))
        session.insert("stream", [(1, "a", 1), (2, "b", 2), (1, "c", 3), (2, None, 4), (3, "d", 5), (1, "a", 1)])
        session.advance()
        assert sorted(view.to_pylist()) == [(1, "c"), (3, "d")]
