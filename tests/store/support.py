"""What the store's tests share: batches, values that name data, and a store's whole content."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

import altneu
from altneu.store import SegmentRef, Store
from altneu.store.commit import RECOVERED

_ROOTS = (Path(altneu.__file__).parents[1], Path(__file__).parents[2])
CHILD = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, _ROOTS))}  # a child process imports what the test does
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def batch(start: int, rows: int = 10) -> pa.RecordBatch:
    keys = range(start, start + rows)
    return pa.record_batch({"k": list(keys), "v": [f"value {k}" for k in keys]}, schema=SCHEMA)


def ipc(start: int, rows: int = 3) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(batch(start, rows))
    return sink.getvalue()


def step(store: Store) -> int:
    """One commit with a segment, a blob, keys that come and go, all of it told by its number."""
    n = store.next_number
    ref = store.write_segment([batch(n), batch(n + 10)], SCHEMA)
    spine = [*store.state.get("spine", [])[-2:], ref.to_json()]  # older segments fall out of use
    return store.commit(
        frontier=[n],
        set={"spine": spine, f"tiny/{n % 4}": {"since": n, "batches": [{"blob": f"b{n}"}]}, f"once/{n}": n},
        delete=[key for key in store.state if key.startswith("once/")],
        blobs={f"b{n}": ipc(n)},
        info={"step": n},
    )


def steps_for_ever(store: Store) -> None:
    while True:
        step(store)


def content(store: Store) -> dict[str, object]:
    """Everything a store says, data included."""
    segments, blobs = [], {}
    for value in store.state.get("spine", []):
        segments += [b.to_pydict() for b in store.open_segment(SegmentRef.from_json(value))]
    for key, value in store.state.items():
        if key.startswith("tiny/"):
            name = value["batches"][0]["blob"]
            blobs[name] = pa.ipc.open_stream(pa.py_buffer(store.blob(name))).read_all().to_pydict()
    return {
        "number": store.number,
        "frontier": store.frontier,
        "state": {key: value for key, value in store.state.items() if key != RECOVERED},
        "segments": segments,
        "blobs": blobs,
    }


def check_step(store: Store) -> None:
    """The content is that of exactly ``store.number`` calls of ``step``."""
    n = store.number
    assert store.frontier == ([n] if n else None)
    assert [key for key in store.state if key.startswith("once/")] == ([f"once/{n}"] if n else [])
    actual = content(store)
    assert [s["k"][0] for s in actual["segments"]] == [
        start for m in range(max(1, n - 2), n + 1) for start in (m, m + 10)
    ]
    assert sorted(actual["blobs"]) == sorted(f"b{m}" for m in range(max(1, n - 3), n + 1))
    for name, table in actual["blobs"].items():
        assert table["k"] == [int(name[1:]) + i for i in range(3)]


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
