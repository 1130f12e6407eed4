"""Sessions between Delta or Iceberg tables that are killed, with rivals that write into the same tables."""

from __future__ import annotations

import random
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altneu as an
from faults.children import Ended, Server
from faults.local import many
from faults.report import Findings
from faults.table_pipeline import FORMATS

MOST = 80  # operations on files of a run, about
_DIED = (-signal.SIGKILL, -signal.SIGALRM)


def kills(format_: str, count: int, seed: int, folder: Path, done: Callable[[], None]) -> Findings:
    """Kill a session between tables, by the clock or in front of an operation; the tables change in between."""
    findings = Findings(f"kill -9 between {format_.capitalize()} tables")

    def one(server: Server, rivals: Server, place: Path, rng: random.Random) -> None:
        deaths, differences, written = killed_and_resumed(format_, server, rivals, place, rng)
        findings.add(struck=deaths > 0, differences=differences, deaths=deaths, written_by_rivals=written)

    many(count, seed, folder, one, done)
    return findings


def killed_and_resumed(
    format_: str, server: Server, rivals: Server, place: Path, rng: random.Random, kills: int = 3
) -> tuple[int, list[str], int]:
    """Kill sessions, then let one come to its end: how many died, what is different, how often a rival wrote."""
    place.mkdir(parents=True)
    table = FORMATS[format_].Changing(place / "table", rng, partitioned=rng.random() < 0.5)
    options: dict[str, Any] = {"format_": format_, "max_bytes": rng.choice(["1g", "1g", 1])}
    deaths, differences, written = 0, list[str](), 0
    for attempt in range(kills + 1):
        for _ in range(rng.randint(2, 5)):
            table.change()
        point: dict[str, Any] = {}
        if attempt < kills:
            point = rng.choice([{"clock": rng.uniform(0.02, 0.6)}, {"kill": rng.randint(1, MOST)}])
        ended, wrote = _run(server, rivals if rng.random() < 0.5 else None, place, options | point)
        deaths += ended.code in _DIED
        written += wrote
        if ended.last("failed") or ended.code not in (0, *_DIED):
            differences.append(f"{place.name}: {ended.last('failed') or ended.code}")
    return (
        deaths,
        differences + [f"{place.name} {options}: {text}" for text in _differences(format_, place, table)],
        written,
    )


def _run(server: Server, rivals: Server | None, place: Path, options: dict[str, Any]) -> tuple[Ended, int]:
    """Run a session, perhaps with a rival beside it: how it ended, and how often the rival wrote."""
    if rivals is None:
        return server.run("tables", place, **options), 0
    heard: list[Ended] = []
    thread = threading.Thread(target=lambda: heard.append(rivals.run("rival", place, format_=options["format_"])))
    thread.start()
    ended = server.run("tables", place, **options)
    while thread.is_alive():
        rivals.kill()
        thread.join(0.01)
    if heard[0].last("failed"):
        ended.messages.append(("failed", f"the rival: {heard[0].last('failed')}"))
    return ended, heard[0].last("written") or 0


def _differences(format_: str, place: Path, table: Any) -> list[str]:
    """What is not as it would be without any kill: views at their times, and each version of each table."""
    result = []
    with an.read(place / "state") as reader:
        rows, groups = reader.view("rows"), reader.view("v")
        latest = table.number
        if Counter(groups.to_pylist()) != table.expected() or Counter(rows.to_pylist()) != table.contents():
            result.append("the views are not those of the table")
        if format_ == "delta" and reader.lower == latest + 1:  # no version was cut into pieces: a version is a time
            wrong = [t for t in range(reader.lower) if Counter(rows.to_pylist(at=t)) != table.contents(t)]
            result += [f"time {t} is not version {t}" for t in wrong]
        elif format_ == "delta" and reader.lower <= latest:
            result.append(f"{reader.lower} times of {latest + 1} versions")
        for name, view in (("keyed", groups), ("counted", rows), ("log", rows), ("exact", rows)):
            for version, upto, there in FORMATS[format_].kept(place, name):
                expected = Counter(view.to_pylist(at=upto - 1)) if upto else Counter[Any]()
                if _contents(there, name) != expected:
                    result.append(f"{version} of {name} is not the view before time {upto}")
            if upto != reader.lower:
                result.append(f"{name} has come to {upto}, the views to {reader.lower}")
    return result


def _contents(rows: list[dict[str, Any]], name: str) -> Counter[Any]:
    """The rows of a sink's table, with their counts."""
    result = Counter[Any]()
    for row in rows:
        count = row.pop("row_count", row.pop("diff", 1)) if name != "keyed" else 1
        row.pop("time", None)
        result[tuple(row.values())] += count
    return Counter({row: n for row, n in result.items() if n})
