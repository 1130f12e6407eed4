"""``altneu pipelines run spark-pipeline.yml``."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import click

from altneu.cli.command import Taught, reporting, stopped_cleanly
from altneu.cli.output import Output
from altneu.errors import MissingExtraError


@click.command(
    cls=Taught,
    short_help="Run a declarative pipeline of Spark's incrementally.",
    examples=[
        ("make a project with examples", "altneu pipelines init --name shop"),
        (
            "bring its tables up to date: what has not changed since the last run is not read again",
            "altneu pipelines run shop/spark-pipeline.yml",
        ),
        ("check its files and queries, and change nothing", "altneu pipelines dry-run --spec shop/spark-pipeline.yml"),
    ],
    exits={1: "the pipeline is refused, or a table failed; what was committed stays, and the next run continues"},
    shape='for each table {"table", "kind", "changed"}; at the end {"files", "rows", "steps", "changed"}; of a dry-run '
    '{"table", "kind"}; of init {"project"}; if it fails, at the end {"error", "message", "notes"}',
)
@click.argument("action", type=click.Choice(["run", "dry-run", "init"]))
@click.argument("spec", required=False)
@click.option("--name", help="Of init: the name of the project, whose folder is made.")
@click.option("--spec", "spec_option", metavar="SPEC", help="The same as SPEC, as spark-pipelines has it.")
@click.option("--refresh", multiple=True, metavar="TABLES", help="Update these tables alone (separated by commas).")
@click.option(
    "--full-refresh", multiple=True, metavar="TABLES", help="Have these tables begin again: streams read everything."
)
@click.option("--full-refresh-all", is_flag=True, help="Have all tables begin again.")
@reporting
def pipelines(
    out: Output,
    action: str,
    spec: str | None,
    spec_option: str | None,
    name: str | None,
    refresh: tuple[str, ...],
    full_refresh: tuple[str, ...],
    *,
    full_refresh_all: bool,
) -> None:
    """Run the files of a declarative pipeline as they are, as spark-pipelines does, but read and compute what is new.

    SPEC is a spark-pipeline.yml (default: of this folder or one above). The tables are folders of Parquet files in
    storage/tables, or Delta or Iceberg tables, and state is in storage/altneu. dry-run checks the files, names and
    queries, and init makes a project with Spark's examples.
    """
    if spec is not None and spec_option is not None:
        raise click.UsageError(f"SPEC is given twice: {spec} and --spec {spec_option}")
    if (action == "init") != (name is not None) or (action == "init" and (spec or spec_option)):
        raise click.UsageError("init takes --name, and the others take a SPEC")
    try:
        from altneu.cli.pipelines.running import Pipeline, Selection
    except ImportError as error:
        raise MissingExtraError("altneu pipelines", "pipelines", str(error)) from None

    def said(record: dict[str, Any], line: str) -> None:
        if out.as_json:
            out.json(record)
        else:
            out.line(line)

    def written(table: str, kind: str, changed: int) -> None:
        said({"table": table, "kind": kind, "changed": changed}, f"{kind} {table}: {_counted(changed, 'row')} changed")

    if name is not None:
        _init(name)
        said({"project": name}, f"{name}: altneu pipelines run {name}/spark-pipeline.yml")
        return
    selection = Selection(_names(refresh), _names(full_refresh), full_refresh_all)
    if action == "dry-run" and selection != Selection():
        raise click.UsageError("dry-run computes nothing, so it refreshes nothing: leave the option out")
    with stopped_cleanly():
        pipeline = Pipeline(spec_option if spec is None else spec)
        if action == "dry-run":
            for one in pipeline.graph.order:
                dataset = one.dataset
                said({"table": dataset.name, "kind": dataset.kind}, f"{dataset.kind} {dataset.name}")
            return
        report = pipeline.run(selection, written, out.note)
        changed = sum(report.changed.values())
        said(
            {"files": report.files, "rows": report.rows, "steps": report.steps, "changed": changed},
            f"read {_counted(report.rows, 'row')} of {_counted(report.files, 'file')}; {_counted(changed, 'row')} of "
            f"tables changed, in {_counted(report.steps, 'step')}",
        )


def _init(name: str) -> None:
    """Make the project that ``spark-pipelines init`` makes."""
    from pyspark.pipelines.init_cli import init

    with redirect_stdout(StringIO()):
        init(name)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _names(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name.strip() for text in given for name in text.split(",") if name.strip())
