"""Options of the data source, checked where they are given and not in some task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from altneu.errors import ReadError, UnknownColumnError
from altneu.views.reader import StoreReadings
from altneu.views.view import View

_KNOWN = {
    "path",
    "view",
    "mode",
    "at",
    "since",
    "until",
    "errors",
    "columns",
    "lease",
    "snapshot",
    "startingtime",
    "maxrowsperbatch",
    "maxtimesperbatch",
    "timecolumn",
    "diffcolumn",
    "storageoptions",
}


@dataclass(frozen=True)
class Options:
    """What a read asks for."""

    path: str
    view: str
    mode: str
    at: int | tuple[int | None, int] | None
    since: int | None
    until: int | None
    errors: Any
    columns: tuple[str, ...] | None
    lease: str
    snapshot: bool | None
    starting_time: int | None
    max_rows: int | None
    max_times: int | None
    time_column: str | None
    diff_column: str
    storage_options: dict[str, Any]

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Options:
        """Read Spark's options, whose names know no case.

        Raises:
            ReadError: one is missing, unknown, or says nothing that it could mean.
        """
        found = {str(name).lower(): value for name, value in given.items()}
        if unknown := sorted(set(found) - _KNOWN):
            raise ReadError(
                f"unknown option {unknown[0]!r} of format altneu; the options are: {', '.join(sorted(_KNOWN))}"
            )
        for needed, how in (("path", '.load("state/")'), ("view", '.option("view", "reach")')):
            if not found.get(needed):
                raise ReadError(f"format altneu needs {how}")
        mode = _one_of(found, "mode", ("contents", "changes"))
        if mode == "contents" and {"since", "until"} & set(found):
            raise ReadError(
                'options "since" and "until" are of .option("mode", "changes"); contents are read "at" a time'
            )
        if mode == "changes" and "at" in found:
            raise ReadError('option "at" is of contents; changes are read "since" a time "until" another')
        return cls(
            found["path"],
            found["view"],
            mode,
            _time(found),
            _number(found, "since", least=-1),
            _number(found, "until", least=-1),
            _one_of(found, "errors", ("raise", "ignore")),
            _columns(found.get("columns")),
            found.get("lease", "1 hour"),
            _one_of(found, "snapshot", ("true", "false")) == "true" if "snapshot" in found else None,
            _number(found, "startingtime", least=0),
            _number(found, "maxrowsperbatch", least=1),
            _number(found, "maxtimesperbatch", least=1),
            found.get("timecolumn"),
            found.get("diffcolumn", "diff"),
            _object(found.get("storageoptions", "{}")),
        )

    def open(self, *, lease: str | None, since: int | None = None, shared: bool = False) -> StoreReadings:
        """A reader of the store."""
        return StoreReadings(self.path, lease=lease, since=since, shared=shared, storage_options=self.storage_options)

    def selected(self, view: View) -> tuple[str, ...]:
        """The columns of the view that are read.

        Raises:
            UnknownColumnError: the view has no such column.
        """
        for name in self.columns or ():
            if name not in view.schema.names:
                raise UnknownColumnError(name, view.schema.names, f"view {view.name}")
        return tuple(view.schema.names) if self.columns is None else self.columns


def _one_of(found: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    value = found.get(name, values[0]).lower()
    if value not in values:
        raise ReadError(f"option {name} must be one of {', '.join(map(repr, values))}, got {found[name]!r}")
    return value


def _number(found: Mapping[str, str], name: str, least: int) -> int | None:
    if name not in found:
        return None
    try:
        value = int(found[name])
    except ValueError:
        value = least - 1
    if value < least:
        raise ReadError(f"option {name} must be a whole number of at least {least}, got {found[name]!r}")
    return value


def _time(found: Mapping[str, str]) -> int | tuple[int | None, int] | None:
    """``at``: a time, or of a view with two times both, as in "7, 3" or ", 3" for the last of the first."""
    if "," not in found.get("at", ""):
        return _number(found, "at", least=0)
    parts = found["at"].split(",")
    try:
        system, event = (int(part) if part.strip() else None for part in parts)
    except ValueError:
        system = event = None
    if event is None:
        raise ReadError(f"option at={found['at']!r} is neither a time nor two of them with a comma between")
    return system, event


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ReadError("option storageOptions is a JSON object, as fsspec takes the settings of a file system")
    return found


def _columns(text: str | None) -> tuple[str, ...] | None:
    """Names with commas between, or a JSON list of them, for names that have commas."""
    if text is None:
        return None
    if text.lstrip().startswith("["):
        try:
            names = json.loads(text)
        except ValueError:
            names = [None]
        if not all(isinstance(name, str) for name in names):
            raise ReadError(f"option columns must be a JSON list of names, got {text!r}")
    else:
        names = [name.strip() for name in text.split(",")]
    if not names or len(set(names)) < len(names):
        raise ReadError(f"option columns={text!r} names no column, or one twice")
    return tuple(names)
