"""Change events of Maxwell, Canal, GoldenGate and MongoDB: the events of any history of a table give the table."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

import altneu as an
from altneu.cdc import keyed, logic
from altneu.errors import PlanError, StorePlanError, TypeMismatchError
from altneu.linear import ParseJson

PEOPLE = "id long, name string, n int"
TEXTS = an.source("topic", "value string")
TOPIC = an.source("topic", "offset long, value string")


def person(key, name="Ada", n=1):
    return {"id": key, "name": name, "n": n}


def changed(old, new):
    return {k: v for k, v in old.items() if new[k] != v}


def maxwell(old, new, table="people"):
    kind = "insert" if old is None else "delete" if new is None else "update"
    event = {"database": "shop", "table": table, "type": kind, "ts": 1, "data": new or old}
    return json.dumps(event | ({"old": changed(old, new)} if old and new else {}))


def texts(row):
    return {k: None if v is None else str(v) for k, v in row.items()}


def canal(old, new, table="people"):
    kind = "INSERT" if old is None else "DELETE" if new is None else "UPDATE"
    past = [texts(changed(old, new))] if old and new else None
    event = {"database": "shop", "table": table, "type": kind, "isDdl": False, "data": [texts(new or old)], "old": past}
    return json.dumps(event)


def ogg(old, new, table="people"):
    kind = "I" if old is None else "D" if new is None else "U"
    images = {name: row for name, row in (("before", old), ("after", new)) if row}
    return json.dumps({"table": f"shop.{table}", "op_type": kind, "pos": "1"} | images)


def extended(row):
    return {"_id": {"$oid": str(row["id"])}, "id": {"$numberLong": str(row["id"])}, "name": row["name"], "n": row["n"]}


def mongodb(old, new, table="people"):
    kind = "insert" if old is None else "delete" if new is None else "update"
    event = {"operationType": kind, "ns": {"db": "shop", "coll": table}, "documentKey": {"_id": (old or new)["id"]}}
    event |= {"fullDocument": extended(new)} if new else {}
    return json.dumps(event | ({"fullDocumentBeforeChange": extended(old)} if old else {}))


def debezium_mongodb(old, new, table="people"):
    kind = "c" if old is None else "d" if new is None else "u"
    images = {name: row and json.dumps(extended(row)) for name, row in (("before", old), ("after", new))}
    return json.dumps({"payload": images | {"op": kind, "source": {"db": "shop", "collection": table}}})


TOOLS = {
    "maxwell": (an.cdc.maxwell, maxwell),
    "canal": (an.cdc.canal, canal),
    "ogg": (an.cdc.ogg, ogg),
    "mongodb": (an.cdc.mongodb, mongodb),
    "debezium of mongodb": (an.cdc.mongodb, debezium_mongodb),
}
pytestmark = pytest.mark.usefixtures("session")


@pytest.fixture
def session():
    with an.Session() as made:
        yield made


@pytest.fixture(params=TOOLS)
def tool(request):
    return TOOLS[request.param]


def history(seed, steps=60):
    """Changes of a table, as pairs of a row and what it becomes, and the table in the end."""
    rng, table, changes = random.Random(seed), {}, []
    for _ in range(steps):
        key = rng.randrange(8)
        old = table.get(key)
        new = person(key, rng.choice(["Ada", "Bob", None, 'a "b" ü']), rng.choice([None, *range(4)]))
        new = None if old is not None and rng.random() < 0.3 else new
        if old == new:
            continue
        changes.append((old, new))
        table = {k: v for k, v in table.items() if k != key} | ({key: new} if new else {})
    return changes, Counter(tuple(row.values()) for row in table.values())


@pytest.mark.parametrize("shards", [1, 3])
def test_a_history_gives_the_table(tool, shards):
    decoder, event = tool
    for seed in range(5):
        changes, expected = history(seed)
        with an.Session(shards=shards) as session:
            view = session.maintain("people", TEXTS.join_function(decoder(PEOPLE)))
            for number, change in enumerate(changes):
                session.insert("topic", [event(*change)])
                if number % 20 == 19:
                    session.advance()
            session.insert("topic", [None, "null"])
            session.advance()
            assert Counter(view.to_pylist()) == expected


def test_one_table_of_many(tool, session):
    decoder, event = tool
    view = session.maintain("people", TEXTS.join_function(decoder(PEOPLE, table="shop.people")))
    session.insert("topic", [event(None, person(1)), event(None, person(2), table="staff")])
    session.advance()
    assert view.to_pylist() == [(1, "Ada", 1)]
    with pytest.raises(PlanError, match=r"table must be named"):
        decoder(PEOPLE, table="").bind(TEXTS.schema)


def test_a_row_without_any_of_the_fields_is_an_error_row(tool, session):
    decoder, event = tool
    view = session.maintain("people", TEXTS.join_function(decoder("ID long, Name string")))
    session.insert("topic", [event(None, person(1))])
    session.advance()
    assert view.errors()["code"].to_pylist() == ["MISSING_FIELDS"]
    assert "none of the fields ID, Name" in view.errors()["message"][0].as_py()
    session.retract("topic", [event(None, person(1))])
    session.advance()
    assert view.to_pylist() == []


def decoded(decoder, *documents, fields=PEOPLE):
    """Rows and diffs, then codes of error rows."""
    oks, errors = decoder(fields).run([json.dumps(d) for d in documents], "value string")
    return sorted(((row, diff) for row, _, diff in oks), key=repr), sorted(row["code"] for row, _, _ in errors)


ROW = person(1)


@pytest.mark.parametrize(
    ("decoder", "event", "code"),
    [
        (an.cdc.maxwell, {"type": "update", "data": ROW}, "MISSING_BEFORE"),
        (an.cdc.maxwell, {"type": "insert"}, "MISSING_AFTER"),
        (an.cdc.maxwell, {"type": "table-drop"}, "TRUNCATED_TABLE"),
        (an.cdc.maxwell, {"type": "merge", "data": ROW}, "UNKNOWN_OPERATION"),
        (an.cdc.maxwell, {"op": "c", "after": ROW}, "UNKNOWN_OPERATION"),
        (an.cdc.maxwell, {"type": "insert", "data": {"id": "x"}}, "JSON_TYPE"),
        (an.cdc.maxwell, {"type": "insert", "data": [1]}, "JSON_TYPE"),
        (an.cdc.canal, {"type": "UPDATE", "data": [ROW]}, "MISSING_BEFORE"),
        (an.cdc.canal, {"type": "UPDATE", "data": [ROW], "old": [{}, {}]}, "MISSING_BEFORE"),
        (an.cdc.canal, {"type": "INSERT", "data": None}, "MISSING_AFTER"),
        (an.cdc.canal, {"type": "INSERT", "data": [None]}, "MISSING_AFTER"),
        (an.cdc.canal, {"type": "TRUNCATE", "isDdl": True}, "TRUNCATED_TABLE"),
        (an.cdc.canal, {"type": "INSERT", "data": [{"id": "one"}]}, "CAST_INVALID_INPUT"),
        (an.cdc.ogg, {"op_type": "U", "after": ROW}, "MISSING_BEFORE"),
        (an.cdc.ogg, {"op_type": "I", "before": ROW}, "MISSING_AFTER"),
        (an.cdc.ogg, {"op_type": "T"}, "TRUNCATED_TABLE"),
        (an.cdc.ogg, {"op_type": None}, "UNKNOWN_OPERATION"),
        (an.cdc.mongodb, {"operationType": "update", "fullDocument": ROW}, "MISSING_BEFORE"),
        (an.cdc.mongodb, {"operationType": "replace", "fullDocumentBeforeChange": ROW}, "MISSING_AFTER"),
        (an.cdc.mongodb, {"operationType": "drop"}, "TRUNCATED_TABLE"),
        (an.cdc.mongodb, {"operationType": "x"}, "UNKNOWN_OPERATION"),
        (an.cdc.mongodb, {"operationType": "insert", "fullDocument": {"n": {"$numberInt": "x"}}}, "CAST_INVALID_INPUT"),
    ],
)
def test_what_cannot_be_decoded_is_an_error_row(decoder, event, code):
    assert decoded(decoder, event) == ([], [code])


def test_what_changes_no_row_is_passed_over():
    for kind in ("bootstrap-start", "bootstrap-complete"):
        assert decoded(an.cdc.maxwell, {"type": kind, "data": {}}) == ([], [])
    assert decoded(an.cdc.maxwell, {"type": "insert", "data": {}}) == ([], ["MISSING_FIELDS"])
    assert decoded(an.cdc.maxwell, {"type": "table-alter"}) == ([], [])
    assert decoded(an.cdc.canal, {"type": "ALTER", "isDdl": True, "data": None}) == ([], [])
    assert decoded(an.cdc.mongodb, {"operationType": "createIndexes"}) == ([], [])


def test_a_message_of_canal_has_several_rows():
    event = {
        "type": "UPDATE",
        "data": [texts(person(1, n=2)), texts(person(2, n=None))],
        "old": [{"n": "1"}, {"n": "9"}],
    }
    rows, errors = decoded(an.cdc.canal, event)
    assert errors == []
    assert Counter(rows) == Counter(
        [((1, "Ada", 1), -1), ((1, "Ada", 2), 1), ((2, "Ada", 9), -1), ((2, "Ada", None), 1)]
    )
    with pytest.raises(TypeMismatchError, match="declare it as string"):
        an.cdc.canal("tags array<string>")


def test_a_column_that_was_null():
    """A member that is there and null is what the column was; one that is not there has not changed."""
    now = person(1, None, 2)
    was = {"type": "update", "data": now, "old": {"name": None, "n": 1}}
    assert decoded(an.cdc.maxwell, was)[0] == [((1, None, 1), -1), ((1, None, 2), 1)]
    was = {"type": "update", "data": person(1, "Ada", 2), "old": {"n": None}}
    assert set(decoded(an.cdc.maxwell, was)[0]) == {((1, "Ada", None), -1), ((1, "Ada", 2), 1)}


def test_forms_of_json_of_mongodb():
    fields = "_id string, a long, b double, c decimal(10,2), d timestamp, e timestamp, f date, g boolean, h binary"
    fields += ", i array<int>"
    document = {
        "_id": {"$oid": "65a"},
        "a": {"$numberLong": "5"},
        "b": {"$numberDouble": "NaN"},
        "c": {"$numberDecimal": "1.5"},
        "d": {"$date": {"$numberLong": "1661327688868"}},
        "e": {"$date": "2022-08-24T07:54:48.868Z"},
        "f": {"$date": 1661327688868},
        "g": True,
        "h": {"$binary": {"base64": "aGk=", "subType": "00"}},
        "i": [1, 2],
    }
    [(row, _, _)], errors = an.cdc.mongodb(fields).run(
        [json.dumps({"operationType": "insert", "fullDocument": document})], "value string"
    )
    assert errors == []
    assert (row[0], row[1], str(row[2]), str(row[3]), row[6].isoformat(), *row[7:]) == (
        "65a", 5, "nan", "1.50", "2022-08-24", True, b"hi", [1, 2],
    )  # fmt: skip
    assert row[4] == row[5]
    assert row[4].isoformat() == "2022-08-24T07:54:48.868000+00:00"


def test_documents_without_what_they_were(tmp_path):
    """By key, the last event counts, in any order and any number of times; reopened half way."""
    for seed in range(3):
        changes, expected = history(seed)
        rng = random.Random(seed)
        events = []
        for offset, (_, new) in enumerate(changes):
            event = json.loads(mongodb(None, new or person(0)))
            event["documentKey"] = {"_id": {"$numberInt": str((changes[offset][0] or new)["id"])}}
            if new is None:
                del event["fullDocument"]
            event["operationType"] = "delete" if new is None else "replace"
            events.append((offset, json.dumps(event)))
        events += rng.sample(events, len(events) // 3)
        rng.shuffle(events)
        plan = an.cdc.mongodb_upsert(TOPIC, "_id long, id long, name string, n int").select("id", "name", "n")
        half = len(events) // 2
        for part in (events[:half], events[half:]):
            with an.Session(path=tmp_path / str(seed)) as session:
                view = session.maintain("people", plan)
                session.insert("topic", part)
                session.advance()
                rows = Counter(view.to_pylist())
        assert rows == expected


def test_documents_that_say_too_little(session):
    view = session.maintain("people", an.cdc.mongodb_upsert(TOPIC, "_id long, n int"))
    events = [{"operationType": "delete"}, {"operationType": "update", "documentKey": {"_id": 1}}]
    events.append({"operationType": "insert", "documentKey": {"_id": 1}, "fullDocument": {"N": 1}})
    session.insert("topic", list(enumerate(map(json.dumps, events))))
    session.advance()
    assert sorted(view.errors()["code"].to_pylist()) == ["MISSING_AFTER", "MISSING_FIELDS", "MISSING_KEY"]


def test_debezium_says_what_is_missing(session):
    event = '{"op": "c", "after": {"ID": 1, "NAME": "x"}}'
    view = session.maintain("plain", TEXTS.join_function(an.cdc.debezium(PEOPLE)).select("name"))
    keyed_topic = an.source("keyed", "offset long, key string, value string")
    upserted = an.cdc.debezium_upsert(keyed_topic, PEOPLE, key="id", key_column="key")
    by_key = session.maintain("keyed", upserted)
    session.insert("topic", [event, '{"op": "c", "after": {"n": null}}'])
    session.insert("keyed", [(1, '{"id": 1}', event)])
    session.advance()
    assert view.errors()["code"].to_pylist() == by_key.errors()["code"].to_pylist() == ["MISSING_FIELDS"]
    session.retract("topic", [event])
    session.advance()
    assert view.to_pylist() == [(None,)]


def test_views_from_before_fields_were_needed_are_maintained_as_they_were(tmp_path, monkeypatch):
    event = '{"op": "c", "after": {"ID": 1}}'

    def opened():
        session = an.Session(path=tmp_path)
        topic = an.source("topic", "offset long, key string, value string")
        session.maintain("keyed", an.cdc.debezium_upsert(topic, PEOPLE, key="id", key_column="key"))
        session.maintain("plain", topic.join_function(an.cdc.debezium(PEOPLE)))
        return session

    with monkeypatch.context() as patch:
        for module in (logic, keyed):
            patch.setattr(module, "ParseJson", lambda column, fields, *_: ParseJson(column, fields))
        with opened() as session:
            session.insert("topic", [(1, '{"id": 1}', event)])
            session.advance()
    with opened() as session:
        assert session.view("plain").to_pylist() == [(None, None, None)]
        assert session.view("keyed").to_pylist() == [(1, None, None)]
        session.retract("topic", [(1, '{"id": 1}', event)])
        session.advance()
        assert session.view("plain").to_pylist() == []
    with an.Session(path=tmp_path) as session, pytest.raises(StorePlanError):
        session.maintain("plain", TEXTS.join_function(an.cdc.debezium(PEOPLE)))


def test_a_unit_for_all_may_find_no_timestamp():
    for fields in ("id long, name string", "id long, day date"):
        an.cdc.debezium(fields, unit="ms")
    with pytest.raises(PlanError, match="unit='h'"):
        an.cdc.debezium("id long", unit="h")
    with pytest.raises(PlanError, match="unit='ms'"):
        an.cdc.debezium("id long", unit={"id": "ms"})


@pytest.mark.parametrize("name", ["MAXWELL", "CANAL", "OGG", "MONGODB"])
def test_in_sql(name, session):
    event = {"MAXWELL": maxwell, "CANAL": canal, "OGG": ogg, "MONGODB": mongodb}[name]
    session.sql(f"CREATE SOURCE people ({PEOPLE}) ENVELOPE {name} (TABLE 'shop.people') KEEP")
    session.insert("people", [event(None, person(1)), event(person(1), person(1, n=2)), event(None, person(3), "x")])
    assert session.sql("SELECT * FROM people").to_pylist() == [(1, "Ada", 2)]


def test_mongodb_by_key_in_sql(session):
    session.sql("CREATE SOURCE docs (_id BIGINT, name STRING) ENVELOPE MONGODB UPSERT (ORDER BY at) KEEP")
    session.insert("docs", [(2, mongodb(None, person(1, "Bob"))), (1, mongodb(None, person(1)))])
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM docs")
    session.advance()
    assert session.sql("SELECT name FROM v").to_pylist() == [("Bob",)]


@pytest.mark.parametrize("read", [an.cdc.canal, an.cdc.mongodb])
def test_a_unit_where_none_is_needed_is_refused(read):
    with pytest.raises(PlanError, match=rf"{read.__name__} takes no unit, got 'ms': .* leave it out"):
        read("id long, at timestamp", unit="ms")
