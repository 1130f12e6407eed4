"""What tests of rewrite share with other tests."""

from __future__ import annotations

from tests.oracle.histories import accumulated
from tests.oracle.recompute import recompute


def means_the_same(plan, made, history, now):
    """Whether two plans show the same in every case in which the first makes no error; how many cases those are.

    Where it makes an error, the other may make another one, or none.
    """
    sound = 0
    for case in {row[0] for updates in history.values() for row, _, _ in updates}:
        part = {s: [u for u in updates if u[0][0] == case] for s, updates in history.items()}
        past = lambda time, part=part: {s: accumulated(updates, time) for s, updates in part.items()}  # noqa: E731
        contents, errors = recompute(plan, past(now), now, past)
        if not errors:
            assert recompute(made, past(now), now, past) == (contents, set())
            sound += 1
    return sound
