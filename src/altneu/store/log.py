"""The commit log: a folder of numbered files, each of which appears whole or not at all."""

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
    """Numbered commits in a folder, the first is 1.

    The contract: for every number at most one commit is ever there; a commit that can be seen is whole; commit n says
    the digest of commit n - 1, so a file that was exchanged for another good one is seen too. Not seen is the loss of
    the newest files: a log cut off at its end is a shorter log.

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
        """Whether nobody can know the outcome of the last call before the log is opened anew."""
        return self._doubt is not None and not self.is_cut

    def numbers(self) -> list[int]:
        """Numbers of the commits that are there, ascending."""
        return sorted(int(match[1]) for name in self._folder.names() if (match := _NAME.fullmatch(name)))

    def where(self, number: int) -> str:
        """File of a commit, as messages name it."""
        return self._folder.where(commit_name(number))

    def read(self, number: int) -> Commit:
        """Read one commit, mapped where it is on a local disk.

        Raises:
            StoreCorruptError: it is missing or does not hold; names the file.
        """
        where, name = self.where(number), commit_name(number)
        data = self._fetched.pop(name, None) or self._folder.read(name)
        if not data.nbytes:
            raise StoreCorruptError(f"{where} is empty: it was cut off")
        commit = decode(data, where)
        if commit.number != number:
            raise StoreCorruptError(f"{where} holds commit {commit.number}: files were renamed")
        return commit

    def _back_from(self, last: int) -> list[Commit]:
        """A commit and those before it, back to a checkpoint."""
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
        """Have a commit and those before it on their way at once, where each by itself would take a while."""
        if not self._folder.locks and commit_name(number) not in self._fetched:
            names = [commit_name(n) for n in range(number, max(number - _AT_ONCE, 0), -1)]
            self._fetched = self._folder.read_those(names)

    def remove(self, number: int) -> int:
        """Remove a commit that nobody needs; the bytes it had."""
        return self._folder.remove(commit_name(number))

    def put(self, commit: Commit) -> str:
        """Append a commit, durable when this returns; its digest.

        A number that is taken by the same transaction is a success whose reply was lost.

        Cost:   one create, write, fsync, link, unlink, fsync of the folder; elsewhere than on a local disk one put and
                one listing, to see that nobody was ahead.

        Raises:
            StoreLockedError: another writer has taken the number; nothing is lost of what it wrote.
            StoreFullError: the disk is full; the log is as before.
            StoreInDoubtError: its name could not be synced, its reply was lost, or an earlier call was interrupted, so
                that nobody knows whether the commit is there: the log must be opened anew. After an interrupt on a
                local disk ``look_again`` does as well.
            StoreError: the file could not be written.
        """
        if self._doubt:
            raise StoreInDoubtError(self._doubt)
        data, digest = encode(commit)
        doubt = f"commit {commit.number} was interrupted and may be there or not; open the store anew to find out"
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
        """``replay``, after which the outcome of a call that was interrupted is known.

        On a local disk nobody else writes, and no operation goes on behind its caller's back.
        """
        self._folder.clear_unfinished()
        if self._durable:
            self._folder.sync()  # a commit that can be seen is built upon from here on
        replayed = self.replay()
        self._doubt, self.is_cut = None, False
        return replayed

    def _check_newest(self, number: int, digest: str) -> None:
        """A number may have been free because others went on from it long ago and vacuumed it since.

        What they left stands above it, for a vacuum keeps the last checkpoint and a recovery puts one on top.
        """
        above = [other for other in self.numbers() if other > number]
        for other, before in zip(above, range(number, above[-1] if above else 0), strict=False):
            commit = self.read(other)
            if other != before + 1 or commit.parent != digest:
                raise StoreInDoubtError(
                    f"others have written up to commit {above[-1]} of {self._folder.where()} since it was opened here"
                )
            digest = commit.digest

    def _check_mine(self, commit: Commit) -> None:
        """A number that is taken: by this very transaction, or by another writer."""
        written = self.read(commit.number)
        if written.transaction != commit.transaction:
            raise StoreLockedError(
                f"commit {commit.number} of {self._folder.where()} was written by another writer (transaction "
                f"{written.transaction}); this one keeps nothing of its step: close it and open the store anew"
            )

    def replay(self, until: int | None = None) -> tuple[Ledger, Commit | None, int]:
        """The state after commit ``until`` (or the last), that commit, and the number of the checkpoint used, or 0.

        Cost:   reads the last checkpoint and the commits after it, elsewhere than on a local disk eight at once.

        Raises:
            StoreCorruptError: a file that is missing in between, or does not hold.
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
        """The least number that ``replay`` can go to; 0 if there is no commit.

        After a vacuum that was cut short the log may begin with commits whose checkpoint is gone.
        """
        for number in numbers:
            if number == 1 or self.read(number).checkpoint:
                return number
        if numbers:
            raise StoreCorruptError(
                f"{self._folder.where()} holds no checkpoint; put the missing files back from a copy"
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
        """The ledger after one more commit; the given one is used up."""
        if commit.checkpoint:
            ledger = Ledger()
        try:
            ledger.apply(ledger.prepare(commit.set, commit.delete, commit.blobs))
        except StoreError as error:
            raise StoreCorruptError(
                f"{self.where(commit.number)} does not fit the commits before it: {error}"
            ) from error
        return ledger
