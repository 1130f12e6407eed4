"""The sinks of a pipeline: targets outside of it, to which flows append."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from altneu.cli.pipelines.elements import Dataset
from altneu.cli.pipelines.errors import unsupported
from altneu.cli.written import write_csv, write_file, write_text
from altneu.collections.declaring import source as declare
from altneu.errors import PipelineError
from altneu.errors.extras import require
from altneu.session import Session

_FILES = ("csv", "json", "parquet")
_FORMATS = (*_FILES, "delta", "console")
_KNOWN = {"csv": ("path", "checkpointlocation", "header"), "console": ("checkpointlocation",)}


def check_sink(sink: Dataset) -> None:
    """Refuse a sink that altneu does not write to.

    Raises:
        PipelineError: naming the format or the option.
    """
    form = (sink.format or "").lower()
    if form not in _FORMATS:
        raise unsupported(
            f"sink {sink.name!r} of format {sink.format!r}", f"there are: {', '.join(_FORMATS)}", sink.place
        )
    known = _KNOWN.get(form, ("path", "checkpointlocation"))
    unknown = [name for name in sink.options if name.lower() not in known]
    if unknown:
        raise unsupported(
            f"option {unknown[0]!r} of sink {sink.name!r}", f"of {form} there are: {', '.join(known)}", sink.place
        )
    if form != "console" and "path" not in _options(sink):
        raise PipelineError(f"sink {sink.name!r} needs the option path ({sink.place})")
    _path(sink)


def _options(sink: Dataset) -> dict[str, str]:
    return {name.lower(): value for name, value in sink.options.items()}


def _path(sink: Dataset) -> Path:
    given = _options(sink).get("path", "")
    parts = urlsplit(given)
    if parts.scheme not in ("", "file"):
        raise unsupported(f"path {given!r} of sink {sink.name!r}", "altneu writes to a local disk", sink.place)
    return Path(unquote(parts.path) if parts.scheme else given).absolute()


def write(sink: Dataset, flow: str, rows: pa.Table, store: str, part: int, say: Callable[[str], None]) -> None:
    """Append a part of what a flow has for a sink, after the commit of which it is.

    A part of a store always has the same rows, and may be written again: a file of that name is replaced, and Delta
    knows from its application transaction that it has the rows. A pipeline that begins again has another store.
    """
    form = (sink.format or "").lower()
    if form == "console":
        text = io.StringIO()
        write_csv(rows, text)
        say(f"{sink.name} ({flow}):\n{text.getvalue()}")
        return
    path = _path(sink)
    if form == "delta":
        _delta(path, f"altneu pipelines {store} {flow}", rows, part)
        return
    path.mkdir(parents=True, exist_ok=True)
    target = path / f"part-{part:019d}-{flow}-{store}.{form}"
    if form == "parquet":
        write_file(rows, form, target)
        return
    lines = _lines(rows, form)
    if form == "csv" and _options(sink).get("header", "false").lower() == "true":
        names = pa.table([pa.array([name]) for name in rows.column_names], names=rows.column_names)
        lines = _lines(names, form) + lines
    write_text("".join(f"{line}\n" for line in lines), target)


def _lines(rows: pa.Table, form: str) -> list[str]:
    """Rows as Spark writes them to files: what ``to_json`` and ``to_csv`` make of them."""
    names = ", ".join(f"`{name.replace('`', '``')}`" for name in rows.column_names)
    with Session() as session:
        texts = session.maintain("lines", declare("rows", rows.schema).select(line=f"to_{form}(struct({names}))"))
        session.insert("rows", rows)
        session.advance()
        return [line for (line,) in texts.to_pylist()]


def _delta(path: Path, application: str, rows: pa.Table, part: int) -> None:
    require("delta", "a sink of format delta")
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    if DeltaTable.is_deltatable(str(path)):
        done = DeltaTable(str(path)).transaction_version(application)
        if done is not None and done >= part:
            return
    mark = CommitProperties(app_transactions=[Transaction(application, part)])
    write_deltalake(str(path), rows, mode="append", commit_properties=mark)
