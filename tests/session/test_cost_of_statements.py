"""What MERGE, ALTER TABLE and a fork read, in rows, of a table and of one that is a hundred times as large."""

from __future__ import annotations

import pytest

import altneu as an
from altneu.runtime import files
from altneu.store import reader
from altneu.trace.batch import Batch, Block
from tests.session.calls import count_of

CLAUSES = (
    "WHEN MATCHED AND s.n > 5 THEN UPDATE SET n = s.n WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (k, n) "
    "VALUES (s.k, s.n)"
)
SOURCES = {
    "values": "(VALUES (3, 7), (5, 2), (-4, 1)) AS s (k, n)",
    "table": "s",
    "alias": "s AS s",
    "query": "(SELECT k, sum(n) AS n FROM s GROUP BY k) AS s",
    "common": "s",
}


@pytest.fixture
def whole(monkeypatch, read):
    """How many rows are read of batches, in parts or as a whole, and how many come into new ones."""
    counts = {"whole": 0, "built": 0}
    updates, build = Block.updates, Batch.build

    def taken(self):
        counts["whole"] += len(self)
        return updates(self)

    def built(*arguments):
        batch = build(*arguments)
        counts["built"] += len(batch)
        return batch

    monkeypatch.setattr(Block, "updates", taken)
    monkeypatch.setattr(Batch, "build", staticmethod(built))
    return counts


def merged(read, whole, source, count):
    with an.Session() as session:
        session.sql("CREATE TABLE t (k INT, n BIGINT); CREATE TABLE s (k INT, n BIGINT); CREATE INDEX by_k ON t (k)")
        session.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(n) AS n FROM t")
        session.insert("t", [(k, k) for k in range(count)])
        session.insert("s", [(3, 7), (5, 2), (-4, 1)])
        session.advance()
        read.append(0)
        whole["whole"] = 0
        common = "WITH s AS (SELECT k, n FROM s WHERE n > 0) " if source == "common" else ""
        done = session.sql(f"{common}MERGE INTO t USING {SOURCES[source]} ON t.k = s.k {CLAUSES}")
        assert done.message == "MERGE: 1 inserted, 1 updated, 1 deleted"
        result = read[-1] + whole["whole"]
        assert session.sql("SELECT * FROM t WHERE k < 6 ORDER BY k").to_pylist() == [
            (-4, 1),
            *((k, 7 if k == 3 else k) for k in range(5)),
        ]
        assert session.sql("SELECT n FROM total").to_pylist() == [(sum(range(count)) - 5 + 4 + 1,)]
    return result


@pytest.mark.parametrize("source", SOURCES)
def test_a_merge_reads_what_its_source_meets(read, whole, source):
    """Where the table has an index by the key."""
    few, many = (merged(read, whole, source, count) for count in (300, 30_000))
    assert many <= few + 10, (few, many)
    assert many < 120


ALTERED = {
    "a view of another column": ("SELECT k FROM t", 0),
    "a sum that is computed anew": ("SELECT k, sum(n) AS n FROM t GROUP BY k", 10),
}


@pytest.mark.parametrize("change", ["ALTER COLUMN n TYPE BIGINT", "RENAME COLUMN n TO m", "ADD COLUMN c INT DEFAULT 3"])
@pytest.mark.parametrize("name", ALTERED)
def test_a_change_of_columns_reads_and_writes_stored_rows_once(read, whole, name, change):
    """And those of views that read a column whose type is wider then: what they are made of is computed anew."""
    query, most = ALTERED[name]
    most = most if "TYPE" in change else 0
    for count in (300, 30_000):
        with an.Session() as session:
            session.sql(f"CREATE TABLE t (k INT, n INT); CREATE MATERIALIZED VIEW v AS {query}")
            session.insert("t", [(k, k % 7) for k in range(count)])
            session.advance()
            read.append(0)
            whole |= {"whole": 0, "built": 0}
            session.sql(f"ALTER TABLE t {change}")
            again = most * count
            assert read[-1] <= 2 * count + again  # they are sorted anew, where they are equal in other columns
            assert count <= whole["whole"] <= count + again + 1  # the default
            assert count <= whole["built"] <= count + again + 1  # the default


def test_a_change_of_columns_costs_what_changes_however_many_came_before(tmp_path):
    """A column gets other names; the text of each statement is all that becomes more in a commit."""
    calls, text = {}, "ALTER TABLE t RENAME COLUMN c{} TO c{}"
    with an.Session(path=tmp_path) as session:
        columns = ", ".join(f"a_column_of_the_table_{i} INT" for i in range(40))
        session.sql(f"CREATE TABLE t (k INT, c0 INT, {columns}); CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
        for i in range(84):
            calls[i] = count_of(session.sql, text.format(i, i + 1))
        number = session._engine.journal.store.number
    early, late = ((tmp_path / "log" / f"{number - 83 + i:020}.commit").stat().st_size for i in (20, 80))
    assert late - early < 60 * (len(text) + 20), (early, late)
    assert calls[80] < 1.1 * calls[20], (calls[20], calls[80])


@pytest.mark.parametrize("count", [3000, 300_000])
def test_a_fork_reads_no_row_and_opens_no_segment(monkeypatch, tmp_path, read, whole, count):
    with an.Session(path=tmp_path / "blue") as blue:
        blue.sql(
            "CREATE TABLE t (k INT, n BIGINT); CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n"
        )
        blue.insert("t", [(k, k % 1009) for k in range(count)])
        blue.advance()
        read.append(0)
        whole |= {"whole": 0, "built": 0}
        opened = []
        for module in (files, reader):
            real = module.open_segment
            monkeypatch.setattr(module, "open_segment", lambda *a, real=real: (opened.append(a), real(*a))[1])
        with blue.fork(tmp_path / "green") as green:
            assert green.views == blue.views
            assert (read[-1], whole, opened) == (0, {"whole": 0, "built": 0}, [])
            own = [p for p in (tmp_path / "green").rglob("*") if p.is_file() and p.stat().st_nlink == 1]
            assert sum(p.stat().st_size for p in own) < 40_000
            assert [p for p in (tmp_path / "green" / "segments").iterdir() if p.stat().st_nlink == 2]
