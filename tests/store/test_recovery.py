"""Damaged stores: every damage is named, and recovery goes back to the last whole commit and loses no byte."""

from __future__ import annotations

import hashlib
import os
import pickle
import random
import shutil
import subprocess
import sys
import warnings
from contextlib import contextmanager

import pytest

from altneu.errors import StoreCorruptError, StoreVersionError
from altneu.store import DirectoryStore, check_store, forget_segments
from altneu.store.log import commit_name
from altneu.store.references import segment_number
from tests.store.support import CHILD, content, step

LAST = 9
CHECKPOINTS = (4, 8)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A store of nine steps with checkpoints at 4 and 8, and what it said after each."""
    path = tmp_path_factory.mktemp("original") / "store"
    with DirectoryStore.create_or_open(path, checkpoint_every=4) as store:
        said = {0: content(store)}
        for n in range(1, LAST + 1):
            step(store)
            said[n] = content(store)
        assert tuple(c.number for c in store.history() if c.checkpoint)[::-1] == CHECKPOINTS
    return path, said


@pytest.fixture
def path(original, quick):
    shutil.copytree(original[0], quick / "store")
    return quick / "store"


def open_again(path, **settings):
    forget_segments()
    return DirectoryStore.create_or_open(path, checkpoint_every=4, **settings)


@contextmanager
def recovered(path, *, quietly=False):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quietly else "error")
        store = open_again(path, recover=True)
    with store:
        yield store


def digests(path):
    """What is in each file, wherever it is now; the lock says who had it last."""
    return {hashlib.sha256(p.read_bytes()).digest() for p in path.rglob("*") if p.is_file() and p.name != "lock"}


def data_of(said):
    """What a store says apart from the number of its last commit."""
    return {key: value for key, value in said.items() if key != "number"}


# the damages, and what must come of them: each returns the name of the file --------------------------------------


def flip(file, rng):
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def cut(file, rng):
    os.truncate(file, rng.randrange(file.stat().st_size))


def grow(file, rng):
    file.write_bytes(file.read_bytes() + rng.randbytes(rng.randint(1, 200)))


def blank(file, rng):
    """What a file system may leave after a loss of power: the size is right, a part of the bytes was never written."""
    data = bytearray(file.read_bytes())
    start = rng.randrange(len(data) - 1)
    data[start:] = bytes(len(data) - start)
    if bytes(data) == file.read_bytes():
        data[0] ^= 1
    file.write_bytes(data)


def replace(file, rng):
    """Another file of the same store, whole in itself, in this one's place."""
    others = [p for p in file.parent.iterdir() if p.suffix == file.suffix and p.read_bytes() != file.read_bytes()]
    file.write_bytes(rng.choice(others).read_bytes() if others else b"{}")


def lose(file, rng):
    file.unlink()


def pickled(file, rng):
    file.write_bytes(pickle.dumps({"data": list(range(100))}))


DAMAGES = (flip, cut, grow, blank, replace, lose, pickled)


def files_of(path):
    return [path / "format.json", *sorted((path / "log").iterdir()), *sorted((path / "segments").iterdir())]


def last_whole(path, damaged):
    """By the rules of the format: the last commit whose files are all as they were; None if there is none."""
    commits = {int(p.stem) for p in damaged if p.suffix == ".commit"}
    segments = {segment_number(p.name) for p in damaged if p.suffix == ".arrow"}
    for n in range(LAST, 0, -1):
        start = max((c for c in CHECKPOINTS if c <= n), default=1)
        if not commits & set(range(start, n + 1)) and not segments & set(range(max(1, n - 2), n + 1)):
            return n
    return 0 if (path / "log" / commit_name(1)).exists() else None


def check(path, original, damaged):
    """Recover a store and hold it against what it was."""
    said, wanted, before = original[1], last_whole(path, damaged), digests(path)
    result = check_store(path)
    assert result.whole == wanted
    assert digests(path) == before
    if wanted is None:
        with pytest.raises(StoreCorruptError, match="nothing to go back to"), recovered(path):
            pass
        assert digests(path) == before
        return
    with recovered(path, quietly=bool(result.problems)) as store:
        assert data_of(content(store)) == data_of(said[wanted])
        lost = wanted < result.commit
        assert store.number == (result.commit + 1 if lost else wanted)
        assert digests(path) >= before
        step(store)
        now = content(store)
    with open_again(path) as store:  # and nothing of it comes back
        assert content(store) == now
        store.vacuum(keep=1)
        assert content(store) == now
        step(store)
    assert check_store(path).problems == ()
    with recovered(path):
        pass  # sound: nothing is done, and nothing told


@pytest.mark.parametrize("choice", range(2))
@pytest.mark.parametrize("position", range(1 + 2 * LAST))
def test_a_damaged_file_costs_what_needs_it_and_nothing_else(path, original, position, choice):
    file, damage = files_of(path)[position], DAMAGES[(2 * position + choice) % len(DAMAGES)]
    damage(file, random.Random(f"{damage.__name__} {position}"))
    check(path, original, [file])


@pytest.mark.parametrize("seed", range(8))
def test_several_damaged_files(path, original, seed):
    rng = random.Random(seed)
    damaged = rng.sample(files_of(path), rng.randint(2, 6))
    for file in damaged:
        rng.choice(DAMAGES)(file, rng)
    check(path, original, damaged)


def test_every_region_of_a_commit_and_of_a_segment_is_checked(path, original):
    """Flips all through the two newest files: each is named by the check, and each is gone back over."""
    for file in (path / "log" / commit_name(LAST), max((path / "segments").iterdir())):
        good = file.read_bytes()
        for position in range(0, len(good), 7):
            spoiled = bytearray(good)
            spoiled[position] ^= 1 << position % 8
            file.write_bytes(spoiled)
            result = check_store(path)
            assert (result.commit, result.whole) == (LAST, LAST - 1)
            assert all(file.name in problem for problem in result.problems)
            assert result.problems
        file.write_bytes(good)
    assert check_store(path).problems == ()


# what is said ------------------------------------------------------------------------------------------------------


def test_without_recovery_the_error_names_the_file_and_the_way_out(path):
    cut(path / "log" / commit_name(LAST), random.Random(0))
    before = digests(path)
    with pytest.raises(StoreCorruptError, match=rf"{commit_name(LAST)}.*recover=True.*check_store"):
        open_again(path)
    assert digests(path) == before


def test_the_warning_says_how_many_commits_and_which_files(path):
    cut(path / "log" / commit_name(LAST - 1), random.Random(0))
    with pytest.warns(UserWarning, match="went back to commit 7; the 2 after it, up to 9, are lost") as told:
        open_again(path, recover=True).close()
    text = str(told[0].message)
    assert all(name in text for name in (commit_name(8), commit_name(9), "seg-00000008-", "seg-00000009-", "was cut"))
    aside = path / "aside" / f"{LAST + 1:020d}"
    assert sorted(p.name for p in (aside / "log").iterdir()) == [commit_name(8), commit_name(9)]
    assert str(aside) in text
    assert not list((path / "log").glob("*00[89].commit"))


def test_what_is_not_needed_costs_no_commit(path):
    lose(path / "log" / commit_name(5), random.Random(0))
    with recovered(path) as store:
        assert store.number == LAST


def test_another_format_is_no_damage(path):
    (path / "format.json").write_text('{"format": 99, "altneu": "9.9.9", "id": "x"}')
    for act in (lambda: open_again(path, recover=True), lambda: check_store(path)):
        with pytest.raises(StoreVersionError, match="format 99"):
            act()


def test_a_new_store_needs_no_recovery(tmp_path):
    with recovered(tmp_path / "new") as store:
        assert store.number == 0
    assert check_store(tmp_path / "new").whole == 0


def test_a_recovery_after_a_recovery(path, original):
    for expected in (10, 12):
        cut(max((path / "log").iterdir()), random.Random(0))
        with recovered(path, quietly=True) as store:
            assert store.number == expected
            assert data_of(content(store)) == data_of(original[1][8])
            step(store)
    assert check_store(path).problems == ()


KILLED = """
import os, shutil, sys, warnings
from pathlib import Path
from altneu.store import DirectoryStore
from tests.store.killable import arm

warnings.simplefilter("ignore")
damaged, work, fatal = Path(sys.argv[1]), Path(sys.argv[2]), 0
while True:
    fatal += 3
    folder = work / str(fatal)
    shutil.copytree(damaged, folder)
    child = os.fork()
    if not child:
        arm(str(folder), fatal)
        DirectoryStore.create_or_open(folder, checkpoint_every=4, recover=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.waitstatus_to_exitcode(status) == 0:
        break
    assert os.waitstatus_to_exitcode(status) == -9, status
print(fatal)
"""


@pytest.mark.parametrize("position", [0, 18])
def test_a_recovery_that_is_killed_anywhere_is_gone_on_with(path, original, quick, position):
    file = files_of(path)[position]
    wanted = last_whole(path, [file])
    cut(file, random.Random(1))
    before, work = digests(path), quick / "work"
    command = [sys.executable, "-c", KILLED, str(path), str(work)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=CHILD, timeout=250)
    assert int(done.stdout) > 20
    for folder in work.iterdir():
        assert digests(folder) >= before
        with recovered(folder, quietly=True) as store:
            assert data_of(content(store)) == data_of(original[1][wanted])
            step(store)
            store.vacuum(keep=1)
        assert check_store(folder).problems == ()
