"""Statements over a session on Spark: tables, files and streams, and a pipeline that is followed until Ctrl-C."""

from __future__ import annotations

import json
import signal
import threading

import pytest
from click.testing import CliRunner

import altneu as an
from altneu.cli import main
from altneu.cli.output import Output
from altneu.errors import AltneuError, StatementError
from tests.sql_statements.cases import rows

PIPELINE = """
CREATE SOURCE clicks (user STRING, at BIGINT) FROM STREAM '{0}/clicks' FORMAT JSON OPTIONS (maxFilesPerTrigger 1);
CREATE SOURCE people (id BIGINT, name STRING) FROM STREAM '{0}/people' FORMAT TEXT ENVELOPE DEBEZIUM;
CREATE SOURCE teams FROM FILE '{0}/teams.csv' FORMAT CSV OPTIONS (header true) KEEP;
CREATE SOURCE numbers FROM TABLE statement_numbers DIFF k - 1;
CREATE MATERIALIZED VIEW counted AS SELECT user, count(*) AS n FROM clicks GROUP BY user;
CREATE MATERIALIZED VIEW per_team AS
    SELECT team, sum(n) AS n FROM counted JOIN teams ON counted.user = teams.user GROUP BY team;
CREATE MATERIALIZED VIEW named AS SELECT * FROM people;
CREATE MATERIALIZED VIEW doubled AS SELECT 2 * k AS k2 FROM numbers;
"""
ADA = {"op": "c", "before": None, "after": {"id": 1, "name": "Ada"}}
IDA = {"op": "u", "before": ADA["after"], "after": {"id": 1, "name": "Ida"}}


@pytest.fixture
def folder(spark, tmp_path):
    for name in ("clicks", "people"):
        (tmp_path / name).mkdir()
    put(tmp_path / "clicks", "a", {"user": "ada", "at": 3}, {"user": "bob", "at": 7})
    put(tmp_path / "people", "a", ADA)
    (tmp_path / "teams.csv").write_text("user,team\nada,x\nbob,y\n")
    spark.createDataFrame([(1, "q"), (3, "r")], "k int, v string").createOrReplaceTempView("statement_numbers")
    yield tmp_path
    spark.catalog.dropTempView("statement_numbers")


def put(folder, name, *documents):
    """A file that appears whole."""
    (folder / f".{name}").write_text("".join(json.dumps(document) + "\n" for document in documents))
    (folder / f".{name}").rename(folder / f"{name}.json")


def test_batches_once_and_streams_as_far_as_they_are(spark, folder):
    with an.Session(spark, folder / "state") as session:
        session.sql(PIPELINE.format(folder))
        assert rows(session, "SELECT * FROM per_team ORDER BY team") == [("x", 1), ("y", 1)]
        assert rows(session, "TABLE named") == [(1, "Ada")]
        assert rows(session, "TABLE doubled") == [(6,), (6,)]  # of 1 none, of 3 two
        assert [row.k2 for row in session.sql("TABLE doubled").df().collect()] == [6, 6]
        put(folder / "people", "b", IDA)
        put(folder / "clicks", "b", {"user": "ada", "at": 9})
        (folder / "teams.csv").write_text("user,team\nada,x\nbob,z\n")
        assert rows(session, "TABLE named") == [(1, "Ada")]  # streams are taken once, until they are asked for
        session.sql("REFRESH ALL")
        assert rows(session, "SELECT * FROM per_team ORDER BY team") == [("x", 2), ("z", 1)]
        assert rows(session, "TABLE named") == [(1, "Ida")]
    put(folder / "people", "c", {"op": "d", "before": IDA["after"], "after": None})
    with an.Session(spark, folder / "state") as session:
        session.sql(PIPELINE.format(folder))
        assert rows(session, "TABLE named") == []
        assert rows(session, "SELECT * FROM per_team ORDER BY team") == [("x", 2), ("z", 1)]
        assert rows(session, "TABLE doubled") == [(6,), (6,)]
        session.sql("DROP SOURCE people CASCADE")
        assert "people" not in session._engine.streams_stored
    with an.Session(path=folder / "state") as session:  # what there is can be read without Spark
        assert rows(session, "SELECT * FROM per_team ORDER BY team") == [("x", 2), ("z", 1)]
        with pytest.raises(StatementError, match="'clicks' is a stream, but this session has no Spark"):
            session.sql("FOLLOW clicks")


def test_streams_with_times_say_when_a_time_is_closed(spark, folder):
    with an.Session(spark, folder / "state", retain="all") as session:
        session.sql(
            f"CREATE SOURCE clicks (user STRING) FROM STREAM '{folder}/clicks' FORMAT JSON "
            "COLUMNS (user STRING, at BIGINT) TIME (at) KEEP WITH (WATERMARK = 2, LATE = 'drop'); "
            "CREATE TABLE t (k INT)"
        )
        assert (rows(session, "SELECT user FROM clicks"), session.lower) == ([("ada",)], 5)
        session.sql("INSERT INTO t VALUES (1)")  # counts when the stream's clock passes
        assert (rows(session, "TABLE t"), session.lower) == ([], 5)
        put(folder / "clicks", "b", {"user": "ida", "at": 12}, {"user": "late", "at": 1})
        session.sql("REFRESH clicks")
        assert sorted(rows(session, "SELECT user FROM clicks")) == [("ada",), ("bob",)]
        assert rows(session, "TABLE t") == [(1,)]


def test_late_rows_have_a_name(spark, folder, monkeypatch):
    monkeypatch.setenv("FILES_AT_ONCE", "1")
    with an.Session(spark, folder / "state") as session:
        session.sql(
            f"CREATE SOURCE clicks (user STRING) FROM STREAM '{folder}/clicks' FORMAT JSON "
            "OPTIONS (maxFilesPerTrigger '${FILES_AT_ONCE}') COLUMNS (user STRING, at BIGINT) TIME (at) KEEP "
            "WITH (LATE = 'error'); CREATE MATERIALIZED VIEW late AS SELECT user, late_time FROM clicks_late"
        )
        assert rows(session, "SELECT user FROM clicks") == [("ada",)]
        put(folder / "clicks", "b", {"user": "late", "at": 1})
        session.sql("REFRESH clicks; ADVANCE")
        assert rows(session, "TABLE late") == [("late", 1)]
        with pytest.raises(StatementError, match="read by MATERIALIZED VIEW late"):
            session.sql("DROP SOURCE clicks")
    monkeypatch.delenv("FILES_AT_ONCE")
    with an.Session(spark, folder / "state") as session, pytest.raises(StatementError, match="no variable"):
        session.sql("SELECT * FROM late")


def test_what_spark_cannot_read_is_refused_at_once(spark, tmp_path):
    with an.Session(spark) as session:
        for origin in ("TABLE no_such_table", f"FILE '{tmp_path}/nothing' FORMAT PARQUET", "STREAM FORMAT nonsense"):
            with pytest.raises(StatementError, match="source 's' cannot be read by Spark"):
                session.sql(f"CREATE SOURCE s (k INT) FROM {origin}")
        assert rows(session, "SHOW SOURCES") == []


def test_a_pipeline_is_followed_until_ctrl_c(spark, folder, monkeypatch):
    script = folder / "pipeline.sql"
    script.write_text(PIPELINE.format(folder) + "SELECT * FROM named; SUBSCRIBE TO named WITH (SNAPSHOT = false);")
    command = ["run", str(script), "--path", str(folder / "state"), "--master", "local[2]"]
    once = CliRunner().invoke(main, command, catch_exceptions=False)
    assert (once.exit_code, "Ada" in once.stdout) == (0, True)
    begun, seen, show = threading.Event(), threading.Event(), Output.change

    def change(self, statement, columns, row):
        show(self, statement, columns, row)
        if "Ida" in row:
            seen.set()

    def interrupt():
        begun.wait(30)
        put(folder / "people", "b", IDA)
        seen.wait(30)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    monkeypatch.setattr(Output, "heading", lambda *_: begun.set())
    monkeypatch.setattr(Output, "change", change)
    thread = threading.Thread(target=interrupt)
    thread.start()
    followed = CliRunner().invoke(main, [*command, "--follow"], catch_exceptions=False)
    thread.join()
    assert (followed.exit_code, seen.is_set()) == (0, True)
    assert "stopped; what was committed stays" in followed.stderr
    with an.read(folder / "state") as reader:
        assert reader.view("named").to_pylist() == [(1, "Ida")]
    with pytest.raises(AltneuError):
        an.read(folder / "nothing")
