"""Folders outside the store: one that outlives the process (a cache), one that dies with it (scratch)."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

_SOCKET_PATH_LIMIT = 100  # bytes of a Unix socket's whole path: 104 on macOS, 108 on Linux, with the end marker
_SOCKET_NAME_LENGTH = len("/sockets/.") + 36 + len(".sock")  # how Spark names its sockets: a uuid


def user_cache(name: str) -> Path:
    """The folder ``name`` in this user's cache, made when missing and readable by nobody else.

    A machine whose home cannot be written (a container's, often) gets a folder that lives as long as the process.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(base).expanduser() / "altneu" / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        folder = scratch() / "cache" / name
        folder.mkdir(parents=True, exist_ok=True)
    return folder if os.access(folder, os.W_OK | os.X_OK) else Path(tempfile.mkdtemp(dir=scratch()))


@cache
def scratch() -> Path:
    """This process's own temporary folder, removed when the process ends.

    It is short enough for a Unix socket's path, which the system's own temporary folder need not be.
    """
    base = tempfile.gettempdir()
    if len(os.fsencode(base)) + len("/altneu-xxxxxxxx") + _SOCKET_NAME_LENGTH > _SOCKET_PATH_LIMIT:
        base = "/tmp"  # noqa: S108 - mkdtemp makes a fresh folder for this user alone in it
    folder = Path(tempfile.mkdtemp(prefix="altneu-", dir=base))
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child inherits the registration, not the folder
        shutil.rmtree(folder, ignore_errors=True)
