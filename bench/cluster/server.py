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
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
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

    Its Python workers find altneu, but in a ``with`` block of ``workers``.
    """

    def __init__(self, master: str = "local[2]", *, config: Mapping[str, str] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="altneu-connect-"))
        self._process: subprocess.Popen[bytes] | None = None
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
        self._python = self.folder / "python"
        self._write_python()
        self._environment = {
            **os.environ,
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": str(self._python),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_LOG_DIR": str(self.folder / "logs"),
            "SPARK_PID_DIR": str(self.folder / "pids"),
            "PYTHONPATH": str(Path(altneu.__file__).parents[1]),
        }
        self.start()

    @contextmanager
    def workers(self, *, has_altneu: bool = True, hidden: Path | None = None) -> Iterator[None]:
        """Its Python workers are others in the meantime.

        They find altneu unless ``has_altneu`` is False. For them the folder ``hidden`` is another, empty one, as on
        another machine, which takes the rights of root.
        """
        self._write_python(has_altneu=has_altneu, hidden=hidden)
        try:
            yield
        finally:
            self._write_python()

    def _write_python(self, *, has_altneu: bool = True, hidden: Path | None = None) -> None:
        """The program that Spark starts as its Python; those that run are killed, and Spark starts others."""
        lines, run = ["#!/bin/sh"], f'exec {shlex.quote(sys.executable)} "$@"'
        if not has_altneu:
            lines.append(f'export PYTHONPATH={shlex.quote(str(self._without()))}:"$PYTHONPATH"')
        if hidden is not None:
            mounted = shlex.quote(f'mount -t tmpfs none {shlex.quote(str(hidden))} && exec "$@"')
            run = f'exec unshare --mount sh -c {mounted} sh {shlex.quote(sys.executable)} "$@"'
        self._python.write_text("\n".join([*lines, run, ""]))
        self._python.chmod(0o755)
        pythons = [process for process in self._below() if "python" in process.name()]
        _kill(pythons)

    def _without(self) -> Path:
        """A folder for Python's path with which it finds no altneu, even where it is installed."""
        folder = self.folder / "without"
        folder.mkdir(exist_ok=True)
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
                said = self.log[-3000:]
                self.kill()
                raise RuntimeError(f"the server did not start:\n{said}")
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
        _kill([psutil.Process(self._process.pid), *self._below()])
        self._process.wait()

    def _below(self) -> list[psutil.Process]:
        """What it has started."""
        if self._process is None or self._process.poll() is not None:
            return []
        return psutil.Process(self._process.pid).children(recursive=True)


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=30)


def _free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind((HOST, 0))
        return int(chosen.getsockname()[1])
