"""Windows over real event streams come out as counted elsewhere: one in order of time, one with late events.

A window ends ``day`` days after the first event and is seven days long, ``(T - 7 d, T]``. Its edges are the distinct
pairs that are not loops, whatever their direction; its triangles are triples of vertices that are all joined.
"""

from __future__ import annotations

import gzip
from collections import Counter
from itertools import pairwise

import polars as pl
import pytest

import altneu as an
from altneu.windows import session_windows, sliding, tumbling
from tests.oracle.runners import state_left

DAY = 86_400
WEEK = 7 * DAY
DAYS = (30, 60, 90)
EVENTS = an.source("events", "src long, dst long, at long")

SORTED, UNSORTED = "collegemsg", "email-eu-core-temporal"
KNOWN = {
    SORTED: {30: (6_896, 2_023, 307), 60: (3_704, 1_057, 53), 90: (1_013, 398, 9)},
    UNSORTED: {30: (4_119, 1_356, 685), 60: (4_290, 1_705, 1_083), 90: (4_145, 1_458, 749)},
}
"""Events, edges and triangles of the windows."""


@pytest.fixture(scope="module")
def stream(data_dir):
    """The events of a data set, in the order of its file."""

    def read(name: str) -> pl.DataFrame:
        path = data_dir / "temporal" / f"{name}.txt.gz"
        if not path.exists():
            pytest.skip(f"no {path.name} in {path.parent}")
        columns = ["src", "dst", "at"]
        return pl.read_csv(gzip.decompress(path.read_bytes()), separator=" ", has_header=False, new_columns=columns)

    return read


def counts(events: an.Collection) -> dict[str, an.Collection]:
    edges = events.filter("src <> dst").select(a="least(src, dst)", b="greatest(src, dst)").distinct()
    wedges = edges.join(edges, on={"b": "a"}).select("a", "b", c="right.b")
    parts = {"events": events, "edges": edges, "triangles": wedges.join(edges, on={"a": "a", "c": "b"})}
    return {name: part.group_by().agg(n="count(*)") for name, part in parts.items()}


def maintained(session, *, grace: int = 0) -> list[an.View]:
    views = counts(sliding(EVENTS, "at", WEEK, grace=grace))
    return [session.maintain(name, view) for name, view in views.items()]


def read(views, at=None) -> tuple[int, ...]:
    return tuple(view.to_pylist(at)[0][0] for view in views)


def counted(events: pl.DataFrame) -> tuple[int, ...]:
    """Events, edges and triangles by other means."""
    a, b = pl.min_horizontal("src", "dst"), pl.max_horizontal("src", "dst")
    edges = events.filter(pl.col("src") != pl.col("dst")).select(a=a, b=b).unique()
    wedges = edges.join(edges.rename({"b": "c"}), left_on="b", right_on="a")
    return len(events), len(edges), len(wedges.join(edges, left_on=["a", "c"], right_on=["a", "b"], how="semi"))


def window(events: pl.DataFrame, until: int) -> pl.DataFrame:
    return events.filter((pl.col("at") > until - WEEK) & (pl.col("at") <= until))


def changes(views) -> Counter:
    result: Counter = Counter()
    for view in views:
        for change in view.changes().to_pylist():
            result[view.name, change["n"], change["time"]] += change["diff"]
    return result


def moments(events: pl.DataFrame) -> dict[int, int]:
    first = events["at"].min()
    return {day: first + day * DAY for day in DAYS}


def test_the_data_are_what_they_are_said_to_be(stream):
    messages, mails = stream(SORTED), stream(UNSORTED)
    assert (len(messages), messages["at"].is_sorted(), len(messages) - messages.n_unique()) == (59_835, True, 37)
    late = (mails["at"] < mails["at"].cum_max()).sum()
    assert (len(mails), late, len(mails) - mails.n_unique()) == (332_334, 291_426, 4_998)
    for events, known in ((messages, KNOWN[SORTED]), (mails, KNOWN[UNSORTED])):
        assert {day: counted(window(events, at)) for day, at in moments(events).items()} == known


@pytest.mark.parametrize("name", KNOWN)
def test_in_one_step(stream, name):
    """Every event is inserted with its own time, in the order of the file; the past is read."""
    events = stream(name)
    with an.Session(retain="all") as session:
        views = maintained(session)
        session.insert("events", events, time="at")
        session.advance(to=moments(events)[90] + 1)
        assert {day: read(views, at) for day, at in moments(events).items()} == KNOWN[name]


@pytest.mark.parametrize("name", KNOWN)
def test_in_three_steps_and_after_a_long_pause(stream, name):
    """What has gone by is kept by nobody; long after the last event only the three counts of nothing are left."""
    events = stream(name)
    with an.Session() as session:
        views = maintained(session)
        session.insert("events", events)  # all of them ahead of their time
        for day, at in moments(events).items():
            session.advance(to=at + 1)
            assert read(views) == KNOWN[name][day]
        session.advance(to=10**12)
        assert read(views) == (0, 0, 0)
        assert sum(rows for _, rows in state_left(session)) == 3


def test_on_spark(stream, spark):
    """Events and expirations in Spark's tasks; what is inserted ahead of its time is held there."""
    events = stream(SORTED)
    with an.Session(spark, placement="spark") as session:
        views = maintained(session)
        session.insert("events", spark.createDataFrame(events.to_pandas()))
        session.advance(to=moments(events)[30] + 1)
        assert read(views) == KNOWN[SORTED][30]


CHUNKS = 12
ARRIVALS = {
    "as it comes": pl.col("at").cum_max(),
    "up to ten days late": pl.col("at") + pl.int_range(pl.len()) * 7_919 % (10 * DAY),
}
"""When an event comes: with the greatest time before it in the file, which is months late for most; or soon."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arrival", "grace", "complete"),
    [
        ("as it comes", 0, False),
        ("as it comes", 366 * DAY, True),
        ("up to ten days late", 0, False),
        ("up to ten days late", 10 * DAY, True),
    ],
)
def test_late_events_chunk_after_chunk(stream, arrival, grace, complete):
    """A window has what came in time for it, whatever is late; with enough grace it has everything."""
    events = stream(UNSORTED).with_columns(arrives=ARRIVALS[arrival]).sort("arrives", maintain_order=True)
    reads = [grace + at for at in (*moments(events).values(), *range(100 * DAY, 501 * DAY, 100 * DAY))]
    bounds = [i * len(events) // CHUNKS for i in range(CHUNKS + 1)]
    actual: dict[int, tuple[int, ...]] = {}
    with an.Session() as session:
        views = maintained(session, grace=grace)
        for begin, end in pairwise(bounds):
            chunk = events.slice(begin, end - begin)
            session.insert("events", chunk, time="arrives")
            last = reads[-1] + 1 if end == len(events) else chunk["arrives"].max()
            for upper in sorted({last, *(now + 1 for now in reads if now < last)}):
                if upper > session.lower:
                    session.advance(to=upper)
                    actual[upper - 1] = read(views)
    come = {now: counted(window(events.filter(pl.col("arrives") <= now), now - grace)) for now in reads}
    assert {now: actual[now] for now in reads} == come
    assert ([come[grace + at] for at in moments(events).values()] == list(KNOWN[UNSORTED].values())) == complete
    assert any(come[now] != counted(window(events, now - grace)) for now in reads) != complete


@pytest.mark.slow
def test_a_step_a_second_gives_the_updates_of_one_step(stream):
    events = stream(SORTED).head(2_000)
    end = events["at"].max() + 2 * WEEK
    with an.Session() as session:
        views = maintained(session)
        session.insert("events", events, time="at")
        session.advance(to=end)
        once = changes(views)
    apart: Counter = Counter()
    with an.Session() as session:
        views = maintained(session)
        for (at,), part in events.group_by("at", maintain_order=True):
            session.advance(to=at)
            apart.update(changes(views))
            session.insert("events", part)
        session.advance(to=end)
        apart.update(changes(views))
    assert len(once) > 10_000
    assert {change: diff for change, diff in apart.items() if diff} == once


def test_days_and_sessions_of_real_messages(stream):
    """Each day's messages are counted once, when it is over; each user's sessions too."""
    events = stream(SORTED)
    with an.Session() as session:
        days = session.maintain("days", tumbling(EVENTS, "at", DAY).group_by("window_start").agg(n="count(*)"))
        visits = session.maintain("visits", session_windows(EVENTS, "at", 3_600, "src"))
        session.insert("events", events)
        session.advance(to=events["at"].max() + DAY)
        by_day = events.group_by(pl.col("at") // DAY * DAY).len()
        assert sorted(days.to_pylist()) == sorted(by_day.rows())
        assert {(c["time"] - c["window_start"], c["diff"]) for c in days.changes().to_pylist()} == {(DAY, 1)}
        begins = (pl.col("at").diff().over("src") >= 3_600).fill_null(True)
        numbered = events.sort("src", "at").with_columns(visit=begins.cum_sum())
        by_visit = numbered.group_by("src", "visit").agg(
            pl.col("at").min().alias("start"), pl.col("at").max() + 3_600, pl.len()
        )
        assert sorted(visits.to_pylist()) == sorted(by_visit.drop("visit").rows())
        assert all(c["time"] == c["window_end"] for c in visits.changes().to_pylist())
