"""``python -m examples.flights.files``: what flights.sql reads, as files."""

from __future__ import annotations

from pathlib import Path

import click

from examples.flights import data
from examples.flights.stream import write_days


def write(folder: Path, stream: data.Stream, until: int) -> None:
    """The days up to a tick, a file each, and the tables of planes and airlines."""
    write_days(stream, folder / "days", 0, until)
    (folder / "planes.txt").write_text("\n".join(data.plane_events()["value"]))
    data.airlines().write_csv(folder / "airlines.csv")


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--days", default=31, type=click.IntRange(1, 365), help="Days of 2013, from its first.")
@click.option("--folder", default="out/flights", type=click.Path(path_type=Path, file_okay=False), help="Where to.")
def main(days: int, folder: Path) -> None:
    """Write the first days of 2013 as files for flights.sql."""
    write(folder, data.Stream.load(), days * data.DAY)
    click.echo(f"{folder}: {days} days; `altneu run examples/flights/flights.sql` reads them")


if __name__ == "__main__":
    main()
