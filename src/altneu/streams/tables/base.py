"""What a stream needs of a table with versions, whatever its format: which there are, and the rows of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from altneu.errors import InputError

STEP_BYTES = "256m"
DIFF = "#diff"  # a column of what is read: 1 for a row that came, -1 for one that went
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(millisecond|second|minute|hour)s?\s*", re.ASCII)
_SECONDS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600}


@dataclass(frozen=True)
class DataFile:
    """A file of rows, as a version of the table names it; each format adds what it has to know to read it."""

    path: str
    size: int


_F = TypeVar("_F", bound=DataFile)


@dataclass(frozen=True)
class Part:
    """Files that have to be read together, because rows of one may cancel those of another."""

    files: tuple[DataFile, ...]

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True)
class Version:
    """What a version of a table changes, or all that it holds.

    ``plan`` says which version of this number it is, of copies that may have diverged; None where nothing tells.
    """

    number: int
    plan: str | None
    parts: tuple[Part, ...]

    def pieces(self, most: int) -> int:
        """The number of pieces of about ``most`` bytes each; a part is never cut."""
        return max(min(-(-sum(part.size for part in self.parts) // most), len(self.parts)), 1)

    def piece(self, number: int, of: int) -> Iterator[Part]:
        """The parts of one of ``of`` pieces, the same ones each time.

        >>> one, two = (Part((DataFile(name, 10),)) for name in "ab")
        >>> version = Version(0, None, (one, two))
        >>> version.pieces(15), [len([*version.piece(i, 2)]) for i in range(2)]
        (2, [1, 1])
        """
        total, before = max(sum(part.size for part in self.parts), 1), 0
        for part in self.parts:
            if min(before * of // total, of - 1) == number:
                yield part
            before += part.size


class Table(Protocol):
    """A table that is followed, opened."""

    @property
    def identity(self) -> str:
        """An id of the table, which another one at the same place does not have."""

    @property
    def where(self) -> str:
        """The table, as messages name it."""

    def latest(self) -> int:
        """The newest version there is now."""

    def first(self) -> int:
        """The version with which to begin."""

    def agrees(self, version: int, plan: str) -> bool:
        """Whether a version that was taken with this ``plan`` may be the one that the table has now."""

    def contents(self, version: int) -> Version:
        """All rows of a version."""

    def changes(self, version: int) -> Version:
        """What a version changes.

        Raises:
            StreamError: nothing says it any more, or the columns that are read are no longer there.
        """

    def read(self, parts: Iterator[Part]) -> pa.Table:
        """The rows of some parts, with the columns that are asked for and ``DIFF``."""


class Given(Protocol):
    """A table as ``session.follow`` is given it."""

    @property
    def snapshot(self) -> bool:
        """Whether to begin with all rows of the first version, and not with what changes after it."""

    @property
    def step_bytes(self) -> int:
        """About how many bytes of files a step reads."""

    def open(
        self,
        source: str,
        columns: Sequence[str],
        check: Callable[[pa.Schema], pa.Schema],
        position: tuple[int, str] | None,
    ) -> Table:
        """Open it, to read some columns from a version on: after ``position``, or where it is to begin.

        ``check`` refuses types that do not fit, of any version that is read; it returns the columns with those that a
        version does not have yet, which are null. A position is a version's number and ``plan``.
        """


def together(files: Iterable[tuple[_F, Any, int]]) -> tuple[Part, ...]:
    """Files that are read together, because rows of one may cancel those of another.

    Each file is given with its partition and with 1 if all of its rows came, -1 if all went, and 0 if some came and
    some went. A part has the files of a partition in which some came and some went; other files are each alone. What
    only went comes first, then what was replaced, then what only came.
    """
    by_partition: dict[Any, list[tuple[_F, int]]] = {}
    for file, partition, sign in sorted(files, key=lambda each: each[0].path):
        by_partition.setdefault(partition, []).append((file, sign))
    gone, both, came = list[Part](), list[Part](), list[Part]()
    for group in by_partition.values():
        signs = {sign for _, sign in group}
        if signs in ({1}, {-1}):
            (gone if -1 in signs else came).extend(Part((file,)) for file, _ in group)
        else:
            both.append(Part(tuple(file for file, _ in sorted(group, key=lambda each: each[1]))))
    return (*gone, *both, *came)


def instant(given: str | datetime) -> str:
    """A time of ISO 8601, with an offset.

    >>> instant("2026-01-02"), instant("2026-01-02T10:00:00+01:00")
    ('2026-01-02T00:00:00+00:00', '2026-01-02T10:00:00+01:00')
    """
    try:
        instant = given if isinstance(given, datetime) else datetime.fromisoformat(given)
    except (TypeError, ValueError):
        raise InputError(f'from_timestamp must be a time such as "2026-01-31T12:00:00Z", got {given!r}') from None
    return instant.isoformat() if instant.tzinfo is not None else f"{instant.isoformat()}+00:00"


def seconds_of(span: str) -> float:
    """A span of time in seconds.

    >>> seconds_of("10 seconds"), seconds_of("250 milliseconds")
    (10.0, 0.25)

    Raises:
        InputError: it is none.
    """
    match = _SPAN.fullmatch(str(span))
    if match is None:
        raise InputError(f'trigger must be a span such as "10 seconds" or "1 minute", got {span!r}')
    return float(match[1]) * _SECONDS[match[2]]


def other_columns(source: str) -> str:
    """What to do about a table that has other columns than the source that follows it."""
    return (
        "Change the columns of the source as those of the table were: of one that a statement created ALTER SOURCE … "
        "ADD, DROP or RENAME COLUMN or ALTER COLUMN … TYPE; in Python declare the further column, an.source, and if "
        f"one was renamed, dropped or got another type, a source of another name, an.source('{source}_2', …), that "
        "follows the table in place of this one, and give each view its query over that: session.maintain(name, query, "
        "replace=True)"
    )
