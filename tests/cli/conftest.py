"""Stores that commands are tried on, and how they are called."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner

import altneu as an
from altneu.cli import main

DEFINITIONS = """
CREATE TABLE orders (item STRING, price INT);
CREATE MATERIALIZED VIEW totals AS SELECT item, sum(price) AS total FROM orders GROUP BY item;
CREATE VIEW dear (what, cost) AS SELECT item, total FROM totals WHERE total > 5;
CREATE INDEX by_item ON totals (item);
"""


class Called:
    """What a command gave: its exit code, its output and its complaints."""

    def __init__(self, result):
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr

    @property
    def lines(self):
        return [line.rstrip() for line in self.out.splitlines()]

    @property
    def objects(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(scope="session")
def call():
    def call(*arguments, **rest):
        return Called(CliRunner().invoke(main, [str(a) for a in arguments], catch_exceptions=False, **rest))

    return call


@pytest.fixture(scope="session")
def store_path(tmp_path_factory):
    """A store of SQL's and Python's views, at three times."""
    path = tmp_path_factory.mktemp("made") / "state"
    planes = an.source("planes", "tail string, delay double", time=("known", "day"))
    with an.Session(path=path, retain="all") as session:
        session.sql(DEFINITIONS)
        session.sql("INSERT INTO orders VALUES ('tea', 3), ('jam', 5), ('tea', 4)")
        session.maintain("delays", planes.group_by("tail").agg(delay="max(delay)"))
        session.insert("planes", [("N1", 10.0), ("N2", 5.5)], time=1)
        session.advance()
        session.retract("planes", [("N2", 5.5)], time=1)
        session.insert("planes", [("N1", 99.0)], time=2)
        session.insert("orders", [("milk", None)])
        session.advance()
    return path


@pytest.fixture
def store(store_path, tmp_path):
    """A store of one's own, to be changed."""
    shutil.copytree(store_path, tmp_path / "state")
    return tmp_path / "state"


@pytest.fixture
def orders(tmp_path):
    """A store with SQL's definitions alone, so that a session can go on with it."""
    path = tmp_path / "orders"
    with an.Session(path=path, retain="all") as session:
        session.sql(DEFINITIONS)
        session.sql("INSERT INTO orders VALUES ('tea', 3), ('jam', 5), ('tea', 4)")
    return path
