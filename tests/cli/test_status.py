"""``altneu status``: what a store holds, how far it is, who uses it."""

from __future__ import annotations

import os
import shutil

import pytest

import altneu as an
from altneu.cli.status import _ago
from altneu.store import DirectoryStore, check_store
from tests.store.released import make


def test_views_sources_times_and_files(call, store_path):
    (answer,) = call("status", "--path", store_path, "--json").objects
    assert (answer["store"], answer["format"], answer["health"], answer["problems"]) == (
        str(store_path),
        3,
        "whole",
        [],
    )
    assert answer["times"] == {"lower": 3, "event": [], "since": 0, "events": 0}
    assert answer["lock"] == {"held": False, "by": None}
    with an.read(store_path) as reader:
        assert answer["commit"]["number"] == reader.commit
    assert answer["commit"]["by"].startswith(f"process {os.getpid()} on ")
    views = {view["name"]: view for view in answer["views"]}
    assert {name: view["kind"] for name, view in views.items()} == {
        "orders": "TABLE",
        "totals": "MATERIALIZED VIEW",
        "by_item": "INDEX",
        "delays": "PYTHON",
    }
    assert (views["orders"]["updates"], views["totals"]["updates"], views["totals"]["errors"]) == (4, 3, 0)
    assert {a["name"] for a in answer["arrangements"]} >= set(views["orders"]["arrangements"])
    assert all(a["bytes"] > 0 for a in answer["arrangements"] if a["updates"])
    assert [(s["name"], s["kind"], s["filled"]) for s in answer["sources"]] == [
        ("orders", "TABLE", True),
        ("planes", "PYTHON", True),
    ]
    assert all("retained" in source for source in answer["sources"])
    assert answer["files"]["log"]["files"] == len(list((store_path / "log").iterdir()))


def test_for_people(call, store_path):
    lines = call("status", "--path", store_path, "-v").lines
    assert lines[0] == f"store    {store_path}, format 3"
    assert lines[1] == "health   whole (sizes compared)"
    assert lines[2] == "writer   nobody has it open"
    assert lines[4] == "times    closed up to 2, retained from 0 on; shards: 1"
    headings = [line.split() for line in lines if line.startswith(("view", "source", "arrangement"))]
    assert headings[0] == ["view", "kind", "updates", "errors", "bytes", "since"]
    assert headings[1][0] == "source"
    assert headings[2] == ["arrangement", "views", "shards", "updates", "waiting", "bytes"]
    assert "arrangement" not in call("status", "--path", store_path).out


def test_beside_a_writer_and_a_reader(call, orders):
    with an.Session(path=orders), an.read(orders, since=0):
        (answer,) = call("status", "--path", orders, "--json").objects
        me = f"process {os.getpid()} on "
        assert answer["lock"]["held"]
        assert answer["lock"]["by"].startswith(me)
        (lease,) = answer["leases"]
        assert (lease["since"], lease["live"], lease["by"].startswith(me)) == (0, True, True)
        shown = call("status", "--path", orders).out
        assert "\nreader " in shown
        assert f"writer   {me}" in shown
        assert list((orders / "readers").iterdir())  # it took none itself, and ended none


def test_errors_sinks_streams_and_what_waits(call, tmp_path):
    path = tmp_path / "s"
    with an.Session(path=path) as session:
        session.sql(f"""
            CREATE TABLE t (k INT);
            CREATE MATERIALIZED VIEW v AS SELECT 1 / k AS x FROM t;
            CREATE SINK out FROM t INTO PARQUET '{tmp_path}/out';
        """)
        session.sql("INSERT INTO t VALUES (0), (1)")
        session.insert("t", [(2,)], time=50)
        session.commit()
    with DirectoryStore.create_or_open(path) as store:
        record = {"query": "q", "batch": 7, "rows": 70, "late": 1, "seen": 40, "whole": 40, "delay": 5, "plan": "p"}
        store.commit(store.frontier, {"stream/clicks": record})
    (answer,) = call("status", "--path", path, "--json").objects
    assert {view["name"]: view["errors"] for view in answer["views"]} == {"t": 0, "v": 1}
    assert answer["sinks"] == [{"name": "out", "from": "t", "into": "PARQUET"}]
    assert sum(a["waiting"] for a in answer["arrangements"]) > 0
    (stream,) = answer["streams"]
    assert (stream["batch"], stream["frontier"], stream["behind"]) == (7, 35, 40)
    assert "clicks      7" in call("status", "--path", path).out


def test_a_store_without_commits(call, tmp_path):
    DirectoryStore.create_or_open(tmp_path / "s").close()
    done = call("status", "--path", tmp_path / "s")
    assert (done.code, done.lines[3], done.lines[4]) == (0, "commit   none yet", "times    none closed yet; shards: 0")
    assert call("status", "--path", tmp_path / "s", "--json").objects[0]["commit"] is None


@pytest.mark.parametrize("check", [True, False])
def test_a_damaged_segment(call, tmp_path, check):
    path = tmp_path / "s"
    with an.Session(path=path) as session:
        session.sql("CREATE TABLE t (k BIGINT)")
        session.sql("INSERT INTO t SELECT x FROM generate_series(1, 20000) g(x)")
    segment = max((path / "segments").iterdir(), key=lambda file: file.stat().st_size)
    data = bytearray(segment.read_bytes())
    if check:  # which sizes do not show
        assert call("status", "--path", path, "--check").code == 0
        data[len(data) // 2] ^= 1
    else:
        data = data[:-1]
    segment.write_bytes(data)
    done = call("status", "--path", path, *["--check"] * check)
    assert done.code == 1
    assert "health   damaged" in done.out
    assert str(segment) in done.out
    assert "recover=True" in done.out
    done = call("status", "--path", path, "--json", *["--check"] * check)
    assert (done.code, done.objects[0]["health"]) == (1, "damaged")


def test_how_long_ago():
    assert _ago("2020-01-01T00:00:00+00:00").endswith(" days ago")


@pytest.mark.parametrize("release", ["0.1.0", "0.2.0"])
def test_stores_of_earlier_releases(call, tmp_path, release):
    """Copied by who leaves out empty folders; the first release did not tell how a view is kept."""
    path = tmp_path / "store"
    shutil.copytree(make.HERE / release / "store", path)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    (answer,) = call("status", "--path", path, "--json").objects
    assert (answer["format"], answer["health"]) == ({"0.1.0": 2, "0.2.0": 3}[release], "whole")
    assert [view["updates"] is None for view in answer["views"]] == [release == "0.1.0"] * 5
    assert call("vacuum", "--path", path, "--dry-run").code == 0
    explained = call("explain", "--path", path)
    assert (explained.code, "only the Python program that defined it knows its plan" in explained.err) == (1, True)
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    count = call("query", "--path", path, "--json", "SELECT count(*) AS n FROM reach").objects[0]
    assert "n" in count if release == "0.2.0" else count["error"] == "ReadError"
    assert call("vacuum", "--path", path).code == 0
    assert check_store(path).problems == ()
