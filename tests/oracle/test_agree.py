"""A few of the runs that ``python -m tests.oracle.agree`` does by the thousand."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.oracle.agree import FAMILIES, agree


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_sessions_agree_with_recomputation(family):
    agree(family, runs=36, seed=0, trials=12)


class _NothingEver:
    """A witness who says that there is never anything."""

    def contents(self, family, history, cuts):
        return [Counter() for _ in range(cuts[-1])]


def test_a_witness_who_says_otherwise_is_heard():
    with pytest.raises(AssertionError, match="do not add up") as told:
        agree(FAMILIES[0], runs=3, seed=0, reference=_NothingEver())
    assert "seed 0, batch 0: cuts" in told.value.__notes__[0]
