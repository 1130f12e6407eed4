"""The commit log: a folder of numbered files, each of which appears completely or not at all."""

from __future__ import annotations

import re

from altneu.errors import StoreCorruptError, StoreError, StoreInDoubtError, StoreLockedError
from altneu.store.commit import Commit, decode, encode
from altneu.store.folder import Folder
from altneu.store.ledger import Ledger

_AT_ONCE = 8  # commits that are fetched together
_NAME = re.compile(r"(\d{20})\.commit", re.ASCII)


def commit_name(number: int) -> str:
    """File name of a commit.

    >>> commit_name(42)
    '00000000000000000042.commit'
    """
    return f"{number:020d}.commit"


class CommitLog:
    """Numbered commits in a folder, beginning with 1.

    The contract: there is never more than one commit of a number; a visible commit is complete; commit n contains the
    digest of commit n - 1, so that a file replaced by another valid one is detected too. The loss of the newest files
    is not detected: a log without its end is a shorter log.

    Law:    ``replay`` after any number of commits, crashes and checkpoints gives the state of the last one
            (tests/store/test_kill.py, tests/store/test_directory.py).
    """

    def __init__(self, folder: Folder, root: str, *, durable: bool = True) -> None:
        self._folder = folder
        self._durable = durable
        self.root = root
        self._doubt: str | None = None
        self.is_cut = False  # whether the doubt is about a call that was interrupted, and looking again ends it
        self._fetched: dict[str, memoryview] = {}

    @property
    def doubtful(self) -> bool:
        """Whether the outcome of the last call is unknown until the log is opened again."""
        return self._doubt is not None and not self.is_cut

    def numbers(self) -> list[int]:
        """The numbers of the existing commits, ascending."""
        return sorted(int(match[1]) for name in self._folder.names() if (match := _NAME.fullmatch(name)))

    def where(self, number: int) -> str:
        """The address of a commit's file, for messages."""
        return self._folder.where(commit_name(number))

    def read(self, number: int) -> Commit:
        """Read one commit, memory-mapped if it is on a local disk.

        Raises:
            StoreCorruptError: it is missing or damaged; names the file.
        """
        where, name = self.where(number), commit_name(number)
        data = self._fetched.pop(name, None) or self._folder.read(name)
        if not data.nbytes:
            raise StoreCorruptError(f"{where} is empty: it was cut off")
        commit = decode(data, where)
        if commit.number != number:
            raise StoreCorruptError(f"{where} contains commit {commit.number}: files were renamed")
        return commit

    def _back_from(self, last: int) -> list[Commit]:
        """A commit and its predecessors, back to a checkpoint."""
        try:
            self._fetch(last)
            commits = [self.read(last)]
            while not commits[-1].checkpoint and commits[-1].number > 1:
                self._fetch(commits[-1].number - 1)
                commits.append(self.read(commits[-1].number - 1))
        finally:
            self._fetched = {}
        return commits

    def _fetch(self, number: int) -> None:
        """Fetch a commit and its predecessors in parallel, if each fetch is slow."""
        if not self._folder.locks and commit_name(number) not in self._fetched:
            names = [commit_name(n) for n in range(number, max(number - _AT_ONCE, 0), -1)]
            self._fetched = self._folder.read_those(names)

    def remove(self, number: int) -> int:
        """Remove a commit that is not needed; returns its size."""
        return self._folder.remove(commit_name(number))

    def put(self, commit: Commit) -> str:
        """Append a commit, which is durable when this returns; returns its digest.

        If the same transaction has the number already, an earlier call succeeded and its reply was lost.

        Cost:   one create, write, fsync, link, unlink, fsync of the folder; on remote file systems one put and one
                listing, to check that no other writer was faster.

        Raises:
            StoreLockedError: another writer has taken the number; its commit is not affected.
            StoreFullError: the disk is full; the log is unchanged.
            StoreInDoubtError: the name could not be synced, the reply was lost, or an earlier call was interrupted, so
                that it is unknown whether the commit exists: the log must be opened again. After an interrupt on a
                local disk ``look_again`` is sufficient.
            StoreError: the file could not be written.
        """
        if self._doubt:
            raise StoreInDoubtError(self._doubt)
        data, digest = encode(commit)
        doubt = (
            f"commit {commit.number} was interrupted and may have been written or not; open the store again to find out"
        )
        self._doubt, self.is_cut = doubt, True  # until it is known: an interrupt may come between any two operations
        try:
            is_new = self._folder.put(commit_name(commit.number), data, exclusive=True, durable=self._durable)
        except StoreInDoubtError as error:
            self.is_cut = False
            raise StoreInDoubtError(f"{error}; {doubt}") from error
        except StoreError:
            self._doubt, self.is_cut = None, False
            raise
        try:
            if not is_new:
                self._check_mine(commit)
            if self._durable:
                self._folder.sync()
            if not self._folder.locks:
                self._check_newest(commit.number, digest)
        except StoreLockedError:
            self._doubt, self.is_cut = None, False
            raise
        except StoreError as error:
            self.is_cut = False
            raise StoreInDoubtError(f"{error}; {doubt}") from error
        self._doubt, self.is_cut = None, False
        return digest

    def look_again(self) -> tuple[Ledger, Commit | None, int]:
        """``replay``, after which the outcome of an interrupted call is known.

        On a local disk there is no other writer, and no operation continues after an interrupt.
        """
        self._folder.clear_unfinished()
        if self._durable:
            self._folder.sync()  # a commit that can be seen is built upon from here on
        replayed = self.replay()
        self._doubt, self.is_cut = None, False
        return replayed

    def _check_newest(self, number: int, digest: str) -> None:
        """Refuse a number that was free only because others wrote commits from it on and vacuumed them since.

        Their later commits have greater numbers, since a vacuum keeps the last checkpoint and a recovery writes one.
        """
        above = [other for other in self.numbers() if other > number]
        for other, before in zip(above, range(number, above[-1] if above else 0), strict=False):
            commit = self.read(other)
            if other != before + 1 or commit.parent != digest:
                raise StoreInDoubtError(
                    f"other writers have written up to commit {above[-1]} of {self._folder.where()} since it was "
                    "opened here"
                )
            digest = commit.digest

    def _check_mine(self, commit: Commit) -> None:
        """Decide about a number that is taken: by the same transaction, or by another writer."""
        written = self.read(commit.number)
        if written.transaction != commit.transaction:
            raise StoreLockedError(
                f"commit {commit.number} of {self._folder.where()} was written by another writer (transaction "
                f"{written.transaction}); this writer has discarded its step: close it and open the store again"
            )

    def replay(self, until: int | None = None) -> tuple[Ledger, Commit | None, int]:
        """The state after commit ``until`` (or the last), that commit, and the number of the checkpoint used, or 0.

        Cost:   reads the last checkpoint and the commits after it, on remote file systems eight at once.

        Raises:
            StoreCorruptError: a file in between is missing or damaged.
        """
        numbers = self.numbers()
        last = until if until is not None else (numbers[-1] if numbers else 0)
        if not last:
            return Ledger(), None, 0
        commits = self._back_from(last)
        ledger, before = Ledger(), None
        for commit in reversed(commits):
            self._check_parent(commit, before)
            ledger = self.follow(ledger, commit)
            before = commit
        first = commits[-1]
        return ledger, commits[0], first.number if first.checkpoint else 0

    def first_replayable(self, numbers: list[int]) -> int:
        """The least number that ``replay`` can reach; 0 if there is no commit.

        After an interrupted vacuum the log may begin with commits whose checkpoint was removed.
        """
        for number in numbers:
            if number == 1 or self.read(number).checkpoint:
                return number
        if numbers:
            raise StoreCorruptError(
                f"{self._folder.where()} contains no checkpoint; put the missing files back from a copy"
            )
        return 0

    def _check_parent(self, commit: Commit, before: Commit | None) -> None:
        if before is None and commit.number > 1:
            return  # a checkpoint stands on its own: what it followed may be vacuumed
        parent = self.root if before is None else before.digest
        if commit.parent != parent:
            raise StoreCorruptError(
                f"{self.where(commit.number)} does not follow the commit before it: files were exchanged"
            )

    def follow(self, ledger: Ledger, commit: Commit) -> Ledger:
        """The ledger after one more commit; the given one must not be used any more."""
        if commit.checkpoint:
            ledger = Ledger()
        try:
            ledger.apply(ledger.prepare(commit.set, commit.delete, commit.blobs))
        except StoreError as error:
            raise StoreCorruptError(
                f"{self.where(commit.number)} does not fit the commits before it: {error}"
            ) from error
        return ledger
