"""``altneu query --path STORE "SELECT …"``."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import click
import pyarrow as pa

from altneu.cli.command import Taught, path_option, reporting
from altneu.cli.offline import ask
from altneu.cli.opening import open_reader
from altneu.cli.output import Output
from altneu.cli.written import SUFFIXES, TEXTS, write_file
from altneu.engine.reading import Time
from altneu.sql.statements.files import read_files, schema_of_files
from altneu.sql.statements.tree import Origin

SHOWN = 1000  # rows that a terminal is given

READ = ("parquet", "csv", "json")
FORMS = ("table", "csv", "json", "parquet")


class TimeType(click.ParamType["Time"]):
    """A time, or two of them with a comma between."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Time:
        """Read it."""
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isdecimal() or (not part and len(parts) > 1) for part in parts):
            self.fail(
                f"a time must be a whole number, or SYSTEM,EVENT for a view with two times, got {value!r}", param, ctx
            )
        times = [int(part) if part else None for part in parts]
        return times[0] if len(times) == 1 else tuple(times)


@click.command(
    cls=Taught,
    examples=[
        (
            "the present contents of a view, as a table",
            'altneu query --path state "SELECT * FROM totals ORDER BY total DESC"',
        ),
        ("its contents at time 0, as CSV", 'altneu query --path state --at 0 --format csv "TABLE totals"'),
        (
            "write a Parquet file",
            'altneu query --path state --out dear.parquet "SELECT * FROM orders WHERE price > 3"',
        ),
    ],
    shape='one object for each row, as with --format json: {"column": value, …}',
)
@click.argument("query", metavar="VIEW|QUERY")
@path_option(required=False)
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="NAME=FILE",
    help="Also query files: .parquet, .csv (with a header), .json (one object per line).",
)
@click.option(
    "--at",
    type=TimeType(),
    metavar="TIME",
    help="Read at this time, which must be retained (default: the last closed time).",
)
@click.option(
    "--format", "form", type=click.Choice(FORMS), help="Form of the output (default: that of --out, or table)."
)
@click.option(
    "--out",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a file: .csv, .json, .parquet.",
)
@click.option("--ignore-errors", is_flag=True, help="Read views that have errors; their contents may then be wrong.")
@reporting
def query(
    out: Output,
    query: str,
    path: str | None,
    sources: tuple[str, ...],
    at: Time,
    form: str | None,
    file: Path | None,
    *,
    ignore_errors: bool,
) -> None:
    """Answer a query over the views of a store, or show a view.

    Names in FROM are views of the store, including tables and sources with KEEP, whether SQL or Python defined
    them. The store is read at its last commit, without a lock: another process may be writing it. The query leaves
    nothing in the store.
    """
    form = _form(form, file, as_json=out.as_json)
    if path is None and not sources:
        raise click.UsageError("name a store with --path, or files with --source NAME=FILE, or both")
    query = f"TABLE {query}" if len(query.split()) == 1 else query
    with open_reader(path) if path is not None else nullcontext() as reader, out.busy("answering the query"):
        answer = ask(reader, query, at, "ignore" if ignore_errors else "raise", files_of(sources))
    rows = answer.table.num_rows
    if file is not None:
        with out.busy(f"writing {file}"):
            write_file(answer.table, form, file)
        out.note(f"{rows} row{'' if rows == 1 else 's'} of time {answer.at} in {file}")
    elif form == "table":
        out.rows(answer.table.slice(0, SHOWN) if out.is_terminal else answer.table)
        more = f", of which {SHOWN} are shown; --format csv, json or parquet gives all" * (rows > SHOWN)
        out.note(f"({rows} row{'' if rows == 1 else 's'} of time {answer.at}{more if out.is_terminal else ''})")
    else:
        TEXTS[form](answer.table, sys.stdout)


def files_of(sources: tuple[str, ...]) -> dict[str, pa.Table]:
    """The rows of files, by the names that they get; a pattern, or a folder, is all of its files.

    Raises:
        StatementError: there are none, or they do not hold what their names say.
    """
    tables = {}
    for assignment in sources:
        name, _, place = assignment.partition("=")
        form = next((form for form in READ if place.rstrip("/*").lower().endswith(f".{form}")), None)
        if Path(place).is_dir() and form is None:
            raise click.UsageError(f"--source {assignment}: {place} is a folder; name its files, as {place}/*.parquet")
        if not name or form is None:
            raise click.UsageError(f"--source {assignment}: NAME=FILE, whose name ends in .{', .'.join(READ)}")
        origin = Origin("file", (place,), form, {"header": "true"} if form == "csv" else {})
        tables[name] = read_files(origin, schema_of_files(origin))
    return tables


def _form(form: str | None, file: Path | None, *, as_json: bool) -> str:
    """The form in which rows are written."""
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} exclude each other; leave one out")
    by_name = SUFFIXES.get(file.suffix.lower()) if file is not None else None
    form = form or ("json" if as_json else by_name or "table")
    if form == "table" and file is not None:
        raise click.UsageError(
            f"--out {file}: the file name does not show its format; let it end in {', '.join(SUFFIXES)}, or give "
            "--format"
        )
    if form == "parquet" and file is None:
        raise click.UsageError("--format parquet writes a file, not text: name it with --out")
    return form
