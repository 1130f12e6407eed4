"""CREATE SINK: files and tables are written after each step, also by the session that comes after this one."""

from __future__ import annotations

import sqlite3

import pyarrow.parquet as pq
import pytest

import altneu as an
from altneu.errors import SinkError, StatementError
from tests.sql_statements.cases import ORDERS, rows


def in_files(path):
    files = an.sinks.parquet_files(path)
    return sorted(tuple(row.values()) for file in files for row in pq.ParquetFile(file).read().to_pylist())


def in_table(path, table):
    connection = sqlite3.connect(path)
    result = sorted(connection.execute(f"SELECT * FROM {table}").fetchall())
    connection.close()
    return result


def test_files_and_tables_follow_a_view(quick):
    database = quick / "out.db"
    with an.Session(path=quick / "state") as session:
        session.sql(ORDERS)
        session.sql(
            f"CREATE SINK files FROM totals INTO PARQUET '{quick}/files' MODE UPSERT KEY (item) WITH (BUCKETS = 2); "
            f"CREATE SINK merged FROM totals INTO SQLITE '{database}' TABLE merged; "
            f"CREATE SINK keyed FROM totals INTO SQLITE '{database}' TABLE 'keyed' KEY (item) "
            "WITH (TYPES = ('total NUMERIC')); "
            f"CREATE SINK log FROM totals INTO PARQUET '{quick}/log' MODE APPEND"
        )
        assert in_files(quick / "files") == [("jam", 5), ("tea", 7)]
        session.sql("INSERT INTO orders VALUES ('tea', 1)")
        assert in_files(quick / "files") == in_table(database, "keyed") == [("jam", 5), ("tea", 8)]
        assert in_table(database, "merged") == [("jam", 5, 1), ("tea", 8, 1)]
        assert rows(session, "SHOW SINKS")[:2] == [
            ("files", "totals", f"PARQUET {quick}/files", "ready"),
            ("merged", "totals", f"SQLITE {database} TABLE merged", "ready"),
        ]
        with pytest.raises(StatementError, match="is dropped while it is read by SINK files, SINK merged"):
            session.sql("DROP MATERIALIZED VIEW totals")
    with an.Session(path=quick / "state") as session:
        session.sql("DROP SINK merged; INSERT INTO orders VALUES ('oil', 3)")
        assert in_files(quick / "files") == in_table(database, "keyed") == [("jam", 5), ("oil", 3), ("tea", 8)]
        assert len(in_table(database, "merged")) == 2  # what was written stays, and is written no more
        session.sql("DROP MATERIALIZED VIEW totals CASCADE")
        assert rows(session, "SHOW SINKS") == []


def test_sinks_that_do_not_fit(tmp_path):
    with an.Session() as session:
        session.sql(ORDERS)
        session.sql("CREATE VIEW dear AS SELECT * FROM totals")
        for text, told in [
            (f"CREATE SINK s FROM dear INTO PARQUET '{tmp_path}'", "is a VIEW: CREATE MATERIALIZED VIEW stores"),
            (f"CREATE SINK s FROM nope INTO PARQUET '{tmp_path}'", "there is no view 'nope'"),
            (f"CREATE SINK s FROM totals INTO SQLITE '{tmp_path}/x' TABLE t WITH (TYPES = ('total'))", "TYPES needs"),
        ]:
            with pytest.raises(StatementError, match=told):
                session.sql(text)
        with pytest.raises(SinkError, match="needs the columns"):
            session.sql(f"CREATE SINK s FROM totals INTO PARQUET '{tmp_path}/x' MODE UPSERT")
        assert rows(session, "SHOW SINKS") == []
        session.sql(f"CREATE SINK s FROM totals INTO PARQUET '{tmp_path}/x'")
