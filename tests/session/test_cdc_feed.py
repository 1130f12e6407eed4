"""Feeds of updates: what comes twice, late or in another order changes nothing."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import pairwise
from time import process_time

import pytest

import altneu as an


def messages(rng, times):
    """Updates of some times cut into messages, the progress that covers them, and what they add up to."""
    updates = []
    for time in range(times):
        rows = {rng.randint(0, 3): rng.choice([1, 2, -1]) for _ in range(rng.randint(0, 3))}
        updates += [({"x": x}, time, diff) for x, diff in rows.items()]
    total = Counter()
    for data, _, diff in updates:
        total[data["x"]] += diff
    counts = Counter(time for _, time, _ in updates)
    cuts = sorted({0, times, *(rng.randint(0, times) for _ in range(3))})
    answer = [{"updates": updates[i : i + 3]} for i in range(0, len(updates), 3)]
    for lower, upper in pairwise(cuts):
        known = [[t, n] for t, n in sorted(counts.items()) if lower <= t < upper]
        answer.append({"progress": {"lower": lower, "upper": upper, "counts": known}})
    return [json.dumps(m) for m in answer], {x: n for x, n in total.items() if n}


def nested(depth):
    """A message with as many lists inside each other."""
    inner = []
    for _ in range(depth):
        inner = [inner]
    return {"updates": [[{"x": inner}, 0, 1]]}


@pytest.mark.parametrize("seed", range(20))
def test_any_shuffling_and_repeating_gives_what_they_give_in_order(seed):
    rng = random.Random(seed)
    times = rng.randint(1, 8)
    answer, wanted = messages(rng, times)
    answer = answer + rng.choices(answer, k=len(answer))
    rng.shuffle(answer)
    feed = an.cdc.Feed("numbers", "x long")
    with an.Session() as session:
        view = session.maintain("numbers", feed.collection.count())
        frontiers = []
        for message in answer:
            feed.offer([message])
            feed.advance(session)
            assert session.lower == feed.frontier
            frontiers.append(feed.frontier)
        assert frontiers == sorted(frontiers)
        assert frontiers[-1] == times
        assert dict(view.to_pylist()) == wanted


@pytest.mark.parametrize(
    "bad",
    [
        "{",
        "{}",
        '{"updates": 3}',
        '{"updates": [[{"x": 1}, "soon", 1]]}',
        '{"progress": {"lower": 3, "upper": 1, "counts": []}}',
        '{"progress": {"lower": 0}}',
        '{"progress": {"lower": 0, "upper": 9}}',
        '{"progress": {"lower": 0, "upper": 9, "counts": null}}',
    ],
)
def test_a_bad_message_is_refused_and_nothing_is_lost(bad):
    feed = an.cdc.Feed("numbers", "x long")
    with an.Session() as session:
        view = session.maintain("numbers", feed.collection)
        with pytest.raises(an.errors.InputError, match="message 1"):
            feed.offer(['{"updates": [[{"x": 5}, 0, 1]]}', bad])
        feed.offer(['{"progress": {"lower": 0, "upper": 1, "counts": [[0, 1]]}}'])
        feed.advance(session)
        assert view.to_pylist() == [(5,)]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (
            '{"progress": {"lower": 0, "upper": 9}}',
            "progress must be an object with lower, upper and counts, got {'lower': 0",
        ),
        ('{"updates": [[{"x": 1}, 0, "1"]]}', "the diff must be a whole number of 64 bits, got '1'"),
        ('{"updates": [[{"x": 1}, "0", 1]]}', "a time must be a whole number from 0 to 2^63 - 1, got '0'"),
        ('{"updates": [[{"x": 1}, 0, 1.0]]}', "the diff must be a whole number of 64 bits, got 1.0"),
        ('{"updates": ["x"]}', "an update must be [data, time, diff], got 'x'"),
    ],
)
def test_a_refusal_shows_what_it_refuses(bad, words):
    with pytest.raises(an.errors.InputError) as caught:
        an.cdc.Feed("numbers", "x long").offer([bad])
    assert words in str(caught.value)


LARGE = 10**5000 - 1


@pytest.mark.parametrize(
    "message", [{"updates": [[{"x": LARGE}, 0, 1]]}, f'{{"updates": [[{{"x": {"9" * 5000}}}, 0, 1]]}}']
)
def test_a_number_may_have_any_number_of_digits(message):
    feed = an.cdc.Feed("numbers", "x string, y long")
    with an.Session() as session:
        view = session.maintain("numbers", feed.collection.select("y"))
        feed.offer([message, {"progress": {"lower": 0, "upper": 1, "counts": [[0, 1]]}}])
        feed.advance(session)
        assert view.to_pylist() == [(None,)]


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (f'{{"updates": [[{{"x": {"[" * 5000}{"]" * 5000}}}, 0, 1]]}}', "nested too deeply"),
        (f'{{"updates": [[{{"x": {"[" * 990}{"]" * 990}}}, 0, 1]]}}', "nested too deeply"),
        (nested(5000), "nested too deeply"),
        (f'{{"updates": [[{{}}, {"9" * 5000}, 1]]}}', "a time must be a whole number from 0 to 2^63 - 1, got 99999"),
        (
            {"updates": [[{}, LARGE, 1]]},
            "a time must be a whole number from 0 to 2^63 - 1, got something too large to show",
        ),
    ],
    ids=["text", "less", "objects", "time", "time as a number"],
)
def test_what_is_too_large_is_refused_in_our_words(bad, words):
    feed = an.cdc.Feed("numbers", "x string")
    with pytest.raises(an.errors.InputError) as caught:
        feed.offer([bad])
    assert words in str(caught.value)
    assert "recursion" not in str(caught.value)
    assert "set_int_max_str_digits" not in str(caught.value)


def test_updates_of_one_time_one_by_one_cost_what_they_cost_together():
    """Sets are looked into and not copied: as many look-ups for the last message as for the first."""
    few, many = (min(seconds_of(n) for _ in range(3)) for n in (2_000, 16_000))
    assert many < 4 * 8 * few


def seconds_of(count):
    feed = an.cdc.Feed("numbers", "x long")
    begin = process_time()
    feed.offer({"updates": [[{"x": i}, 0, 1]]} for i in range(count))
    return process_time() - begin
