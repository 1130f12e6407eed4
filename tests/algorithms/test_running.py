"""Running sums and scans against adding up, for positions wherever they are."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial
from itertools import pairwise

import pytest

import altneu as an
from tests.algorithms.histories import changes
from tests.oracle.histories import accumulated, random_cuts, undone
from tests.oracle.runners import contents_of, state_left, table_of

VALUES = an.source("values", "who string, position long, value int")
ASKED = an.source("asked", "who string, position long")
SOURCES = {"values": VALUES, "asked": ASKED}
TIMES = 5
ENDS = (-(2**63), -(2**63) + 1, 2**63 - 1, -17, -16, -1, 0, 1, 15, 16, 17, 255, 256, 2**60, -(2**60))


def beside(left, right):
    return f"{left},{right}"


SPELLED = VALUES.select("who", "position", value="CAST(value AS string)")
SCANS = {
    "scan per": an.algorithms.prefix_scan(SPELLED, beside, per="who"),
    "scan of all": an.algorithms.prefix_scan(SPELLED.select("position", "value"), beside),
    "scan at": an.algorithms.prefix_scan(SPELLED, beside, per="who", at=ASKED),
}
PLANS = SCANS | {
    "per": an.algorithms.prefix_sums(VALUES, per="who"),
    "of all": an.algorithms.prefix_sums(VALUES.select("position", "value")),
    "at": an.algorithms.prefix_sums(VALUES, per=["who"], at=ASKED),
}


def position(rng):
    return rng.choice([rng.choice(ENDS), rng.randint(-40, 40), rng.randint(-(2**40), 2**40), None])


TABLES = {
    "values": lambda rng: (rng.choice(["ada", "bob", None]), position(rng), rng.choice([None, -3, 0, 5, 2**31 - 1])),
    "asked": lambda rng: (rng.choice(["ada", "bob", "eve", None]), position(rng)),
}


def expected(name, values, asked):
    """Each value as often as it is there; what has a null anywhere does not count."""
    of_all = name.endswith("of all")
    rows = [row[1:] if of_all else row for row in values.elements()]
    rows = [row for row in rows if None not in row]
    places = {row[:-1] for row in rows}
    if name.endswith("at"):
        places = {row for row in asked if None not in row}
    if name in SCANS:
        return Counter((*place, scanned(rows, place)) for place in places)
    return Counter(
        (*place, sum(row[-1] for row in rows if row[:-2] == place[:-1] and row[-2] <= place[-1])) for place in places
    )


def scanned(rows, place):
    """The values up to a place as text, in the order of their positions, and those of one position in their own."""
    before = [row for row in rows if row[:-2] == place[:-1] and row[-2] <= place[-1]]
    values = [str(row[-1]) for row in sorted(before, key=lambda row: (row[-2], str(row[-1])))]
    return ",".join(values) or None


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("seed", range(4))
def test_running_sums(name, seed):
    rng = random.Random(seed)
    history = {source: changes(rng, TIMES, partial(make, rng), sizes=(10, 20, 40)) for source, make in TABLES.items()}
    end = undone(history, TIMES)
    history = {source: updates + end[source] for source, updates in history.items()}
    wanted = [expected(name, *(accumulated(history[s], time) for s in SOURCES)) for time in range(TIMES + 1)]
    assert len({frozenset(found.items()) for found in wanted}) > TIMES - 2
    for cuts in ([*range(1, TIMES + 2)], [TIMES + 1], random_cuts(rng, TIMES + 1)):
        with an.Session(retain="all") as session:
            view = session.maintain(name, PLANS[name])
            for lower, upper in pairwise([0, *cuts]):
                for source in session._engine.declared:
                    updates = [u for u in history[source] if lower <= u[1] < upper]
                    session.insert(source, table_of(updates, SOURCES[source]), time="time", diff="diff")
                session.advance(to=upper)
                assert contents_of(view) == wanted[upper - 1]
            assert [contents_of(view, time) for time in range(TIMES + 1)] == wanted
    with an.Session() as session:
        view = session.maintain(name, PLANS[name])
        for source in session._engine.declared:
            session.insert(source, table_of(history[source], SOURCES[source]), time="time", diff="diff")
        session.advance(to=TIMES + 10)
        assert list(state_left(session)) == []


def test_columns_keep_their_names_and_types():
    payments = an.source("payments", "`the day` smallint, who int, amount int")
    sums = an.algorithms.prefix_sums(payments, by="the day", value="amount", per="who")
    assert repr(sums) == "Collection(who: int, the day: smallint, sum: bigint)"


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"by": "when"}, an.errors.UnknownColumnError, "when"),
        ({"value": "amount"}, an.errors.UnknownColumnError, "amount"),
        ({"per": "name"}, an.errors.UnknownColumnError, "name"),
        ({"by": "who"}, an.errors.TypeMismatchError, "got 'who' of type string"),
        ({"value": "who"}, an.errors.TypeMismatchError, "got 'who' of type string"),
        ({"at": VALUES.select("who")}, an.errors.UnknownColumnError, "position"),
        ({"at": ASKED.select("position"), "per": "who"}, an.errors.UnknownColumnError, "who"),
    ],
)
def test_what_is_refused(arguments, error, says):
    with pytest.raises(error, match=says):
        an.algorithms.prefix_sums(VALUES, **arguments)
