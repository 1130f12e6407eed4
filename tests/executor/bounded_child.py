"""A task in a process of few addresses: its inbox is several times larger than what is left to it.

python bounded_child.py FOLDER "in parts" | "at once"
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import altneu as an
from altneu.columnar.rows import Rows
from altneu.operators.base import Region, StepMode
from altneu.order import Antichain, Epoch
from altneu.plan.lower import lower
from altneu.plan.rewrite import optimise
from altneu.runtime import memory
from altneu.runtime.spark import worker
from altneu.runtime.spark.wire import META, SEED, encode, pack, unpack, unpack_meta
from altneu.store.folder import LocalFolder
from altneu.trace.update import Updates

ROWS, MESSAGE, LEFT = 2_500_000, 100_000, 100 << 20
EDGES = an.source("edges", "src long, dst long")


def messages(channels: int) -> Iterator[pa.RecordBatch]:
    """Rows as Spark hands them on, none kept: 32 bytes each, on every channel."""
    schema = pa.schema([("src", pa.int64()), ("dst", pa.int64())])
    yield from pack([(0, SEED, b"")])
    for start in range(0, ROWS, MESSAGE):
        dst = np.arange(start, start + MESSAGE)
        rows = Rows(schema, (pa.array(dst % 1009), pa.array(dst)), MESSAGE)
        updates = Updates(rows, np.zeros((1, MESSAGE), np.int64), np.ones(MESSAGE, np.int64))
        for channel in range(channels):
            yield from pack(encode(0, channel, updates))


def main(folder: str, how: str) -> None:
    """Run the stage that arranges the rows; say how many it has kept."""
    plan = lower({"kept": optimise(EDGES.node)}, Epoch(), 1)
    (Path(folder) / "segments").mkdir()
    zero, one = Antichain.of(Epoch(), 0), Antichain.of(Epoch(), 1)
    task = worker.Task(
        plan, Region(zero, one, zero), StepMode(1), 1, LocalFolder(Path(folder) / "segments"), False, {}, {}, (0, 1)
    )
    worker.warm()
    left = memory.addresses_left()
    assert left is None
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + LEFT, used + LEFT))
    if how == "at once":
        worker.shares = lambda _: (1 << 40, None)
    answer = [payload for _, port, payload in unpack(worker.run_stage(task, 1)(messages(1))) if port == META]
    for payload in answer:
        meta, _ = unpack_meta(payload)
        if "error" in meta:
            print(meta["error"][1])  # noqa: T201
            sys.exit(1)
        ((_, _, state),) = meta["states"]
        print(sum(batch["rows"] for batch in state["batches"]))  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
