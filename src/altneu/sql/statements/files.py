"""Files that are read without Spark, by pyarrow, as Spark reads them as far as options say it here."""

from __future__ import annotations

import glob
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from altneu import types as T
from altneu.errors import StatementError
from altneu.errors.nearest import listed
from altneu.expressions import text_in
from altneu.expressions.vector import Vector
from altneu.sql.statements.tree import Origin
from altneu.types import parse_schema

_TIMES = (T.DATE, T.TIME, T.TIMESTAMP)  # texts are read as casts read them: pyarrow takes some forms, and not Spark's
CSV_OPTIONS = ("header", "sep", "delimiter", "quote", "escape", "nullvalue")
Settings = Mapping[str, Any]


def schema_of_files(origin: Origin) -> pa.Schema:
    """The columns that files say they have.

    Raises:
        StatementError: they do not say it.
    """
    settings = _settings(origin)
    if origin.form == "csv" and not _is_true(settings.get("header")):
        raise StatementError("CSV files without a header do not name their columns: CREATE SOURCE name (columns) …")
    return parse_schema(_READ[origin.form](_paths(origin)[:1], None, settings).schema)


def read_files(origin: Origin, schema: pa.Schema) -> pa.Table:
    """All rows of some files.

    Raises:
        StatementError: there are none, or one has another format.
    """
    return _READ[origin.form](_paths(origin), schema, _settings(origin))


def check_files(origin: Origin) -> None:
    """Refuse files that are not there, and options that are not known.

    Raises:
        StatementError: naming it.
    """
    _paths(origin), _settings(origin)


def _paths(origin: Origin) -> list[str]:
    """The files of all paths: those of folders, except hidden ones, and those that a pattern matches."""
    files: list[str] = []
    for place in origin.places:
        before = len(files)
        for path in sorted(glob.glob(place)) if glob.has_magic(place) else [place]:  # noqa: PTH207  # absolute too
            inside = sorted(str(p) for p in Path(path).rglob("*") if p.is_file() and p.name[0] not in "._")
            files += inside if Path(path).is_dir() else [path] * Path(path).is_file()
        if len(files) == before:
            raise StatementError(
                f"there is no file {place!r}, from {Path.cwd()}; a path that does not begin with / is relative to it"
                if not Path(place).is_absolute()
                else f"there is no file {place!r}: create it first, or correct the path"
            )
    return files


def _settings(origin: Origin) -> Settings:
    settings = {name.lower(): value for name, value in origin.options.items()}
    known = CSV_OPTIONS if origin.form == "csv" else ()
    if unknown := [name for name in settings if name not in known]:
        raise StatementError(
            f"without Spark {origin.form.upper()} files have no option {unknown[0]!r}; "
            f"there are: {listed(unknown[0], known)}"
        )
    return settings


def _is_true(value: Any) -> bool:
    return str(value).lower() == "true"


def _parquet(paths: list[str], schema: pa.Schema | None, settings: Settings) -> pa.Table:
    import pyarrow.parquet as pq

    return _together(paths, pq.read_table)


def _orc(paths: list[str], schema: pa.Schema | None, settings: Settings) -> pa.Table:
    import pyarrow.orc

    return _together(paths, pyarrow.orc.read_table)


def _json(paths: list[str], schema: pa.Schema | None, settings: Settings) -> pa.Table:
    import pyarrow.json

    if schema is None:
        return _together(paths, pyarrow.json.read_json)
    texts = [f for f in schema if f.type in (*_TIMES, T.TIMESTAMP_NTZ, T.BINARY)]
    read = pa.schema([f.with_type(pa.string()) if f in texts else f for f in schema])
    options = pyarrow.json.ParseOptions(explicit_schema=read, unexpected_field_behavior="ignore")
    return _together(paths, lambda path: _told(pyarrow.json.read_json(path, parse_options=options), texts, path))


def _told(table: pa.Table, fields: Sequence[pa.Field], path: str) -> pa.Table:
    """With columns of texts as the values that they are of."""
    for f in fields:
        if f.name not in table.column_names:
            continue
        at = table.column_names.index(f.name)
        texts = table.column(at)
        if f.type == T.BINARY:
            values = pa.array([text if text is None else b64decode(text, validate=True) for text in texts.to_pylist()])
        elif f.type == T.TIMESTAMP_NTZ or not len(texts):
            values = texts.cast(f.type)
        else:
            vector = text_in.parse(Vector(T.STRING, arrow=texts.combine_chunks()), f.type)
            for failure in vector.failures:
                row = int(failure.mask.argmax())
                raise StatementError(f"file {path!r}, row {row + 1}, column {f.name!r}: {failure.text(row)}")
            values = vector.arrow
        table = table.set_column(at, f, values)
    return table


def _text(paths: list[str], schema: pa.Schema | None, settings: Settings) -> pa.Table:
    name = "value" if schema is None else schema.names[0]

    def lines(path: str) -> pa.Table:
        text = Path(path).read_text(encoding="utf-8")
        return pa.table({name: pa.array(text.removesuffix("\n").split("\n") if text else [], pa.string())})

    return _together(paths, lines)


def _csv(paths: list[str], schema: pa.Schema | None, settings: Settings) -> pa.Table:
    import pyarrow.csv

    named = None if schema is None or _is_true(settings.get("header")) else schema.names
    read = pyarrow.csv.ReadOptions(column_names=named)
    quote = str(settings.get("quote", '"'))
    parse = pyarrow.csv.ParseOptions(
        delimiter=str(settings.get("sep", settings.get("delimiter", ","))),
        quote_char=quote,
        escape_char=str(settings["escape"]) if settings.get("escape", quote) != quote else False,
        newlines_in_values=True,
    )
    texts = [f for f in schema or () if f.type in _TIMES]
    if schema is None:  # texts, as in Spark without a schema
        with _reading(paths[0]), pyarrow.csv.open_csv(paths[0], read_options=read, parse_options=parse) as reader:
            types = dict.fromkeys(reader.schema.names, pa.string())
    else:
        types = {f.name: T.STRING if f in texts else f.type for f in schema}
    nulls = [str(settings.get("nullvalue", ""))]
    convert = pyarrow.csv.ConvertOptions(column_types=types, null_values=nulls, strings_can_be_null=True)
    options = {"read_options": read, "parse_options": parse, "convert_options": convert}

    def rows(path: str) -> pa.Table:
        if "escape" not in settings:
            _refuse_quotes(path, str(parse.quote_char), str(parse.delimiter))
        return _told(pyarrow.csv.read_csv(path, **options), texts, path)

    return _together(paths, rows)


def _refuse_quotes(path: str, quote: str, sep: str) -> None:
    """Refuse quotes inside of quotes where nothing says how they are written: Spark has a way of its own."""
    data, q, s = Path(path).read_bytes(), re.escape(quote.encode()), re.escape(sep.encode())
    match = re.search(rb"\\" + q + rb"|[^\r\n" + s + rb"]" + q + q + rb"|" + q + q + rb"[^\r\n" + s + rb"]", data)
    if match is not None:
        line = data.count(b"\n", 0, match.start()) + 1
        raise StatementError(
            f"file {path!r}, line {line}: there is a quote inside quotes; say how it is escaped: OPTIONS (escape '\"') "
            "where it is doubled, OPTIONS (escape '\\\\') behind a backslash"
        )


def _together(paths: list[str], read: Callable[[str], pa.Table]) -> pa.Table:
    tables = []
    for path in paths:
        with _reading(path):
            tables.append(read(path))
    return pa.concat_tables(tables, promote_options="default")


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, Base64Error) as error:
        raise StatementError(f"file {path!r} cannot be read; perhaps it has another FORMAT: {error}") from error


_READ: dict[str, Callable[[list[str], pa.Schema | None, Settings], pa.Table]] = {
    "parquet": _parquet,
    "orc": _orc,
    "json": _json,
    "text": _text,
    "csv": _csv,
}
