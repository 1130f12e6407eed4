"""Seeded inputs as Parquet files, made once and kept in ``out/bench/``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 2013
FILES = 4  # files of one input: Spark reads them side by side
FOLDER = Path("out/bench")

Columns = dict[str, np.ndarray]


def parquet(name: str, make: Callable[[np.random.Generator], Columns]) -> Path:
    """The folder of Parquet files of an input; ``make`` is called when there is none yet.

    The name tells the sizes, so that inputs of another scale do not meet.
    """
    folder = FOLDER / "inputs" / name
    if folder.exists():
        return folder
    table = pa.table(make(generator(name)))
    partial = folder.with_name(f".{name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    size = -(-table.num_rows // FILES)
    for i in range(FILES):
        pq.write_table(table.slice(i * size, size), partial / f"part-{i}.parquet")
    partial.rename(folder)
    return folder


def generator(name: str) -> np.random.Generator:
    """Random numbers that depend on the name alone."""
    return np.random.default_rng([SEED, *name.encode()])


def grouped(rows: int, groups: int) -> Path:
    """Case a: ``g`` one of so many groups, ``v`` from 0 to 999."""

    def make(rng: np.random.Generator) -> Columns:
        return {"g": rng.integers(0, groups, rows), "v": rng.integers(0, 1000, rows)}

    return parquet(f"grouped-{rows}-{groups}", make)


def side(name: str, rows: int, matches: int) -> Path:
    """Case b: every key ``k`` in ``matches`` rows, in random order, with a value named like the side."""

    def make(rng: np.random.Generator) -> Columns:
        return {"k": rng.permutation(rows) % (rows // matches), name: rng.integers(0, 1_000_000, rows)}

    return parquet(f"side-{name}-{rows}-{matches}", make)
