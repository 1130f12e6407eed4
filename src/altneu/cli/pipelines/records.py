"""Records of JSON and CSV files as Spark reads them; the option ``mode`` decides what becomes of malformed ones.

Source: Spark's TextInputJsonDataSource and TextInputCSVDataSource with their variants for ``multiLine``, and
FailureSafeParser. A file in which nothing is out of the ordinary is read by pyarrow; the answer is the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pyarrow import types as pt

from altneu import types as T
from altneu.cli.pipelines.errors import refused
from altneu.errors import StatementError
from altneu.expressions import text_in
from altneu.expressions.each import RowFailure
from altneu.expressions.functions.csv import record, records, row_of
from altneu.expressions.functions.from_json import records_of
from altneu.expressions.vector import Vector
from altneu.sql.statements.files import read_files
from altneu.sql.statements.tree import Origin

FORMS = ("csv", "json")
CORRUPT = "_corrupt_record"
MODES = ("permissive", "dropmalformed", "failfast")
_BLANKS = bytes(range(33))
_FORMATS = ("dateformat", "timestampformat", "timestampntzformat")
_LINE_END = re.compile(r"\r\n|\n|\r")
_ALONE = "\ufdd0"  # stands for a \n that ends no line
_TIMES = (T.DATE, T.TIME, T.TIMESTAMP)
Options: TypeAlias = Mapping[str, str]
Read: TypeAlias = tuple[str, list[dict[str, Any]], bool]
"""A record: its text, its rows, and whether it is malformed."""


def corrupt_in(options: Options) -> str:
    """The column that has the texts of malformed records, if it is declared."""
    return options.get("columnnameofcorruptrecord", CORRUPT)


def check_columns(form: str, columns: pa.Schema, options: Options) -> None:
    """Refuse columns that such files do not have.

    Raises:
        PipelineError: the column of malformed records is not a STRING.
        PlanError: a column of a type that is not read from such files.
    """
    corrupt = corrupt_in(options)
    for column in columns:
        if column.name == corrupt and column.type != T.STRING:
            raise refused(
                "INVALID_CORRUPT_RECORD_TYPE",
                f"the column {corrupt!r}, which has the texts of malformed records, is a STRING, not "
                f"{T.type_name(column.type)}",
            )
    kind = _kind(columns, options)
    _ = records_of(kind, {}) if form == "json" else row_of(kind, {})


def named_columns(path: str, options: Options) -> list[str] | None:
    """What the columns of a CSV file are called: by its header, or ``_c0`` and so on; None if it has no record."""
    first = next((values for _, values in _values(_text(Path(path).read_bytes()), options)), None)
    if first is None:
        return None
    if not _is_true(options, "header"):
        return [f"_c{i}" for i in range(len(first))]
    null, lowered = options.get("nullvalue", ""), [value.lower() for value, _ in first]
    names = list[str]()
    for i, (value, present) in enumerate(first):
        if not present or value in ("", null):
            names.append(f"_c{i}")
        else:
            names.append(f"{value}{i}" if lowered.count(value.lower()) > 1 else value)
    return names


def read_records(form: str, path: str, columns: pa.Schema, options: Options) -> pa.Table:
    """The rows of a file.

    Raises:
        PipelineError: in mode FAILFAST, a record that is malformed.
    """
    data, corrupt = Path(path).read_bytes(), corrupt_in(options)
    kind = _kind(columns, options)
    plain = _plain_json if form == "json" else _plain_csv
    found = None if _given(options) else plain(path, data, pa.schema(list(kind)), options)
    if found is not None:
        without = pa.nulls(found.num_rows, T.STRING)
        return pa.table([without if f.name == corrupt else found.column(f.name) for f in columns], schema=columns)
    mode = options.get("mode", MODES[0])
    rows, texts = list[dict[str, Any]](), list[str | None]()
    made = (_json if form == "json" else _csv)(data, kind, options)
    for number, (text, its, bad) in enumerate(made, 1):
        if bad and mode == "failfast":
            raise refused(
                "MALFORMED_RECORD_IN_PARSING",
                f"record {number} of {path} does not fit ({', '.join(kind.names)}), and the mode is FAILFAST: "
                f"{text[:200]!r}",
            )
        if bad and mode == "dropmalformed":
            continue
        rows += its
        texts += [text if bad else None] * len(its)
    made_of = [texts if f.name == corrupt else [row[f.name] for row in rows] for f in columns]
    return pa.table([pa.array(v, f.type) for v, f in zip(made_of, columns, strict=True)], schema=columns)


def _kind(columns: pa.Schema, options: Options) -> pa.StructType:
    return pa.struct([f for f in columns if f.name != corrupt_in(options)])


def _given(options: Options) -> dict[str, str]:
    """The forms of dates and times that options say."""
    return {name: options[name] for name in _FORMATS if name in options}


def _is_true(options: Options, name: str) -> bool:
    return options.get(name, "false").lower() == "true"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").removeprefix("\ufeff")


# JSON -----------------------------------------------------------------------------------------------------------------


def _json(data: bytes, kind: pa.StructType, options: Options) -> Iterator[Read]:
    rows = records_of(kind, _given(options))
    for part in [data] if _is_true(options, "multiline") else data.splitlines():
        text = _text(part)
        try:
            part.decode("utf-8")
        except UnicodeDecodeError as error:
            its, bad = rows(_text(part[: error.start]))  # what is behind a document is not read
            yield text, its or [dict.fromkeys(kind.names)], bad or not its
        else:
            yield text, *rows(text)


def _plain_json(path: str, data: bytes, columns: pa.Schema, options: Options) -> pa.Table | None:
    """The rows of a file of an object in each line, all of which fit; None if it is not one."""
    lines = [line for line in data.splitlines() if line.strip()]
    if _is_true(options, "multiline") or not all(line.startswith(b"{") for line in lines) or not _is_utf8(data):
        return None
    try:
        table = read_files(Origin("file", (path,), "json"), columns)
        if table.num_rows != len(lines):
            return None
        return pa.table(
            [
                table.column(f.name).cast(f.type) if f.name in table.column_names else pa.nulls(table.num_rows, f.type)
                for f in columns
            ],
            schema=columns,
        )
    except (StatementError, pa.ArrowException):
        return None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


# CSV ------------------------------------------------------------------------------------------------------------------


def _form(options: Options) -> tuple[str, str, str]:
    """Separator, quote and escape."""
    return options.get("sep", options.get("delimiter", ",")), options.get("quote", '"'), options.get("escape", "\\")


def _values(text: str, options: Options) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    """The records of a file that are not empty, and their values; none where they cannot be told apart."""
    form = _form(options)
    if not _is_true(options, "multiline"):
        for line in _LINE_END.split(text):
            if line.strip(_BLANKS.decode()):
                try:
                    yield line, record(line, *form)
                except RowFailure:
                    yield line, []
        return
    ends = _LINE_END.search(text)
    if ends is not None and ends[0] != "\n":  # the first end of a line says what all of them are
        text = text.replace("\n", _ALONE).replace(ends[0].replace("\n", _ALONE), "\n")
    for whole, values in records(text, *form):
        if _ALONE in whole:
            yield whole.replace(_ALONE, "\n"), [(v.replace(_ALONE, "\n"), there) for v, there in values or ()]
        else:
            yield whole.removesuffix("\n"), values or []


def _csv(data: bytes, kind: pa.StructType, options: Options) -> Iterator[Read]:
    row = row_of(kind, {"nullvalue": options.get("nullvalue", ""), **_given(options)})
    found = _values(_text(data), options)
    if _is_true(options, "header"):
        next(found, None)
    for text, values in found:
        result, bad = row(values)
        yield text, [result], bad


def _plain_csv(path: str, data: bytes, columns: pa.Schema, options: Options) -> pa.Table | None:  # noqa: ARG001
    """The rows of a file without line ends in values, whose quotes are around values, all of which fit; None else."""
    sep, quote, escape = (re.escape(part.encode()) for part in _form(options))
    if _is_true(options, "multiline") or not len(columns) or b"\0" in data or not _is_utf8(data):
        return None
    if quote in data or escape in data:
        around = rb"(?<![^\r\n" + sep + rb"])" + quote + rb"[^\r\n" + quote + escape + rb"]*" + quote
        outside = re.sub(around + rb"(?![^\r\n" + sep + rb"])", b"", data)
        if re.search(quote, outside) or re.search(escape, data):
            return None
    lines = sum(1 for line in data.splitlines() if line.strip(_BLANKS))
    names = [f"{i}" for i in range(len(columns))]
    header = _is_true(options, "header")
    separator, quoting, _ = _form(options)
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data.removeprefix(b"\xef\xbb\xbf")),
            read_options=pyarrow.csv.ReadOptions(column_names=names, skip_rows_after_names=int(header)),
            parse_options=pyarrow.csv.ParseOptions(delimiter=separator, quote_char=quoting, double_quote=False),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=list({"", options.get("nullvalue", "")}),
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowException:
        return None
    if table.num_rows != lines - header:
        return None
    made = list[pa.Array]()
    for texts, f in zip(table.columns, columns, strict=True):
        values = _converted(texts.combine_chunks(), f.type)
        if values is None:
            return None
        made.append(values)
    return pa.table(made, schema=columns)


_PLAIN: Mapping[Callable[[pa.DataType], bool], str] = {
    pt.is_signed_integer: r"^-?\d{1,18}$",
    pt.is_floating: r"^-?\d{1,15}(\.\d{1,15})?$",
    pt.is_decimal128: r"^-?\d{1,18}(\.\d{1,18})?$",
    pt.is_boolean: r"^(true|false)$",
}
"""What texts of a type look like that both pyarrow and Spark read, as the same value."""


def _converted(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """The values of texts; None where a text is malformed, or pyarrow and Spark may read it differently."""
    if kind == T.STRING:
        return texts
    if kind in _TIMES:
        vector = text_in.parse(Vector(T.STRING, arrow=texts), kind)
        return None if vector.failures else vector.arrow
    form = next((form for fits, form in _PLAIN.items() if fits(kind)), None)
    if form is None or pc.all(pc.match_substring_regex(texts, form)).as_py() is False:
        return None
    try:
        return texts.cast(kind)
    except pa.ArrowException:
        return None
