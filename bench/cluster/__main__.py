"""``python -m bench.cluster``: a master and workers on loopback, until Ctrl-C."""

from __future__ import annotations

import signal

import click

from bench.cluster import Cluster


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--workers", default=2, type=click.IntRange(1, 64), help="How many workers.")
@click.option("--cores", default=1, type=click.IntRange(1, 64), help="Cores of each.")
@click.option("--memory", default="2g", help="Memory that each has for its executors.")
def main(workers: int, cores: int, memory: str) -> None:
    """Start a Spark cluster on this machine and say where it is."""
    with Cluster(workers, cores=cores, memory=memory) as cluster:
        click.echo(f"master: {cluster.url}")
        click.echo(f"connect: altneu.spark_session(master={cluster.url!r})")
        click.echo(f"logs: {cluster.folder}")
        click.echo("Ctrl-C ends it.")
        try:
            signal.pause()
        except KeyboardInterrupt:
            click.echo("ended")


if __name__ == "__main__":
    main()
