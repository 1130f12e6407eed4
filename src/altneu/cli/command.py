"""What all commands share: help that teaches, the options that several have, and how a command ends."""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from io import UnsupportedOperation
from types import MappingProxyType
from typing import Any, Concatenate, ParamSpec

import click

from altneu.cli.output import Output
from altneu.errors import AltneuError
from altneu.errors.nearest import did_you_mean

INTERRUPTED, PIPE_CLOSED = 130, 141  # what a shell gives for SIGINT and SIGPIPE
FAILED = "the command failed: the standard error (with --json the last line) gives the reason and a remedy"
EXITS: Mapping[int, str] = {0: "success", 1: FAILED, 2: "the arguments are invalid"}

_NO_EXITS: Mapping[int, str] = MappingProxyType({})

_Options = ParamSpec("_Options")


class Taught(click.Command):
    """A command whose help ends with what ``--json`` writes, examples, which work as they stand, and exit codes.

    ``examples`` are pairs of what is done and the line that does it. They work on one store, ``state``, which
    the first of ``altneu run`` makes (tests/cli/test_help.py runs them).
    """

    def __init__(
        self,
        *arguments: Any,
        examples: Iterable[tuple[str, str]] = (),
        exits: Mapping[int, str] = _NO_EXITS,
        shape: str = "",
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.examples, self.exits, self.shape = tuple(examples), {**EXITS, **exits}, shape

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, and what the exit codes mean."""
        if self.shape:
            with formatter.section("With --json"):
                formatter.write_text(self.shape)
        if self.examples:
            with formatter.section("Examples"):
                for what, line in self.examples:
                    formatter.write_text(f"# {what}")
                    formatter.write("".join(f"  {part}\n" for part in line.splitlines()))
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), meaning) for code, meaning in self.exits.items()])


class Commands(click.Group):
    """All commands; one whose reader goes away, or that is interrupted, ends as a shell expects it, saying nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, in the order in which they are met."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _write_to_nobody()
            sys.exit(PIPE_CLOSED)
        except KeyboardInterrupt:
            sys.exit(INTERRUPTED)


def _write_to_nobody() -> None:
    """Have what is still to be flushed go nowhere: whoever read it has gone."""
    with suppress(UnsupportedOperation):  # a test's output is no file
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


def path_option(*, required: bool = True) -> Callable[[Any], Any]:
    """``--path``: the store."""
    return click.option(
        "--path", required=required, metavar="STORE", help="Folder or address of the store, such as s3://bucket/state."
    )


json_option = click.option("--json", "as_json", is_flag=True, help="Write one JSON object per line.")


def reporting(command: Callable[Concatenate[Output, _Options], None]) -> Callable[..., None]:
    """Give a command ``--json`` and what it writes to; an error is its last line, and ends it with 1."""

    @json_option
    @functools.wraps(command)
    def reported(*arguments: Any, as_json: bool, **options: Any) -> None:
        out = Output(as_json=as_json)
        with failing(out):
            command(out, *arguments, **options)

    return reported


@contextmanager
def failing(out: Output) -> Iterator[None]:
    """Tell what altneu or the machine says went wrong inside, and end with 1."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (AltneuError, OSError) as error:
        out.failed(error)
        sys.exit(1)


@contextmanager
def stopped_cleanly() -> Iterator[None]:
    """Have SIGTERM do what Ctrl-C does: the store is closed."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def nearest(name: str, known: Iterable[str], there_are: str = "there are") -> str:
    """What may have been meant by a name that is not known, to end a message with.

    >>> nearest("totls", ["orders", "totals"])
    "; did you mean 'totals'?"
    >>> nearest("x", ["orders", "totals"])
    '; there are: orders, totals'
    """
    names = list(known)
    return did_you_mean(name, names) or f"; {there_are}: {', '.join(names) or '(none)'}"
