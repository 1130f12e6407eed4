"""The house stands as drawn: who may import what, what an import costs, and what is public."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import TopologicalSorter
from importlib import metadata
from pathlib import Path

import altneu
from altneu import errors

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PYSPARK_ROOMS = re.compile(
    r"altneu\.(runtime\.spark|runtime\.execution|collections\.sources|engine\.(engine|parts)|views|sinks|sql\.frames|sql\.statements|streams"
    r"|session|testing|cli\.pipelines)(\.|$)"
    r"|pyspark_altneu(\.|$)"
)
PUBLIC = [
    "Changes", "Collection", "Reader", "Relations", "Session", "Step", "StoreCheck", "Trace", "Udf", "View",
    "__version__",
    "algorithms", "arrow", "cdc",
    "check_store", "col", "compare", "delta", "errors", "feedback", "first", "fn", "iceberg", "last", "late_rows",
    "lit", "logic", "read", "recursive", "sinks", "source", "spark_session", "table_changes",
    "udf", "update_time", "weights", "windows",
]  # fmt: skip
HEAVY = ("pyspark", "py4j", "polars", "pandas", "plotly", "duckdb", "matplotlib", "starlette", "uvicorn")


@dataclass(frozen=True)
class Import:
    module: str
    target: str
    eager: bool  # runs when the module is imported: not inside a function, not only for the type checker
    line: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}{'' if self.eager else ' (lazily)'}"


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(path): path for path in sorted(SRC.rglob("*.py"))}


def is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def targets(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    assert node.module is not None, "relative imports are banned by ruff"
    named = [f"{node.module}.{alias.name}" for alias in node.names]
    return [name if name in MODULES else node.module for name in named]


def walk(module: str, body: list[ast.stmt], *, eager: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (Import(module, target, eager, node.lineno) for target in targets(node))
        elif isinstance(node, ast.If) and is_type_checking(node.test):
            yield from walk(module, node.body, eager=False)
            yield from walk(module, node.orelse, eager=eager)
        else:
            inside = eager and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            for field in ("body", "orelse", "finalbody"):
                yield from walk(module, getattr(node, field, []), eager=inside)
            for branch in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                yield from walk(module, branch.body, eager=inside)


def imports_of(module: str) -> list[Import]:
    return list(walk(module, ast.parse(MODULES[module].read_text()).body, eager=True))


IMPORTS = [found for module in MODULES for found in imports_of(module)]


def spark_imports() -> list[Import]:
    return [found for found in IMPORTS if found.target.split(".")[0] in {"pyspark", "py4j"}]


def test_only_the_rooms_that_meet_spark_import_it() -> None:
    assert [str(found) for found in spark_imports() if not PYSPARK_ROOMS.match(found.module)] == []


def test_spark_is_imported_where_it_is_used() -> None:
    """A local session never loads pyspark: what is built on its classes is loaded by Spark, or to run a pipeline."""
    built = re.compile(r"pyspark_|altneu\.cli\.pipelines\.(described|loading)$")
    assert [str(found) for found in spark_imports() if found.eager and not built.match(found.module)] == []


def test_one_module_knows_what_differs_between_versions_of_spark() -> None:
    asks = re.compile(r"\b(pyspark\.__version__|spark\.version|version_of)\b")
    tell = {"altneu.cli.pipelines.described", "altneu.cli.spark_checks"}  # which it is, and decide nothing by it
    found = {name for name, path in MODULES.items() if asks.search(path.read_text())}
    assert found - tell == {"altneu.runtime.spark.versions"}


def test_what_this_parser_sees_is_what_is_there() -> None:
    """No import statement hides in a corner of the syntax where the walk above does not look."""
    for module, path in MODULES.items():
        tree = ast.walk(ast.parse(path.read_text()))
        lines = {node.lineno for node in tree if isinstance(node, ast.Import | ast.ImportFrom)}
        assert {found.line for found in IMPORTS if found.module == module} == lines, module


def test_no_circle_of_modules() -> None:
    """Not even by an import inside a function, or one that only the type checker sees."""
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in IMPORTS:
        if found.target in MODULES and found.target != found.module:
            graph[found.module].add(found.target)
    order = list(TopologicalSorter(graph).static_order())  # raises CycleError, naming the circle
    assert sorted(order) == sorted(MODULES)


def test_no_circle_of_folders() -> None:
    """Not even by an import inside a function, or one that only the type checker sees."""
    graph: dict[str, set[str]] = {}
    for found in IMPORTS:
        source, target = (".".join(name.split(".")[:2]) for name in (found.module, found.target))
        if source.startswith("altneu.") and target.startswith("altneu.") and source != target:
            graph.setdefault(source, set()).add(target)
    assert list(TopologicalSorter(graph).static_order())[-1] in {"altneu.__main__", "altneu.cli", "altneu.testing"}


def test_the_package_is_seen_at_a_glance() -> None:
    """At most thirty entries: folders in the order of the layers, and the thin public names."""
    entries = [entry for entry in (SRC / "altneu").iterdir() if entry.name not in ("__pycache__", "py.typed")]
    assert len(entries) <= 30


def test_every_room_has_a_floor() -> None:
    """A room that no layer names would be outside every import contract."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    named = {room for layer in layers for room in re.findall(r"\w+", layer)}
    rooms = {module.split(".")[1] for module in MODULES if module.startswith("altneu.")}
    assert rooms - named == set()


def run_fresh(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_altneu_is_light() -> None:
    assert run_fresh(f"import sys, altneu; print({{*{HEAVY!r}}} & {{*sys.modules}})") == "set()"


LOCAL = """
import sys
import altneu as an
edges = an.source("edges", "src long, dst long")
with an.Session() as session:
    view = session.maintain("sources", edges.select("src").distinct())
    session.insert("edges", [(1, 2), (1, 3)])
    session.advance()
    print(view.to_pylist(), "pyspark" in sys.modules)
"""


def test_a_local_session_runs_without_pyspark() -> None:
    assert run_fresh(LOCAL) == "[(1,)] False"


def drawn_errors() -> dict[str, str]:
    """Each error of the tree at the top of ``altneu.errors`` with its parent, read from the drawing."""
    parents, path = {}, []
    for line in (errors.__doc__ or "").splitlines():
        entry = re.match(r"^((?:[│ ] {3}|[├└]── )*)(\w+Error)\b", line)
        if entry:
            depth = len(entry[1]) // 4
            path = [*path[:depth], entry[2]]
            parents[entry[2]] = path[-2] if depth else "Exception"
    return parents


def test_the_tree_of_errors_is_the_one_drawn() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert drawn_errors() == {c.__name__: c.__bases__[0].__name__ for c in classes}


def test_every_error_raised_on_purpose_is_in_the_tree() -> None:
    """An exception class of another module is a signal between two rooms and says so by not ending in Error."""
    strays = []
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            is_error = isinstance(node, ast.ClassDef) and node.name.endswith("Error")
            if is_error and module != "altneu.errors":
                strays.append(f"{module}.{node.name}")
    assert strays == []


def test_what_is_public_is_pinned() -> None:
    """A name leaves or joins this list on purpose, together with the CHANGELOG."""
    assert sorted(altneu.__all__) == PUBLIC
    assert [name for name in PUBLIC if not hasattr(altneu, name)] == []


def test_the_version_is_that_of_the_package() -> None:
    assert altneu.__version__ == metadata.version("altneu")


def test_a_source_release_has_all_that_its_tests_need() -> None:
    sdist = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["sdist"]
    included = {entry.strip("/") for entry in sdist["include"]}
    text = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    imported = {name for name in re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE) if (ROOT / name).is_dir()}
    assert {"bench", "examples", "faults"} <= imported
    assert imported | {"src", "docs", "scripts", ".ci", "Makefile", "mkdocs.yml", "pyproject.toml"} <= included


def test_no_test_module_is_imported() -> None:
    """What tests share lies in modules that are not tests, such as tests/oracle/operators_cases.py."""
    actual = []
    for path in [path for folder in ("tests", "bench", "faults", "examples") for path in (ROOT / folder).rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            named = [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            for name in named + ([alias.name for alias in node.names] if isinstance(node, ast.Import) else []):
                parts = name.split(".")
                whole = any(
                    (ROOT / "/".join(parts[:n])).with_suffix(".py").is_file() for n in (len(parts), len(parts) - 1)
                )
                if parts[0] == "tests" and whole and any(part.startswith("test_") for part in parts[1:]):
                    actual.append(f"{path.relative_to(ROOT)}:{node.lineno} imports {name}")
    assert actual == []
