"""Delta tables that change at random, what follows them, and what their views must show."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import altneu as an
from altneu.sinks import Sink
from altneu.streams import Status

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string()), ("p", pa.int64())])
ROWS = an.source("rows", "k long, v string, p long")
QUERY = ROWS.filter("v <> 'd'").group_by("p").agg(n="count(*)", total="sum(k)", top="max(v)")

Row = tuple[Any, ...]


class Changing:
    """A table of rows ``(k, v, p)`` that each call of ``change`` gives one or more versions."""

    def __init__(self, path: Path, rng: random.Random, *, feed: bool | None = None, partitioned: bool) -> None:
        feed = rng.random() < 0.5 if feed is None else feed
        self.path, self.rng = str(path), rng
        if not DeltaTable.is_deltatable(self.path):
            DeltaTable.create(
                self.path,
                SCHEMA,
                partition_by=["p"] if partitioned else None,
                configuration={"delta.enableChangeDataFeed": str(feed).lower()},
            )

    @property
    def number(self) -> int:
        """The newest version."""
        return int(self.table.version())

    @property
    def table(self) -> DeltaTable:
        """The table as it is."""
        return DeltaTable(self.path)

    def some(self, count: int) -> pa.Table:
        """Random rows, some of them equal and some with nulls."""
        rows = [
            {"k": self.rng.choice([None, *range(9)]), "v": self.rng.choice("abcd"), "p": self.rng.choice([None, 0, 1])}
            for _ in range(count)
        ]
        return pa.Table.from_pylist(rows, SCHEMA)

    def change(self) -> None:
        """Whatever one may do with a table."""
        kinds = ["append", "append", "delete", "update", "merge", "merge", "overwrite", "optimize", "restore"]
        getattr(self, f"_{self.rng.choice(kinds)}")()

    def _append(self) -> None:
        write_deltalake(self.path, self.some(self.rng.randint(1, 12)), mode="append")

    def _delete(self) -> None:
        self.table.delete(f"k = {self.rng.randrange(9)}")

    def _update(self) -> None:
        self.table.update(updates={"v": "'u'", "p": "1"}, predicate=f"k = {self.rng.randrange(9)}")

    def _merge(self) -> None:
        keys = self.rng.sample(range(9), 3)
        source = pa.table({"k": pa.array(keys, pa.int64()), "v": ["x", "y", "z"], "p": pa.array([0, 1, 0], pa.int64())})
        merger = self.table.merge(source, "t.k = s.k", source_alias="s", target_alias="t")
        merger = merger.when_matched_delete("s.v = 'x'").when_matched_update({"v": "s.v"}, predicate="s.v <> 'x'")
        merger.when_not_matched_insert({"k": "s.k", "v": "s.v", "p": "s.p"}).execute()

    def _overwrite(self) -> None:
        write_deltalake(self.path, self.some(self.rng.randint(0, 12)), mode="overwrite")

    def _optimize(self) -> None:
        self.table.optimize.compact()

    def _restore(self) -> None:
        if version := self.table.version():
            self.table.restore(self.rng.randrange(version))

    def contents(self, version: int | None = None) -> Counter[Row]:
        """The rows of a version."""
        rows = DeltaTable(self.path, version).to_pyarrow_table().select(SCHEMA.names).to_pylist()
        return Counter(tuple(row.values()) for row in rows)

    def expected(self, version: int | None = None) -> Counter[Row]:
        """The rows of ``QUERY`` over a version, computed from all of it."""
        groups: dict[Any, list[Row]] = {}
        for (k, v, p), count in self.contents(version).items():
            if v != "d":
                groups.setdefault(p, []).extend([(k, v)] * count)
        return Counter(
            (
                p,
                len(rows),
                sum(k for k, _ in rows if k is not None) if any(k is not None for k, _ in rows) else None,
                max(v for _, v in rows),
            )
            for p, rows in groups.items()
        )


def given(folder: Path, **options: Any) -> Any:
    """The table of a folder, to be followed from its beginning."""
    return an.delta(folder / "table", from_version=0, **options)


def sinks(session: an.Session | an.Reader, folder: Path) -> list[Sink]:
    """A table of each kind."""
    rows, groups = session.view("rows"), session.view("v")
    return [
        an.sinks.delta(groups, folder / "keyed", key=["p"]),
        an.sinks.delta(rows, folder / "counted", partition_by=["p"]),
        an.sinks.delta(rows, folder / "log", mode="append"),
        an.sinks.delta(rows, folder / "exact", mode="rows"),
    ]


def kept(folder: Path, name: str) -> Iterator[tuple[str, int, list[dict[str, Any]]]]:
    """Of each version of a sink's table what it is called, its mark and its rows."""
    for version in range(DeltaTable(folder / name).version() + 1):
        table = DeltaTable(folder / name, version)
        yield f"version {version}", table.transaction_version("altneu/to") or 0, pa.table(table.scan()).to_pylist()


def follow(session: an.Session, path: str | Path, name: str = "rows", *, given: Any = None, **options: Any) -> Status:
    """Follow a table to its present end; the stream's status."""
    table = an.delta(path, **(given or {}))
    with session.follow({name: table}, available_now=True, **options) as following:
        assert following.wait(200), f"{name} goes on for ever"
    return following.status[name]
