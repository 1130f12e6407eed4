"""Names, rows and files that nobody would write who meant well: they work, or are refused, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import warnings

import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import AltneuError, SchemaError, StoreCorruptError
from altneu.store import DirectoryStore, SegmentRef, forget_segments
from altneu.store import commit as commits
from altneu.store.log import commit_name

NAMES = [
    "../outside",
    "a/b",
    "a\\b",
    " ",
    ".",
    "new line\n",
    "quote\"'`",
    "völlig frei ☃",
    "x" * 300,
    "select",
    "%2e",
]


@pytest.mark.parametrize("name", NAMES)
def test_views_and_sources_of_any_name(name, tmp_path):
    for _ in range(2):
        with an.Session(path=tmp_path / "state") as session:
            source = an.source(name, "k long")
            view = session.maintain(name, source.group_by("k").agg(n="count(*)"))
            session.insert(name, [1])
            session.advance()
            seen = view.to_pylist()
        with an.read(tmp_path / "state") as reader:
            assert reader.view(name).to_pylist() == seen
    assert seen == [(1, 2)]
    assert [found.name for found in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize("name", ["with space", "quote\"'", "völlig ☃", "..", "a b;drop table x", "$HOME", "%41"])
def test_stores_in_folders_of_any_name(name, tmp_path):
    path = tmp_path / "in" / f"{name} store"
    for total in (1, 2):
        with an.Session(path=path) as session:
            view = session.maintain("v", an.source("s", "k long").group_by("k").agg(n="count(*)"))
            session.insert("s", [7])
            session.advance()
            assert view.to_pylist() == [(7, total)]
    assert [found.name for found in (tmp_path / "in").iterdir()] == [f"{name} store"]


@pytest.mark.parametrize("name", [name for name in NAMES if name.strip() and "`" not in name])
def test_columns_of_any_name(name, tmp_path):
    schema = pa.schema([(name, pa.string()), ("other", pa.int64())])
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain(
            "v", an.source("s", schema).group_by(an.col(f"`{name}`").alias(name)).agg(n="sum(other)")
        )
        session.insert("s", pa.table({name: ["a", "a"], "other": [1, 2]}))
        session.advance()
        assert view.to_arrow().to_pylist() == [{name: "a", "n": 3}]


@pytest.mark.parametrize("columns", [["#diff"], ["a", "a"]])
def test_columns_that_are_refused(columns):
    with pytest.raises(SchemaError):
        an.source("s", pa.schema([(c, pa.int64()) for c in columns]))


def test_a_million_columns_are_refused_at_once():
    with pytest.raises(SchemaError, match="1,000,000 columns, more than 10,000"):
        an.source("wide", pa.schema([(f"c{i}", pa.int64()) for i in range(1_000_000)]))
    with pytest.raises(SchemaError, match="more than 10,000"):
        an.source("wide", ", ".join(f"c{i} long" for i in range(1_000_000)))


def test_a_frame_with_many_columns_gives_those_that_the_source_has():
    with an.Session() as session:
        view = session.maintain("v", an.source("s", "c7 long"))
        session.insert(
            "s",
            pa.table([pa.array([i]) for i in range(20_000)], names=[f"c{i}" for i in range(20_000)]),
            extra="ignore",
        )
        session.advance()
        assert view.to_pylist() == [(7,)]


def test_a_text_of_ten_megabytes(tmp_path):
    long, other = "x" * 10_000_000, "x" * 9_999_999 + "y"
    source = an.source("s", "k string, v long")
    views = {"sums": source.group_by("k").agg(n="sum(v)"), "pairs": source.join(source, on="k").select("k", "v")}
    with an.Session(path=tmp_path / "state") as session:
        for name, view in views.items():
            session.maintain(name, view)
        session.insert("s", [(long, 1), (other, 2)])
        session.advance()
    with an.Session(path=tmp_path / "state") as session:
        sums, pairs = (session.maintain(name, view) for name, view in views.items())
        session.insert("s", [(long, 3)])
        session.advance()
        assert dict(sums.to_pylist()) == {long: 4, other: 2}
        session.retract("s", [(long, 1), (long, 3), (other, 2)])
        session.advance()
        assert sums.to_pylist() == pairs.to_pylist() == []


@pytest.fixture
def state(tmp_path):
    """A store with a view, a segment and some commits."""
    path = tmp_path / "state"
    with an.Session(path=path) as session:
        session.maintain("v", an.source("s", "k long, t string"))
        for start in range(0, 9_000, 3_000):
            session.insert("s", [(k, f"text {k}") for k in range(start, start + 3_000)])
            session.advance()
    forget_segments()
    return path


class Trap:
    """What runs a command when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("pattern", ["log/*.commit", "segments/*.arrow", "format.json", "lock", "readers/*"])
def test_a_pickle_in_place_of_data_is_never_run(state, tmp_path, pattern):
    trap = tmp_path / "sprung"
    pickled = pickle.dumps(Trap(trap))
    with an.read(state):
        leases = [path.name for path in (state / "readers").iterdir()]
    for name in leases:
        (state / "readers" / name).write_bytes(pickled)
    victims = sorted(state.glob(pattern))
    assert victims
    for victim in victims[-1:]:
        victim.write_bytes(pickled)
    for recover in (False, True):
        with warnings.catch_warnings(), contextlib.suppress(AltneuError):
            warnings.simplefilter("ignore")  # of a recovery
            with an.Session(path=state, recover=recover) as session:
                session.maintain("v", an.source("s", "k long, t string")).to_pylist()
            with an.read(state) as reader:
                reader.view("v").to_pylist()
    assert not trap.exists()


def test_a_commit_that_names_a_segment_outside_the_store(state, tmp_path):
    secret = tmp_path / "secret.arrow"
    shutil.copy(next((state / "segments").iterdir()), secret)
    with DirectoryStore.create_or_open(state) as store:
        number, parent = store.number, store._parent
        ref = SegmentRef.from_json(next(iter(_segments(dict(store.state)))))
        forged = dict(store.state) | {
            "arrangement/x/0": {"segment": {**ref.to_json()["segment"], "name": "../../secret.arrow"}}
        }
    data, _ = commits.encode(commits.Commit(number + 1, "t", parent, 0.0, True, [[9]], forged))
    (state / "log" / commit_name(number + 1)).write_bytes(data)
    with pytest.raises(StoreCorruptError, match=rf"{commit_name(number + 1)}.*the name of a segment must be"):
        DirectoryStore.create_or_open(state)


def _segments(value):
    if isinstance(value, dict):
        if set(value) == {"segment"}:
            yield value
        else:
            for part in value.values():
                yield from _segments(part)
    elif isinstance(value, list):
        for part in value:
            yield from _segments(part)
