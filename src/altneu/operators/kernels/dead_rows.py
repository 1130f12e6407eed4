"""Which rows of ordered groups are known to cancel: a queue that is taken from at its front leaves many behind.

A row whose updates cancel can be passed over for ever: an update that comes later is an update of its own. But they
cancel across batches, which may not meet for long, and who reads a group from its front would read them all again at
every step. So what one step located is noted: *gaps* in the order of a group's words, between which nothing is left of
the batches that there are. A new update closes the gap at its word. This is a hint and not state: it lies with the
largest of the batches, and is lost with it.

With two times, a row whose updates cancel may still exist at some event times. A gap then has an event time, and holds
from there on: a reader that evaluates a group at an earlier event time reads the rows. In a loop, the updates of a row
must cancel in each round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from altneu.columnar.columns import encode
from altneu.columnar.lookup import LAST_WORD, ONE, first_word
from altneu.columnar.ranking import Words
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.order import Antichain
from altneu.trace.batch import Arranged

LEAST = 32  # fewer updates that cancel are not noted
MOST_KEYS = 256  # of a step: many are no queue
MOST_GAPS = 64  # of a key
BEHIND = 1 << 64  # all words
_NAME = "#dead rows"
_COUNT = attrgetter("count")

Gap = tuple[int, int, int]
"""From one word on, before another, and from an event time on; where there are none, from 0 on."""


@dataclass
class DeadRows:
    """The gaps of some keys, by what identifies the key, in batches that end at ``upper``."""

    upper: Antichain
    gaps: dict[bytes, list[Gap]] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Arranged) -> DeadRows:
        """What is known of the old batches; nothing, where others came since it was noted."""
        largest = max(given.old, key=_COUNT)
        known: DeadRows | None = largest.__dict__.get(_NAME)
        if known is None or known.upper not in (given.old[-1].description.upper, given.new.description.upper):
            known = largest.__dict__[_NAME] = cls(given.old[-1].description.upper)
        return known

    def passed_over(self, names: Sequence[bytes], hits: Ints, words: Ints, events: Ints | None = None) -> Ints:
        """Runs, as lines (key, block, start, stop), without the rows in gaps; ``words`` are the lines of their words.

        Shape:  ``events`` (K,) is the first event time that matters of each key.
        """
        gaps = [
            (key, low, high - 1)
            for key, name in enumerate(names)
            for low, high, event in self.gaps.get(name, ())
            if events is None or event <= events[key]
        ]
        if not gaps:
            return hits
        key, low, last = (np.array(column, np.uint64) for column in zip(*gaps, strict=True))
        return _without(hits, words, key.astype(np.int64), low, last)

    def note(self, name: bytes, gap: Gap) -> None:
        """Nothing is left of a key in a gap."""
        low, high, event = gap
        rest = []
        for one in self.gaps.get(name, ()):
            if one[1] < low or high < one[0]:
                rest.append(one)
            else:
                low, high, event = min(low, one[0]), max(high, one[1]), max(event, one[2])
        self.gaps[name] = sorted([*rest, (low, high, event)])[-MOST_GAPS:]

    def close(self, given: Arranged, keys: Rows, number: Ints, words: Words) -> None:
        """There are new updates, with these words, of keys numbered so: no gap has them."""
        self.upper = given.new.description.upper
        if not self.gaps:
            return
        names = dict(enumerate(encode(keys))) if keys.count <= MOST_KEYS else {}
        if not names:
            self.gaps.clear()
        for key, word in zip(number.tolist(), words.tolist(), strict=True):
            known = self.gaps.get(names.get(key, b""))
            if known and any(low <= word < high for low, high, _ in known):
                parts = [
                    part
                    for low, high, event in known
                    for part in ((low, min(high, word), event), (max(low, word + 1), high, event))
                ]
                self.gaps[names[key]] = [part for part in parts if part[0] < part[1]]


@compiled()
def _without(hits: Ints, lines: Ints, key: Ints, low: Words, high: Words) -> Ints:
    """Runs without the rows whose words are in gaps, which are by key, ascending, up to and with ``high``."""
    out = np.empty((len(hits) * 2 + len(key) * len(hits) + 1, 4), np.int64)
    count, first = 0, 0
    for h in range(len(hits)):
        while first < len(key) and key[first] < hits[h, 0]:
            first += 1
        start, stop = hits[h, 2], hits[h, 3]
        g = first
        while g < len(key) and key[g] == hits[h, 0]:
            block = hits[h, 1]
            end = first_word(lines, block, start, stop, low[g])
            if start < end:
                out[count, 0], out[count, 1], out[count, 2], out[count, 3] = hits[h, 0], hits[h, 1], start, end
                count += 1
            start = stop if high[g] == LAST_WORD else first_word(lines, block, end, stop, high[g] + ONE)
            g += 1
        if start < stop:
            out[count, 0], out[count, 1], out[count, 2], out[count, 3] = hits[h, 0], hits[h, 1], start, stop
            count += 1
    return out[:count].copy()
