"""Blocks of code in a document, and what of them runs.

A document is read as a person would follow it: in a folder of its own, from top to bottom. ``title="x.py"`` has a block
saved as a file; ``console`` and ``sh`` are typed; ``sql`` is given to one session; ``python`` is run, with altneu as
``an``, unless it is an example with ``>>>``: those tests/architecture/test_documents.py runs. A comment above a block,
``<!-- not run: why -->``, says why nothing runs it.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from markdown_it import MarkdownIt

import altneu
from altneu.cli import main

_NOT_RUN = re.compile(r"<!-- not run: (\S.*) -->")
_TITLE = re.compile(r'title="([\w./]+)"')
_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@dataclass(frozen=True)
class Block:
    """A fenced block of a document; what is indented is a formula."""

    where: str
    language: str
    title: str | None
    text: str
    not_run: str | None  # why

    @property
    def is_example(self) -> bool:
        return self.language == "python" and bool(doctest.DocTestParser().get_examples(self.text))


def blocks(name: str, text: str) -> Iterator[Block]:
    """The blocks of a document.

    >>> told = "<!-- not run: a server -->\\n```sh\\nls\\n```\\nText\\n```python title='a.py'\\n```\\n"
    >>> [(block.where, block.language, block.not_run) for block in blocks("a.md", told)]
    [('a.md:2', 'sh', 'a server'), ('a.md:6', 'python', None)]
    """
    before = None
    for token in MarkdownIt().parse(text):
        if token.type == "fence":
            assert token.map is not None
            language, _, attributes = token.info.partition(" ")
            title = _TITLE.search(attributes)
            mark = _NOT_RUN.match(before.content) if before is not None and before.type == "html_block" else None
            yield Block(
                f"{name}:{token.map[0] + 1}",
                language,
                title.group(1) if title else None,
                token.content,
                mark.group(1) if mark else None,
            )
        before = token


class Reading:
    """Somebody who follows a document, in a folder."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._patch = patch
        self._names: dict[str, Any] = {"__name__": "__main__", "an": altneu}
        self._session: altneu.Session | None = None
        self._unused: set[str] = set()
        patch.chdir(folder)

    def follow(self, block: Block) -> None:
        """Run a block; one that nothing can run is an error."""
        if block.title is not None:
            (self._folder / block.title).write_text(block.text)
            self._unused.add(block.title)
        elif block.language in ("console", "sh"):
            self._type(block)
        elif block.language == "sql":
            self._sql(block.text)
        elif block.language == "python":
            exec(compile(block.text, block.where, "exec"), self._names)  # noqa: S102  # it is what is tested
        elif block.language in ("json", "yaml"):
            yaml.safe_load(block.text) if block.language == "yaml" else json.loads(block.text)
        else:
            raise AssertionError(f"{block.where}: nothing runs this block; say why: <!-- not run: ... -->")

    def end(self) -> None:
        """Close what is open; a file that no command and no other file has used is an error."""
        for name in (*self._names.values(), self._session):
            if isinstance(name, altneu.Session):
                name.close()
        assert self._unused == set(), "files of the document that it does not use"

    def _sql(self, text: str) -> None:
        if self._session is None:
            self._session = altneu.Session(retain="all")
        self._session.sql(text)

    def _type(self, block: Block) -> None:
        for typed in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:] or [block.text]:
            command, _, wanted = typed.partition("\n") if block.language == "console" else (typed, "", "")
            self._use(command)
            given = self._run(command)
            if block.language == "console":
                lines = re.sub(r"^\.\.\.\n", "...", wanted, flags=re.MULTILINE)  # such a line may stand for none
                same = doctest.OutputChecker().check_output(lines, given, _FLAGS)
                assert same, f"{block.where}: {command}\n--- wanted\n{wanted}--- given\n{given}"

    def _use(self, text: str) -> None:
        """Note which files of the document a command uses, and which ones those use in turn."""
        for name in sorted(self._unused):
            if name in text or re.search(rf"^from {Path(name).stem} import", text, re.MULTILINE):
                self._unused.discard(name)
                self._use(Path(name).read_text())

    def _run(self, command: str) -> str:
        program, *arguments = shlex.split(command)
        if not set(";|&<>$`") & set(command):
            if program == "altneu":
                return self._run_here(arguments, partial(main, arguments, prog_name="altneu", standalone_mode=False))
            if program == "python" and arguments[0].endswith(".py"):
                return self._run_here(arguments, partial(runpy.run_path, arguments[0], run_name="__main__"))
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["/bin/sh", "-ec", command],
            env={**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def _run_here(self, arguments: list[str], program: Callable[[], object]) -> str:
        """A program in this process, which has imported altneu, and has the one Spark session of the run."""
        answer, known = StringIO(), set(sys.modules)
        with self._patch.context() as patch, redirect_stdout(answer), redirect_stderr(answer):
            patch.syspath_prepend(self._folder)
            patch.setattr(sys, "argv", arguments)
            program()
        for name in set(sys.modules) - known:
            if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(self._folder):
                del sys.modules[name]
        return answer.getvalue()
