"""Samples by hash: the same values whatever the session, a share of about the fraction, nested and additive."""

from __future__ import annotations

import pytest

import altneu as an
from altneu.errors import PlanError, UnknownColumnError

ROWS = [(key, f"row {n}") for key in range(5000) for n in range(2)]
SOURCE = an.source("s", "key long, text string")


def contents(collection, rows=ROWS, shards=1):
    with an.Session(shards=shards) as session:
        view = session.maintain("v", collection)
        session.insert("s", rows)
        session.advance()
        return sorted(view.to_pylist())


def keys(rows):
    return {key for key, _ in rows}


@pytest.mark.parametrize("fraction", [0.01, 0.5, 0.99])
def test_a_share_of_the_values_with_all_of_their_rows(fraction):
    actual = contents(SOURCE.sample(fraction, by="key"))
    chosen = keys(actual)
    assert abs(len(chosen) - 5000 * fraction) < 4 * (5000 * fraction * (1 - fraction)) ** 0.5
    assert actual == [row for row in ROWS if row[0] in chosen]


def test_all_of_it():
    assert contents(SOURCE.sample(1)) == sorted(ROWS)


def test_smaller_samples_are_part_of_greater_ones_and_seeds_are_apart():
    small, large = (keys(contents(SOURCE.sample(f, by="key"))) for f in (0.1, 0.2))
    other = keys(contents(SOURCE.sample(0.2, by="key", seed=1)))
    assert small < large
    assert 100 < len(large & other) < 320  # 200 of 1,000


def test_shards_hold_as_many_of_it_as_of_all():
    """What is in a sample says nothing of where it lies."""
    assert contents(SOURCE.sample(0.2, by="key"), shards=3) == contents(SOURCE.sample(0.2, by="key"))
    with an.Session(shards=4) as session:
        session.maintain("v", SOURCE.sample(0.2, by="key").arrange_by("key"))
        session.insert("s", ROWS)
        session.advance()
        table = session._engine.table
        name = session._engine.ports("v").contents
        counts = [len(table.live[name, shard].spine) for shard in range(4) if (name, shard) in table.live]
    assert len(counts) == 4
    assert min(counts) > max(counts) / 2


def test_what_comes_goes_again():
    with an.Session() as session:
        view = session.maintain("v", SOURCE.sample(0.3, by=["key", "text"]))
        for rows in (ROWS[:100], ROWS[100:200]):
            session.insert("s", rows)
            session.advance()
        assert 0 < len(view.to_pylist()) < 200
        session.retract("s", ROWS[:200])
        session.advance()
        assert view.to_pylist() == []


def test_it_stands_in_explain():
    with an.Session() as session:
        session.maintain("v", SOURCE.sample(0.25, by="key"))
        assert "sample of 0.25 by key" in str(session.explain("v"))


@pytest.mark.parametrize("fraction", [0, -0.5, 1.5, float("nan"), "0.5", None])
def test_fractions_that_are_none(fraction):
    with pytest.raises(PlanError, match="fraction must be over 0 and at most 1, got"):
        SOURCE.sample(fraction)


@pytest.mark.parametrize("seed", [-1, 2**63, 0.5, True])
def test_seeds_that_are_none(seed):
    with pytest.raises(PlanError, match="seed must be a whole number from 0"):
        SOURCE.sample(0.5, seed=seed)


def test_columns_that_are_not_there():
    with pytest.raises(UnknownColumnError, match="keys"):
        SOURCE.sample(0.5, by="keys")
