"""``python -m bench``: run cases, print the tables and the aims."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import psutil
from rich.console import Console

from bench.pathway_cases import measure as measure_pathway
from bench.scale import SCALES
from bench.tables import Findings, markdown, show

WIDTH = 160  # of what is not a terminal
NAMES = (
    "a",
    "b1",
    "b10",
    "c",
    "d",
    "e",
    "f",
    "g",
    "h",
    "i",
    "j",
    "k",
    "l",
    "m",
    "n",
    "o",
    "p",
    "q",
    "r",
    "s",
    "t",
    "u",
    "v",
)


@click.command()
@click.option(
    "--case", "cases", multiple=True, type=click.Choice([*NAMES, "b"]), help="Only this case; may be repeated."
)
@click.option("--quick", is_flag=True, help="Smaller inputs and fewer runs: about five minutes, for a first look.")
@click.option("--pathway", is_flag=True, help="Measure Pathway too, in an environment of its own that is made once.")
@click.option("--markdown", "out", type=click.Path(path_type=Path), help="Also write the tables to this file.")
def main(cases: tuple[str, ...], quick: bool, pathway: bool, out: Path | None) -> None:
    """Compare altneu with Spark's own queries, and with itself on growing state.

    Every case runs in a process of its own. Inputs are made once, from a seed, and kept in out/bench.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    started = time.monotonic()
    scale = "quick" if quick else "full"
    findings, failed = Findings(), []
    for name in _chosen(cases):
        result = _run(name, scale)
        if result is None:
            failed.append(name)
        else:
            findings.extend(result)
    if pathway:
        findings.extend(measure_pathway(_chosen(cases), SCALES[scale], findings.figures))
    show(findings, console)
    seconds = time.monotonic() - started
    memory = psutil.virtual_memory().total / (1 << 30)
    said = f"{scale} scale, {psutil.cpu_count()} cores, {memory:.0f} GiB, {seconds / 60:.1f} minutes"
    console.print(said)
    if out is not None:
        out.write_text(f"{said[0].upper()}{said[1:]}.\n\n{markdown(findings)}")
    if failed:
        sys.exit(f"failed, and not in the tables: {', '.join(failed)}")


def _chosen(cases: tuple[str, ...]) -> list[str]:
    wanted = {n for case in cases for n in (("b1", "b10") if case == "b" else (case,))}
    return [name for name in NAMES if name in wanted or not wanted]


def _run(name: str, scale: str) -> Findings | None:
    """What a process found; None when it failed, which it has said itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "findings.json"
        done = subprocess.run([sys.executable, "-m", "bench.case", name, scale, str(path)], check=False)
        return Findings.from_json(json.loads(path.read_text())) if done.returncode == 0 else None


if __name__ == "__main__":
    main()
