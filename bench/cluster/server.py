"""A server of Spark Connect as an administrator starts it: by Spark's own script, in a process of its own."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import psutil
import pyspark

import altneu
from altneu.runtime.spark.java import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOST = "127.0.0.1"
_SECONDS = 120  # for a server to answer
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "altneu":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
"""


def _command(home: Path) -> list[str]:
    """Spark's script; what it runs where PyPI's package does not have it, before 4.3."""
    script = home / "sbin" / "start-connect-server.sh"
    if script.exists():
        return [str(script), "--wait"]
    return [str(home / "bin" / "spark-submit"), "--class", _CLASS, "--name", "Spark Connect server"]


class ConnectServer:
    """A server that runs ``sbin/start-connect-server.sh``, on ``master``.

    Its Python workers find altneu unless ``has_altneu`` is False. For them the folder ``hidden`` is another,
    empty one, as on another machine, which takes the rights of root.
    """

    def __init__(
        self,
        master: str = "local[2]",
        *,
        has_altneu: bool = True,
        config: Mapping[str, str] | None = None,
        hidden: Path | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="altneu-connect-"))
        self._port = _free_port()
        self._settings = {
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": (self.folder / "warehouse").as_uri(),
            "spark.local.dir": str(self.folder / "local"),
            "spark.ui.enabled": "false",
            **(config or {}),
        }
        self._master = master
        home = Path(pyspark.__file__).parent
        self._command = _command(home)
        found = Path(altneu.__file__).parents[1] if has_altneu else self._without()
        self._environment = {
            **os.environ,
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable if hidden is None else str(self._elsewhere(hidden)),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOG_DIR": str(self.folder / "logs"),
            "SPARK_PID_DIR": str(self.folder / "pids"),
            "PYTHONPATH": str(found),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _elsewhere(self, hidden: Path) -> Path:
        """A Python that has its own view of a folder: a program that mounts another over it before it runs."""
        mounted = shlex.quote(f'mount -t tmpfs none {shlex.quote(str(hidden))} && exec "$@"')
        program = self.folder / "python"
        program.write_text(f'#!/bin/sh\nexec unshare --mount sh -c {mounted} sh {shlex.quote(sys.executable)} "$@"\n')
        program.chmod(0o755)
        return program

    def _without(self) -> Path:
        """A folder for Python's path with which it finds no altneu, even where it is installed."""
        folder = self.folder / "without"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_WITHOUT)
        return folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def url(self) -> str:
        """What a client is given."""
        return f"sc://{HOST}:{self._port}"

    def start(self) -> None:
        """Start it, at the same address each time, and wait until it answers.

        Raises:
            RuntimeError: it has ended, or does not answer within two minutes.
        """
        settings = [part for name, value in self._settings.items() for part in ("--conf", f"{name}={value}")]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "--master", self._master, *settings],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self._environment,
                cwd=self.folder,
            )
        end = time.monotonic() + _SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server did not start:\n{self.log[-3000:]}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex((HOST, self._port)) == 0

    @property
    def log(self) -> str:
        """What it has said."""
        return (self.folder / "server.log").read_text()

    def session(self) -> SparkSession:
        """A new session on it."""
        from pyspark.sql import SparkSession

        return SparkSession.builder.remote(self.url).create()

    def kill(self) -> None:
        """Kill it, and whatever it has started, at once."""
        if self._process is None or self._process.poll() is not None:
            return
        running = psutil.Process(self._process.pid)
        every = [running, *running.children(recursive=True)]
        for process in every:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        self._process.wait()
        psutil.wait_procs(every, timeout=30)


def _free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind((HOST, 0))
        return int(chosen.getsockname()[1])
