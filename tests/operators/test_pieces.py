"""Joins that hand on what they make piece by piece: the pieces are bounded, and together they are the join."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.rows import Rows
from altneu.operators.delta_join import extend
from altneu.operators.delta_join.extend import delta_join, delta_join_pieces
from altneu.operators.join import pairs as join
from altneu.operators.join.pairs import JoinSpec, join_pieces
from altneu.order import Epoch, Product
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.update import Updates
from tests.operators.extend_cases import PATTERNS, consolidated, prepared
from tests.operators.join_fusion_cases import LEFT, LOGICS, OUTPUTS, RIGHT, SCHEMA, arranged, side, total


@pytest.mark.parametrize("lattice", [Epoch(), Product(Epoch(), Epoch())], ids=["total", "partial"])
@pytest.mark.parametrize("name", LOGICS)
def test_pieces_of_a_join(monkeypatch, name, lattice):
    spec, rng = JoinSpec(SCHEMA, OUTPUTS, lattice), random.Random(f"{name} {lattice}")
    for _ in range(4):
        left, right = (arranged(side(rng, schema, lattice, rng.randint(1, 4))) for schema in (LEFT, RIGHT))
        whole = join.join(left, right, spec, LOGICS[name])
        monkeypatch.setattr(join, "CHUNK", 3)
        pieces = list(join_pieces(left, right, spec, LOGICS[name]))
        monkeypatch.undo()
        put = join.together(pieces, whole[0].schema, lattice)
        assert (total(put[0]), total(put[1])) == (total(whole[0]), total(whole[1]))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pieces_of_a_delta_join(monkeypatch, pattern):
    variables, lattice = PATTERNS[pattern], Epoch()
    _, spec, inputs = prepared(variables, lattice)
    rng = random.Random(pattern)
    new = [[(tuple(rng.randrange(4) for _ in part), (0,), 1) for _ in range(40)] for part in variables]
    actual = inputs([[] for _ in variables], new)
    whole, _ = delta_join(actual, spec)
    monkeypatch.setattr(extend, "CHUNK", 8)
    pieces = list(delta_join_pieces(actual, spec))
    assert consolidated(join.together(pieces, whole.schema, lattice)[0]) == consolidated(whole)
    assert len(pieces) >= min(len(whole) // 200, 2)


def one_key(schema: pa.Schema, rows: int) -> Arranged:
    """New rows that all have one key."""
    result = Rows.from_pylist([(0, i, None) for i in range(rows)], schema)
    updates = Updates(result, np.zeros((1, rows), np.int64), np.ones(rows, np.int64))
    return arranged([Batch.build(updates, Layout(schema, ("k",), Epoch()), Description.interval(Epoch(), 0, 1))])


def test_a_piece_has_no_more_than_some_matches(monkeypatch):
    """A key of 300 rows on either side makes 90,000 matches, never all of them at once."""
    monkeypatch.setattr(join, "CHUNK", 1 << 10)
    spec = JoinSpec(SCHEMA, OUTPUTS, Epoch())
    sizes = [len(rows) for rows, _ in join_pieces(one_key(LEFT, 300), one_key(RIGHT, 300), spec)]
    assert sum(sizes) == 300 * 300
    assert max(sizes) <= 1 << 10
