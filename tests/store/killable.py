"""A process that forks writers to be killed: run as a script, it reads ``<fatal> <folder>`` a line.

A writer works on the folder and says every commit it was told of. With ``fatal`` = n > 0 it kills itself with SIGKILL
in front of its n-th operation on a file of the store (Python's audit events tell of each); with 0 it goes on until
somebody else kills it. Forking saves an interpreter's start for every kill.
"""

from __future__ import annotations

import os
import signal
import sys

from altneu.store import DirectoryStore, MemoryStore
from tests.store.support import step

OPERATIONS = {"open", "os.link", "os.remove", "os.rename", "os.mkdir", "os.truncate", "os.listdir", "os.scandir"}
STEPS = 7


def arm(folder: str, fatal: int) -> None:
    count = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event in OPERATIONS and isinstance(arguments[0], str | os.PathLike):
            count += os.fspath(arguments[0]).startswith(folder)
            if count == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def write(folder: str, fatal: int) -> None:
    if fatal:
        arm(folder, fatal)
    store = DirectoryStore.create_or_open(folder, checkpoint_every=3)
    while not fatal or store.number < STEPS:
        number = step(store)
        os.write(1, b"%d\n" % number)
        if number % 3 == 0:
            store.vacuum(keep=1)


def main() -> None:
    step(MemoryStore())  # the first array imports pandas: once, and not in every writer
    for line in sys.stdin:
        fatal, folder = line.rstrip("\n").split(" ", 1)
        writer = os.fork()
        if not writer:
            write(folder, int(fatal))
            os._exit(0)
        os.write(1, b"writer %d\n" % writer)
        _, status = os.waitpid(writer, 0)
        os.write(1, b"ended %d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
