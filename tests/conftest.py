"""What every test may ask for: the one Spark session of the run, the data sets, Hypothesis settings."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings

import altneu as an
from altneu.runtime.spark.java import find_java
from altneu.runtime.spark.session import spark_session
from bench.cluster import Cluster
from tests.lane import EVERY, left_out

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

CHROMIUM = next((p for p in map(Path, ("/usr/bin/chromium", "/usr/bin/chromium-browser")) if p.exists()), None)

# Cores are shared and a first example may compile a kernel, so time judges no example.
_shared = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
# CI: the same examples in every run, so that a red run is the change's fault.
settings.register_profile("ci", _shared, derandomize=True, max_examples=40, database=None)
# For a search through the night: HYPOTHESIS_PROFILE=thorough make test
settings.register_profile("thorough", _shared, max_examples=2_000)
# A first look at a change: make quick.
settings.register_profile("quick", _shared, derandomize=True, max_examples=10, database=None)
settings.register_profile("no-shrink", _shared, max_examples=60, phases=[Phase.explicit, Phase.generate])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

# A JVM of a test does not live long enough for what its optimising compiler and further threads of its collector cost.
for name in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(name, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs Spark, so that ``-m "not spark"`` is the quick run; of what is sampled some is run."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    named = any("[" in argument for argument in config.args)  # who names a set of parameters wants it run
    if not EVERY and not named and (others := left_out(items)):
        config.hook.pytest_deselected(items=others)
        gone = set(others)
        items[:] = [item for item in items if item not in gone]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Say at once what fails: a run that is stopped prints no summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        reason = getattr(getattr(report.longrepr, "reprcrash", None), "message", "").partition("\n")[0]
        sys.stdout.write(f"\nfailed in {report.duration:.0f} s: {report.nodeid}: {reason}\n")
        sys.stdout.flush()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A Spark master and two workers with two executors each."""
    with Cluster(2, cores=2, memory="3g") as started:
        yield started


def connected(settings: dict[str, str | int]) -> SparkSession:
    """A session of Spark Connect, whose server this process starts; its workers see altneu and the tests."""
    import pyspark
    from pyspark.sql import SparkSession

    os.environ |= {
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(Path(an.__file__).parents[1]), str(Path(__file__).parents[1])]),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    session = SparkSession.builder.remote("local[2]").getOrCreate()
    for name, value in settings.items():
        session.conf.set(name, value)
    return session


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """The one Spark session of the run, with the settings that users get.

    On a cluster where ``ALTNEU_CLUSTER`` is set, of Spark Connect where ``ALTNEU_CONNECT`` is.
    """
    if "not spark" in request.config.getoption("markexpr"):
        pytest.fail("this test needs Spark and is not marked so: mark the parameter that does with pytest.mark.spark")
    settings: dict[str, str | int] = {"spark.sql.shuffle.partitions": 2, "spark.sql.ansi.enabled": "true"}
    settings["spark.sql.timeType.enabled"] = "true"  # of Spark 4.1 and later; others do not know it
    if os.environ.get("ALTNEU_CLUSTER"):
        settings |= {"spark.speculation": "true", "spark.speculation.interval": "50ms"}
        settings["spark.speculation.quantile"] = "0.5"
        session = request.getfixturevalue("cluster").session("altneu-tests", settings)
    elif os.environ.get("ALTNEU_CONNECT"):
        session = connected(settings)
    else:
        session = spark_session("altneu-tests", "local[2]", config=settings)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Storage options of an S3 in this process, with a bucket ``tests``; segments are cached in a folder of the run."""
    from moto.s3.models import s3_backends
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    os.environ.setdefault("ALTNEU_CACHE", str(tmp_path_factory.mktemp("segments")))
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    s3_backends["123456789012"]["aws"].create_bucket("tests", "us-east-1")
    _, port = server.get_host_and_port()
    yield {"key": "k", "secret": "s3cr3t", "client_kwargs": {"endpoint_url": f"http://127.0.0.1:{port}"}}
    server.stop()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of shared data sets: ALTNEU_DATA, else ``shared/data`` beside the repository."""
    folder = Path(os.environ.get("ALTNEU_DATA") or Path(__file__).parents[2] / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no data sets in {folder}: set ALTNEU_DATA")
    return folder


@pytest.fixture
def quick(tmp_path):
    """A folder in memory where there is one: killing a process loses no page either way, and a sync costs nothing."""
    shm = Path("/dev/shm")  # noqa: S108  # the point of it
    if not (shm.is_dir() and os.access(shm, os.W_OK)):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=shm, prefix="altneu-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The system's Chromium, without a window."""
    if CHROMIUM is None:
        pytest.skip("no Chromium in /usr/bin: the page is not clicked through")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield started
        started.close()
