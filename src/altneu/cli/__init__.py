"""The command line: ``altneu run pipeline.sql`` and what comes beside it, a module a command."""

from __future__ import annotations

import click

from altneu.cli.run import run

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="altneu")
def main() -> None:
    """altneu: views that stay right while their sources change."""


main.add_command(run)
