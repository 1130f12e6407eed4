"""A table that is followed gets other columns, and its source is told so: ALTER SOURCE, as the error asks for."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.types import LongType

import altneu as an
from altneu.errors import StreamError

FIRST = pa.table({"id": pa.array([1], pa.int32()), "v": ["a"], "w": pa.array([0.5], pa.float32())})


class Iceberg:
    """A table that is changed as Iceberg changes one: rows that are there stay."""

    def __init__(self, folder):
        properties = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}"}
        catalog = load_catalog("default", **properties)
        catalog.create_namespace("s")
        self.table = catalog.create_table("s.t", FIRST.schema)
        options = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self.source = f"CREATE SOURCE t FROM ICEBERG 's.t' OPTIONS ({options}) KEEP"
        self.table.append(FIRST)
        self.properties = properties

    def followed(self):
        return an.iceberg("s.t", catalog=self.properties)

    def change(self, rows, how):
        with self.table.update_schema() as update:
            how(update)
        self.table.append(rows)


class Delta:
    """A table that is written anew with other columns."""

    def __init__(self, folder):
        self.path = str(folder / "t")
        self.source = f"CREATE SOURCE t FROM DELTA '{self.path}' KEEP"
        write_deltalake(self.path, FIRST)

    def followed(self):
        return an.delta(self.path)

    def change(self, rows, _how):
        write_deltalake(
            self.path,
            pa.concat_tables([FIRST, rows], promote_options="default").select(rows.column_names),
            mode="overwrite",
            schema_mode="overwrite",
        )


def second(**columns):
    kinds = {"id": pa.int32(), "w": pa.float32(), "z": pa.int64()}
    return pa.table({name: pa.array([value], kinds.get(name)) for name, value in columns.items()})


CHANGES = {
    "rename": (
        lambda update: update.rename_column("v", "vv"),
        second(id=2, vv="b", w=1.0),
        "ALTER SOURCE t RENAME COLUMN v TO vv",
        [(1, "a", 0.5), (2, "b", 1.0)],
    ),
    "add": (
        lambda update: update.add_column("z", LongType()),
        second(id=2, v="b", w=1.0, z=5),
        "ALTER SOURCE t ADD COLUMN z BIGINT",
        [(1, "a", 0.5, None), (2, "b", 1.0, 5)],
    ),
    "drop": (
        lambda update: update.delete_column("v"),
        second(id=2, w=1.0),
        "ALTER SOURCE t DROP COLUMN v",
        [(1, 0.5), (2, 1.0)],
    ),
}


def statements(folder, *texts):
    """The rows that the last statement shows, in a session of its own."""
    with an.Session(path=folder / "store") as session:
        for text in texts:
            shown = session.sql(text)
        return sorted(shown.to_pylist())


@pytest.mark.parametrize("opened", ["anew", "at once"])
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("kind", [Iceberg, Delta])
def test_the_source_goes_on_with_the_columns_of_the_table(kind, name, opened, tmp_path):
    how, rows, alter, expected = CHANGES[name]
    table = kind(tmp_path)
    assert statements(tmp_path, table.source, "SELECT * FROM t") == [(1, "a", 0.5)]
    table.change(rows, how)
    with pytest.raises(StreamError, match=r"cannot take them: .* ALTER SOURCE … ADD, DROP or RENAME COLUMN"):
        statements(tmp_path, "SELECT * FROM t")
    if kind is Delta and name == "rename":  # the rows that were removed have the former name, in files
        with pytest.raises(StreamError, match=r"has vv where it had v, .*drop the source and make it again"):
            statements(tmp_path, alter, "SELECT * FROM t")
        return
    if opened == "anew":
        statements(tmp_path, alter, "SELECT 1")
        alter = "SELECT 1"
    assert statements(tmp_path, alter, "SELECT * FROM t") == expected
    assert statements(tmp_path, "SELECT * FROM t") == expected


PYTHON = {"rename": ("id int, vv string, w float", "vv"), "drop": ("id int, w float", "string(id)"), "add": (None, "v")}


@pytest.mark.parametrize("name", PYTHON)
@pytest.mark.parametrize("kind", [Iceberg, Delta])
def test_what_the_error_says_to_do_in_python(kind, name, tmp_path):
    """A source of another name takes the place of the first; the view goes on, with what is different as a change."""
    how, rows, _, _ = CHANGES[name]
    table, (columns, column) = kind(tmp_path), PYTHON[name]

    def run(source, column, replace):
        with an.Session(path=tmp_path / "store") as session:
            query = source.group_by("id").agg(of=f"max({column})")
            view = session.maintain("v", query, replace=replace)
            with session.follow(**{source.node.name: table.followed()}, available_now=True) as following:
                following.wait()
            return sorted(view.to_pylist())

    first = an.source("t", "id int, v string, w float", keep=True)
    assert run(first, "v", False) == [(1, "a")]
    table.change(rows, how)
    with pytest.raises(StreamError, match=r"in Python declare the further column.*'t_2'.*replace=True\)"):
        run(first, "v", False)
    if columns is None:  # a further column: the source is declared with it
        assert run(an.source("t", "id int, v string, w float, z bigint", keep=True), column, False) == [
            (1, "a"),
            (2, "b"),
        ]
        return
    second = an.source("t_2", columns, keep=True)
    of = {"drop": ["1", "2"], "rename": [None if kind is Delta else "a", "b"]}[name]  # Delta's is written anew
    assert run(second, column, True) == list(zip([1, 2], of, strict=True))


@pytest.mark.parametrize("kind", [Iceberg, Delta])
def test_columns_that_no_later_version_has_are_refused(kind, tmp_path):
    table = kind(tmp_path)
    before = statements(tmp_path, table.source, "SELECT * FROM t")
    with pytest.raises(an.errors.StatementError, match=r"still has the column 'v'.* shows v AS vv"):
        statements(tmp_path, "ALTER SOURCE t RENAME COLUMN v TO vv")
    assert statements(tmp_path, "SELECT * FROM t") == before
