"""Where the tests that commit thousands of times keep their files."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def quick(tmp_path):
    """A folder in memory where there is one: killing a process loses no page either way, and a sync costs nothing."""
    shm = Path("/dev/shm")  # noqa: S108  # the point of it
    if not (shm.is_dir() and os.access(shm, os.W_OK)):
        yield tmp_path
        return
    folder = Path(tempfile.mkdtemp(dir=shm, prefix="altneu-"))
    yield folder
    shutil.rmtree(folder)
