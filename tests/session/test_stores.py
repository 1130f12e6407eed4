"""Sessions on stores that are elsewhere, that were damaged, and that tasks of the dead still write to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections import Counter

import pytest

import altneu as an
from altneu.errors import StoreCorruptError
from altneu.store import forget_segments
from altneu.store.cache import segment_cache
from tests.store.support import CHILD

EDGES = an.source("edges", "src long, dst long")
REACH = EDGES.iterate(
    lambda r: r.join(EDGES, on={"dst": "src"}).select("src", dst="right.dst").concat(EDGES).distinct()
)
DEGREES = EDGES.group_by("src").agg(n="count(*)")


def closure(edges):
    actual = set(edges)
    while more := {(a, d) for a, b in actual for c, d in actual if b == c} - actual:
        actual |= more
    return Counter(actual)


def test_a_session_on_spark_keeps_its_state_on_s3(spark, s3):
    """Tasks read and write segments there; the state of a loop, and what passes between its rounds."""
    url = f"s3://tests/{uuid.uuid4().hex}"
    edges = [(0, 1), (1, 2), *((10_000 + i, 0) for i in range(2000))]
    with an.Session(spark, url, storage_options=s3, placement="spark", shards=2) as session:
        reach = session.maintain("reach", REACH)
        session.insert("edges", edges)
        assert session.advance().placement == "spark"
        assert Counter(reach.to_pylist()) == closure(edges)
    forget_segments()
    for file in segment_cache().folder.iterdir():
        file.unlink()
    with an.Session(spark, url, storage_options=s3) as session:
        reach = session.maintain("reach", REACH)
        session.retract("edges", [(1, 2)])
        assert session.advance().placement == "driver"  # upon what the tasks wrote
        edges.remove((1, 2))
        assert Counter(reach.to_pylist()) == closure(edges)
        session._engine.journal.store.vacuum(keep=1)
        assert Counter(reach.to_pylist()) == closure(edges)
    assert an.check_store(url, storage_options=s3).problems == ()


@pytest.mark.parametrize("name", ["../../x", "a/b", "/etc/passwd", "ü ñ", "x" * 5000, "new/q", "\n", "arrangement/a/0"])
def test_names_are_only_names(tmp_path, name):
    """Of views, sources, columns and folders: none becomes a path, none collides with what a session keeps."""
    path = tmp_path / "a b" / "ü'\"; drop"
    rows = an.source(name, "`a b/c` string, `../x` long")
    for n in range(2):
        with an.Session(path=path) as session:
            view = session.maintain(name, rows.group_by("`a b/c`").agg(**{"t/../": "sum(`../x`)"}))
            session.insert(name, [(name * 200, 1)])
            session.advance()
            assert view.to_pylist() == [(name * 200, n + 1)]
    assert an.check_store(path).problems == ()
    assert [p.name for p in tmp_path.iterdir()] == ["a b"]
    assert not {p.name for p in path.iterdir()} - {"format.json", "lock", "log", "readers", "scratch", "segments"}


def test_a_damaged_store_goes_on_from_its_last_whole_commit(tmp_path):
    path = tmp_path / "state"
    with an.Session(path=path) as session:
        session.maintain("degrees", DEGREES)
        for i in range(3):
            session.insert("edges", [(1, i)])
            session.advance()
    last = max((path / "log").iterdir())
    last.write_bytes(last.read_bytes()[:-1])
    with pytest.raises(StoreCorruptError, match=rf"{last.name}.*recover=True"):
        an.Session(path=path)
    assert an.check_store(path).whole == an.check_store(path).commit - 1
    with pytest.warns(UserWarning, match=r"the 1 after it.*insert their rows again"):
        session = an.Session(path=path, recover=True)
    with session:
        assert session.lower == 2
        degrees = session.maintain("degrees", DEGREES)
        assert degrees.to_pylist() == [(1, 2)]
        session.insert("edges", [(1, 2), (2, 2)])
        session.advance()
    with an.Session(path=path) as session:
        assert Counter(session.maintain("degrees", DEGREES).to_pylist()) == Counter([(1, 3), (2, 1)])


# tasks of the dead --------------------------------------------------------------------------------------------------

ZOMBIE = """
import os, sys
import altneu as an
from altneu.store import DirectoryStore, SegmentWriter
from tests.store.support import SCHEMA, batch, step

# A writer in the middle of a step, whose task is in another process: the writer is killed, the task goes on.
store = DirectoryStore.create_or_open(sys.argv[1])
for _ in range(2):
    step(store)
number, segments, scratch = store.next_number, store.segment_directory, store.scratch_directory
task = os.fork()
if not task:
    half = SegmentWriter(segments, SCHEMA, number)
    half.write(batch(1000))
    os.write(1, b"half\\n")
    sys.stdin.readline()  # until long after its writer's end
    half.write(batch(2000))
    try:
        half.finish()
        os.write(1, b"half is whole\\n")
    except an.errors.StoreError:
        os.write(1, b"half is gone\\n")
    for start in (number, 3000):  # what the new writer writes too, and what nobody else does
        with SegmentWriter(segments, SCHEMA, number) as whole:
            whole.write(batch(start))
            whole.write(batch(start + 10))
            whole.finish()
    with SegmentWriter(scratch, SCHEMA, number, durable=False) as passing:
        passing.write(batch(4000))
        passing.finish()
    try:
        step(store)
    except an.errors.StoreError as error:
        os.write(1, f"{error}\\n".encode())
    os.write(1, b"finished\\n")
    os._exit(0)
os.waitpid(task, 0)
"""


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_task_that_outlives_its_writer_touches_nothing_that_is_committed(tmp_path, steps):
    from altneu.store import DirectoryStore
    from tests.store.support import check_step, step

    path = tmp_path / "state"
    writer = subprocess.Popen(
        [sys.executable, "-c", ZOMBIE, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=CHILD
    )
    with writer:
        assert writer.stdout.readline() == b"half\n"
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        with DirectoryStore.create_or_open(path) as store:  # the lock has gone with the writer, not with its task
            for _ in range(steps):
                step(store)
            check_step(store)
            store.vacuum(keep=1)
            writer.stdin.write(b"go on\n")
            writer.stdin.flush()
            said = [line.decode() for line in writer.stdout]
            assert said[0] == ("half is gone\n" if steps else "half is whole\n")  # as its step is over, or is not
            assert "inherited by a forked process" in said[1]
            assert said[2:] == ["finished\n"]
            forget_segments()
            check_step(store)
            step(store)
            check_step(store)
            store.vacuum(keep=1)
            check_step(store)
            left = {p.name for place in ("segments", "scratch") for p in (path / place).iterdir()}
            assert left == {value["segment"]["name"] for value in store.state["spine"]}
    assert an.check_store(path).problems == ()
