"""Files that a pipeline reads: which there are, and their rows."""

from __future__ import annotations

import glob
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from altneu.cli.pipelines import versioned
from altneu.cli.pipelines.errors import refused, unsupported
from altneu.cli.pipelines.records import CORRUPT, FORMS, MODES, check_columns, named_columns, read_records
from altneu.cli.pipelines.versioned import VersionedTable, table_of
from altneu.errors import AltneuError, PipelineError, StatementError
from altneu.sql.statements.files import CSV_OPTIONS, read_files, schema_of_files
from altneu.sql.statements.tree import Origin
from altneu.types import parse_schema, to_ddl

FORMATS = ("parquet", "csv", "json", "orc", "text")
_WITHOUT_EFFECT = frozenset(("maxfilespertrigger", "maxbytespertrigger", "latestfirst", "maxfileage", "filenameonly"))
_SAME = {"csv": {"inferschema": "false"}, "json": {}, "text": {"wholetext": "false"}}
_RECURSIVE = "recursivefilelookup"
_OF_RECORDS = {
    "mode": MODES[0],
    "columnnameofcorruptrecord": CORRUPT,
    "multiline": "false",
    "dateformat": "",
    "timestampformat": "",
    "timestampntzformat": "",
}
_DEFAULTS = {
    **{form: {_RECURSIVE: "false"} for form in ("parquet", "orc", "text")},
    "json": {_RECURSIVE: "false", **_OF_RECORDS},
    "csv": {_RECURSIVE: "false", **_OF_RECORDS, **dict.fromkeys(CSV_OPTIONS, "")},
}
"""The options of each format, in lower case, with the values that say nothing."""
_YES_OR_NO = (_RECURSIVE, "multiline", "header")


@dataclass(frozen=True)
class File:
    """A file as it is found: its size in bytes, and when it was written, in nanoseconds."""

    path: str
    size: int
    modified: int


@dataclass(frozen=True)
class Files:
    """Files that are read in one way: the same value means the same rows."""

    form: str
    places: tuple[str, ...]
    declared: str | None
    options: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """What they are known by in the store."""
        options = "".join(f" {name}={value!r}" for name, value in self.options)
        columns = f" ({self.declared})" if self.declared else ""
        return f"{self.form} {', '.join(self.places)}{options}{columns}"

    @cached_property
    def columns(self) -> pa.Schema:
        """Their columns: as declared, or as the first file has them.

        Raises:
            PipelineError: neither says what they are.
        """
        if self.declared is not None:
            return _nullable(parse_schema(self.declared))
        if self.form == "text":
            return pa.schema([("value", pa.string())])
        found = self.listed()
        if self.form == "csv":
            names = next(filter(None, (named_columns(file.path, dict(self.options)) for file in found)), None)
            if names is not None:
                return pa.schema([(name, pa.string()) for name in names])
        if not found or self.form == "csv":
            raise refused(
                "UNABLE_TO_INFER_SCHEMA", f"there is no file in {', '.join(self.places)}: say the columns, .schema(…)"
            )
        try:
            return _nullable(schema_of_files(self._origin(found[0].path)))
        except StatementError as error:
            raise PipelineError(f"{error} ({found[0].path})") from None

    def _origin(self, path: str) -> Origin:
        return Origin("file", (glob.escape(path),), self.form, dict(self.options))  # a file, and no pattern

    def listed(self) -> list[File]:
        """The files that there are now, in the order of their names.

        Raises:
            PipelineError: a path of which there is nothing, or files in folders of values.
        """
        found: dict[str, File] = {}
        for place in self.places:
            matches = sorted(glob.glob(place)) if glob.has_magic(place) else [place]  # noqa: PTH207  # absolute too
            if not any(Path(m).exists() for m in matches):
                raise refused("PATH_NOT_FOUND", f"there is nothing at {place!r}")
            for match in matches:
                root = Path(match)
                for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
                    within = path.relative_to(root).parts if root.is_dir() else (path.name,)
                    if not path.is_file() or any(part[0] in "._" for part in within):
                        continue
                    if dict(self.options).get(_RECURSIVE) == "true":
                        pass
                    elif any("=" in part for part in within[:-1]):
                        raise unsupported(
                            f"files in folders of values, such as {'/'.join(within)} in {match}",
                            "altneu does not make columns of the names of folders: write the values into the files, "
                            "or say recursiveFileLookup, with which Spark does not either",
                        )
                    elif len(within) > 1:
                        continue
                    state = path.stat()
                    found[str(path)] = File(str(path), state.st_size, state.st_mtime_ns)
        return sorted(found.values(), key=lambda file: file.path)

    def read(self, file: File) -> pa.Table:
        """The rows of a file.

        Raises:
            PipelineError: it cannot be read, or has values of other types.
        """
        if not file.size:
            return self.columns.empty_table()
        if self.form in FORMS:
            try:
                return read_records(self.form, file.path, self.columns, dict(self.options))
            except (OSError, pa.ArrowException) as error:
                raise PipelineError(f"{error} (while reading {file.path})") from None
        try:
            table = read_files(self._origin(file.path), self.columns)
            columns = [
                table.column(f.name).cast(f.type) if f.name in table.column_names else pa.nulls(table.num_rows, f.type)
                for f in self.columns
            ]
        except (StatementError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise PipelineError(f"{error} (while reading {file.path})") from None
        return pa.table(columns, schema=self.columns)


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([f.with_nullable(True) for f in schema])


Stored: TypeAlias = Files | VersionedTable
"""What is stored outside of a pipeline."""


def stored_at(message: Any, place: object) -> Stored:
    """What a ``spark.read`` or ``spark.readStream`` of files or of a table says.

    Raises:
        PipelineError: a format or an option that altneu does not read.
    """
    options = dict(message.options)
    given = [name for name in options if name.lower() == "path"]
    paths = [*message.paths, *(options.pop(name) for name in given)]
    form = (message.format or "parquet").lower()
    if form in versioned.FORMATS:
        return _table(form, paths, options, message.schema, place)
    if form not in FORMATS:
        raise unsupported(
            f"the format {message.format!r}",
            f"a pipeline reads {', '.join(FORMATS)} files, and {' and '.join(versioned.FORMATS)} tables: have altneu "
            "run follow it, or write it as one of these",
            place,
        )
    if not paths:
        raise PipelineError(f"the path of the {form} files is missing: load(path) ({place})")
    known = _options(form, options, place)
    declared = None if not message.schema else _ddl(message.schema)
    if declared is None and form == "json":
        raise unsupported(
            "JSON files without a schema",
            'what Spark infers changes with the files: say the columns, .schema("id long, …")',
            place,
        )
    if declared is not None and form in FORMS:
        try:
            check_columns(form, parse_schema(declared), dict(known))
        except AltneuError as error:
            raise PipelineError(f"{error} ({place})") from None
    return Files(form, tuple(_local(path, place) for path in paths), declared, known)


def _table(
    form: str, paths: Sequence[str], options: Mapping[str, str], declared: str | None, place: object
) -> VersionedTable:
    if len(paths) != 1:
        raise PipelineError(f"a {form} table is read by one path or name, load(…), got {list(paths)} ({place})")
    if declared:
        raise unsupported(f"a schema of {form} tables", "the table says its columns: leave it out", place)
    return table_of(form, _local(paths[0], place) if form == "delta" else paths[0], options, place)


def _options(form: str, options: Mapping[str, str], place: object) -> tuple[tuple[str, str], ...]:
    known = _DEFAULTS[form]
    kept = list[tuple[str, str]]()
    for name, value in sorted(options.items()):
        lowered = name.lower()
        if lowered in _WITHOUT_EFFECT or _SAME.get(form, {}).get(lowered) == str(value).lower():
            continue
        if lowered not in known:
            raise unsupported(
                f"the option {name} = {value!r} of {form} files",
                f"there are: {', '.join(known)}: leave it out",
                place,
            )
        given = value.lower() if lowered in ("mode", *_YES_OR_NO) else value
        allowed = MODES if lowered == "mode" else ("true", "false") if lowered in _YES_OR_NO else None
        if allowed is not None and given not in allowed:
            raise PipelineError(f"the option {name} is one of {', '.join(allowed)}, got {value!r} ({place})")
        if lowered in ("sep", "delimiter", "quote", "escape") and len(value) != 1:
            raise unsupported(f"the option {name} = {value!r}", "it is one character", place)
        if given != known[lowered] or lowered in CSV_OPTIONS:
            kept.append((lowered, given))
    return tuple(kept)


def _ddl(text: str) -> str:
    if not text.lstrip().startswith("{"):
        return to_ddl(parse_schema(text))
    from pyspark.sql.types import StructType

    fields = StructType.fromJson(json.loads(text)).fields
    return to_ddl(parse_schema(", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in fields)))


def _local(path: str, place: object) -> str:
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        raise unsupported(f"the path {path!r}", "a pipeline reads files of a local disk", place)
    return str(Path(unquote(parts.path) if parts.scheme else path).absolute())
