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

from bench.tables import Findings, markdown, show

NAMES = ("a", "b1", "b10", "c", "d")


@click.command()
@click.option(
    "--case", "cases", multiple=True, type=click.Choice([*NAMES, "b"]), help="Only this case; may be repeated."
)
@click.option("--quick", is_flag=True, help="Smaller inputs and fewer runs: under two minutes, for a first look.")
@click.option("--pathway", is_flag=True, help="Measure Pathway too, in an environment of its own that is made once.")
@click.option("--markdown", "out", type=click.Path(path_type=Path), help="Also write the tables to this file.")
def main(cases: tuple[str, ...], quick: bool, pathway: bool, out: Path | None) -> None:
    """Compare altneu with Spark's own queries, and with itself on growing state.

    Every case runs in a process of its own. Inputs are made once, from a seed, and kept in out/bench.
    """
    console = Console()
    started = time.monotonic()
    scale = "quick" if quick else "full"
    findings, failed = Findings(), []
    for module, name in _work(_chosen(cases), pathway=pathway):
        found = _run(module, name, scale)
        if found is None:
            failed.append(name)
        else:
            findings.extend(found)
    show(findings, console)
    seconds = time.monotonic() - started
    memory = psutil.virtual_memory().total / (1 << 30)
    said = f"{scale} scale, {psutil.cpu_count()} cores, {memory:.0f} GiB, {seconds / 60:.1f} minutes"
    console.print(said)
    if out is not None:
        out.write_text(f"{said[0].upper()}{said[1:]}.\n\n{markdown(findings)}")
    if failed:
        sys.exit(f"failed, and not in the tables: {', '.join(failed)}")


def _work(cases: list[str], *, pathway: bool) -> list[tuple[str, str]]:
    return [("bench.case", name) for name in cases] + ([("bench.pathway", ",".join(cases))] if pathway else [])


def _chosen(cases: tuple[str, ...]) -> list[str]:
    wanted = {n for case in cases for n in (("b1", "b10") if case == "b" else (case,))}
    return [name for name in NAMES if name in wanted or not wanted]


def _run(module: str, name: str, scale: str) -> Findings | None:
    """What a process found; None when it failed, which it has said itself."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "findings.json"
        done = subprocess.run([sys.executable, "-m", module, name, scale, str(path)], check=False)
        return Findings.from_json(json.loads(path.read_text())) if done.returncode == 0 else None


if __name__ == "__main__":
    main()
