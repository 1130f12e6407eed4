"""The daemon from which Spark forks its Python workers: ``spark.python.daemon.module=altneu.runtime.spark.daemon``.

Spark's own daemon imports next to nothing, so that every worker pays for its imports, and its workers collect garbage
after every task, so that every task pays for a walk over everything imported. This one imports once, freezes the
collector, and then is Spark's own. A fork of it can do all that a fresh process can, under one rule: Polars may be
imported before the fork and never *used*, or the child deadlocks (Polars' threads do not survive the fork, its locks
do).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import sys

PRELOADED = ("numba", "numpy", "polars", "pyarrow", "pyarrow.compute", "pyarrow.ipc", "pyspark.worker")


def preload() -> None:
    """Import what the workers need, compile or load the kernels, and exempt all of it from garbage collection."""
    # Standard output is how the daemon tells Spark its port: nothing else may be written there.
    with contextlib.redirect_stdout(sys.stderr):
        for name in PRELOADED:
            importlib.import_module(name)
        from altneu.columnar import threads
        from altneu.runtime.spark.worker import warm

        warm()
        threads.limit(1)  # Spark gives a task one core
    gc.collect()
    gc.freeze()


def main() -> None:
    """Preload, then serve Spark."""
    preload()
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
