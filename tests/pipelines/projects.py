"""Projects of pipelines, their data, and what Spark makes of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

SHOP = Path(__file__).parent / "shop"
TABLES = ("orders", "customers", "by_city", "dearest", "raw", "placed_once", "busy", "by_day", "tea_days", "every_id")


class Project:
    """A folder with a spec, files and data."""

    def __init__(self, root: Path, *, database: str | None = None) -> None:
        self.root, self.data = root, root / "data"
        self.data.mkdir(parents=True)
        lines = [
            "name: shop",
            f"storage: file://{root}/storage",
            *([f"database: {database}"] if database else []),
            "configuration:",
            f"  shop.data: {self.data}",
            "  shop.least: '3'",
            '  spark.sql.shuffle.partitions: "1"',
            "libraries:",
            "  - glob:",
            "      include: transformations/**",
        ]
        self.spec = root / "spark-pipeline.yml"
        self.spec.write_text("\n".join(lines) + "\n")
        self.files = root / "transformations"

    @classmethod
    def at(cls, root: Path) -> Project:
        """A project that is there."""
        project = object.__new__(cls)
        project.root, project.data, project.spec = root, root / "data", root / "spark-pipeline.yml"
        project.files = root / "transformations"
        return project

    @classmethod
    def shop(cls, root: Path, *, database: str | None = None) -> Project:
        """The project of this folder."""
        project = cls(root, database=database)
        shutil.copytree(SHOP / "transformations", project.files)
        return project

    def write(self, name: str, text: str) -> None:
        """Write a file of transformations."""
        path = self.files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def put(self, name: str, rows: Iterable[Mapping[str, Any]]) -> Path:
        """Write a file of JSON rows."""
        path = self.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def put_text(self, name: str, text: str) -> Path:
        """Write a file of data."""
        path = self.data / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def first(self) -> None:
        """The data of the first run."""
        self.put_text("customers/1.csv", "name,city\nann,Oslo\nbob,Bari\n")
        self.put("orders/1.json", [order(1, "ann", "tea", 4, 1), order(2, "bob", "jam", 9, 1)])
        self.put(
            "orders/2.json", [order(3, "ann", "tea", 2, 2), order(4, "eve", "ink", 6, 3), order(4, "eve", "ink", 6, 3)]
        )

    def second(self) -> None:
        """What changes before the second: a new file of orders, other customers, and a file of orders that goes."""
        self.put_text("customers/1.csv", "name,city\nann,Rome\nbob,Bari\n")
        self.put_text("customers/2.csv", "name,city\neve,Oslo\n")
        self.put("orders/3.json", [order(5, "eve", "tea", 7, 3), order(6, "ann", "jam", 1, 4)])
        (self.data / "orders/2.json").unlink()

    def table(self, name: str) -> list[tuple[Any, ...]]:
        """The rows of a table that altneu keeps, as any reader of the folder finds them."""
        *before, own = name.split(".")
        folder = self.root.joinpath("storage", "tables", *(f"{part}.db" for part in before), own)
        return rows_of(pq.read_table(folder).to_pylist())

    def tables(self, names: Iterable[str] = TABLES) -> dict[str, list[tuple[Any, ...]]]:
        """The rows of several."""
        return {name: self.table(name) for name in names}

    def sent(self) -> list[tuple[Any, ...]]:
        """What the sink has."""
        texts = [file.read_text() for file in (self.data / "out").glob("part-*.json")]
        return rows_of([json.loads(line) for text in texts for line in text.splitlines()])


def order(number: int, customer: str, item: str, price: int, day: int) -> dict[str, Any]:
    """A row of orders."""
    return {"id": number, "customer": customer, "item": item, "price": price, "day": f"2026-01-0{day}"}


def rows_of(rows: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows in a form in which they are compared: the values as texts, sorted."""
    return sorted(tuple(str(value) for value in row.values()) for row in rows)


class Killed(BaseException):
    """Ends a run where it is, as a kill of its process does."""


def killed_after(function):
    """A function after which the run ends."""

    def killed(*arguments, **options):
        function(*arguments, **options)
        raise Killed

    return killed


KILLED = """
import os, sys
from deltalake import DeltaTable
from altneu.cli.pipelines import outside, running
from altneu.session import Session
from altneu import sinks
from altneu.cli.pipelines import forms
left = int(sys.argv[2])

def counted(owner, name):
    function = getattr(owner, name)
    def call(*arguments, **options):
        global left
        left -= 1
        if left == 0:
            os._exit(9)  # before
        result = function(*arguments, **options)
        left -= 1
        if left == 0:
            os._exit(9)  # after
        return result
    setattr(owner, name, call)

counted(Session, "advance")
counted(forms, "write_file")
counted(forms._Delta, "append")
counted(outside, "write_file")
counted(outside, "_delta")
counted(sinks.base.Sink, "run")
counted(DeltaTable, "create")
running.Pipeline(sys.argv[1]).run()
print("to the end")
"""
"""Runs a pipeline, and ends the process before or after an operation of a number: ``<spec> <number>``."""
