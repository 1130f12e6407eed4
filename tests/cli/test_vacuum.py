"""``altneu vacuum``: what goes, what stays, and beside whom it is refused."""

from __future__ import annotations

import os

import pytest

import altneu as an
from altneu.store import Lease, Leases, LocalFolder, check_store, write_segment
from tests.store.support import SCHEMA, batch


@pytest.fixture
def littered(orders):
    """A store with all that dead processes leave."""
    with an.Session(path=orders) as session:
        last = session.store.number
    folder = LocalFolder(orders)
    named = write_segment(folder.child("segments"), [batch(1)], SCHEMA, last + 1)
    (orders / "segments" / f".{named.name}.0f.tmp").write_bytes(b"half")
    write_segment(folder.child("scratch"), [batch(2)], SCHEMA, last)
    (orders / "log" / ".00000000000000000009.commit.0f.tmp").write_bytes(b"half a commit")
    (orders / ".format.json.0f.tmp").write_bytes(b"x")
    Leases(folder.child("readers")).add(Lease("dead", 1, None, 1_000_000_000))
    (orders / "notes.txt").write_text("somebody's")
    return orders


def files(path):
    return {str(file.relative_to(path)): file.stat().st_size for file in path.rglob("*") if file.is_file()}


def test_what_nobody_needs_goes(call, littered):
    before = files(littered)
    (would,) = call("vacuum", "--path", littered, "--dry-run", "--json").objects
    assert files(littered) == before
    (answer,) = call("vacuum", "--path", littered, "--json").objects
    after = files(littered)
    gone = {name: size for name, size in before.items() if name not in after}
    assert answer == would | {"dry_run": False}
    assert answer["bytes"] == sum(gone.values())
    kinds = ("commits", "segments", "scratch", "temporary", "leases")
    assert sorted(name for kind in kinds for name in answer[kind]["names"]) == sorted(gone)
    assert {kind: answer[kind]["files"] for kind in kinds} == {
        "commits": 0,
        "segments": 2,
        "scratch": 1,
        "temporary": 2,
        "leases": 1,
    }
    assert "notes.txt" in after
    assert check_store(littered).problems == ()
    with an.Session(path=littered) as session:
        assert session.sql("SELECT sum(total) AS s FROM totals").to_pylist() == [(12,)]


def test_for_people(call, littered):
    done = call("vacuum", "--path", littered, "--dry-run", "--verbose")
    assert done.lines[0].split(maxsplit=1)[1].startswith("segments that no commit refers to, ")
    assert "           log/.00000000000000000009.commit.0f.tmp" in done.lines
    assert done.lines[-1].endswith(" would be removed")
    assert call("vacuum", "--path", littered).lines[-1].endswith(" removed")
    assert call("vacuum", "--path", littered).lines == ["nothing to remove"]


def test_beside_a_session_only_a_dry_run(call, littered):
    with an.Session(path=littered) as session:
        session.sql("INSERT INTO orders VALUES ('oil', 1)")
        assert call("vacuum", "--path", littered, "--dry-run").code == 0
        before = files(littered)
        done = call("vacuum", "--path", littered)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("StoreLockedError: ")
        assert f"is open in another session (process {os.getpid()} on " in done.err
        assert files(littered) == before
        session.sql("INSERT INTO orders VALUES ('oil', 1)")


def test_what_a_reader_may_still_read_stays(call, orders):
    with an.Session(path=orders) as session:
        session.sql("INSERT INTO orders SELECT 'x', CAST(n AS INT) FROM generate_series(1, 3000) g(n)")
        with an.read(orders) as reader:
            for n in range(60):  # over a checkpoint, and past the commits that are kept
                session.sql(f"INSERT INTO orders VALUES ('y', {n})")
            session.sql("DELETE FROM orders WHERE item = 'x'")
            session.close()
            (answer,) = call("vacuum", "--path", orders, "--json").objects
            assert len(reader.view("orders").to_pylist()) == 3003
            assert answer["commits"]["files"] == 0
        (answer,) = call("vacuum", "--path", orders, "--keep", 1, "--json").objects
        assert answer["commits"]["files"] > 0
    assert check_store(orders).problems == ()


def test_what_fails(call, orders):
    done = call("vacuum", "--path", orders, "--keep", 0)
    assert (done.code, "not in the range x>=1" in done.err) == (2, True)
    assert call("vacuum").code == 2
