"""Leases: kept for as long as they hold, by a vacuum whenever it comes, and by nothing else."""

from __future__ import annotations

import gc
import os
import time

import pytest

from altneu.errors import HistoryGoneError, StoreError
from altneu.store import DirectoryStore, Lease, Leases, LocalFolder, StoreReader, forget_segments, lease_seconds
from altneu.store.leases import HeldLease, lease_end
from tests.store.support import check_step, step


@pytest.fixture
def store(tmp_path):
    with DirectoryStore.create_or_open(tmp_path, checkpoint_every=3) as store:
        yield store


def leases(path) -> list[Lease]:
    return sorted(Leases(LocalFolder(path / "readers")).live(), key=lambda lease: lease.file)


def test_names_say_all_and_strangers_are_left_alone(tmp_path):
    folder = LocalFolder(tmp_path)
    held = Leases(folder)
    result = [Lease("a-b_c", n, since, lease_end(60)) for n, since in ((1, None), (None, 7), (None, None), (2**62, 0))]
    for lease in result:
        held.add(lease)
        assert Lease.of_file(lease.file) == lease
    for stranger in ("a.1.2.lease", "a.1.2.3.lease.tmp", "..", "a/b.1.2.3.lease", "a.-1.2.3.lease", "a.1.2.³.lease"):
        assert Lease.of_file(stranger) is None
    (tmp_path / "stranger.lease").write_text("")
    held.add(Lease("over", 1, 1, int(time.time()) - 2))
    assert set(held.live()) == set(result)
    held.sweep()
    assert {p.name for p in tmp_path.iterdir()} == {"stranger.lease", *(lease.file for lease in result)}
    with pytest.raises(StoreError, match="the name of a lease must be"):
        Lease("../../etc", 1, 1, 1)


@pytest.mark.parametrize("lease", ["", "1 fortnight", "-1 hour", 0.5, True, float("nan"), float("inf"), "0 seconds"])
def test_what_is_no_time_is_refused(lease):
    with pytest.raises(StoreError, match="lease must be a span of at least a second"):
        lease_seconds(lease)


def test_vacuum_keeps_every_commit_from_the_least_leased_one_on(store, tmp_path):
    for _ in range(4):
        step(store)
    reader = StoreReader(tmp_path)
    for _ in range(20):
        step(store)
        store.vacuum(keep=1)
    forget_segments()
    assert reader.snapshot.number == 4
    check_step(reader.snapshot)
    for number in range(24, 4, -1):
        check_step(StoreReader.before(reader, number))
    reader.refresh()
    reader.keep(reader.snapshot.number, None)
    reader._lease.renew()
    check_step(reader.snapshot)
    store.vacuum(keep=1)
    assert [n for n in store._log.numbers() if n < 22] == []
    check_step(reader.snapshot)
    reader.close()
    reader.close()
    assert leases(tmp_path) == []


def test_a_lease_that_ran_out_gives_a_clear_error_and_never_a_part(store, tmp_path):
    for _ in range(4):
        step(store)
    reader = StoreReader(tmp_path)
    for lease in leases(tmp_path):
        Leases(LocalFolder(tmp_path / "readers")).end(lease)
    for _ in range(9):
        step(store)
    store.vacuum(keep=1)
    forget_segments()
    with pytest.raises(
        HistoryGoneError, match=r"the files of commit 4 .* are gone \(it is at 13 now\).*lease has expired"
    ):
        check_step(reader.snapshot)
    assert reader.refresh()
    check_step(reader.snapshot)


def test_of_a_reader_that_comes_while_vacuum_is_on_its_way(store, tmp_path, monkeypatch):
    """At whatever operation of a vacuum a reader registers, what it then reads is there for good."""
    removed = LocalFolder.remove
    for at in range(12):
        for _ in range(4):
            step(store)
        opened = []
        count = iter(range(10**6))

        def remove(self, name, at=at, opened=opened, count=count):
            if next(count) == at and not opened:
                opened.append(None)
                opened[0] = StoreReader(tmp_path)
            return removed(self, name)

        with monkeypatch.context() as patched:
            patched.setattr(LocalFolder, "remove", remove)
            store.vacuum(keep=1)
        for _ in range(3):
            step(store)
            store.vacuum(keep=1)
        forget_segments()
        for reader in opened:
            check_step(reader.snapshot)
            assert reader.refresh()
            check_step(reader.snapshot)
            reader.close()


def test_it_ends_with_its_object_or_goes_on(tmp_path):
    (tmp_path / "readers").mkdir()
    folder = Leases(LocalFolder(tmp_path / "readers"))
    held = HeldLease(folder, "a", 60, 1, None)
    assert [lease.name for lease in leases(tmp_path)] == ["a"]
    del held
    gc.collect()
    assert leases(tmp_path) == []
    held = HeldLease(folder, "b", 60, 1, None)
    held.close(keep=True)
    held.move(2, None)
    del held
    gc.collect()
    assert [(lease.name, lease.commit) for lease in leases(tmp_path)] == [("b", 1)]


def test_a_forked_child_takes_nothing_back(tmp_path):
    (tmp_path / "readers").mkdir()
    held = HeldLease(Leases(LocalFolder(tmp_path / "readers")), "a", 60, 1, None)
    child = os.fork()
    if not child:
        held.close()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [lease.name for lease in leases(tmp_path)] == ["a"]


def test_it_moves_at_once_where_that_matters(tmp_path):
    (tmp_path / "readers").mkdir()
    held = HeldLease(Leases(LocalFolder(tmp_path / "readers")), "a", 3600, 5, 10)
    held.move(6, 10)
    assert [(lease.commit, lease.since) for lease in leases(tmp_path)] == [(5, 10)]
    held.move(6, 11)
    assert [(lease.commit, lease.since) for lease in leases(tmp_path)] == [(6, 11)]
    held.move(4, 11)
    assert [(lease.commit, lease.since) for lease in leases(tmp_path)] == [(4, 11)]
    held.move(4, None)
    assert [(lease.commit, lease.since) for lease in leases(tmp_path)] == [(4, None)]
    held.close()


def test_a_lease_is_renewed_by_itself(tmp_path):
    (tmp_path / "readers").mkdir()
    held = HeldLease(Leases(LocalFolder(tmp_path / "readers")), "a", 1, 5, None)
    first = held.lease.until
    until = time.monotonic() + 20
    while held.lease.until == first and time.monotonic() < until:
        held._stop.wait(0.05)
    assert held.lease.until > first
    assert [lease.until for lease in leases(tmp_path)] == [held.lease.until]
    held.close()
