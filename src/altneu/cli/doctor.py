"""``altneu doctor``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import click

from altneu.cli import checks
from altneu.cli.checks import Check
from altneu.cli.command import Taught, path_option, reporting
from altneu.cli.output import Output, in_bytes
from altneu.cli.survey import status_of
from altneu.errors import AltneuError, StoreCorruptError
from altneu.errors.extras import is_installed
from altneu.store import Folder, folder_of

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command(
    cls=Taught,
    examples=[
        ("all checks, with a one-row job on Spark (half a minute)", "altneu doctor"),
        ("the checks that do not need Spark, and a store", "altneu doctor --quick --path state"),
        ("only the problems, as JSON", "altneu doctor --quick --json | grep -v '\"ok\"' || true"),
    ],
    exits={0: "no check failed", 1: "a check failed: its line says what to do"},
    shape='one object for each check: {"check", "level": "ok" | "warn" | "fail", "message", "remedy"}',
)
@path_option(required=False)
@click.option("--quick", is_flag=True, help="Do not start Spark, and do not read all of the store.")
@click.option(
    "--master", default="local[1]", show_default=True, help="Where to run the one-row job: sc://… is a server."
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A Spark setting for that job.")
@reporting
def doctor(out: Output, path: str | None, master: str, settings: tuple[str, ...], *, quick: bool) -> None:
    """Check the installation and the machine, and suggest remedies.

    Checks Python and packages, Java, memory and cores, compiled kernels, the time zone, and room for temporary files;
    with --path also the disk of a store, and the store itself: whether it opens, whether it is undamaged, and who has
    it open. Without --quick it starts Spark, runs a step of one row, and checks Spark's settings.
    """
    config = dict(_setting(text) for text in settings)
    failed = False
    for check in _all(out, path, master, config, quick=quick):
        failed |= check.level == "fail"
        if out.as_json:
            out.json(check.to_json())
        else:
            _show(out, check)
    if failed:
        sys.exit(1)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise click.UsageError(f"--set {text}: it must be a setting of Spark, such as --set spark.driver.memory=1g")
    return name, value


def _all(out: Output, path: str | None, master: str, config: dict[str, str], *, quick: bool) -> Iterator[Check]:
    from altneu.cli import spark_checks

    has_spark = is_installed("spark")
    packages = (checks.packages, checks.extras, *([checks.java] if has_spark else ()))
    for look in (checks.python, *packages, checks.machine, checks.temporary, checks.time_zone):
        yield from look()
    with out.busy("looking at compiled kernels"):
        results = list(checks.kernels())
    yield from results
    yield from spark_checks.of_files(os.environ)
    if path is not None:
        yield from _store(out, path, quick=quick)
    if not quick and has_spark:
        with out.busy("starting Spark, and a job of one row"):
            results = list(spark_checks.job(master, config, None if path is None else _place(path)))
        yield from results


def _place(path: str) -> Folder | None:
    """The folder of a store; None where there is none, which another check says."""
    try:
        return folder_of(path)
    except AltneuError:
        return None


def _store(out: Output, path: str, *, quick: bool) -> Iterator[Check]:
    """The place of a store, and the store."""
    try:
        folder = folder_of(path)
        place = list(checks.place_of_store(folder))
    except AltneuError as error:
        yield Check("store's place", "fail", str(error), "docs/stores.md says what a path may be")
        return
    yield from place
    if not folder.has("format.json"):
        yield Check("store", "ok", f"{folder.where()} has no store yet; a session creates one")
        return
    with out.busy("looking through the store" if quick else "reading all of the store"):
        results = list(_opened(folder, quick=quick))
    yield from results


def _opened(folder: Folder, *, quick: bool) -> Iterator[Check]:
    advice = "put files back from a copy, or open it with recover=True (docs/stores.md)"
    try:
        status = status_of(folder, check=not quick)
    except AltneuError as error:
        yield Check("store", "fail", str(error), advice if isinstance(error, StoreCorruptError) else "")
        return
    for problem in status["problems"]:
        yield Check("store", "fail", problem, advice)
    if not status["problems"]:
        last = status["commit"]["number"] if status["commit"] else 0
        size = sum(status["files"][place]["bytes"] for place in ("log", "segments"))
        count = len(status["views"])
        views = f"{count} view{'' if count == 1 else 's'}"
        yield Check("store", "ok", f"whole ({status['checked']} compared): commit {last}, {views}, {in_bytes(size)}")
    if status["lock"]["held"]:
        yield Check("store's writer", "ok", f"{status['lock']['by']} has it open; another session would be refused")


def _show(out: Output, check: Check) -> None:
    out.pair(f"{check.level:<5}", _STYLES[check.level], f"{check.check:<16} {check.message}")
    if check.remedy:
        out.line(f"      {'':<16} → {check.remedy}")
