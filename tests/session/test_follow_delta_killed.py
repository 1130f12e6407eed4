"""A session between Delta tables, killed anywhere and gone on with: each version counts once, on both sides."""

from __future__ import annotations

import random

from faults.children import Server
from faults.tables import killed_and_resumed


def test_killed_anywhere(tmp_path):
    deaths, differences = 0, []
    with Server() as server, Server() as rivals:
        for seed in range(2):
            died, different, _ = killed_and_resumed("delta", server, rivals, tmp_path / str(seed), random.Random(seed))
            deaths += died
            differences += different
    assert not differences
    assert deaths
