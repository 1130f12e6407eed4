"""The processes of a cluster: what starts them, what finds them, what kills them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import psutil
import pyspark

import altneu
from altneu.runtime.spark.java import find_java
from altneu.runtime.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOST = "127.0.0.1"
_DEPLOY = "org.apache.spark.deploy"
_SECONDS = 60  # for a process to say that it is there


class Cluster:
    """A Spark master and ``workers`` workers of ``cores`` cores and ``memory`` each.

    Its applications take ``session``; the processes are gone when the ``with`` block is left, and so is the folder of
    their logs. On Linux, where all of 127/8 is the machine itself, each worker has an address of its own: to Spark they
    are several hosts, and a task that is slow on one is run a second time only on another.
    """

    def __init__(self, workers: int = 2, *, cores: int = 1, memory: str = "2g") -> None:
        self._cores, self._memory = cores, memory
        self.folder = Path(tempfile.mkdtemp(prefix="altneu-cluster-"))
        self._environment = _environment(self.folder)
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        try:
            requested = ["--host", HOST, "--port", "0", "--webui-port", "0"]
            log = self._start("master", f"{_DEPLOY}.master.Master", requested)
            self.url = self._wait(lambda: _said(log, r"Starting Spark master at (spark://\S+)"), "the master")
            for _ in range(workers):
                self.add_worker()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add_worker(self) -> str:
        """Start one more worker; its name, once the master knows it."""
        name = f"worker-{len(self._started)}"
        host = f"127.0.0.{len(self._started) + 1}" if sys.platform == "linux" else HOST
        requested = ["--host", host, "--webui-port", "0", "--cores", str(self._cores), "--memory", self._memory]
        requested += ["--work-dir", str(self.folder / name), self.url]
        log = self._start(name, f"{_DEPLOY}.worker.Worker", requested, host)
        self._wait(lambda: _said(log, r"(Successfully registered) with master"), name)
        return name

    def session(self, app_name: str = "altneu", config: Mapping[str, str | int] | None = None) -> SparkSession:
        """The Spark session of this process on the cluster: one executor a worker, one core of each."""
        settings: dict[str, str | int] = {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.executor.cores": 1,
            "spark.executor.memory": "1g",
            "spark.executorEnv.PYTHONPATH": self._environment["PYTHONPATH"],
            "spark.local.dir": str(self.folder / "local"),
            "spark.sql.warehouse.dir": (self.folder / "warehouse").as_uri(),
        }
        return spark_session(app_name, self.url, config=settings | dict(config or {}))

    def workers(self) -> list[psutil.Process]:
        """The workers."""
        return [psutil.Process(p.pid) for n, p in self._started.items() if n != "master" and p.poll() is None]

    def executors(self) -> list[psutil.Process]:
        """The executors of all applications, oldest first."""
        results = [child for worker in self.workers() for child in worker.children() if _runs(child, "Executor")]
        return sorted(results, key=lambda process: process.create_time())

    def python_workers(self) -> list[psutil.Process]:
        """The Python processes of the executors in which tasks run, not the daemons that they are forked from."""
        daemons = [child for executor in self.executors() for child in executor.children() if _runs(child, "python")]
        return [child for daemon in daemons for child in daemon.children()]

    def close(self) -> None:
        """End all processes."""
        running = [psutil.Process(p.pid) for p in self._started.values() if p.poll() is None]
        below = [child for process in running for child in process.children(recursive=True)]
        for process in [*running, *below]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        for started in self._started.values():
            started.wait()
        psutil.wait_procs(below, timeout=_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, name: str, main: str, arguments: list[str], host: str = HOST) -> Path:
        log = self.folder / f"{name}.log"
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), main, *arguments]
        with log.open("wb") as file:
            self._started[name] = subprocess.Popen(
                command,
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
                env=self._environment | {"SPARK_LOCAL_IP": host},
            )
        return log

    def _wait(self, requested: Callable[[], str | None], name: str) -> str:
        """What is said, once it is."""
        end = time.monotonic() + _SECONDS
        while time.monotonic() < end:
            if (answer := requested()) is not None:
                return answer
            if any(p.poll() is not None for p in self._started.values()):
                break
            time.sleep(0.05)
        logs = "\n".join(log.read_text()[-2000:] for log in self.folder.glob("*.log"))
        raise RuntimeError(f"{name} did not start:\n{logs}")


def kill(process: psutil.Process) -> None:
    """Kill a process as a machine that loses its power does."""
    process.send_signal(signal.SIGKILL)


def _environment(folder: Path) -> dict[str, str]:
    """What master, workers and executors run in: this Java, this Python, this altneu, and nobody's settings."""
    paths = [str(Path(altneu.__file__).parents[1]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return os.environ | {
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_DIRS": str(folder / "local"),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(p for p in paths if p)),
    }


def _said(log: Path, pattern: str) -> str | None:
    result = re.search(pattern, log.read_text(errors="replace"))
    return result[1] if result else None


def _runs(process: psutil.Process, word: str) -> bool:
    try:
        return any(word in part for part in process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False
