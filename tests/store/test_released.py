"""A store that an earlier release made is read, and gone on with."""

from __future__ import annotations

import json
import shutil

import pytest

from altneu.errors import StoreCorruptError
from altneu.store import DirectoryStore, check_store, forget_segments
from altneu.store.identity import FORMAT
from tests.store.released import make

RELEASES = sorted(folder.name for folder in make.HERE.iterdir() if (folder / "answers.json").exists())


@pytest.mark.parametrize("release", RELEASES)
def test_a_store_of_a_release_answers_as_it_did_and_goes_on(release, tmp_path):
    said = json.loads((make.HERE / release / "answers.json").read_text())
    path = tmp_path / "store"
    shutil.copytree(make.HERE / release / "store", path)
    forget_segments()
    assert check_store(path).problems == ()
    with make.opened(path, release) as session:
        assert make.answers(session) == said["kept"]
        for n in range(make.STEPS, make.STEPS + 2):
            make.step(session, n)
        assert make.answers(session) == said["later"]
    assert json.loads((path / "format.json").read_text())["format"] == FORMAT  # what wrote it would refuse it now
    with make.opened(path, release) as session:
        assert make.answers(session) == said["later"]


def test_a_store_of_a_release_that_cannot_be_opened_stays_one_of_that_release(tmp_path):
    path = tmp_path / "store"
    shutil.copytree(make.HERE / "0.1.0" / "store", path)
    max((path / "log").iterdir()).write_bytes(b"")
    before = (path / "format.json").read_bytes()
    with pytest.raises(StoreCorruptError, match="recover=True"):
        DirectoryStore.create_or_open(path)
    assert (path / "format.json").read_bytes() == before


@pytest.mark.parametrize("release", RELEASES)
def test_what_is_kept_of_a_release_has_state_of_every_kind(release, tmp_path):
    path = tmp_path / "store"
    shutil.copytree(make.HERE / release / "store", path)
    with DirectoryStore.create_or_open(path) as store:
        assert any(c.checkpoint for c in store.history())
        assert any(value["hold"] for key, value in store.state.items() if key.startswith("arrangement/"))
        assert list((path / "segments").iterdir())


def test_every_release_is_kept():
    assert RELEASES == ["0.1.0", "0.2.0", "0.2.0-flat"]
