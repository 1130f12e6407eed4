"""What DuckDB's TPC-H extension gives: tables at any scale factor, the texts of the queries, and their answers.

The extension comes from PyPI as a file, which is loaded by its path: nothing is fetched. Its queries are written in
what Spark's SQL and DuckDB's have in common, and are used as they are.
"""

from __future__ import annotations

import csv
import importlib.util
import io
from pathlib import Path
from typing import TYPE_CHECKING

import altneu as an

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

TABLES = {
    "region": "r_regionkey int, r_name string, r_comment string",
    "nation": "n_nationkey int, n_name string, n_regionkey int, n_comment string",
    "supplier": (
        "s_suppkey bigint, s_name string, s_address string, s_nationkey int, s_phone string, "
        "s_acctbal decimal(15,2), s_comment string"
    ),
    "customer": (
        "c_custkey bigint, c_name string, c_address string, c_nationkey int, c_phone string, "
        "c_acctbal decimal(15,2), c_mktsegment string, c_comment string"
    ),
    "part": (
        "p_partkey bigint, p_name string, p_mfgr string, p_brand string, p_type string, p_size int, "
        "p_container string, p_retailprice decimal(15,2), p_comment string"
    ),
    "partsupp": (
        "ps_partkey bigint, ps_suppkey bigint, ps_availqty bigint, ps_supplycost decimal(15,2), ps_comment string"
    ),
    "orders": (
        "o_orderkey bigint, o_custkey bigint, o_orderstatus string, o_totalprice decimal(15,2), o_orderdate date, "
        "o_orderpriority string, o_clerk string, o_shippriority int, o_comment string"
    ),
    "lineitem": (
        "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber bigint, l_quantity decimal(15,2), "
        "l_extendedprice decimal(15,2), l_discount decimal(15,2), l_tax decimal(15,2), l_returnflag string, "
        "l_linestatus string, l_shipdate date, l_commitdate date, l_receiptdate date, l_shipinstruct string, "
        "l_shipmode string, l_comment string"
    ),
}
"""The tables, as Spark would declare what the generator makes."""

QUERIES = range(1, 23)
ROW_GROUP = 1 << 17  # rows of a row group of a Parquet file


def sources(*, keep: bool = False) -> dict[str, an.Collection]:
    """The eight tables as sources of those names; with ``keep``, for views that are maintained late."""
    return {name: an.source(name, columns, keep=keep) for name, columns in TABLES.items()}


def extension(name: str = "tpch") -> Path | None:
    """The file of an extension, None when it or DuckDB is not installed."""
    spec = importlib.util.find_spec(f"duckdb_extension_{name}")
    if spec is None or not spec.submodule_search_locations or importlib.util.find_spec("duckdb") is None:
        return None
    return next(Path(spec.submodule_search_locations[0]).rglob("*.duckdb_extension"), None)


def connect(name: str = "tpch") -> duckdb.DuckDBPyConnection:
    """A database in memory that has an extension, and no other way to get one.

    Raises:
        FileNotFoundError: it is not installed.
    """
    path = extension(name)
    if path is None:
        raise FileNotFoundError(f"the packages duckdb and duckdb-extension-{name} are missing: run `make setup`")
    import duckdb

    never = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    connection = duckdb.connect(config=never)
    connection.execute(f"LOAD '{path}'")
    return connection


def generate(scale: float) -> dict[str, pa.Table]:
    """The tables at a scale factor: 1 is six million lines, 0.01 sixty thousand."""
    with connect() as connection:
        connection.execute(f"CALL dbgen(sf={scale})")
        return {name: connection.execute(f"FROM {name}").to_arrow_table() for name in TABLES}


def write(scale: float, folder: Path, pieces: int) -> dict[str, Path]:
    """The tables at a scale factor, each a folder of Parquet files; no more than one piece is in memory at a time."""
    import pyarrow.parquet as pq

    folders = {name: folder / name for name in TABLES}
    for place in folders.values():
        place.mkdir(parents=True)
    for piece in range(pieces):
        with connect() as connection:
            connection.execute(f"CALL dbgen(sf={scale}, children={pieces}, step={piece})")
            for name, place in folders.items():
                rows = connection.execute(f"FROM {name}").to_arrow_reader(ROW_GROUP)
                with pq.ParquetWriter(place / f"{piece:03}.parquet", rows.schema) as file:
                    for batch in rows:
                        file.write_batch(batch)
    return folders


def texts() -> dict[int, str]:
    """The 22 queries, by their numbers."""
    with connect() as connection:
        result = connection.execute("FROM tpch_queries()").fetchall()
    return {number: text.strip().removesuffix(";") for number, text in result}


def answers(scale: float) -> dict[int, list[list[str]]]:
    """What the queries give at scale factor 0.01, 0.1 or 1: rows of texts, a null being an empty one."""
    with connect() as connection:
        requested = "SELECT query_nr, answer FROM tpch_answers() WHERE scale_factor = ?"
        result = connection.execute(requested, [scale]).fetchall()
    rows = {number: list(csv.reader(io.StringIO(text), delimiter="|"))[1:] for number, text in result}
    return {number: [row or [""] for row in result] for number, result in rows.items()}  # one null is an empty line
