"""``python -m bench.flights``: the load and the days of the flights, in this process, for comparing two checkouts.

It uses nothing of altneu but what ``examples.flights`` does, so it also measures earlier versions: run this file with
the other checkout as the working folder, and with its ``src`` in ``PYTHONPATH``.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import click

sys.path.insert(0, str(Path.cwd()))

from examples.flights import data
from examples.flights.run import Pipeline, month_start, open_session


@click.command(context_settings={"show_default": True})
@click.option("--months", default=9, type=click.IntRange(1, 11), help="Months of 2013 to load at once, first.")
@click.option("--days", default=31, type=click.IntRange(2, 334), help="Days to go on for.")
@click.option("--durable", is_flag=True, help="In a store of files.")
def main(months: int, days: int, *, durable: bool) -> None:
    """Time the load and the days of the flights: seconds, and seconds of this process's CPU."""
    stream = data.Stream.load()
    cut = data.tick(month_start(months + 1))
    with (
        tempfile.TemporaryDirectory(prefix="flights-") as folder,
        open_session(None, Path(folder, "state") if durable else None) as session,
    ):
        pipeline = Pipeline(session, stream)
        wall, cpu = time.perf_counter(), time.process_time()
        pipeline.load(stream.between(0, cut), cut)
        click.echo(f"load: {time.perf_counter() - wall:.2f} s, CPU {time.process_time() - cpu:.2f} s")
        walls, cpus = list[float](), list[float]()
        for day in range(1, days + 1):
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in pipeline.keep_up(cut + day * data.DAY):
                walls.append(time.perf_counter() - wall)
                cpus.append(time.process_time() - cpu)
        middle = f"{statistics.median(walls):.3f} s, CPU {statistics.median(cpus):.3f} s"
        click.echo(f"day, median of {days}: {middle}; all days: CPU {sum(cpus):.2f} s")


if __name__ == "__main__":
    main()
