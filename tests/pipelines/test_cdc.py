"""Auto CDC against what it says: for each key its events in the order of the sequence, however they come."""

from __future__ import annotations

import os
import random

import pytest

from altneu.cli.pipelines.running import Pipeline, Selection
from altneu.errors import PipelineError
from tests.pipelines.projects import Project, rows_of

COLUMNS = "id BIGINT, name STRING, city STRING, seq BIGINT, op STRING"
FILES = {
    "feed.py": """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.temporary_view
def feed():
    return spark.readStream.json(spark.conf.get("shop.data") + "/feed", schema=%r)

dp.create_streaming_table("people")
dp.create_auto_cdc_flow(
    "people", "feed", keys=["id"], sequence_by="seq", apply_as_deletes="op = 'D'", except_column_list=["op", "seq"]
)
dp.create_streaming_table("history", schema="id BIGINT, city STRING, name STRING, __START_AT BIGINT, __END_AT BIGINT")
dp.create_auto_cdc_flow(
    "history", "feed", keys=[F.col("id")], sequence_by=F.col("seq"), apply_as_deletes=F.col("op") == "D",
    column_list=["id", "name", "city"], stored_as_scd_type=2,
)
dp.create_streaming_table("cities")
dp.create_auto_cdc_flow(
    "cities", "feed", keys=["id"], sequence_by="seq + 1", apply_as_deletes="op = 'D'", except_column_list=["op", "seq"],
    stored_as_scd_type="2", track_history_column_list=["city"],
)

@dp.materialized_view
def by_city():
    return spark.read.table("people").groupBy("city").count()
""".replace("%r", repr(COLUMNS)),
    "feed.sql": """
CREATE STREAMING TABLE raw AS SELECT * FROM STREAM feed;
CREATE STREAMING TABLE same FLOW AUTO CDC FROM STREAM raw KEYS (id)
  APPLY AS DELETE WHEN op = 'D' SEQUENCE BY seq COLUMNS * EXCEPT (op, seq)
  STORED AS SCD TYPE 2 TRACK HISTORY ON * EXCEPT (name);
CREATE STREAMING TABLE kept;
CREATE FLOW keeping AS AUTO CDC INTO kept FROM STREAM(raw) KEYS (id) SEQUENCE BY seq
  COLUMNS id, city STORED AS SCD TYPE 1;
""",
}


def latest(events, deletes=True):
    """Each event by its key and sequence: of two with one sequence a deletion, then the greatest."""
    found = {}
    for e in sorted(events, key=lambda e: (deletes and e["op"] == "D", *(str(e[c] or "") for c in ("name", "city")))):
        found[e["id"], e["seq"]] = e
    return found


def rows(events, columns, deletes=True):
    last = {}
    for (key, _), e in sorted(latest(events, deletes).items(), key=lambda item: item[0][1]):
        last[key] = e
    return rows_of({c: e[c] for c in columns} for e in last.values() if not (deletes and e["op"] == "D"))


def history(events, columns, tracked, offset=0):
    found = []
    for key in {e["id"] for e in events}:
        record = None
        for (_, seq), e in sorted(
            (item for item in latest(events).items() if item[0][0] == key), key=lambda i: i[0][1]
        ):
            if e["op"] != "D" and record is not None and all(record[c] == e[c] for c in tracked):
                record |= {c: e[c] for c in columns}
                continue
            if record is not None:
                record["end"] = seq + offset
                record = None
            if e["op"] != "D":
                record = {**{c: e[c] for c in columns}, "start": seq + offset, "end": None}
                found.append(record)
    return rows_of(found)


def expected(events):
    return {
        "people": rows(events, ("id", "name", "city")),
        "history": history(events, ("id", "city", "name"), ("name", "city")),
        "cities": history(events, ("id", "name", "city"), ("city",), offset=1),
        "same": history(events, ("id", "name", "city"), ("city",)),
        "kept": rows(events, ("id", "city"), deletes=False),
    }


def an_event(rng):
    event = {"id": rng.randrange(5), "name": rng.choice("ab"), "city": rng.choice(["Oslo", "Bari", None])}
    return {**event, "seq": rng.randrange(60), "op": rng.choice("IUUUD")}


@pytest.mark.parametrize("seed", range(12 if os.environ.get("ALTNEU_PIPELINES") else 2))
def test_the_tables_are_what_the_events_say(tmp_path, seed):
    rng = random.Random(seed)
    project = Project(tmp_path / "p")
    for name, text in FILES.items():
        project.write(name, text)
    events, first = [], 0
    for run in range(3 if seed else 2):
        new = [an_event(rng) for _ in range(25 if run else 40)]
        if seed == 0:  # each sequence once, so that nothing is a tie
            new = list({e["seq"]: e for e in new if e["seq"] not in {x["seq"] for x in events}}.values())
        events += new
        first = len(events) if run == 0 else first
        project.put(f"feed/{run}.json", new)
        Pipeline(str(project.spec)).run()
        for name, there in expected(events).items():
            assert project.table(name) == there, (run, name)
    (project.data / "feed/0.json").unlink()
    Pipeline(str(project.spec)).run(Selection(full_refresh=("people",)))
    assert project.table("history") == expected(events)["history"]
    assert project.table("people") == expected(events[first:])["people"]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"id": None, "seq": 1}, "AUTOCDC_MICROBATCH_VALIDATION.NULL_KEY.*1 events.*'id'"),
        ({"id": 1, "seq": None}, "AUTOCDC_MICROBATCH_VALIDATION.NULL_SEQUENCE"),
    ],
)
def test_events_that_say_too_little(tmp_path, event, message):
    project = Project(tmp_path / "p")
    project.write("feed.py", FILES["feed.py"])
    project.put("feed/0.json", [{"id": 3, "name": "a", "city": "Oslo", "seq": 2, "op": "I"}])
    Pipeline(str(project.spec)).run()
    bad = project.put("feed/1.json", [{"name": "a", "city": "Oslo", "op": "I", **event}])
    with pytest.raises(PipelineError, match=message):
        Pipeline(str(project.spec)).run()
    bad.unlink()
    Pipeline(str(project.spec)).run()
    assert project.table("people") == [("3", "a", "Oslo")]


OTHER = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.temporary_view
def feed():
    return spark.readStream.json(
        spark.conf.get("shop.data") + "/feed",
        schema="id BIGINT, __place BIGINT, __opens STRING, __before_m STRING, m MAP<STRING, INT>, seq BIGINT",
    )

dp.create_streaming_table("rows")
dp.create_auto_cdc_flow("rows", "feed", keys=["id"], sequence_by="seq", except_column_list=["seq"])
dp.create_streaming_table("history")
dp.create_auto_cdc_flow(
    "history", "feed", keys=["id"], sequence_by="seq", except_column_list=["seq"], stored_as_scd_type=2%s
)
"""


def test_columns_of_any_names_and_types(tmp_path):
    """Names that an implementation might use, and maps, which have no order and cannot be compared."""
    project = Project(tmp_path / "p")
    project.write("feed.py", OTHER % ', track_history_except_column_list=["m"]')
    event = {"id": 1, "__place": 2, "__opens": "a", "__before_m": None, "m": {"a": 1}}
    new = [{**event, "seq": 1}, {**event, "seq": 2, "m": {"b": 2}}, {**event, "seq": 3, "__place": 7, "m": {"b": 2}}]
    project.put("feed/0.json", [*new, {**new[-1], "m": {"c": 3}}])
    Pipeline(str(project.spec)).run()
    last = ("1", "7", "a", "None", "[('c', 3)]")
    assert project.table("rows") == [last]
    assert project.table("history") == [("1", "2", "a", "None", "[('b', 2)]", "1", "3"), (*last, "3", "None")]
    project.write("feed.py", OTHER % "")
    with pytest.raises(PipelineError, match=r"column m of 'feed', which is map<string,int>.*TRACK HISTORY ON"):
        Pipeline(str(project.spec))


WRONG = {
    "AUTOCDC_KEY_NOT_IN_SELECTED_SCHEMA": 'keys=["id"], sequence_by="seq", column_list=["name"]',
    "AUTOCDC_EMPTY_KEYS": 'keys=[], sequence_by="seq"',
    "AUTOCDC_MULTIPART_COLUMN_IDENTIFIER": 'keys=["feed.id"], sequence_by="seq"',
    "AUTOCDC_NON_COLUMN_IDENTIFIER": 'keys=[spark_functions.expr("id + 1")], sequence_by="seq"',
    "CANNOT_SET_TOGETHER": 'keys=["id"], sequence_by="seq", column_list=["id"], except_column_list=["name"]',
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(tmp_path, name):
    project = Project(tmp_path / "p")
    start = FILES["feed.py"].partition("dp.create_streaming_table")[0]
    flow = f'dp.create_streaming_table("t")\ndp.create_auto_cdc_flow("t", "feed", {WRONG[name]})\n'
    project.write("feed.py", start + "spark_functions = F\n" + flow)
    with pytest.raises(PipelineError, match=name):
        Pipeline(str(project.spec))
