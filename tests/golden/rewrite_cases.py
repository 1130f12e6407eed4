"""What tests of rewrite share with other tests."""

from __future__ import annotations

from functools import cached_property

from tests.oracle.histories import accumulated
from tests.oracle.recompute import recompute


class Meaning:
    """What a plan shows of each case of a history, computed once for all plans that are compared with it."""

    def __init__(self, plan, history):
        self.plan, self.history, self.known = plan, history, {}

    @cached_property
    def cases(self):
        """The history of every case by itself, as what sources held at a time."""
        result = []
        for case in {row[0] for updates in self.history.values() for row, _, _ in updates}:
            part = {s: [u for u in updates if u[0][0] == case] for s, updates in self.history.items()}
            result.append(lambda time, part=part: {s: accumulated(updates, time) for s, updates in part.items()})
        return result

    def sound(self, now):
        """The cases in which the plan makes no error, each with its contents."""
        if now not in self.known:
            shown = [(past, *recompute(self.plan, past(now), now, past)) for past in self.cases]
            self.known[now] = [(past, contents) for past, contents, errors in shown if not errors]
        return self.known[now]

    def is_kept(self, made, now):
        """Whether another plan shows the same in every case in which this one makes no error; how many cases those are.

        Where it makes an error, the other may make another one, or none.
        """
        sound = self.sound(now)
        for past, contents in sound if made is not self.plan else ():
            assert recompute(made, past(now), now, past) == (contents, set())
        return len(sound)


def means_the_same(plan, made, history, now):
    """The same for one other plan."""
    return Meaning(plan, history).is_kept(made, now)
