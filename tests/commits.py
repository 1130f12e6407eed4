"""What crashes leave of a store: a copy of it before each commit, and one behind it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from altneu.store import Store


@contextmanager
def copied(folder: Path) -> Iterator[list[Path]]:
    """Copies of the store of a session that commits inside, two for each commit, in a folder."""
    copies: list[Path] = []
    commit = Store.commit

    def copy(store):
        copies.append(folder / f"copy {len(copies)}")
        shutil.copytree(store.folder.path, copies[-1])

    def copying(store, *args, **more):
        copy(store)
        number = commit(store, *args, **more)
        copy(store)
        return number

    with patch.object(Store, "commit", copying):
        yield copies
