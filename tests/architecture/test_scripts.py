"""What scripts do with their arguments before they do anything else."""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
RUN = {"spark-matrix": "environment", "python-matrix": "found", "resolve-pythons": "resolved"}  # what is done first


class Begun(Exception):  # noqa: N818 -- no error: something would be done with a version
    """A version."""


@pytest.fixture(params=RUN)
def script(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script as a module, which does nothing."""

    def begin(version: str, *_: object) -> None:
        raise Begun(version)

    monkeypatch.setattr("sys.dont_write_bytecode", True)
    monkeypatch.syspath_prepend(str(SCRIPTS))
    name: str = request.param
    loader = SourceFileLoader(name.replace("-", "_"), str(SCRIPTS / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    monkeypatch.setattr(module, RUN[name], begin)
    return module


def test_a_script_says_which_versions_it_takes(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main(["--help"])
    assert ended.value.code == 0
    assert ", ".join(script.VERSIONS) in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("version", ["9.9", "--all", "4.3.0", "4"])
def test_an_unknown_version_is_refused_by_name(
    script: ModuleType, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        script.main([script.VERSIONS[1], version])
    assert ended.value.code == 2
    assert version in capsys.readouterr().err


@pytest.mark.parametrize("chosen", [(), (2,), (3, 0)])
def test_known_ones_are_run_in_their_order(script: ModuleType, chosen: tuple[int, ...]) -> None:
    with pytest.raises(Begun, match=f"^{script.VERSIONS[chosen[0] if chosen else 0]}$"):
        script.main([script.VERSIONS[i] for i in chosen])
