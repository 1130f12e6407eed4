"""A store in a folder: reopening, checkpoints, versions, damage, hostile folders."""

from __future__ import annotations

import json
import os
import shutil

import pyarrow as pa
import pytest

from altneu.errors import StoreCorruptError, StoreError, StoreLockedError, StoreVersionError
from altneu.store import DirectoryStore, LocalFolder, forget_segments
from altneu.store import files as files_of_store
from altneu.store.commit import Commit
from altneu.store.log import CommitLog, commit_name
from tests.store.support import check_step, content, files, step


def reopen(path, **settings):
    forget_segments()
    return DirectoryStore.create_or_open(path, create=False, **settings)


def log_file(path, number):
    return path / "log" / commit_name(number)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def filled(path):
    """Seven steps, a checkpoint at 4."""
    with DirectoryStore.create_or_open(path, checkpoint_every=4) as store:
        for _ in range(7):
            step(store)
    return path


@pytest.mark.parametrize("every", [1, 2, 3, 50])
def test_reopened_after_every_commit_it_says_the_same(path, every):
    DirectoryStore.create_or_open(path).close()
    for n in range(1, 14):
        with reopen(path, checkpoint_every=every) as store:
            step(store)
            said = content(store)
        with reopen(path, checkpoint_every=every) as store:
            assert store.number == n
            assert content(store) == said
            check_step(store)


def test_all_segments_are_synced_before_the_commit_that_names_them(path, monkeypatch):
    sync, put, synced, named = files_of_store._sync, CommitLog.put, set(), []

    def syncs(at, flags=0):
        sync(at, flags)
        synced.add(at.name)

    def puts(log, commit):
        named.append((set(commit.set["all"]["names"]), set(synced)))
        return put(log, commit)

    monkeypatch.setattr(files_of_store, "_sync", syncs)
    monkeypatch.setattr(CommitLog, "put", puts)
    batches = [pa.record_batch({"a": [n]}) for n in range(20)]
    with DirectoryStore.create_or_open(path) as store:
        refs = [store.write_segment([batch], batch.schema) for batch in batches]
        assert not synced & {ref.name for ref in refs}
        store.commit(1, set={"all": {"refs": [ref.to_json() for ref in refs], "names": [ref.name for ref in refs]}})
    ((names, before),) = named
    assert len(names) == 20
    assert names | {"segments"} <= before


def test_checkpoints_come_when_they_are_due_and_carry_everything(path):
    with DirectoryStore.create_or_open(path, checkpoint_every=5) as store:
        for _ in range(17):
            step(store)
        assert [c.number for c in store.history() if c.checkpoint] == [15, 10, 5]
    for number in range(1, 15):  # nothing before the last checkpoint is read
        log_file(path, number).unlink()
    with reopen(path) as store:
        check_step(store)
        assert len(store.history()) == 3


def test_the_due_of_a_checkpoint_survives_reopening(path):
    for _ in range(9):
        with DirectoryStore.create_or_open(path, checkpoint_every=4) as store:
            step(store)
    with reopen(path) as store:
        assert [c.number for c in store.history() if c.checkpoint] == [8, 4]


def test_only_what_the_format_says_is_on_disk(filled):
    actual = files(filled)
    assert actual - {"format.json", "lock"} == {f"log/{commit_name(n)}" for n in range(1, 8)} | {
        f"segments/{p.name}" for p in (filled / "segments").iterdir()
    }
    assert len(list((filled / "segments").iterdir())) == 7
    assert json.loads((filled / "format.json").read_text())["format"] == 3


def test_create_false_wants_a_store(path):
    with pytest.raises(StoreError, match="there is no store"):
        DirectoryStore.create_or_open(path, create=False)
    assert not path.exists()


def test_a_folder_with_other_things_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(StoreError, match=r"thesis\.tex"):
        DirectoryStore.create_or_open(tmp_path)
    assert files(tmp_path) == {"thesis.tex"}


def test_a_file_is_no_store(path):
    path.write_text("x")
    with pytest.raises(StoreError, match="cannot create"):
        DirectoryStore.create_or_open(path)


def test_a_checkpoint_every_zero_commits_is_refused(path):
    with pytest.raises(StoreError, match="at least 1"):
        DirectoryStore.create_or_open(path, checkpoint_every=0)


def test_creation_cut_short_is_gone_on_with(path):
    (path / "segments").mkdir(parents=True)
    (path / "log").mkdir()
    (path / ".format.json.abc.tmp").write_text("{")
    with DirectoryStore.create_or_open(path) as store:
        step(store)
        check_step(store)


def test_a_closed_store_refuses_to_write(path):
    store = DirectoryStore.create_or_open(path)
    store.close()
    store.close()
    for act in (lambda: store.commit(1), lambda: step(store), store.vacuum):
        with pytest.raises(StoreError, match="is closed"):
            act()
    assert files(path) == {"format.json", "lock"}


# ------------------------------------------------------------------------------------------------------ versions


@pytest.mark.parametrize("number", [1, 4])
def test_another_format_is_refused_naming_both_versions(filled, number):
    (filled / "format.json").write_text(json.dumps({"format": number, "altneu": "9.9.9", "anything": {}}))
    before = files(filled)
    with pytest.raises(
        StoreVersionError,
        match=rf"format {number}, written by altneu 9\.9\.9; this is altneu .* formats 2 to 3: install",
    ):
        reopen(filled)
    assert files(filled) == before


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": "1"}', '{"format": 0}', '{"format": true}', '{"format": 2}', "\0"]
)
def test_a_format_file_that_says_nothing_is_named(filled, text):
    (filled / "format.json").write_text(text)
    with pytest.raises(StoreCorruptError, match=r"format\.json"):
        reopen(filled)


def test_a_missing_format_file_is_not_written_again_over_commits(filled):
    (filled / "format.json").unlink()
    with pytest.raises(StoreCorruptError, match=r"format\.json is missing"):
        DirectoryStore.create_or_open(filled)


def test_a_huge_format_file_is_not_read(filled):
    os.truncate(filled / "format.json", 1 << 40)
    with pytest.raises(StoreCorruptError, match="far too large"):
        reopen(filled)


# -------------------------------------------------------------------------------------------------------- damage


def test_a_flipped_bit_in_any_commit_that_is_read_is_named(filled):
    for number in range(4, 8):
        file = log_file(filled, number)
        good = file.read_bytes()
        for position in range(0, len(good), 41):
            spoiled = bytearray(good)
            spoiled[position] ^= 4
            file.write_bytes(spoiled)
            with pytest.raises(StoreCorruptError, match=file.name):
                reopen(filled)
        file.write_bytes(good)
    with reopen(filled) as store:
        check_step(store)


@pytest.mark.parametrize("keep", [0, 1, 40, 500, -1])
def test_a_cut_commit_is_named(filled, keep):
    file = log_file(filled, 7)
    data = file.read_bytes()
    file.write_bytes(data[:keep])
    with pytest.raises(StoreCorruptError, match=file.name):
        reopen(filled)


def test_a_missing_commit_is_named(filled):
    log_file(filled, 6).unlink()
    with pytest.raises(StoreCorruptError, match=f"{commit_name(6)} is missing"):
        reopen(filled)


def test_a_renamed_commit_is_named(filled):
    shutil.copy(log_file(filled, 7), log_file(filled, 8))
    with pytest.raises(StoreCorruptError, match=f"{commit_name(8)} contains commit 7"):
        reopen(filled)


def test_a_good_commit_of_another_store_is_named(filled, tmp_path):
    with DirectoryStore.create_or_open(tmp_path / "other", checkpoint_every=4) as other:
        for _ in range(7):
            step(other)
    shutil.copy(log_file(tmp_path / "other", 6), log_file(filled, 6))
    with pytest.raises(StoreCorruptError, match="files were exchanged"):
        reopen(filled)


def test_the_first_commit_belongs_to_its_store(path, tmp_path):
    for place in (path, tmp_path / "other"):
        with DirectoryStore.create_or_open(place) as store:
            step(store)
    shutil.copy(tmp_path / "other" / "format.json", path / "format.json")
    with pytest.raises(StoreCorruptError, match="files were exchanged"):
        reopen(path)


def test_a_commit_that_does_not_fit_its_state_is_named(path):
    with DirectoryStore.create_or_open(path) as store:
        step(store)
        parent = store._parent
    CommitLog(LocalFolder(path / "log"), "").put(Commit(2, "t", parent, 0.0, False, 1, {"a": {"blob": "nowhere"}}))
    with pytest.raises(StoreCorruptError, match=f"{commit_name(2)} does not fit"):
        reopen(path)


def test_a_missing_segment_is_named_at_once(filled):
    named = max((filled / "segments").iterdir())
    named.unlink()
    with pytest.raises(StoreCorruptError, match=f"{named.name} is missing"):
        reopen(filled)


def test_a_failed_opening_leaves_no_lock(filled):
    file = log_file(filled, 7)
    good = file.read_bytes()
    file.write_bytes(b"")
    with pytest.raises(StoreCorruptError):
        reopen(filled)
    file.write_bytes(good)
    reopen(filled).close()


# ------------------------------------------------------------------------------------------------------- hostile


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "/etc/passwd",
        "../segments/seg-00000002-" + "0" * 32 + ".arrow",
        "seg-00000002-" + "0" * 32 + ".arrow/../../x",
        "seg-00000002-" + "0" * 32 + ".arrow\n",
        "seg-0000000२-" + "0" * 32 + ".arrow",
        "",
        ".",
    ],
)
def test_a_segment_named_outside_the_folder_is_refused(path, name):
    with DirectoryStore.create_or_open(path) as store:
        step(store)
        parent = store._parent
    value = {"segment": {"name": name, "rows": 1, "bytes": 1, "checksum": "0" * 32}}
    CommitLog(LocalFolder(path / "log"), "").put(Commit(2, "t", parent, 0.0, False, 1, {"a": value}))
    with pytest.raises(StoreCorruptError, match=f"{commit_name(2)}.* the name of a segment must be"):
        reopen(path)


def test_a_link_in_place_of_a_segment_is_refused(filled, tmp_path):
    named = max((filled / "segments").iterdir())
    moved = tmp_path / "elsewhere.arrow"
    named.rename(moved)
    named.symlink_to(moved)
    with pytest.raises(StoreCorruptError, match=f"{named.name} is not a regular file"):
        reopen(filled)


def test_a_link_in_place_of_a_commit_is_refused(filled, tmp_path):
    file = log_file(filled, 7)
    moved = tmp_path / "elsewhere"
    file.rename(moved)
    file.symlink_to(moved)
    with pytest.raises(StoreCorruptError, match=f"{file.name} is not a regular file"):
        reopen(filled)


@pytest.mark.parametrize("folder", ["segments", "log", "scratch"])
def test_a_link_in_place_of_a_folder_is_refused(filled, tmp_path, folder):
    (filled / folder).rename(tmp_path / "elsewhere")
    (filled / folder).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreCorruptError, match=f"{folder} is not a folder of its own"):
        reopen(filled)


def test_a_link_in_place_of_the_format_file_is_refused(filled, tmp_path):
    (filled / "format.json").rename(tmp_path / "format.json")
    (filled / "format.json").symlink_to(tmp_path / "format.json")
    with pytest.raises(StoreCorruptError, match="not a regular file"):
        reopen(filled)


def test_strange_keys_and_blob_names_are_only_names(path):
    names = ["../../x", "/etc/passwd", "a\0b", "\ud800", "x" * 100_000, "", "naïve"]
    with DirectoryStore.create_or_open(path) as store:
        values = {name: [{"blob": name}] for name in names}
        store.commit(1, set=values, blobs={name: name.encode("utf-8", "surrogatepass") for name in names})
    with reopen(path) as store:
        assert dict(store.state) == values
        assert all(bytes(store.blob(n)) == n.encode("utf-8", "surrogatepass") for n in names)
    assert files(path) == {"format.json", "lock", f"log/{commit_name(1)}"}


# --------------------------------------------------------------------------------------------------------- races


def test_the_same_transaction_has_won_and_another_has_lost(path):
    DirectoryStore.create_or_open(path).close()
    log = CommitLog(LocalFolder(path / "log"), "root")
    mine = Commit(1, "mine", "root", 0.0, False, 1, {"a": 1})
    digest = log.put(mine)
    assert log.put(mine) == digest  # the reply was lost, the commit was not
    with pytest.raises(StoreLockedError, match="transaction mine"):
        log.put(Commit(1, "theirs", "root", 0.0, False, 1, {"a": 2}))
    assert log.read(1).set == {"a": 1}
    assert files(path / "log") == {commit_name(1)}


def test_a_store_that_lost_keeps_nothing(path):
    store = DirectoryStore.create_or_open(path)
    step(store)
    CommitLog(LocalFolder(path / "log"), "").put(Commit(2, "theirs", store._parent, 0.0, False, "theirs", {"a": 2}))
    before = content(store)
    for _ in range(2):
        with pytest.raises(StoreLockedError, match="another writer"):
            store.commit(2, set={"mine": 1})
    assert content(store) == before
    store.close()
    with reopen(path) as store:
        assert (store.frontier, store.state["a"]) == ("theirs", 2)


def test_a_store_without_its_log_is_no_new_store(tmp_path):
    with DirectoryStore.create_or_open(tmp_path / "s") as store:
        step(store)
    (tmp_path / "s" / "log").rename(tmp_path / "elsewhere")
    with pytest.raises(StoreCorruptError, match="log is missing"):
        DirectoryStore.create_or_open(tmp_path / "s")
    (tmp_path / "elsewhere").rename(tmp_path / "s" / "log")
    with DirectoryStore.create_or_open(tmp_path / "s") as store:
        check_step(store)
