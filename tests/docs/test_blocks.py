"""Every block of code in the documents runs, or says why it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from altneu.sql.statements import parse
from tests.docs.blocks import Block, Reading, blocks

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(path: Path) -> list[Block]:
    return list(blocks(str(path.relative_to(ROOT)), path.read_text()))


def to_run(path: Path) -> list[Block]:
    return [block for block in blocks_of(path) if not (block.is_example or block.not_run)]


def needs_spark(path: Path) -> bool:
    return any("spark_session(" in block.text for block in to_run(path))


WITH_BLOCKS = [
    pytest.param(path, id=str(path.relative_to(ROOT)), marks=[pytest.mark.spark] if needs_spark(path) else [])
    for path in DOCUMENTS
    if to_run(path)
]


@pytest.mark.parametrize("path", WITH_BLOCKS)
def test_blocks_run(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if needs_spark(path):
        request.getfixturevalue("spark")
    reading = Reading(tmp_path, monkeypatch)
    try:
        for block in to_run(path):
            reading.follow(block)
    finally:
        reading.end()


NOT_RUN = [block for path in DOCUMENTS for block in blocks_of(path) if block.not_run]


@pytest.mark.parametrize("block", NOT_RUN, ids=[block.where for block in NOT_RUN])
def test_what_is_not_run_can_be_read(block):
    if block.language in ("python", "py"):
        compile(block.text, block.where, "exec")
    elif block.language == "sql" and block.not_run not in ("a grammar", "expressions, no statements"):
        assert parse(block.text)


def test_few_blocks_are_not_run():
    written = [block for path in DOCUMENTS for block in blocks_of(path)]
    assert len(written) > 150
    assert len([block for block in NOT_RUN if block.language != "text"]) < len(written) / 8
