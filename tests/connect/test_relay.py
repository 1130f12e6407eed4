"""``session.follow`` on Spark Connect: the server writes micro-batches, the client takes each of them once."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from faults.stream_files import Files
from tests.connect.client import EARLY, KEYED_SCHEMA
from tests.connect.clients import ended, follow, started
from tests.lane import EVERY  # each kill takes a server or two clients

pytestmark = pytest.mark.slow


@pytest.fixture
def files(tmp_path):
    return Files(None, tmp_path / "in")


def put(files, count, rows=4, seed=0):
    """Files of rows; what all files together count."""
    rng = random.Random(seed)
    for _ in range(count):
        files.put(*((rng.randint(0, 2), rng.randint(0, 99)) for _ in range(rows)))


def expected(files):
    counts, totals = Counter(), Counter()
    for path in files.folder.glob("*.parquet"):
        for row in pa.parquet.read_table(path).to_pylist():
            counts[row["k"]] += 1
            totals[row["k"]] += row["v"]
    return [[k, counts[k], totals[k]] for k in sorted(counts)]


def what(server, tmp_path, **more):
    return {"url": server.url, "state": tmp_path / "state", "folder": tmp_path / "in", "plan": "counts", **more}


def test_a_client_that_is_killed_anywhere_goes_on_where_it_was(server, files, tmp_path):
    put(files, 5)
    killed = 0
    points = (
        ["operation 9", "relay 0/0/log", "after 1", "offsets 3", "commits 4"] if EVERY else ["relay 0/0/log", "after 1"]
    )
    for number, point in enumerate(points):
        options = {"max_rows": 3 if number % 2 else None}
        killed += follow(**what(server, tmp_path, point=point, options=options)) is None
    assert killed >= len(points) - 2 * EVERY
    put(files, 1, seed=1)
    last = follow(**what(server, tmp_path))
    assert last == {**last, "rows": expected(files), "taken": 24, "batch": 5}
    again = follow(**what(server, tmp_path))
    assert again == {**again, "rows": expected(files), "taken": 24, "batches": 0}


@pytest.mark.parametrize(
    "written", ["offsets/1", "relay/0/1", "relay/0/1/log", "commits/1"] if EVERY else ["relay/0/1/log"]
)
def test_a_server_that_is_killed_gives_no_batch_twice_and_loses_none(server, files, tmp_path, written):
    put(files, 4)
    path, end = tmp_path / "state" / "streams" / "n" / written, time.monotonic() + 400
    while not path.exists() and time.monotonic() < end:
        client = started("tests.connect.client", json.dumps(what(server, tmp_path), default=str))
        while not path.exists() and client.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
    assert path.exists()
    server.kill()
    server.start()  # the client asks again for up to ten minutes, and is told that its session is not known
    said = ended(client)
    assert "stream 'n' stopped" in said["error"]
    last = follow(**what(server, tmp_path))
    assert last == {**last, "rows": expected(files), "taken": 16, "batch": 3}


def test_commands_come_in_the_order_of_their_rows_and_columns_have_any_name(server, tmp_path):
    folder = tmp_path / "in [1]*"  # Spark would take these for patterns
    folder.mkdir()
    files = Files(None, tmp_path / "in", KEYED_SCHEMA)
    moment = datetime(1582, 10, 3, tzinfo=UTC)
    for number in range(2):
        rows = [(f"{number} {i}", i % 3, EARLY, moment) for i in range(60)]
        files.put_table(
            pa.Table.from_pylist([dict(zip(KEYED_SCHEMA.names, r, strict=True)) for r in rows], KEYED_SCHEMA)
        )
    said = follow(
        **what(server, tmp_path, state=folder / "state", plan="keyed", options={"command": "insert_or_update"})
    )
    assert said["rows"] == [[f"1 {57 + k}", k, str(EARLY), str(moment)] for k in range(3)]


def test_what_was_taken_is_removed_and_a_store_that_is_older_says_so(server, files, tmp_path):
    state, relay = tmp_path / "state", tmp_path / "state" / "streams" / "n" / "relay"
    put(files, 1)
    asked = what(server, tmp_path, group=2)
    assert follow(**asked)["batch"] == 0
    shutil.copytree(state / "log", tmp_path / "log")
    shutil.copytree(state / "segments", tmp_path / "segments")
    put(files, 4, seed=1)
    assert follow(**asked) == {"rows": expected(files), "taken": 20, "batch": 4, "batches": 4}
    left = {str(path.relative_to(relay)) for path in relay.glob("*/*/log")}
    assert left == {"2/4/log"}
    assert sum(path.stat().st_size for path in relay.glob("[01]/**/*")) < 2000
    for kept in ("log", "segments"):
        shutil.rmtree(state / kept)
        shutil.copytree(tmp_path / kept, state / kept)
    (state / "lock").unlink(missing_ok=True)
    said = follow(**asked)
    assert "Spark continues with batch 4: the store was restored from an older copy" in said["error"]
    said = follow(**asked, options={"restart": "rewind"})
    assert "on Spark Connect a checkpoint cannot be set back" in said["error"]
