"""Change data capture: what databases tell of their changes gives their tables, however they tell it."""

from __future__ import annotations

import json
import random
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import altneu as an
from altneu.errors import PlanError, SchemaError, TypeMismatchError, UnknownColumnError
from altneu.plan.rewrite import optimise

FIELDS = "id int, first_name string, last_name string, email string"
FINAL = {
    (1001, "Sally", "Thomas", "sally.thomas@acme.com"),
    (1002, "George", "Bailey", "gbailey@foobar.com"),
    (1003, "Edward", "Walker", "ed@walker.com"),
    (1004, "Anne1", "Kretchmar", "annek@noanswer.org"),
    (1005, "add", "add2", "add"),
}
TEXTS = an.source("topic", "value string")
TOPIC = an.source("topic", "offset long, key string, value string")
PEOPLE = "id long, name string, n int"


@pytest.fixture
def session():
    with an.Session() as session:
        yield session


def envelope(op, before=None, after=None, *, wrapped=False, **more):
    result = {"before": before, "after": after, "source": {"table": "people", "op": "?"}, "op": op, **more}
    return json.dumps({"schema": {"type": "struct"}, "payload": result} if wrapped else result)


def person(key, name="Ada", n=1):
    return {"id": key, "name": name, "n": n}


def decoded(*texts, fields=PEOPLE, **how):
    """Rows and diffs, then codes and diffs of error rows."""
    oks, errors = an.cdc.debezium(fields, **how).run(list(texts), "value string")
    return [(row, diff) for row, _, diff in oks], [(row["code"], diff) for row, _, diff in errors]


def contents(view):
    return Counter(view.to_pylist())


# Debezium: what an event says -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrapped", [False, True])
def test_each_kind_of_event(wrapped):
    old, new = person(1, "Ada", 5), person(1, None, 6)
    said = {
        op: decoded(envelope(op, before, after, wrapped=wrapped))
        for op, before, after in (
            ("r", None, new),
            ("c", None, new),
            ("u", old, new),
            ("d", old, None),
            ("m", None, None),
        )
    }
    gone, came = ((1, "Ada", 5), -1), ((1, None, 6), 1)
    assert said == {"r": ([came], []), "c": ([came], []), "u": ([gone, came], []), "d": ([gone], []), "m": ([], [])}


@pytest.mark.parametrize("schema", [{"schema": {"type": "struct"}}, {}])
def test_a_document_is_one_event(session, schema):
    """The payload's where there is one, though the document looks like another; nothing of the two is mixed."""
    payload = {"op": "d", "before": person(1), "after": None}
    both = json.dumps({"op": "c", "after": person(2), "payload": payload, **schema})
    assert decoded(both) == ([((1, "Ada", 1), -1)], [])
    alone = {"op": "c", "after": person(2), "payload": {"before": person(1)}, **schema}
    assert decoded(json.dumps(alone)) == ([((2, "Ada", 1), 1)], [])
    view = session.maintain("people", an.cdc.debezium_upsert(TOPIC, PEOPLE, key="id"))
    session.insert("topic", [(1, None, envelope("c", None, person(1))), (2, None, both)])
    session.advance()
    assert view.to_pylist() == []


TOMBSTONES = [
    *(None, "null", " null ", "\tnull\r\n", '{"schema":null,"payload":null}', '{"schema": null, "payload": null}'),
    *('{"payload":null,"schema":null}', ' {\n  "payload" : null ,\n  "schema" : null\n}\n'),
]
NULL_PAYLOADS = ['{"payload":null}', '{ "payload" : null }\n']


@pytest.mark.parametrize("text", [*TOMBSTONES, *NULL_PAYLOADS])
def test_tombstones_say_nothing(text, session):
    assert decoded(text) == ([], [])
    last = an.cdc.debezium_upsert(TOPIC, PEOPLE, key="id", key_column="key")
    view = session.maintain("people", last)
    known = session.maintain("known", an.cdc.debezium_upsert(TOPIC, PEOPLE, key="id"))
    session.insert("topic", [(1, '{"id": 1}', envelope("c", None, person(1)))])
    session.insert("topic", [(2, '{"id": 1}', text)])
    session.advance()
    assert view.to_pylist() == [], "the key of the record says whose it is"
    assert known.to_pylist() == [(1, "Ada", 1)]


@pytest.mark.parametrize("text", TOMBSTONES)
def test_tombstones_of_upserts(text, session):
    events = an.source("events", "offset long, k string, v string")
    view = session.maintain("v", an.cdc.upsert(events, "k", value="v", fields="payload string"))
    session.insert(
        "events", [(1, "a", '{"payload": "x"}'), (1, "b", '{"payload": null}'), (1, "c", '{"payload": "x"}')]
    )
    session.advance()
    assert sorted(view.to_pylist()) == [("a", "x"), ("b", None), ("c", "x")], "a member may be called payload"
    session.insert("events", [(2, "a", text)])
    session.advance()
    assert sorted(view.to_pylist()) == [("b", None), ("c", "x")]


def test_a_row_may_have_a_column_called_payload(session):
    view = session.maintain("v", an.cdc.debezium_upsert(TOPIC, "id long, payload string", key="id", key_column="key"))
    session.insert("topic", [(1, '{"id": 1}', '{"op": "c", "after": {"payload": null}}')])
    session.advance()
    assert view.to_pylist() == [(1, None)]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("code", "event"),
    [
        ("MISSING_BEFORE", ("u", None, person(1))),
        ("MISSING_BEFORE", ("d", None, None)),
        ("MISSING_AFTER", ("r", None, None)),
        ("MISSING_AFTER", ("c", person(1), None)),
        ("MISSING_AFTER", ("u", person(1), None)),
        ("TRUNCATED_TABLE", ("t", None, None)),
        ("UNKNOWN_OPERATION", ("x", person(1), person(2))),
        ("UNKNOWN_OPERATION", (None, None, person(1))),
        ("JSON_TYPE", ("c", None, [1])),
        ("JSON_TYPE", ("c", None, {"id": "one"})),
        ("JSON_TYPE", ("u", "x", person(1))),
    ],
)
def test_what_cannot_be_decoded_is_an_error_row(code, event, wrapped):
    assert decoded(envelope(*event, wrapped=wrapped)) == ([], [(code, 1)])


@pytest.mark.parametrize("text", ["", "{", '{"op": "c"', "{} {}", "[1, 2", '{"op": "c", "after": {"id": 1}'])
def test_what_is_no_json_is_an_error_row(text):
    assert decoded(text) == ([], [("INVALID_JSON", 1)])


@pytest.mark.parametrize("text", ["{}", '{"id": 1}', '{"payload": {}}', '{"schema": null}', '{"schema": {}}'])
def test_a_document_that_is_no_event_is_not_passed_over(text):
    assert decoded(text) == ([], [("UNKNOWN_OPERATION", 1)])


def test_the_message_says_what_to_do():
    _, [(error, _, _)] = an.cdc.debezium(PEOPLE).run([envelope("d")], "value string")
    assert "REPLICA IDENTITY FULL" in error["message"]
    assert "debezium_upsert" in error["message"]
    assert error["row"] == json.dumps({"value": envelope("d")})
    assert "debezium_event" in error["operator"]


def test_errors_heal_when_the_document_is_retracted(session):
    view = session.maintain("people", TEXTS.join_function(an.cdc.debezium(PEOPLE)))
    bad = ["{", envelope("u", None, person(1)), envelope("c", None, {"id": "x"}), envelope("t"), "{}"]
    session.insert("topic", [*bad, envelope("c", None, person(2))])
    session.advance()
    assert sorted(view.errors()["code"].to_pylist()) == [
        "INVALID_JSON", "JSON_TYPE", "MISSING_BEFORE", "TRUNCATED_TABLE", "UNKNOWN_OPERATION",
    ]  # fmt: skip
    session.retract("topic", bad)
    session.advance()
    assert view.to_pylist() == [(2, "Ada", 1)]


def test_other_columns_are_left_out_and_the_text_may_be_anywhere():
    rows = [(7, envelope("c", None, person(1)), "x")]
    oks, _ = an.cdc.debezium("n int, id long", column="body").run(rows, "offset long, body string, op string")
    assert oks == [((1, 1), 0, 1)]


def test_a_table_may_have_columns_of_any_name():
    names = ["op", "before", "after", "payload", "value", "a.b", "before.op", "a b"]
    row = {name: i for i, name in enumerate(names)}
    fields = ", ".join(f"`{name}` int" for name in names)
    for wrapped in (False, True):
        assert decoded(envelope("c", None, row, wrapped=wrapped), fields=fields) == ([(tuple(range(8)), 1)], [])


def test_a_dot_in_the_name_of_a_field_is_a_character_for_every_decoder(session):
    row = '{"id": 1, "a.b": 7, "a": {"b": 8}}'
    upserts = an.source("upserts", "offset long, id long, value string")
    topic, mongo = (an.source(name, "offset long, value string") for name in ("events", "mongo"))
    fields = "id long, `a.b` int"
    feed = an.cdc.Feed("feed", fields)
    collections = {
        "upsert": an.cdc.upsert(upserts, "id", value="value", fields="`a.b` int"),
        "debezium": an.cdc.debezium_upsert(topic, fields, "id"),
        "mongodb": an.cdc.mongodb_upsert(mongo, fields, "id"),
        "feed": feed.collection,
    }
    views = {name: session.maintain(name, collection) for name, collection in collections.items()}
    session.insert("upserts", [(1, 1, row)])
    session.insert("events", [(1, f'{{"op": "c", "after": {row}}}')])
    session.insert("mongo", [(1, f'{{"operationType": "insert", "documentKey": {{"id": 1}}, "fullDocument": {row}}}')])
    feed.offer([f'{{"updates": [[{row}, 0, 1]]}}', '{"progress": {"lower": 0, "upper": 1, "counts": [[0, 1]]}}'])
    feed.advance(session)
    assert {name: view.to_pylist() for name, view in views.items()} == {name: [(1, 7)] for name in collections}


def test_encodings_of_dates_times_and_decimals():
    fields = "day date, at timestamp, late timestamp, zoned timestamp, price decimal(10,2), local timestamp_ntz"
    row = {
        "day": 19_000, "at": 1_661_327_688_868, "late": 1_661_327_688_868_123_456,
        "zoned": "2022-08-24T07:54:48.868+02:00", "price": "12.30", "local": 1_661_327_688_868_123,
    }  # fmt: skip
    [(actual, _)], errors = decoded(
        envelope("c", None, row), fields=fields, unit={"at": "ms", "late": "ns", "local": "us"}
    )
    assert errors == []
    moment = datetime(2022, 8, 24, 7, 54, 48, 868_000, UTC)
    assert actual == (
        date(2022, 1, 8), moment, moment.replace(microsecond=868_123), moment.replace(hour=5), Decimal("12.30"),
        moment.replace(microsecond=868_123, tzinfo=None),
    )  # fmt: skip
    assert decoded(envelope("c", None, {"at": 5}), fields="at timestamp", unit="s")[0][0][0][0].second == 5
    assert decoded(envelope("c", None, {"at": 5}), fields="at timestamp") == ([], [("JSON_TYPE", 1)])


@pytest.mark.parametrize(
    ("refused", "error", "words"),
    [
        (lambda: an.cdc.debezium(""), SchemaError, "name type"),
        (lambda: an.cdc.debezium("id long, id int"), SchemaError, "id"),
        (lambda: an.cdc.debezium("at timestamp", unit="min"), PlanError, "'min'"),
        (lambda: an.cdc.debezium("at timestamp", unit={"it": "ms"}), UnknownColumnError, "'it'"),
        (lambda: an.cdc.debezium("span interval day to second"), TypeMismatchError, "interval"),
        (lambda: TEXTS.join_function(an.cdc.debezium("id long", column="body")), UnknownColumnError, "'body'"),
        (
            lambda: an.source("b", "value binary").join_function(an.cdc.debezium("id long")),
            TypeMismatchError,
            "'value' is binary",
        ),
        (lambda: an.cdc.debezium_upsert(TOPIC, "id long", key="it"), UnknownColumnError, "'it'"),
        (lambda: an.cdc.debezium_upsert(TOPIC, "offset long", key="offset"), SchemaError, "offset"),
        (lambda: an.cdc.debezium_upsert(TEXTS, "id long", key="id"), UnknownColumnError, "'offset'"),
        (lambda: an.cdc.debezium_upsert(TOPIC, "id long", "id", key_column="k"), UnknownColumnError, "'k'"),
        (lambda: an.cdc.upsert(TOPIC, "offset", value=()), PlanError, "value="),
        (lambda: an.cdc.upsert(TOPIC, "key", fields="key string", value="value"), SchemaError, "key"),
        (lambda: an.cdc.upsert(TOPIC, "nokey", value="value"), UnknownColumnError, "'nokey'"),
        (
            lambda: an.cdc.upsert(TOPIC, "offset", value=["key", "value"], fields="id long"),
            PlanError,
            "one column",
        ),
        (lambda: TOPIC.join_function(an.cdc.updates("x long")), UnknownColumnError, "'data'"),
        (
            lambda: TOPIC.join_function(an.cdc.updates("x long", data="value", time="key", diff="offset")),
            TypeMismatchError,
            "time",
        ),
    ],
)
def test_refused_when_the_plan_is_built(refused, error, words):
    with pytest.raises(error, match=words):
        refused()


def test_logics_are_equal_when_what_they_say_is():
    assert an.cdc.debezium("id long") == an.cdc.debezium("id long")
    assert an.cdc.debezium("id long") != an.cdc.debezium("id int")
    assert an.cdc.debezium("at timestamp", unit="ms") != an.cdc.debezium("at timestamp", unit="us")
    assert an.cdc.debezium("id long") != an.cdc.debezium("id long", column="body")


# Debezium: only what is read is parsed --------------------------------------------------------------------------------


def garbled(key, name):
    """An event whose other members are nothing that the fields say."""
    return envelope("c", None, {"id": key, "name": name, "n": {"not": ["a", "number"]}})


def test_a_member_that_nobody_reads_is_not_parsed(session):
    people = TEXTS.join_function(an.cdc.debezium(PEOPLE))
    names = session.maintain("names", people.select("name"))
    counts = session.maintain("counts", people.group_by("name").agg(n="count(*)"))
    everything = session.maintain("everything", people)
    session.insert("topic", [garbled(i, "Ada") for i in range(3)])
    session.advance()
    assert names.to_pylist() == [("Ada",)] * 3
    assert counts.to_pylist() == [("Ada", 3)]
    assert everything.errors()["code"].to_pylist() == ["JSON_TYPE"] * 3
    assert "after.name as" in session.explain("names")
    assert "after.n as" not in session.explain("names")
    assert "after.n as" in session.explain("everything")


@pytest.mark.parametrize("read", ["id", "name", "n"])
def test_the_normal_form_reads_the_members_that_are_asked_for(read):
    people = TEXTS.join_function(an.cdc.debezium(PEOPLE)).select(read)
    [parsing] = [s for s in optimise(people.node).logic.steps if hasattr(s, "fields")]
    images = {f.path[-1] for f in parsing.fields if f.path[-2:-1] in (("before",), ("after",))}
    assert images == {read}


def test_keyed_events_are_read_after_the_arrangement(session):
    people = an.cdc.debezium_upsert(TOPIC, PEOPLE, key="id")
    view = session.maintain("names", people.select("name"))
    session.insert("topic", [(i, None, garbled(1, f"Ada{i}")) for i in range(3)])
    session.advance()
    assert view.to_pylist() == [("Ada2",)]


# Debezium: histories of tables ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["debezium-customers.jsonl", "debezium-customers-no-schema.jsonl"])
def test_real_events(session, data_dir, name):
    lines = (data_dir / "cdc" / name).read_text().splitlines()
    images = session.maintain("images", TEXTS.join_function(an.cdc.debezium(FIELDS)))
    events = an.source("events", "offset long, value string")
    keyed = session.maintain("keyed", an.cdc.debezium_upsert(events, FIELDS, key="id"))
    for offset, line in enumerate(lines):
        session.insert("topic", [line])
        session.insert("events", [(offset, line)])
        session.advance()
        assert contents(images) == contents(keyed)
        assert len(images.to_pylist()) in (offset + 1, 5, 6)
    assert set(images.to_pylist()) == FINAL
    session.retract("topic", lines)
    session.advance()
    assert images.to_pylist() == []


def test_real_events_in_one_step_on_spark(spark, data_dir):
    frame = spark.read.text(str(data_dir / "cdc" / "*.jsonl"))
    with an.Session(spark, placement="spark") as session:
        people = TEXTS.join_function(an.cdc.debezium(FIELDS))
        view = session.maintain("people", people.select("id", "email"))
        session.insert("topic", frame)
        session.advance()
        assert contents(view) == Counter({(r[0], r[3]): 2 for r in FINAL})
        assert view.df().count() == 10


people = st.tuples(st.sampled_from([None, "Ada", "Böb", 'C"\\\n', ""]), st.sampled_from([None, 0, -7, 2**31 - 1]))
changes = st.lists(st.tuples(st.integers(0, 3), st.none() | people, st.booleans()), max_size=12)


def history(steps, *, images=True):
    """Events of a table that is changed step by step, and the table after each; a key is told by every image."""
    table, answer = {}, []
    for key, row, wrapped in steps:
        old = table.get(key)
        before = old if images or old is None else {"id": key}
        if row is None and old is not None:
            del table[key]
            answer += [(key, envelope("d", before, None, wrapped=wrapped)), (key, None)]
        elif row is not None:
            table[key] = {"id": key, "name": row[0], "n": row[1]}
            op = "u" if old is not None else "c"
            before = None if op == "u" and not images else before
            answer.append((key, envelope(op, before, table[key], wrapped=wrapped)))
        else:
            answer.append((key, envelope("m", wrapped=wrapped)))
        yield answer, Counter((k, r["name"], r["n"]) for k, r in table.items())
        answer = []


@given(changes)
def test_a_history_of_events_is_the_table_at_every_moment(steps):
    with an.Session() as session:
        view = session.maintain("people", TEXTS.join_function(an.cdc.debezium(PEOPLE)))
        for events, table in history(steps):
            session.insert("topic", [text for _, text in events])
            session.advance()
            assert contents(view) == table


@given(changes, st.sampled_from(["value", "key"]), st.randoms(use_true_random=False))
def test_without_images_the_last_event_of_each_key_counts(steps, where, rng):
    """At every moment in order; and at once, from events that come twice and in any order."""
    how = {"key_column": "key"} if where == "key" else {}
    people = an.cdc.debezium_upsert(TOPIC, PEOPLE, key="id", **how)
    sent, table = [], Counter()
    with an.Session() as session:
        view = session.maintain("people", people)
        for events, table in history(steps, images=False):
            rows = [
                (len(sent) + i, json.dumps({"payload": {"id": k}} if i % 2 else {"id": k}), text)
                for i, (k, text) in enumerate(events)
            ]
            sent += rows
            session.insert("topic", rows)
            session.advance()
            assert contents(view) == table
    again = sent * 2
    rng.shuffle(again)
    with an.Session() as session:
        view = session.maintain("people", people)
        session.insert("topic", again)
        session.advance()
        assert contents(view) == table


def test_keys_of_several_columns_and_deletes_without_any_image(session):
    how = {"key": ["a", "b"], "key_column": "key"}
    view = session.maintain("rows", an.cdc.debezium_upsert(TOPIC, "b int, x string, a string", **how))
    rows = {(a, b): {"a": a, "b": b, "x": f"{a}{b}"} for a in "pq" for b in (1, 2)}
    for offset, row in enumerate(rows.values()):
        key = json.dumps({"a": row["a"], "b": row["b"]})
        session.insert("topic", [(offset, key, envelope("c", None, row))])
    session.insert("topic", [(10, '{"a": "p", "b": 1}', envelope("d")), (11, '{"a": "q", "b": 2}', None)])
    session.advance()
    assert contents(view) == Counter([(2, "p2", "p"), (1, "q1", "q")])


def test_an_event_that_names_no_key_is_an_error_row(session):
    view = session.maintain("people", an.cdc.debezium_upsert(TOPIC, PEOPLE, key="id"))
    bad = [
        (1, None, envelope("d")),
        (2, None, envelope("c", None, {"name": "Ada"})),
        (3, None, envelope("u", person(1))),
    ]
    session.insert("topic", [*bad, (4, None, envelope("c", None, person(1)))])
    session.advance()
    assert sorted(view.errors()["code"].to_pylist()) == ["MISSING_AFTER", "MISSING_KEY", "MISSING_KEY"]
    session.retract("topic", bad)
    session.advance()
    assert view.to_pylist() == [(1, "Ada", 1)]


def test_a_delete_that_knows_the_key_only_is_seen(session):
    """REPLICA IDENTITY DEFAULT: what is taken away is no row of the table, which a reader is told."""
    view = session.maintain("people", TEXTS.join_function(an.cdc.debezium(PEOPLE)))
    session.insert("topic", [envelope("c", None, person(1)), envelope("d", {"id": 1})])
    session.advance()
    assert view.errors()["code"].to_pylist() == ["NEGATIVE_MULTIPLICITY"]


# upserts --------------------------------------------------------------------------------------------------------------

LOG = an.source("log", "offset long, k string, a int, b string, gone string")
words = st.lists(
    st.tuples(st.sampled_from("xyz"), st.none() | st.integers(0, 3), st.none() | st.sampled_from("pq")), max_size=12
)


@given(words, st.randoms(use_true_random=False))
def test_upserted_columns_are_those_of_the_last_word_on_each_key(said, rng):
    last = {k: (a, b) for k, a, b in said}
    expected = Counter((k, a, b) for k, (a, b) in last.items() if a is not None or b is not None)
    rows = [(offset, *row, None) for offset, row in enumerate(said)] * 2
    rng.shuffle(rows)
    with an.Session() as session:
        view = session.maintain("last", an.cdc.upsert(LOG, "k", value=["a", "b"]))
        session.insert("log", rows)
        session.advance()
        assert contents(view) == expected


@given(words, st.randoms(use_true_random=False))
def test_upserted_documents_are_those_of_the_last_word_on_each_key(said, rng):
    last = {k: (a, b) for k, a, b in said}
    expected = Counter((k, a, b) for k, (a, b) in last.items() if a is not None)
    rows = [
        (o, k, rng.choice([None, "null"]) if a is None else json.dumps({"a": a, "b": b}))
        for o, (k, a, b) in enumerate(said)
    ] * 2
    rng.shuffle(rows)
    with an.Session() as session:
        documents = an.source("documents", "offset long, k string, value string")
        view = session.maintain("last", an.cdc.upsert(documents, "k", value="value", fields="a int, b string"))
        session.insert("documents", rows)
        session.advance()
        assert contents(view) == expected


def test_a_condition_may_say_that_a_key_is_gone(session):
    how = {"value": ["b", "a"], "deleted": "gone = 'true'"}
    view = session.maintain("last", an.cdc.upsert(LOG, key="k", **how))
    session.insert("log", [(1, "x", 1, "p", "false"), (2, "y", 2, "q", None), (3, "x", 1, "p", "true")])
    session.advance()
    assert view.to_pylist() == [("y", "q", 2)]
    col = session.maintain("same", an.cdc.upsert(LOG, key="k", **{**how, "deleted": an.col("gone") == "true"}))
    assert contents(col) == contents(view)


def test_all_columns_but_key_and_order_are_the_value(session):
    view = session.maintain("last", an.cdc.upsert(LOG, key="k"))
    session.insert("log", [(1, "x", 1, "p", "q")])
    session.advance()
    assert view.schema.names == ["k", "a", "b", "gone"]
    assert view.to_pylist() == [("x", 1, "p", "q")]


def test_views_that_read_different_members_share_the_one_arrangement(session):
    documents = an.source("documents", "offset long, k string, value string")
    parts = [an.cdc.upsert(documents, "k", value="value", fields=f) for f in ("a int", "b string, c int")]
    views = [session.maintain(f"view{i}", c.select(*c.columns[1:])) for i, c in enumerate(parts)]
    session.insert("documents", [(1, "x", '{"a": 1, "b": "p", "c": 2}')])
    step = session.advance()
    assert [v.to_pylist() for v in views] == [[(1,)], [("p", 2)]]
    assert step.state_rows == 3, "the row of x, once, and a row in each view"


# updates --------------------------------------------------------------------------------------------------------------


def test_updates_are_taken_at_their_word():
    rows = [
        ('{"x": 1, "y": [1]}', 5, 2, 9),
        ('{"x": 1}', 7, -2, 9),
        ("{}", 1, 1, 9),
        ('{"x": 2}', None, 1, 9),
        ("{", 3, 1, 9),
    ]
    oks, errors = an.cdc.updates("x long", diff="d").run(rows, "data string, time long, d int, more int")
    assert oks == [((1,), 5, 2), ((1,), 7, -2), ((None,), 1, 1)]
    assert [e["code"] for e, _, _ in errors] == ["INVALID_JSON"]


def test_updates_happen_when_they_say(session):
    feed = an.source("feed", "data string, time long, diff long")
    view = session.maintain(
        "rows", feed.join_function(an.cdc.updates("x long").followed_by(an.logic.select(y="x + 1")))
    )
    session.insert("feed", [('{"x": 1}', 3, 1), ('{"x": 1}', 6, -1)])
    seen = []
    for upper in (3, 4, 6, 7):
        session.advance(to=upper)
        seen.append(view.to_pylist())
    assert seen == [[], [(2,)], [(2,)], []]


def test_many_documents_in_random_order():
    """Documents of both forms and rows of every width, over more than one chunk of rows."""
    rng = random.Random(1)
    rows = [{"id": i, "name": "n" * rng.randrange(30), "n": rng.randrange(99)} for i in range(70_000)]
    texts = [envelope("r", None, row, wrapped=rng.random() < 0.5) for row in rows]
    with an.Session() as session:
        view = session.maintain("people", TEXTS.join_function(an.cdc.debezium(PEOPLE)))
        session.insert("topic", pa.table({"value": texts}))
        session.advance()
        assert contents(view) == Counter((r["id"], r["name"], r["n"]) for r in rows)


def test_operators_of_errors_are_named_shortly():
    texts = ["{", "{}", envelope("u", None, person(1))]
    _, errors = an.cdc.debezium(PEOPLE).run(texts, "value string")
    assert sorted(e["operator"] for e, _, _ in errors) == [
        "filter debezium_event",
        "filter debezium_event",
        "json value",
    ]
    wide = " + ".join(f"10 div v{i}" for i in range(40))
    _, [(error, _, _)] = an.logic.select(f"{wide} as s").run([(0,) * 40], ", ".join(f"v{i} int" for i in range(40)))
    assert error["operator"].startswith("select (((")
    assert len(error["operator"]) == 81
