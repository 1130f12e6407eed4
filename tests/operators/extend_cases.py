"""What tests of extend share with other tests."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.operators.delta_join.extend import DeltaSpec
from altneu.operators.delta_join.lowering import Relations
from altneu.operators.delta_join.paths import delta_paths
from altneu.order import Antichain
from altneu.plan import ir
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.update import Updates

TRIANGLE = (("a", "b"), ("b", "c"), ("a", "c"))
PATTERNS = {
    "triangle": TRIANGLE,
    "chain": (("a", "b"), ("b", "c"), ("c", "d")),
    "circle of four": (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")),
    "own columns": (("a", "b", "x"), ("b", "c", "y"), ("a", "c", "z")),
    "wide": (("a", "b", "c"), ("b", "c", "d"), ("c", "d", "a")),
    "unary": (("a",), ("a", "b"), ("b",)),
}


def prepared(variables, lattice):
    """The join of relations of whole numbers, and a function that makes its inputs of old and new updates."""
    parts = tuple(
        ir.Source(f"r{i}", pa.schema([(f"c{j}", pa.int64()) for j in range(len(v))])) for i, v in enumerate(variables)
    )
    names = list(dict.fromkeys(v for part in variables for v in part))
    schema = pa.schema([(v, pa.int64()) for v in names])
    node = ir.MultiJoin(parts, variables, tuple((v, v) for v in names), schema)
    paths = delta_paths(variables)
    relations = Relations(node, paths)
    spec = DeltaSpec(schema, node.outputs, tuple(map(relations.path_spec, paths)), lattice)
    least = Antichain.minimum(lattice)

    def arranged(old, new):
        result = []
        for i, key in relations.arrangements:
            layout = Layout(parts[i].schema, key, lattice)
            both = [
                Batch.build(updates_of(u[i], parts[i].schema, lattice), layout, Description(least, least, least))
                for u in (old, new)
            ]
            result.append(Arranged(layout, (both[0],) if len(both[0]) else (), both[1]))
        return result

    return names, spec, arranged


def updates_of(updates, schema, lattice):
    times = np.array([t for _, t, _ in updates], np.int64).reshape(-1, lattice.width).T
    rows = Rows.from_pylist([row for row, _, _ in updates], schema)
    return Updates(rows, np.ascontiguousarray(times), np.array([d for *_, d in updates], np.int64))


def consolidated(updates):
    counts = Counter()
    for row, time, diff in zip(updates.rows.to_pylist(), updates.times.T.tolist(), updates.diffs.tolist(), strict=True):
        counts[row, tuple(time)] += diff
    return Counter({k: n for k, n in counts.items() if n})
