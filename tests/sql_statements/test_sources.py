"""Sources: files of every format, decoded as Python decodes them, at their times, once; and what is new in them."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import altneu as an
from altneu.errors import InputError, SchemaError, StatementError
from tests.sql_statements.cases import rows

TABLE = pa.table({"k": pa.array([1, 2, None], pa.int64()), "v": ["a", None, "c,d"]})
WANTED = [(1, "a"), (2, None), (None, "c,d")]


def write(folder, form):
    folder.mkdir(exist_ok=True)
    path = folder / f"rows.{form}"
    match form:
        case "parquet":
            pq.write_table(TABLE, path)
        case "orc":
            pyarrow.orc.write_table(TABLE, path)
        case "json":
            path.write_text("".join(json.dumps(row) + "\n" for row in TABLE.to_pylist()))
        case "csv":
            path.write_text('k,v\n1,a\n2,\n,"c,d"\n')
    return path


@pytest.fixture
def session():
    with an.Session(retain="all") as session:
        yield session


@pytest.mark.parametrize("form", ["parquet", "orc", "json", "csv"])
@pytest.mark.parametrize("columns", ["", "(k BIGINT, v STRING)"])
def test_files_of_every_format(session, tmp_path, form, columns):
    write(tmp_path / "in", form)
    options = "OPTIONS (header true)" if form == "csv" else ""
    session.sql(f"CREATE SOURCE s {columns} FROM FILE '{tmp_path}/in' FORMAT {form.upper()} {options} KEEP")
    assert session.lower == 0  # what it has counts with the first step
    actual = rows(session, "SELECT k, v FROM s")
    if form == "csv" and not columns:
        assert actual == [("1", "a"), ("2", None), (None, "c,d")]
    else:
        assert sorted(actual, key=str) == sorted(WANTED, key=str)
    assert rows(session, "SHOW SOURCES") == [("s", f"FILE {tmp_path}/in {form.upper()}", "none", "yes", "ready")]


@pytest.mark.parametrize("form", ["csv", "json"])
def test_times_in_texts_are_read_as_casts_read_them(session, tmp_path, form):
    texts = [
        ("2024-01-31", "2024-01-31 10:00:00", "10:00:00.5", "2024-01-31 10:00:00"),
        ("2024-1-31", "2024-01-31T12:00:00+02:00", "9:05", "2024-01-31T10:00:00.25"),
        ("", "2024-01-31", "", ""),
    ]
    names = "dtcn"
    (tmp_path / "in").write_text(
        "".join(
            ",".join(row) + "\n"
            if form == "csv"
            else json.dumps({n: text or None for n, text in zip(names, row, strict=True)}) + "\n"
            for row in texts
        )
    )
    columns = "d DATE, t TIMESTAMP, c TIME, n TIMESTAMP_NTZ"
    session.sql(f"CREATE SOURCE s ({columns}) FROM FILE '{tmp_path}/in' FORMAT {form.upper()} KEEP")
    shown = rows(session, "SELECT string(d), string(t), string(c), string(n) FROM s")
    assert sorted(shown, key=str) == sorted(
        [
            ("2024-01-31", "2024-01-31 10:00:00", "10:00:00.5", "2024-01-31 10:00:00"),
            ("2024-01-31", "2024-01-31 10:00:00", "09:05:00", "2024-01-31 10:00:00.25"),
            (None, "2024-01-31 00:00:00", None, None),
        ],
        key=str,
    )


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_text_that_is_no_time_is_told_with_its_row_and_column(session, tmp_path, form):
    (tmp_path / "in").write_text("10:00\n25:00\n" if form == "csv" else '{"c": "10:00"}\n{"c": "25:00"}\n')
    with pytest.raises(StatementError, match=r"row 2, column 'c': The value '25:00' .* cannot be cast"):
        session.sql(f"CREATE SOURCE s (c TIME) FROM FILE '{tmp_path}/in' FORMAT {form.upper()} KEEP")


def test_binary_in_json_is_base64_as_in_spark(session, tmp_path):
    (tmp_path / "in").write_text('{"b": "aGk="}\n{}\n')
    session.sql(f"CREATE SOURCE s (b BINARY) FROM FILE '{tmp_path}/in' FORMAT JSON KEEP")
    assert sorted(rows(session, "SELECT b FROM s"), key=str) == [(None,), (b"hi",)]
    (tmp_path / "other").write_text('{"b": "hi!"}\n')
    with pytest.raises(StatementError, match="cannot be read"):
        session.sql(f"CREATE SOURCE o (b BINARY) FROM FILE '{tmp_path}/other' FORMAT JSON KEEP")


def test_several_files_by_a_pattern_and_lines_of_text(session, tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.log").write_text(f"{name}1\n{name}2\n")
    session.sql(f"CREATE SOURCE s FROM FILE '{tmp_path}/[ab].log', '{tmp_path}/c.log' FORMAT TEXT KEEP")
    assert rows(session, "SELECT value FROM s ORDER BY value") == [(n + i,) for n in "abc" for i in "12"]


def test_a_file_of_semicolons_without_a_header(session, tmp_path):
    (tmp_path / "x.csv").write_text("1;'a;b'\n2;-\n")
    session.sql(
        f"CREATE SOURCE s (k INT, v STRING) FROM FILE '{tmp_path}/x.csv' FORMAT CSV "
        """OPTIONS (sep ";", quote "'", nullValue '-') KEEP"""
    )
    assert rows(session, "SELECT * FROM s ORDER BY k") == [(1, "a;b"), (2, None)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("FROM FILE '{0}/x.csv' FORMAT CSV KEEP", "without a header do not name their columns"),
        ("(k INT) FROM FILE '{0}/x.csv' FORMAT CSV OPTIONS (mode 'x') KEEP", "no option 'mode'; there are: header"),
        ("(k INT) FROM FILE '{0}/y*' FORMAT CSV KEEP", "there is no file"),
        ("(k INT) FROM FILE '{0}/x.csv' FORMAT CSV KEEP", "cannot be read"),
        ("(k INT, v INT) FROM FILE '{0}/x.csv' FORMAT PARQUET KEEP", "cannot be read"),
        (
            "(k INT) FROM FILE '{0}/x.csv' FORMAT TEXT TIME (k + 1 AS t) KEEP",
            "without Spark, TIME and DIFF must be columns",
        ),
    ],
)
def test_files_that_are_not_what_they_are_said_to_be(session, tmp_path, text, told):
    (tmp_path / "x.csv").write_text("a,b\n")
    with pytest.raises(StatementError, match=told):
        session.sql(f"CREATE SOURCE s {text.format(tmp_path)}")


@pytest.mark.parametrize("columns", ["(k INT, zone STRING)", "(k STRING)"])
def test_a_source_whose_rows_do_not_fit_is_not_created(tmp_path, columns):
    path = write(tmp_path / "in", "parquet")
    with an.Session(path=tmp_path / "state") as session:
        with pytest.raises(SchemaError, match=r"lacks column 'zone'|'k' of source 's' is string"):
            session.sql(f"CREATE SOURCE s {columns} FROM FILE '{path}' FORMAT PARQUET KEEP")
        assert rows(session, "SHOW SOURCES") == []
        session.sql(f"CREATE SOURCE s (k INT) FROM FILE '{path}' FORMAT PARQUET KEEP")
        assert len(rows(session, "SELECT k FROM s")) == 3


def test_a_view_whose_source_cannot_be_read_is_not_created(tmp_path):
    fit, unfit = write(tmp_path / "fit", "parquet"), write(tmp_path / "unfit", "parquet")
    with an.Session(path=tmp_path / "state") as session:
        session.sql(
            f"CREATE SOURCE fit (k INT) FROM FILE '{fit}' FORMAT PARQUET;"
            f"CREATE SOURCE unfit (k INT, zone STRING) FROM FILE '{unfit}' FORMAT PARQUET"
        )
        with pytest.raises(SchemaError, match="lacks column 'zone'"):
            session.sql("CREATE MATERIALIZED VIEW v AS SELECT fit.k, zone FROM fit JOIN unfit ON fit.k = unfit.k")
        assert rows(session, "SHOW MATERIALIZED VIEWS") == []
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM fit")
        assert len(rows(session, "SELECT k FROM v")) == 3


def test_a_source_of_a_store_that_cannot_be_read_says_how_to_go_on(tmp_path):
    path = write(tmp_path / "in", "parquet")
    with an.Session(path=tmp_path / "state") as session:
        session.sql(f"CREATE SOURCE s (k INT) FROM FILE '{path}' FORMAT PARQUET KEEP")  # no step has read it
    path.unlink()
    with an.Session(path=tmp_path / "state") as session:
        with pytest.raises(StatementError, match="there is no file") as raised:
            session.sql("SELECT 1")
        assert "DROP SOURCE s CASCADE" in raised.value.__notes__[0]
        session.sql("DROP SOURCE s CASCADE")
        assert rows(session, "SELECT 1") == [(1,)]


def test_a_source_is_read_by_the_first_step_after_a_view_reads_it_and_once(quick):
    path = write(quick / "in", "parquet")
    script = (
        f"CREATE SOURCE s FROM FILE '{path}' FORMAT PARQUET; CREATE MATERIALIZED VIEW ks AS SELECT k FROM s; "
        "CREATE MATERIALIZED VIEW vs AS SELECT v FROM s"
    )
    for _ in range(2):
        with an.Session(path=quick / "state") as session:
            session.sql(script)
            assert len(rows(session, "TABLE ks")) == len(rows(session, "TABLE vs")) == 3
            assert session.lower == 1
        path.unlink(missing_ok=True)  # it is not read again


def test_rows_with_their_own_times_and_counts(session, tmp_path):
    pq.write_table(pa.table({"k": ["a", "a", "b"], "at": [1, 3, 3], "n": [2, -1, 1]}), tmp_path / "x.parquet")
    session.sql(f"CREATE SOURCE s (k STRING) FROM FILE '{tmp_path}/x.parquet' FORMAT PARQUET TIME (at) DIFF n KEEP")
    session.sql("ADVANCE TO 9")
    assert [sorted(rows(session, f"SELECT k FROM s AS OF {t}")) for t in (0, 2, 8)] == [
        [],
        [("a",), ("a",)],
        [("a",), ("b",)],
    ]


def test_a_batch_of_two_times_that_takes_rows_away(session, tmp_path):
    pq.write_table(pa.table({"k": ["a", "b"], "day": [5, 7]}), tmp_path / "x.parquet")
    source = f"FROM FILE '{tmp_path}/x.parquet' FORMAT PARQUET TIME (NULL AS known, day)"
    session.sql(f"CREATE SOURCE s (k STRING) {source} KEEP; CREATE SOURCE gone (k STRING) {source} DIFF -1")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT * FROM s UNION ALL SELECT * FROM gone")
    assert rows(session, "SELECT k FROM s AS OF (NULL, 6)") == [("a",)]
    assert rows(session, "TABLE v") == []


# what is new ----------------------------------------------------------------------------------------------------------


def test_a_source_that_is_kept_is_refreshed_by_what_differs(session, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("1,a\n1,a\n2,b\n")
    session.sql(f"CREATE SOURCE s (k INT, v STRING) FROM FILE '{path}' FORMAT CSV KEEP")
    session.sql("CREATE MATERIALIZED VIEW n AS SELECT k, count(*) AS n FROM s GROUP BY k")
    assert rows(session, "SELECT * FROM n ORDER BY k") == [(1, 2), (2, 1)]
    path.write_text("1,a\n2,c\n3,d\n")
    assert "REFRESH s" in str(session.sql("REFRESH ALL"))
    assert rows(session, "SELECT * FROM n ORDER BY k") == [(1, 1), (2, 1), (3, 1)]
    assert rows(session, "SELECT * FROM s ORDER BY k") == [(1, "a"), (2, "c"), (3, "d")]
    assert session.view("n").changes(net=True).num_rows == 3
    lower = session.lower
    session.sql("REFRESH SOURCE s")
    assert session.lower == lower  # nothing has changed


def test_a_refresh_before_any_step_counts_nothing_twice(session, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("1,a\n")
    session.sql(f"CREATE SOURCE s (k INT, v STRING) FROM FILE '{path}' FORMAT CSV KEEP")
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM s")
    path.write_text("1,a\n2,b\n")
    session.sql("REFRESH s")
    assert rows(session, "SELECT * FROM v ORDER BY k") == [(1,), (2,)]


def test_a_source_that_is_not_kept_is_not_refreshed(session, tmp_path):
    path = write(tmp_path, "parquet")
    session.sql(f"CREATE SOURCE s FROM FILE '{path}' FORMAT PARQUET; CREATE MATERIALIZED VIEW v AS SELECT k FROM s")
    session.sql("TABLE v; REFRESH ALL")
    with pytest.raises(StatementError, match="is read only once"):
        session.sql("REFRESH s")
    session.sql("CREATE SOURCE fed (k INT); CREATE MATERIALIZED VIEW f AS SELECT * FROM fed")
    with pytest.raises(StatementError, match="gets its rows by INSERT"):
        session.sql("REFRESH fed")


def test_a_roll_back_takes_no_source_back(session, tmp_path):
    path = write(tmp_path, "parquet")
    session.sql(f"CREATE TABLE t (k INT); CREATE SOURCE s FROM FILE '{path}' FORMAT PARQUET KEEP")
    session.sql("BEGIN; INSERT INTO t VALUES (1); ROLLBACK")
    assert len(rows(session, "TABLE s")) == 3


# envelopes ------------------------------------------------------------------------------------------------------------

CHANGES = [
    {"op": "c", "before": None, "after": {"id": 1, "name": "Ada", "at": 1_000}},
    {"op": "u", "before": {"id": 1, "name": "Ada", "at": 1_000}, "after": {"id": 1, "name": "Ida", "at": 2_000}},
    {"op": "c", "before": None, "after": {"id": 2, "name": "Bob", "at": None}},
    {"op": "d", "before": {"id": 2, "name": "Bob", "at": None}, "after": None},
    {"op": "r", "before": None, "after": {"id": 3, "name": "Cid", "at": 3_000}},
]
FIELDS = "id BIGINT, name STRING, at TIMESTAMP"


def maintained(source, declared, inserted):
    """What Python's own decoder makes of some rows."""
    with an.Session() as session:
        view = session.maintain("v", declared)
        session.insert(source, inserted)
        session.advance()
        return sorted(view.to_pylist(), key=str)


def test_envelopes_of_debezium(session, tmp_path):
    (tmp_path / "x.txt").write_text("".join(json.dumps(event) + "\n" for event in CHANGES))
    session.sql(
        f"CREATE SOURCE people ({FIELDS}) FROM FILE '{tmp_path}/x.txt' FORMAT TEXT ENVELOPE DEBEZIUM (UNIT 'ms') KEEP"
    )
    decoded = an.source("t", "value string").join_function(an.cdc.debezium(FIELDS, unit="ms"))
    wanted = maintained("t", decoded, [json.dumps(event) for event in CHANGES])
    assert sorted(rows(session, "SELECT * FROM people"), key=str) == wanted
    assert [row[1] for row in wanted] == ["Ida", "Cid"]


def test_envelopes_without_the_row_as_it_was(session, tmp_path):
    come = [e for e in CHANGES if e["after"]]
    events = [(i, json.dumps({"id": e["after"]["id"]}), json.dumps(e | {"before": None})) for i, e in enumerate(come)]
    events += [(9, '{"id": 3}', None)]
    table = pa.table(dict(zip(("at", "key", "value"), map(list, zip(*events, strict=True)), strict=True)))
    pq.write_table(table, tmp_path / "x.parquet")
    session.sql(
        f"CREATE SOURCE people (id BIGINT, name STRING) FROM FILE '{tmp_path}/x.parquet' FORMAT PARQUET "
        "ENVELOPE DEBEZIUM UPSERT (KEY id, KEY COLUMN key, ORDER BY at) KEEP"
    )
    assert sorted(rows(session, "SELECT * FROM people")) == [(1, "Ida"), (2, "Bob")]


def test_upserts_of_columns_and_of_documents(session):
    session.sql(
        "CREATE SOURCE p (offset BIGINT, item STRING, price INT, op STRING) "
        "ENVELOPE UPSERT (KEY item, VALUE price, DELETED WHEN op = 'd') KEEP"
    )
    events = [(1, "tea", 3, "u"), (3, "tea", 4, "u"), (2, "tea", 9, "u"), (4, "jam", 7, "u"), (5, "jam", 7, "d")]
    session.insert("p", events)
    assert rows(session, "SELECT * FROM p") == [("tea", 4)]
    session.sql(
        "CREATE SOURCE q (item STRING, price INT) COLUMNS (n BIGINT, item STRING, doc STRING) "
        "ENVELOPE UPSERT (KEY (item), VALUE (doc), ORDER BY (n)) KEEP"
    )
    session.insert("q", [(1, "tea", '{"price": 3}'), (2, "tea", '{"price": 4}'), (3, "jam", None)])
    assert rows(session, "SELECT * FROM q") == [("tea", 4)]


def test_updates_with_their_times(session):
    session.sql("CREATE SOURCE u (x INT) ENVELOPE UPDATES (TIME at) KEEP")
    assert rows(session, "SHOW COLUMNS FROM u") == [("x", True, "int")]
    session.insert("u", [('{"x": 1}', 2, 3), ('{"x": 1}', 4, -2)])
    session.sql("ADVANCE TO 9")
    assert [len(rows(session, f"SELECT * FROM u AS OF {t}")) for t in (1, 2, 4)] == [0, 3, 1]


def test_what_an_envelope_does_not_fit(session):
    with pytest.raises(SchemaError):
        session.sql("CREATE SOURCE u (x INT, x INT) ENVELOPE DEBEZIUM")
    session.sql("CREATE SOURCE v (x INT) ENVELOPE DEBEZIUM KEEP")
    with pytest.raises(StatementError, match="needs 1 columns"):
        session.sql("INSERT INTO v VALUES ('{}', 2)")
    with pytest.raises(InputError):
        session.insert("nothing", [1])
