"""The forking process as its parent sees it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import altneu
from faults import server

ROOTS = (Path(altneu.__file__).parents[1], Path(__file__).parents[1])
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, ROOTS)), "POLARS_MAX_THREADS": "1"}


@dataclass
class Ended:
    """What a child said, and how it ended: below 0, by that signal."""

    code: int = 0
    messages: list[tuple[str, Any]] = field(default_factory=list)

    def last(self, word: str) -> Any:
        """The last value of a word, None if it was never said."""
        return next((value for said, value in reversed(self.messages) if said == word), None)

    def all(self, word: str) -> list[Any]:
        """Every value of a word."""
        return [value for said, value in self.messages if said == word]


class Server:
    """Runs the jobs of a module in forked children, one at a time; what forks them is started for the first."""

    def __init__(self, module: str = "faults.jobs") -> None:
        self._module, self._child = module, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if "_process" in self.__dict__:
            self._process.kill()
            self._process.communicate()

    @cached_property
    def _process(self) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "ignore", server.__file__, self._module]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=ENVIRONMENT
        )

    def kill(self) -> None:
        """Kill the child of the moment, if there is one."""
        if self._child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)

    def run(self, kind: str, folder: Path, heard: Callable[[str, Any], None] | None = None, **options: Any) -> Ended:
        """Have a child do a job; ``heard`` is told what it says as it says it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        job = {"kind": kind, "folder": str(folder), "options": options}
        self._process.stdin.write(json.dumps(job) + "\n")
        ended = Ended()
        for line in self._process.stdout:
            word, value = json.loads(line)
            if word == "pid":
                self._child = value
            elif word == "ended":
                self._child, ended.code = 0, value
                return ended
            else:
                ended.messages.append((word, value))
                if heard is not None:
                    heard(word, value)
        raise RuntimeError("the forking process has ended")


class Reader:
    """A child that reads a folder beside whatever else happens there, until it is stopped."""

    def __init__(self, readers: Server, folder: Path) -> None:
        self._server = readers
        self.ended = Ended()
        self._thread = threading.Thread(target=self._run, args=(folder,))
        self._thread.start()

    def _run(self, folder: Path) -> None:
        self.ended = self._server.run("read", folder, pause=0.01)

    def stop(self) -> Ended:
        """Kill it; what it said."""
        while self._thread.is_alive():
            self._server.kill()
            self._thread.join(0.01)
        return self.ended
