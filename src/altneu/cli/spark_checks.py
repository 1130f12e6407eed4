"""What `altneu doctor` looks at of Spark: its settings, and whether a job of one row comes to its end."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from altneu.cli.checks import Check
from altneu.collections.declaring import source
from altneu.errors import AltneuError, PlanError
from altneu.runtime.memory import bytes_in
from altneu.runtime.spark.reach import lacking
from altneu.runtime.spark.session import spark_session
from altneu.runtime.spark.versions import server_of, settings_of
from altneu.session import Session
from altneu.store import Folder, LocalFolder, folder_of

_WORKER = "Spark starts a Python for it that has to import everything: a small step takes two to three times as long"


@dataclass(frozen=True)
class Setting:
    """A setting of Spark's: which values cost something, and what."""

    name: str
    default: str
    costs: Callable[[str], bool]
    why: str
    want: str


def _off(value: str) -> bool:
    return value.lower() != "true"


def _below(least: str) -> Callable[[str], bool]:
    def costs(value: str) -> bool:
        try:
            return 0 < bytes_in(value) < bytes_in(least)
        except PlanError:
            return False  # Spark itself refuses it, or it is the default, which bounds nothing

    return costs


SETTINGS = (
    Setting(
        "spark.python.daemon.module",
        "pyspark.daemon",
        lambda v: v != "altneu.runtime.spark.daemon",
        _WORKER,
        "altneu.runtime.spark.daemon",
    ),
    Setting(
        "spark.python.worker.reuse",
        "true",
        _off,
        "every task starts its own Python process, which takes a second",
        "true",
    ),
    Setting(
        "spark.python.unix.domain.socket.enabled",
        "false",
        lambda v: os.name == "posix" and _off(v),
        "a stage takes 30 ms more by loopback",
        "true",
    ),
    Setting("spark.sql.execution.arrow.pyspark.enabled", "false", _off, "DataFrames go to Python row by row", "true"),
    Setting(
        "spark.executorEnv.POLARS_MAX_THREADS", "", lambda v: v != "1", "concurrent tasks compete for the cores", "1"
    ),
    Setting("spark.executor.pyspark.memory", "0", _below("1g"), "a worker of less than 1 GB may not start", "1g"),
    Setting("spark.driver.memory", "1g", _below("1g"), "local tasks use it, too", "4g"),
    Setting(
        "spark.sql.session.timeZone",
        "UTC",
        lambda v: v not in ("UTC", "Z", "Etc/UTC"),
        "Spark's own answers have times of day in another zone than altneu's, which use UTC",
        "UTC",
    ),
)


def settings(values: Mapping[str, str], where: str) -> Iterator[Check]:
    """Settings that cost speed, among those that are given or left at Spark's defaults."""
    differs = False
    for setting in SETTINGS:
        value = values.get(setting.name, setting.default)
        if setting.costs(value):
            differs = True
            message = f"{setting.name}={value}: {setting.why}"
            yield Check("settings", "warn", message, f"{setting.name}={setting.want} (docs/running.md)")
    if not differs:
        yield Check("settings", "ok", f"nothing in {where} costs speed")


def of_files(environment: Mapping[str, str]) -> Iterator[Check]:
    """Settings that the machine's ``spark-defaults.conf`` would give to sessions that altneu does not make."""
    folder = environment.get("SPARK_CONF_DIR") or os.path.join(environment.get("SPARK_HOME", ""), "conf")  # noqa: PTH118
    file = Path(folder) / "spark-defaults.conf"
    if not file.is_file():
        return
    lines = (line.split(None, 1) for line in file.read_text().splitlines() if line.strip() and line[0] != "#")
    versions = {parts[0]: parts[1].strip() for parts in lines if len(parts) == 2}
    mine = [setting for setting in SETTINGS if setting.name in versions]
    yield from settings({s.name: versions.get(s.name, s.want) for s in SETTINGS} if mine else _expected(), str(file))


def _expected() -> dict[str, str]:
    return {setting.name: setting.want for setting in SETTINGS}


def job(master: str, config: Mapping[str, str], folder: Folder | None = None) -> Iterator[Check]:
    """Start Spark, or connect to a server, and have it take a step of one row, in a Python worker.

    Of a server it is asked first what its workers lack for a session whose store is at ``folder``, by default a
    temporary folder of this machine.
    """
    started = time.monotonic()
    try:
        spark = spark_session("altneu doctor", master, config=config)
        lacks = _lacks(spark, folder)
        if lacks is not None:
            yield Check("Spark's workers", "warn", lacks, _DRIVER)
        ready = time.monotonic()
        _step(spark, "spark" if lacks is None else "driver")
    except AltneuError as error:
        yield Check("Spark", "fail", f"{type(error).__name__}: {error}", _REMEDY)
        return
    except Exception as error:  # noqa: BLE001  # whatever pyspark, Java and the network say is what there is to tell
        yield Check("Spark", "fail", f"{type(error).__name__}: {str(error).splitlines()[0][:500]}", _REMEDY)
        return
    message = (
        f"{spark.version} starts in {ready - started:.0f} s, a job of one row took {time.monotonic() - ready:.1f} s"
    )
    yield Check("Spark", "ok", f"{message}, on {server_of(spark)}")
    yield from settings(settings_of(spark) | _of_session(spark), "the session")


_DRIVER = (
    "sessions run their steps in the driver. To run them on Spark, install altneu where the workers' Python is, and "
    "give a path= that they see under the same name (docs/running.md)"
)
_REMEDY = "the checks above may say why; JAVA_HOME, PYSPARK_PYTHON and SPARK_HOME decide what is started"


def _of_session(spark: Any) -> dict[str, str]:
    names = ("spark.sql.execution.arrow.pyspark.enabled", "spark.sql.session.timeZone")
    return {name: str(spark.conf.get(name)) for name in names}


def _lacks(spark: Any, folder: Folder | None) -> str | None:
    """What the workers of a server lack; a file of the store is written only beside it."""
    if isinstance(folder, LocalFolder) and not folder.has(""):
        folder = folder_of(next(parent for parent in folder.path.parents if parent.exists()))
    with tempfile.TemporaryDirectory(prefix="altneu-doctor-") as scratch:
        return lacking(spark, folder or LocalFolder(Path(scratch)))


def _step(spark: Any, placement: Literal["spark", "driver"]) -> None:
    rows = source("rows", "n long")
    with Session(spark, placement=placement, shards=1) as session:
        total = session.maintain("total", rows.group_by().agg(total="sum(n)"))
        session.insert("rows", spark.createDataFrame([(42,)], "n long"))
        session.advance()
        result: Any = total.to_pylist()
    if result != [(42,)]:
        raise AltneuError(f"the sum of one row must be 42, got {result}")
