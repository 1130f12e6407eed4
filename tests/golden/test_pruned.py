"""What pruning columns saves: state is narrower, Spark does not read what no view of a session reads."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import altneu as an
from altneu.errors import HydrationError, SourceFailedError
from altneu.plan import rewrite
from altneu.plan.rewrite.prune_columns import prune_columns

COLUMNS = [f"c{i}" for i in range(12)]
WIDE = an.source("wide", ", ".join(f"{c} long" for c in ["k", *COLUMNS]))
NAMES = an.source("names", "k long, name string, more string")
NAMED = WIDE.filter("c3 > 0").join(NAMES, on="k").select("name", "c5")
ROWS = 1000


def wide_rows() -> list[dict[str, int]]:
    return [{"k": i % 10, **{c: i * 1000 + at for at, c in enumerate(COLUMNS)}} for i in range(ROWS)]


def wide_table() -> pa.Table:
    return pa.Table.from_pylist(wide_rows(), WIDE.schema)


def fill(session: an.Session) -> None:
    session.insert("wide", wide_table())
    session.insert("names", [(k, f"name {k}", "x" * 100) for k in range(10)])
    session.advance()


def kept(session: an.Session) -> dict[tuple[str, ...], int]:
    """Columns of every arrangement, and the bytes of its rows."""
    states = {name: session._engine.table.get(name, 0) for name in session._engine.table.layouts}
    return {
        tuple(session._engine.table.layouts[name].schema.names): sum(
            part.nbytes for batch in state.spine.batches for part in batch.updates().rows.to_batch().columns
        )
        for name, state in states.items()
        if state is not None  # as that of errors where there are none
    }


def test_arrangements_keep_what_is_read(monkeypatch):
    with an.Session() as session:
        pruned = session.maintain("named", NAMED)
        fill(session)
        rows, narrow = Counter(pruned.to_pylist()), kept(session)
    monkeypatch.setattr(rewrite, "RULES", tuple(r for r in rewrite.RULES if r is not prune_columns))
    with an.Session() as session:
        plain = session.maintain("named", NAMED)
        fill(session)
        assert Counter(plain.to_pylist()) == rows
        wide = kept(session)
    assert rows
    assert set(narrow) == {("k", "c5"), ("k", "name"), ("name", "c5")}
    assert set(wide) == {("k", *COLUMNS), ("k", "name", "more"), ("name", "c5")}
    assert 6 * narrow["k", "c5"] <= wide["k", *COLUMNS]


def test_readers_of_one_arrangement_share_it():
    best = WIDE.top_k(1, "c2 desc", per="k").select("k", x="c2")
    pairs = WIDE.join(WIDE, on="k").select("k", x="`right.c7`")
    with an.Session() as session:
        session.maintain("both", best.concat(pairs))
        session.insert("wide", wide_table())
        session.advance()
        assert sorted(kept(session)) == [("k", "c2", "c7"), ("k", "x")]


def test_a_late_view_reads_what_is_kept_and_no_more():
    """What an earlier view pruned is gone, unless its source is kept."""
    for keep in (False, True):
        wide = an.source("wide", WIDE.schema, keep=keep)
        late = wide.join(NAMES, on="k").select("c6")
        with an.Session() as session:
            session.maintain("named", wide.join(NAMES, on="k").select("name", "c5"))
            session.maintain("names", NAMES)
            fill(session)
            if not keep:
                with pytest.raises(HydrationError, match="keep=True"):
                    session.maintain("late", late)
                continue
            view = session.maintain("late", late)
            assert Counter(view.to_pylist()) == Counter((row["c6"],) for row in wide_rows())


def spoilt(path, columns):
    """A Parquet file in which some columns cannot be read."""
    pq.write_table(wide_table(), path, compression="none", use_dictionary=False)
    group = pq.read_metadata(path).row_group(0)
    with path.open("r+b") as file:
        for i in range(group.num_columns):
            column = group.column(i)
            if column.path_in_schema in columns:
                file.seek(column.data_page_offset)
                file.write(b"\xff" * column.total_compressed_size)


@pytest.mark.parametrize("placement", ["spark", "auto"])
def test_spark_reads_the_columns_that_the_views_read(spark, tmp_path, placement, monkeypatch):
    """The others are spoilt in the file: whoever read them would fail."""
    monkeypatch.setattr("altneu.runtime.spark.executor.FETCH_ROWS", 0)
    spoilt(tmp_path / "wide.parquet", set(COLUMNS) - {"c3", "c5", "c8"})
    frame = spark.read.parquet(str(tmp_path / "wide.parquet"))
    with an.Session(spark, placement=placement) as session:
        named = session.maintain("named", NAMED)
        largest = session.maintain(
            "largest", WIDE.group_by("k").agg(n="count(*)", most="max(c8)", least="min(c9)").select("k", "most")
        )
        session.insert("wide", frame)
        session.insert("names", [(k, f"name {k}", "") for k in range(10)])
        assert session.advance().placement == "spark"
        assert Counter(named.to_pylist()) == Counter((f"name {r['k']}", r["c5"]) for r in wide_rows() if r["c3"] > 0)
        assert Counter(largest.to_pylist()) == Counter((k, (ROWS - 10 + k) * 1000 + 8) for k in range(10))
    with an.Session(spark, placement=placement) as session:
        session.maintain("more", WIDE.select("k", "c9"))
        session.insert("wide", frame)
        with pytest.raises(SourceFailedError, match="wide"):
            session.advance()


def test_a_source_that_turns_out_to_be_of_no_use_takes_rows_all_the_same():
    with an.Session() as session:
        view = session.maintain("nothing", WIDE.filter("k > 0 and false").group_by().agg(n="count(*)", most="max(c1)"))
        session.insert("wide", wide_table())
        session.advance()
        assert view.to_pylist() == [(0, None)]
        assert set(kept(session)) == {("n", "most")}
