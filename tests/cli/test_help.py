"""Help that teaches: its examples work as they stand, and the reference shows it as it is."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from altneu.cli import main
from altneu.cli.command import Taught
from tests.store.support import CHILD

DOCUMENT = Path(__file__).parents[2] / "docs" / "cli.md"
BLOCK = "```text\n{}```\n"


def help_of(name):
    command = main.commands[name]
    above = click.Context(main, info_name="altneu", terminal_width=100, **main.context_settings)
    with click.Context(command, parent=above, info_name=name) as context:
        return command.get_help(context) + "\n"


@pytest.mark.parametrize("name", main.commands)
def test_what_help_says(call, name):
    command = main.commands[name]
    assert isinstance(command, Taught)
    assert 2 <= len(command.examples) <= 3
    assert {0, 1, 2} <= set(command.exits)
    assert command.shape
    shown = call(name, "--help").out
    assert shown == call(name, "-h").out
    for part in ("Usage: main", "Options:", "With --json:", "Examples:", "Exit codes:", "--json"):
        assert part in shown
    short = call("--help").lines
    (answer,) = [line for line in short if line.strip().startswith(f"{name} ")]
    assert answer.endswith(".")
    assert not answer.endswith("...")


def test_the_reference_shows_the_help_as_it_is():
    """``ALTNEU_GOLDEN=write`` writes it there."""
    text = DOCUMENT.read_text()
    for name in main.commands:
        head, mark, rest = text.partition(f"\n## altneu {name}\n")
        assert mark, f"docs/cli.md has no section `## altneu {name}`"
        before, opening, shown = rest.partition("```text\n")
        shown, closing, after = shown.partition("```\n")
        assert opening
        assert closing
        if os.environ.get("ALTNEU_GOLDEN") == "write":
            text = head + mark + before + BLOCK.format(help_of(name)) + after
            DOCUMENT.write_text(text)
        else:
            assert shown == help_of(name), f"altneu {name}: ALTNEU_GOLDEN=write writes it anew"


ENDLESS = ("altneu subscribe --path state totals", "altneu serve")  # until Ctrl-C
SLOW = ("altneu doctor",)  # what it starts is tried in test_doctor.py


def pipeline(line):
    """The commands of a line, and what is echoed into the first of them."""
    commands = [[]]
    shell = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars="|")
    shell.whitespace_split = True
    for part in shell:
        if set(part) == {"|"}:
            commands.append([])
        else:
            commands[-1].append(part)
    echoed = commands.pop(0)[1] if commands[0][0] == "echo" else ""
    return commands, echoed


def test_the_examples_work_as_they_stand(call, tmp_path, monkeypatch):
    """In the order of ``altneu --help``: the first makes the store that the others work on."""
    monkeypatch.chdir(tmp_path)
    lines = [line for name in main.commands for _, line in main.commands[name].examples]
    tried = [line for line in lines if not any(e in line for e in ENDLESS) and line not in SLOW]
    assert len(tried) >= 18
    for line in tried:
        ((altneu, *arguments), *_), echoed = pipeline(line)
        assert altneu == "altneu"
        done = call(*arguments, input=echoed)
        assert done.code == 0, f"{line}\n{done.err}"
    assert {"state", "dear.parquet", "plan.svg"} <= {p.name for p in tmp_path.iterdir()}


def test_an_example_in_a_shell(tmp_path):
    """Quotes and pipes are a shell's."""
    result, *_ = main.commands["run"].examples
    query, *_ = main.commands["query"].examples
    script = f'altneu() {{ "$PYTHON" -W ignore -m altneu.cli "$@"; }}\n{result[1]} && {query[1]}'
    environment = CHILD | {"PYTHON": sys.executable}
    done = subprocess.run(["/bin/sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"item  total\n")
