"""Every block of code in the documents runs, or says why it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.blocks import Block, Reading, blocks

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(path: Path) -> list[Block]:
    return list(blocks(str(path.relative_to(ROOT)), path.read_text()))


def to_run(path: Path) -> list[Block]:
    return [block for block in blocks_of(path) if not (block.is_example or block.not_run)]


WITH_BLOCKS = [path for path in DOCUMENTS if to_run(path)]


@pytest.mark.parametrize("path", WITH_BLOCKS, ids=[str(path.relative_to(ROOT)) for path in WITH_BLOCKS])
def test_blocks_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if any("spark_session(" in block.text for block in to_run(path)):
        request.getfixturevalue("spark")
    reading = Reading(tmp_path, monkeypatch)
    try:
        for block in to_run(path):
            reading.follow(block)
    finally:
        reading.end()
