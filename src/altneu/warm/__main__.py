"""``python -m altneu.warm``; with ``--list``, writes the list of kernels anew."""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from altneu.runtime.progress import compiling
from altneu.warm import listed, warm

PROCESSES = 8  # each takes 0.4 GB; more would wait for the kernel that takes longest


def warm_together() -> None:
    """``warm``, of which several processes have compiled what is listed; it is shared on disk.

    If one of them dies, as where memory is short, this process compiles what is missing.
    """
    many = min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, PROCESSES)
    if many > 1:
        try:
            with ProcessPoolExecutor(many, mp_context=get_context("spawn")) as pool:
                list(pool.map(listed.compile_one, listed.listed()))
        except BrokenProcessPool:
            sys.stderr.write("altneu: a process that compiled has died; one goes on alone\n")
    warm()


def main(arguments: Sequence[str]) -> None:
    """Compile every kernel, or write the list of them."""
    parser = ArgumentParser("python -m altneu.warm", description="Compile altneu's kernels ahead of time.")
    parser.add_argument("--list", action="store_true", help="write the list by which processes share this work")
    options = parser.parse_args(arguments)
    started, compiling.is_said = time.monotonic(), True
    if options.list:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            pool.submit(warm).result()  # what is compiled here would be listed with what it calls
        warm()
        listed.write()
        return
    sys.stderr.write("altneu: compiling the kernels, once, which takes two to three minutes\n")
    warm_together()
    sys.stderr.write(f"altneu: they are compiled, in {time.monotonic() - started:.0f} s\n")


if __name__ == "__main__":
    main(sys.argv[1:])
