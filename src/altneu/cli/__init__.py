"""The command line: ``altneu run pipeline.sql`` and what comes beside it, a module a command."""

from __future__ import annotations

from altneu.errors.extras import require

require("cli", "the command line")  # before the modules below import its packages

import click

from altneu.cli.command import Commands
from altneu.cli.doctor import doctor
from altneu.cli.explain import explain
from altneu.cli.pipelines.command import pipelines
from altneu.cli.query import query
from altneu.cli.run import run
from altneu.cli.serve import serve
from altneu.cli.status import status
from altneu.cli.subscribe import subscribe
from altneu.cli.vacuum import vacuum
from altneu.store.release import __version__

__all__ = ["main"]


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def main() -> None:
    """altneu: views that stay right while their sources change.

    altneu doctor says whether this machine is fit; altneu COMMAND --help has examples, which work as they stand.
    """


for command in (run, pipelines, explain, query, subscribe, serve, status, vacuum, doctor):
    main.add_command(command)
