"""Folders outside the store: one that outlives the process (a cache), and those that die with it."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from altneu.errors import StoreError
from altneu.store.lock import WriterLock, holder_of

_SOCKET_PATH_LIMIT = 100  # bytes of a Unix socket's whole path: 104 on macOS, 108 on Linux, with the end marker
_PREFIX = "altneu-"
_OWNER = "owner"  # a file that the process of a folder has locked as long as it lives
_SOCKET_NAME_LENGTH = len("/.") + 36 + len(".sock")  # how Spark names its sockets: a uuid


def user_cache(name: str) -> Path:
    """The folder ``name`` in this user's cache, made when missing and readable by nobody else.

    A machine whose home cannot be written (a container's, often) gets a folder that lives as long as the process.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(base).expanduser() / "altneu" / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK | os.X_OK)
    except OSError:
        usable = False
    return folder if usable else subfolder(f"cache-{name}")


@cache
def scratch() -> Path:
    """This process's own temporary folder, removed when the process ends; after a kill by a later one.

    What Spark shuffles lies in it: of a large step that is as much as the step reads.
    """
    return _temporary(tempfile.gettempdir())


def subfolder(name: str) -> Path:
    """The folder ``name`` in ``scratch()``, made when missing."""
    folder = scratch() / name
    folder.mkdir(exist_ok=True)
    return folder


@cache
def socket_folder() -> Path:
    """A temporary folder like ``scratch()`` whose path leaves room for a Unix socket's name.

    >>> len(str(socket_folder() / f".{'-' * 36}.sock")) <= 100
    True
    """
    folder = subfolder("sockets")
    if len(os.fsencode(folder)) + _SOCKET_NAME_LENGTH <= _SOCKET_PATH_LIMIT:
        return folder
    return _temporary("/tmp")  # noqa: S108 - a fresh folder in it, made for this user alone


def _temporary(base: str) -> Path:
    _clear_dead(Path(base))
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
    unnamed = folder / f".{_OWNER}"
    lock = WriterLock(unnamed)
    unnamed.rename(folder / _OWNER)  # whoever finds it finds it locked
    atexit.register(_remove, folder, lock)
    return folder


def _remove(folder: Path, lock: WriterLock) -> None:
    if lock.held:  # a forked child inherits the registration, not the folder
        shutil.rmtree(folder, ignore_errors=True)


def _clear_dead(base: Path) -> None:
    """Remove the folders of processes that were killed."""
    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError, StoreError):  # it is another user's, or goes just now
            is_mine = folder.lstat().st_uid == os.getuid() and (folder / _OWNER).exists()
            if is_mine and holder_of(folder / _OWNER) is None:
                shutil.rmtree(folder, ignore_errors=True)
