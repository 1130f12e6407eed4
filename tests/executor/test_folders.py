from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from altneu.store.folders import user_cache


def with_path(environment):
    return {"PYTHONPATH": os.environ.get("PYTHONPATH", "")} | environment


def in_a_process(code, **environment):
    run = [sys.executable, "-c", "from altneu.store.folders import scratch, socket_folder, user_cache\n" + code]
    return subprocess.run(run, env=with_path(environment), capture_output=True, text=True, check=True).stdout.strip()


def test_the_cache_is_this_users_own(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = user_cache("java")
    assert folder == tmp_path / "altneu" / "java"
    assert folder.stat().st_mode & 0o077 == 0


def test_a_cache_that_cannot_be_created_lives_as_long_as_the_process(tmp_path):
    occupied = tmp_path / "file"
    occupied.touch()
    code = "folder = user_cache('java'); print(folder.is_dir() and folder.is_relative_to(scratch()))"
    assert in_a_process(code, XDG_CACHE_HOME=str(occupied), TMPDIR=str(tmp_path)) == "True"
    assert list(tmp_path.iterdir()) == [occupied]


def test_scratch_is_one_folder_and_goes_with_the_process(tmp_path):
    folder = in_a_process("assert scratch() == scratch(); print(scratch())", TMPDIR=str(tmp_path))
    assert Path(folder).parent == tmp_path
    assert not Path(folder).exists()


def test_sockets_have_a_short_path_where_the_temporary_folder_has_not(tmp_path):
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    folder, parent = in_a_process("print(socket_folder(), scratch().parent)", TMPDIR=str(deep)).split()
    assert len(folder) + len("/.") + 36 + len(".sock") <= 100
    assert parent == str(deep)
    assert not Path(folder).exists()
    assert not list(deep.iterdir())


def test_scratch_of_killed_processes_goes_with_the_next_one(tmp_path):
    """Spark's shuffles lie in it: they must not add up."""
    kept = tmp_path / "altneu-of-somebody"
    kept.mkdir()
    kill = "import os, signal; (scratch() / 'large').write_bytes(bytes(100)); os.kill(os.getpid(), signal.SIGKILL)"
    code = "print(len(list(scratch().parent.iterdir())))\n"
    with subprocess.Popen(
        [sys.executable, "-c", "from altneu.store.folders import scratch; print(scratch(), flush=True); input()"],
        env=with_path({"TMPDIR": str(tmp_path)}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        running = Path(other.stdout.readline().strip())
        for _ in range(3):
            with pytest.raises(subprocess.CalledProcessError, match="SIGKILL"):
                in_a_process(kill, TMPDIR=str(tmp_path))
            assert len(list(tmp_path.glob("altneu-*/large"))) == 1
        assert in_a_process(code, TMPDIR=str(tmp_path)) == "3"
        assert {*tmp_path.iterdir()} == {kept, running}
        other.communicate("\n")
    assert [*tmp_path.iterdir()] == [kept]


def test_a_forked_child_leaves_scratch_alone(tmp_path):
    code = "import os, sys\nfolder = scratch()\npid = os.fork()\nif not pid: sys.exit()\nos.waitpid(pid, 0)"
    assert in_a_process(code + "\nprint(folder.is_dir())", TMPDIR=str(tmp_path)) == "True"
