"""What scripts do with their arguments before they do anything else."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "spark-matrix"


class Made(Exception):  # noqa: N818 -- no error: an environment would be made
    """An environment of a version."""


@pytest.fixture
def matrix(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, which makes no environment."""

    def environment(version: str) -> Path:
        raise Made(version)

    monkeypatch.setattr("sys.dont_write_bytecode", True)
    loader = SourceFileLoader("spark_matrix", str(SCRIPT))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    monkeypatch.setattr(module, "environment", environment)
    return module


def test_the_spark_matrix_says_what_it_takes(matrix: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        matrix.main(["--help"])
    assert ended.value.code == 0
    assert "3.5, 4.0, 4.1, 4.2, 4.3" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("version", ["9.9", "--all", "4.3.0", "4"])
def test_an_unknown_version_is_refused_by_name(
    matrix: ModuleType, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        matrix.main(["4.0", version])
    assert ended.value.code == 2
    assert version in capsys.readouterr().err


@pytest.mark.parametrize(("arguments", "first"), [([], "3.5"), (["4.1"], "4.1"), (["4.3", "3.5"], "4.3")])
def test_known_ones_are_run_in_their_order(matrix: ModuleType, arguments: list[str], first: str) -> None:
    with pytest.raises(Made, match=f"^{first}$"):
        matrix.main(arguments)
