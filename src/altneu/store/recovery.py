"""Recovery: going back to the last complete commit when later files are damaged."""

from __future__ import annotations

import time
import uuid
import warnings
from collections.abc import Iterable

from altneu.errors import StoreCorruptError
from altneu.store.commit import RECOVERED, Commit
from altneu.store.folder import Folder
from altneu.store.identity import FILE, make_identity
from altneu.store.log import CommitLog, commit_name
from altneu.store.references import Json, segment_number
from altneu.store.survey import Survey

ASIDE = "aside"
_NAMED = 10  # files that a warning names


def recover(folder: Folder, *, durable: bool) -> None:
    """Recover a damaged store, in the state of its last complete commit; an undamaged store is not changed.

    That state is written as a further commit, a checkpoint, whose number is greater than all numbers that were ever
    used: so no number has two meanings, and readers see that the history is a different one. Then damaged files, and
    commits and segments after that state, are moved to the quarantine, ``aside/<number of the checkpoint>/``. Only the
    single writer may call it.

    Law:    if it is interrupted anywhere and run again, the result is the same (tests/store/test_recovery.py).
    Cost:   reads the whole store.

    Raises:
        StoreCorruptError: no commit is complete; nothing is changed.
    """
    survey = Survey(folder)
    whole = survey.last_whole()
    if whole is None:
        raise StoreCorruptError(
            f"{folder.where()} has no commit whose files are all undamaged, so there is nothing to go back to; put "
            f"files back from a copy of the store: {_listed(survey.problems)}"
        )
    number, ledger, commit = whole
    discarded, quarantine = list(survey.discarded()), folder.child(ASIDE).child(f"{survey.top + 1:020d}")
    moved = _repaired_identity(survey, quarantine) if survey.lacks_identity else []
    if number < survey.top:
        discarded.append((number, survey.top))
        info: dict[str, Json] = {"recovered": {"from": survey.top, "to": number}}
        parent, frontier = (survey.log.root, None) if commit is None else (commit.digest, commit.frontier)
        change = Commit(
            number=survey.top + 1,
            transaction=uuid.uuid4().hex,
            parent=parent,
            at=time.time(),
            checkpoint=True,
            frontier=frontier,
            set={**ledger.state, RECOVERED: survey.top + 1},
            info=info,
            blobs=ledger.blobs,
        )
        CommitLog(folder.child("log"), survey.log.root, durable=durable).put(change)
    moved += _quarantined(survey, discarded, quarantine)
    if moved:
        _warn(survey, number, moved, quarantine)


def _repaired_identity(survey: Survey, quarantine: Folder) -> list[str]:
    """Write ``format.json`` again, with the id from the first commit."""
    there = survey.folder.has(FILE)
    if there:
        _move(survey.folder, [FILE], quarantine)
    make_identity(survey.folder, survey.log.root)
    survey.folder.sync()
    return [FILE]


def _quarantined(survey: Survey, discarded: list[tuple[int, int]], quarantine: Folder) -> list[str]:
    """Move damaged files, and files outside of the remaining history, into one folder; returns their names."""

    def is_discarded(number: int | None) -> bool:
        return number is not None and any(low < number <= high for low, high in discarded)

    commits = [n for n in survey.numbers if n in survey.bad_commits or is_discarded(n)]
    segments = survey.folder.child("segments")
    names = [n for n in segments.names() if n in survey.bad_segments or is_discarded(segment_number(n))]
    _move(segments, names, quarantine.child("segments"))
    _move(survey.folder.child("log"), [commit_name(number) for number in commits], quarantine.child("log"))
    return [*map(commit_name, commits), *names]


def _move(folder: Folder, names: Iterable[str], quarantine: Folder) -> None:
    for place in (quarantine, folder) if (names := list(names)) else ():
        place.make()
    for name in names:
        folder.move(name, quarantine)
    for place in (quarantine, folder) if names else ():
        place.sync()


def _warn(survey: Survey, number: int, moved: list[str], quarantine: Folder) -> None:
    lost = survey.top - number
    back = (
        f"went back to commit {number}; the {lost} after it, up to {survey.top}, are lost: insert their rows again"
        if lost
        else "lost no commit that is needed"
    )
    warnings.warn(
        f"the store {survey.folder.where()} was damaged and {back}. Set aside in {quarantine.where()}: "
        f"{_listed(moved)}. What was wrong: {_listed(survey.problems)}",
        stacklevel=2,
    )


def _listed(said: Iterable[str]) -> str:
    said = list(said)
    more = f"; and {len(said) - _NAMED} more" if len(said) > _NAMED else ""
    return "; ".join(said[:_NAMED]) + more
