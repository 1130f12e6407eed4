"""Options of the data source, checked in the driver and not in a task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from altneu.errors import ReadError, UnknownColumnError
from altneu.errors.nearest import listed
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
    """The options of a read."""

    path: str
    view: str
    mode: str
    at: int | tuple[int | None, ...] | None
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
    def of(cls, options: Mapping[str, str]) -> Options:
        """Read Spark's options, whose names are case-insensitive.

        Raises:
            ReadError: an option is missing, unknown, or has an invalid value.
        """
        lowered = {str(name).lower(): value for name, value in options.items()}
        if unknown := sorted(set(lowered) - _KNOWN):
            raise ReadError(
                f"unknown option {unknown[0]!r} of format altneu; the options are: {listed(unknown[0], sorted(_KNOWN))}"
            )
        for needed, how in (("path", '.load("state/")'), ("view", '.option("view", "reach")')):
            if not lowered.get(needed):
                raise ReadError(f"format altneu needs {how}")
        mode = _one_of(lowered, "mode", ("contents", "changes"))
        if mode == "contents" and {"since", "until"} & set(lowered):
            raise ReadError(
                'options "since" and "until" are of .option("mode", "changes"); contents are read "at" a time'
            )
        if mode == "changes" and "at" in lowered:
            raise ReadError('option "at" is of contents; changes are read "since" a time "until" another')
        return cls(
            lowered["path"],
            lowered["view"],
            mode,
            _time(lowered),
            _number(lowered, "since", least=-1),
            _number(lowered, "until", least=-1),
            _one_of(lowered, "errors", ("raise", "ignore")),
            _columns(lowered.get("columns")),
            lowered.get("lease", "1 hour"),
            _one_of(lowered, "snapshot", ("true", "false")) == "true" if "snapshot" in lowered else None,
            _number(lowered, "startingtime", least=0),
            _number(lowered, "maxrowsperbatch", least=1),
            _number(lowered, "maxtimesperbatch", least=1),
            lowered.get("timecolumn"),
            lowered.get("diffcolumn", "diff"),
            _object(lowered.get("storageoptions", "{}")),
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


def _one_of(options: Mapping[str, str], name: str, values: tuple[str, ...]) -> str:
    value = options.get(name, values[0]).lower()
    if value not in values:
        raise ReadError(f"option {name} must be one of {', '.join(map(repr, values))}, got {options[name]!r}")
    return value


def _number(options: Mapping[str, str], name: str, least: int) -> int | None:
    if name not in options:
        return None
    try:
        value = int(options[name])
    except ValueError:
        value = least - 1
    if value < least:
        raise ReadError(f"option {name} must be a whole number of at least {least}, got {options[name]!r}")
    return value


def _time(options: Mapping[str, str]) -> int | tuple[int | None, ...] | None:
    """``at``: a time, or for a view with two times both, as in "7, 3"; ", 3" means the last value of the first."""
    if "," not in options.get("at", ""):
        return _number(options, "at", least=0)
    parts = options["at"].split(",")
    try:
        times = tuple(int(part) if part.strip() else None for part in parts)
    except ValueError:
        times = (None,)
    if times[-1] is None:
        raise ReadError(f"option at={options['at']!r} is neither a time nor two of them with a comma between")
    return times


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ReadError("option storageOptions is a JSON object, as fsspec takes the settings of a file system")
    return value


def _columns(text: str | None) -> tuple[str, ...] | None:
    """Column names separated by commas, or a JSON list of names, which may contain commas."""
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
