"""Tables of a Spark catalog that tells their changes: followed, each version once, across sessions and restarts.

The catalog is compiled from ``java/VersionedCatalog.java``, which takes a JDK: Delta's and Iceberg's are jars.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pyspark
import pytest

import altneu as an
from altneu.errors import InputError, StreamError

ORDERS = an.source("orders", "id long, v string")
BY_VALUE = ORDERS.group_by("v").agg(n="count(*)", total="sum(id)")
CATALOG = "altneu.tests.VersionedCatalog"
has_changes = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)


def compiler() -> str | None:
    home = os.environ.get("JAVA_HOME")
    places = [*([Path(home) / "bin"] if home else []), *Path("/usr/lib/jvm").glob("*17*/bin")]
    found = [str(place / "javac") for place in places if (place / "javac").exists()]
    return found[0] if found else shutil.which("javac")


class Tables:
    """The tables of the catalog, and what they hold."""

    def __init__(self, spark) -> None:
        jvm = spark.sparkContext._jvm
        self.gateway, self.lists = spark.sparkContext._gateway, jvm.java.util.ArrayList
        loaded = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(CATALOG)
        (self.method,) = [method for method in loaded.getMethods() if method.getName() == "commit"]
        self.object = jvm.java.lang.Object
        self.held: Counter = Counter()

    def commit(self, table, changes):
        given = self.lists()
        for kind, (number, text) in changes:
            given.add(f"{kind}|{number}|{'NULL' if text is None else text}")
            self.held[number, text] += 1 if kind in ("insert", "update_postimage") else -1
        arguments = self.gateway.new_array(self.object, 2)
        arguments[0], arguments[1] = table, given
        self.method.invoke(None, arguments)

    def by_value(self):
        result = {}
        for (number, text), count in (+self.held).items():
            n, total = result.get(text, (0, 0))
            result[text] = n + count, total + count * number
        return sorted(((text, *sums) for text, sums in result.items()), key=str)


@pytest.fixture(scope="module")
def jar(tmp_path_factory):
    if not has_changes:
        pytest.skip("Spark asks catalogs for changes from 4.2 on")
    if compiler() is None:
        pytest.skip("no JDK compiles the catalog")
    folder = tmp_path_factory.mktemp("catalog")
    result = folder / "catalog.jar"
    jars = str(Path(pyspark.__file__).parent / "jars" / "*")
    code = str(Path(__file__).with_name("java") / "VersionedCatalog.java")
    subprocess.run([compiler(), "--release", "17", "-d", str(folder / "classes"), "-cp", jars, code], check=True)
    made = Path(shutil.make_archive(str(folder / "catalog"), "zip", folder / "classes"))
    return made.rename(result)


@pytest.fixture(scope="module")
def catalog(spark, jar):
    spark.sql(f"ADD JAR {jar}")
    spark.conf.set("spark.sql.catalog.versioned", CATALOG)
    yield "versioned"
    spark.conf.unset("spark.sql.catalog.versioned")


@pytest.fixture
def tables(spark, catalog):
    return Tables(spark)


def taken(session, frame, **options):
    with session.follow(orders=frame, diff="_diff", available_now=True, **options) as following:
        following.wait()


def version(rng, held):
    """What a version does: rows come and go, change, are written again as they were, or come twice."""
    changes = []
    for _ in range(rng.randint(0, 6)):
        there, row = list(held.elements()), (rng.randrange(40), rng.choice(["a", "b", "c", None]))
        act = rng.choice(["insert", "delete", "update", "again"]) if there else "insert"
        if act == "insert":
            changes.append(("insert", row))
            held[row] += 1
            continue
        old = rng.choice(there)
        kinds = ("update_preimage", "update_postimage") if act == "update" else ("delete", "insert")
        new = {"update": [row], "again": [old], "delete": []}[act]
        changes += [(kinds[0], old), *((kinds[1], row) for row in new)]
        held[old] -= 1
        held.update(new)
    return changes


@pytest.mark.parametrize("seed", range(4))
def test_a_view_is_that_of_the_table_after_each_run(spark, tables, tmp_path, seed):
    rng, name = random.Random(seed), f"orders{seed}"
    tables.commit(name, [("insert", (1, "a")), ("insert", (1, "a"))])
    for _ in range(6):
        with an.Session(spark, path=tmp_path) as session:
            view = session.maintain("by_value", BY_VALUE)
            for _ in range(rng.randint(1, 2)):
                for _ in range(rng.randint(0, 3)):
                    tables.commit(name, version(rng, Counter(tables.held)))
                taken(session, an.table_changes(spark, f"versioned.{name}", from_version=0))
                assert sorted(view.to_pylist(), key=str) == tables.by_value()


def test_what_was_there_before_is_inserted_and_then_followed(spark, tables, tmp_path):
    tables.commit("later", [("insert", (1, "a")), ("insert", (2, "b"))])
    tables.commit("later", [("delete", (1, "a"))])
    with an.Session(spark, path=tmp_path) as session:
        view = session.maintain("by_value", BY_VALUE)
        session.insert("orders", [(1, "a"), (2, "b")])
        taken(session, an.table_changes(spark, "versioned.later", from_version=1))
        assert view.to_pylist() == [("b", 1, 2)]


@pytest.mark.parametrize("begin", ["1970-01-01T00:00:01", "1970-01-01T02:00:01+02:00"])
def test_changes_since_a_time(spark, tables, tmp_path, begin):
    tables.commit(f"since{len(begin)}", [("insert", (1, "a"))])
    tables.commit(f"since{len(begin)}", [("insert", (2, "b"))])
    with an.Session(spark, path=tmp_path) as session:
        view = session.maintain("by_value", BY_VALUE)
        taken(session, an.table_changes(spark, f"versioned.since{len(begin)}", from_timestamp=begin))
        assert view.to_pylist() == [("b", 1, 2)]


def test_an_unknown_kind_of_change_is_refused_and_nothing_is_lost(spark, tables, tmp_path):
    tables.commit("odd", [("insert", (1, "a"))])
    with an.Session(spark, path=tmp_path) as session:
        view = session.maintain("by_value", BY_VALUE)
        taken(session, an.table_changes(spark, "versioned.odd", from_version=0))
        tables.commit("odd", [("truncate", (1, "a"))])
        with pytest.raises(StreamError, match="null"):
            taken(session, an.table_changes(spark, "versioned.odd", from_version=0))
        assert view.to_pylist() == [("a", 1, 1)]


def test_a_table_without_changes_is_refused_by_name(spark, catalog):
    spark.range(1).createOrReplaceTempView("plain")
    for table in ("plain", "versioned.missing"):
        with pytest.raises(InputError, match=f"changes of table '{table}' cannot be read"):
            an.table_changes(spark, table, from_version=0)


def test_a_column_that_has_the_name_of_the_diff_is_refused(spark, tables):
    tables.commit("counted", [("insert", (1, "a"))])
    with pytest.raises(InputError, match="must not be called '_diff'"):
        an.table_changes(spark, "versioned.counted", from_version=0)


def test_where_it_begins_must_be_said(spark):
    for given in ({}, {"from_version": 1, "from_timestamp": "2026-01-01"}):
        with pytest.raises(InputError, match=r"begins at from_version= or at from_timestamp=, got (neither|both)"):
            an.table_changes(spark, "t", **given)
    with pytest.raises(InputError, match="must be a version of the table, got True"):
        an.table_changes(spark, "t", from_version=True)
    with pytest.raises(InputError, match="must be a time"):
        an.table_changes(spark, "t", from_timestamp="yesterday")


@pytest.mark.skipif(has_changes, reason="this Spark has them")
def test_an_older_spark_is_refused(spark):
    with pytest.raises(InputError, match=r"from 4\.2 on, and this is"):
        an.table_changes(spark, "t", from_version=0)
