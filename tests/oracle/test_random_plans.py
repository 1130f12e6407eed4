"""Whole random plans of several operators, on every runner, against recomputation at every time."""

from __future__ import annotations

import pytest

from altneu import Session
from altneu.columnar.hashing import hash_bits
from tests.oracle.random_plans_cases import Scene
from tests.oracle.runners import Runner


def test_random_plans_show_what_recomputation_gives(runner):
    many = {"memory": range(16), "shards": range(16, 24), "durable": range(24, 27)}
    for seed in many.get(runner.name, range(1)):
        Scene(seed).check(runner)


@pytest.mark.parametrize("bits", [2, 3, 5])
def test_collisions_of_hashes_change_no_plan(bits):
    with hash_bits(bits):
        for seed in range(30, 34):
            Scene(seed).check(Runner("memory", lambda _: Session()))
