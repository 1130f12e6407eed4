"""Negative counts: what each operator and each reader makes of a row that is retracted before it is inserted.

The table of docs/linear.md is the specification; its lines are read from there.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

import altneu as an
from altneu.errors import ViewHasErrorsError
from altneu.testing import assert_changes
from altneu.views.view import View

PAGE = Path(__file__).resolve().parents[2] / "docs" / "linear.md"
N = an.source("n", "k long, v long")
M = an.source("m", "k long, w long")
BY_K = N.group_by("k")
NEGATIVE = "NEGATIVE_MULTIPLICITY"

# (1, 1) of N is missing: it is retracted first. (2, 2) is there; so are (1, 7) and (2, 8) of M.
OWED, THERE = (1, 1), (2, 2)

HANDED_ON = {
    "select": N.select("k", x="v + 1"),
    "filter": N.filter("v > 0"),
    "map": N.map(lambda r: (r.v, r.k), "a long, b long"),
    "flat_map": N.flat_map(lambda r: [(r.v,), (r.v,), (r.k,)], "a long"),
    "explode": N.explode(lambda r: [((r.v,), 3)], "a long"),
    "join_function": N.join_function(lambda r: [((r.v,), 0, 2)], "a long"),
    "temporal": N.temporal("v - 2", "v + 99"),
    "delay": N.delay(every=1),
    "generate_series": N.generate_series(1, "v + 1"),
    "unnest": N.unnest("array(v, v, k)", as_="x"),
    "repeat_row": N.repeat_row("3 * v"),
    "repeat_row_non_negative": N.repeat_row_non_negative("v"),
    "json": N.select(text="concat('{\"v\": ', v, '}')").json("text", "v long"),
    "negate": N.negate(),
    "sample": N.sample(1, by="k"),
    "concat": N.concat(N.filter("v > 0")),
    "consolidate": N.consolidate(),
    "arrange_by": N.arrange_by("k"),
    "join": N.join(M, on="k"),
    "join_core": N.join_core(M, "k", lambda key, left, right: [(key.k, left.v, right.w)], "k long, v long, w long"),
    "semijoin": N.semijoin(M, on="k"),
    "antijoin": N.antijoin(M.filter("w > 7"), on="k"),
    "asof_join": N.asof_join(M, "k", left_time="v", right_time="w", direction="nearest", mode="revising"),
    "differentiate": N.differentiate().semijoin(M, on="k").integrate(),
    "integrate": N.differentiate().consolidate().integrate(),
    "moments": N.differentiate().moments().filter("moment = 'alt'").select(*N.columns),
    "delay_to_neu": N.differentiate().concat(N.delay_to_neu()).integrate(),
}
IN_ITS_PLACE = {
    "distinct": N.distinct(),
    "semijoin": M.semijoin(N, on="k"),
    "antijoin": M.antijoin(N, on="k"),
    "left join": M.join(N, on="k", how="left"),
    "asof_join": M.asof_join(N, "k", left_time="w", right_time="v", mode="revising"),
    "locked": N.asof_join(M, "k", mode="locked"),
}
GROUPS = {
    "top_k": N.top_k(1, by="v", per="k").select("k", x="v"),
    "reduce": BY_K.reduce(lambda _, rows: [len(rows)], "x long"),
    **{f: BY_K.agg(x=f"{f}(v)") for f in ("min", "max")},
    **{f: BY_K.agg(x=f"{f.removesuffix(')')} v)") for f in ("count(distinct)", "sum(distinct)")},
    **{f: BY_K.agg(x=f"{f}(v)") for f in ("collect_list", "collect_set", "mode", "median")},
}
SUMS = {
    "count(*)": BY_K.agg(x="count(*)"),
    "count(x)": BY_K.agg(x="count(v)"),
    "count_if": BY_K.agg(x="count_if(v > 1)"),
    **{f: BY_K.agg(x=f"{f}(v)") for f in ("sum", "avg")},
    **{f: BY_K.agg(x=f"{f}(v > 1)") for f in ("bool_and", "bool_or")},
    "stddev": BY_K.agg(x="stddev(v)"),
    "corr": BY_K.agg(x="corr(v, v)"),
}
BITS = {f: BY_K.agg(x=f"{f}(v)") for f in ("bit_and", "bit_or", "bit_xor")}
COUNTS = {"count": N.count("n"), "threshold": N.threshold(lambda count: 5 * count)}
PLANS = {
    **HANDED_ON,
    **GROUPS,
    **SUMS,
    **BITS,
    **COUNTS,
    **{f"keys of {name}": plan for name, plan in IN_ITS_PLACE.items()},
    "latest": N.latest("k", "v"),
}

LINES = {
    "shows the negative count": {*COUNTS, "changes()", "subscribe()", "live()", "explain_row()", "inspect"},
    "output their rows, times the count": {*HANDED_ON},
    "an error row in the place of the row": IN_ITS_PLACE.keys() - {"left join"},
    "an error row in the place of the group's row": {*GROUPS},
    "the sums over all rows of the group; an error row in their place if the number of rows is negative, if it is zero "
    "and the sums are not, or if the sums are those of no rows": {*SUMS},
    "how often each bit is set over all rows of the group; an error row in its place if the number of rows is "
    "negative, or if it is positive and that of a bit is negative or greater": {*BITS},
    "an error row, until a greater event of its key comes": {"latest"},
    "an exception that names the row": {"to_arrow()", "to_pylist()", "get()", "df()"},
    "the row as an error row": {"errors()"},
}


@dataclass(frozen=True)
class Seen:
    """A view after an advance: its contents, its updates added up, and its errors at each of the times."""

    contents: Counter[tuple[object, ...]]
    changes: Counter[tuple[object, ...]]
    errors: tuple[frozenset[tuple[str, str]], ...]

    @property
    def codes(self) -> set[str]:
        """Codes of the errors that are there at last, but for those of reading the view itself."""
        return {code for operator, code in self.errors[-1] if not operator.startswith("view ")}


def hashable(row):
    return tuple(tuple(v) if isinstance(v, list) else v for v in row)


def seen(view, times):
    changes = Counter()
    for row in view.changes("#time", "#diff").drop_columns("#time").to_pylist():
        *values, diff = row.values()
        changes[hashable(values)] += diff
    errors = (view.errors(at=time).to_pylist() for time in times)
    return Seen(
        Counter(map(hashable, view.to_pylist(errors="ignore"))),
        Counter({row: n for row, n in changes.items() if n}),
        tuple(frozenset((e["operator"], e["code"]) for e in found) for found in errors),
    )


def play(*steps, **how):
    """What all views show before, and after each step of (row, diff, how many times later)."""
    with an.Session(**how, retain="all") as session:
        views = {name: session.maintain(name, plan) for name, plan in PLANS.items()}
        session.insert("n", [THERE])
        session.insert("m", [(1, 7), (2, 8)])
        session.advance()
        result = [{name: seen(view, [0]) for name, view in views.items()}]
        for step in steps:
            lower = session.lower
            for row, diff, later in step:
                session.insert("n", [row], time=lower + later, diff=diff)
            session.advance(to=lower + 1 + max(later for _, _, later in step))
            result.append({name: seen(view, range(lower, session.lower)) for name, view in views.items()})
        return result


MISSING = [(OWED, -1, 0)]
COMES = [(OWED, 1, 0)]
IN_ONE_STEP = [(OWED, -1, 0), (OWED, 1, 2), (THERE, 0, 3)]
AT_ONE_TIME = [(OWED, -1, 0), (OWED, 1, 0)]


@pytest.fixture(scope="module")
def healing():
    """Before, missing, healed; missing and healed in one step; at one time."""
    return play(MISSING, COMES, IN_ONE_STEP, AT_ONE_TIME)


# the table ------------------------------------------------------------------------------------------------------------


def test_the_table_of_the_page_is_what_is_tested_here():
    table = PAGE.read_text().split("| reader |")[1].split("\n\n")[0].splitlines()[2:]
    lines = [line.strip("| ").split(" | ") for line in table]
    assert {what: set(re.findall(r"`([^`]+)`", who)) for who, what in lines} == LINES


def test_every_verb_is_in_the_table():
    made_of_others = {
        "group_by",
        "iterate",
        "enter_at",
        "window",
        "weighted",
    }  # aggregates are in the table; a loop does what the verbs of its body do; windows and weights have own files
    verbs = {name for name in dir(an.Collection) if not name.startswith("_")} - made_of_others - {"columns", "schema"}
    assert verbs <= set().union(*LINES.values())


def test_every_way_to_read_a_view_is_in_the_table():
    readers = {name for name in dir(View) if not name.startswith("_")} - {
        "schema",
        "since",
        "frontier",
        "changes_only",
        "coordinates",
        "raise_errors",
        "key",
    }
    assert {f"{name}()" for name in readers} <= set().union(*LINES.values())


# operators ------------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", HANDED_ON)
def test_what_is_linear_makes_of_a_missing_row_what_it_makes_of_the_row_with_the_sign_turned(name, healing):
    _, missing, *_ = healing
    _, there = play(COMES)
    assert missing[name].changes
    assert missing[name].changes == Counter({row: -n for row, n in there[name].changes.items()})
    assert missing[name].codes == there[name].codes == set()


def test_counts_are_shown(healing):
    _, missing, *_ = healing
    assert missing["count"].contents == Counter([(*THERE, 1), (*OWED, -1)])
    assert missing["count"].errors == (frozenset(),)
    assert missing["threshold"].changes == {OWED: -5}
    assert missing["threshold"].codes == set()


@pytest.mark.parametrize("name", IN_ITS_PLACE)
def test_an_error_row_is_in_the_place_of_the_row(name, healing):
    before, missing, *_ = (reported[f"keys of {name}"] for reported in healing)
    assert missing.codes == {NEGATIVE}
    assert missing.contents == before.contents
    assert missing.changes == ({(1, 7, 1): -1} if name == "left join" else {})


@pytest.mark.parametrize("name", [*GROUPS, *SUMS, *BITS])
def test_an_error_row_is_in_the_place_of_a_group_of_nothing_else(name, healing):
    before, missing, *_ = (reported[name] for reported in healing)
    assert missing.codes == {NEGATIVE}
    assert missing.contents == before.contents
    assert missing.changes == {}


@pytest.fixture(scope="module")
def beside():
    """(2, 3) is missing beside one (2, 2), then beside two; then it comes."""
    return play([((2, 3), -1, 0)], [(THERE, 1, 0)], [((2, 3), 1, 0)])


@pytest.mark.parametrize("name", GROUPS)
def test_one_missing_row_is_enough(name, beside):
    before, alone, more, came = (reported[name] for reported in beside)
    assert alone.changes == dict.fromkeys(before.contents, -1)
    assert alone.codes == more.codes == {NEGATIVE}
    assert alone.contents == more.contents == more.changes == {}
    assert came.codes == set()
    assert sum(came.contents.values()) == 1


@pytest.mark.parametrize("name", SUMS)
def test_rows_are_added_up(name, beside):
    """None left is no group; none and a sum is an error; of 2 + 2 - 3 there is one row, and it is 1."""
    added = {"count(*)": 1, "count(x)": 1, "count_if": 1, "sum": 1, "avg": 1.0, "bool_and": True, "bool_or": True}
    added |= {"stddev": None, "corr": None}
    _, alone, more, came = (reported[name] for reported in beside)
    assert alone.contents == {}
    assert alone.codes == ({NEGATIVE} if name in ("sum", "avg", "stddev", "corr") else set())
    assert more.contents == Counter([(2, added[name])])
    assert more.codes == came.codes == set()
    assert sum(came.contents.values()) == 1


@pytest.mark.parametrize("name", BITS)
def test_bits_are_counted(name, beside):
    """None left is no group; 2 + 2 - 3 is one row whose lowest bit is set -1 times."""
    _, alone, more, came = (reported[name] for reported in beside)
    assert alone.contents == more.contents == {}
    assert alone.codes == set()
    assert more.codes == {NEGATIVE}
    assert came.codes == set()
    assert sum(came.contents.values()) == 1


def test_latest_asks_for_a_greater_event_of_the_key():
    _, missing, came, greater = (reported["latest"] for reported in play(MISSING, COMES, [((1, 2), 1, 0)]))
    assert missing.codes == came.codes == {"RETRACTED_EVENT"}
    assert missing.contents == came.contents == {THERE: 1}
    assert greater.codes == set()
    assert greater.contents == Counter([THERE, (1, 2)])


# healing --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PLANS.keys() - {"latest"}))
def test_it_heals_when_the_row_comes(name, healing):
    """Later, later in one step, and at the same time: then it was never missing."""
    before, missing, came, in_one_step, at_one_time = (reported[name] for reported in healing)
    assert (came.contents, came.errors) == (before.contents, before.errors)
    assert in_one_step.contents == before.contents
    assert in_one_step.errors == (missing.errors * 2) + (before.errors * 2)
    assert (at_one_time.contents, at_one_time.changes, at_one_time.errors) == (before.contents, {}, before.errors)
    assert (missing.errors != before.errors) == (name not in ("count", "negate"))


def test_the_same_on_spark(spark, healing):
    steps = (MISSING, COMES, IN_ONE_STEP, AT_ONE_TIME)
    for here, there in zip(healing, play(*steps, spark=spark, placement="spark"), strict=True):
        assert here == there


# readers --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def reported():
    return []


RAISED = r"""view v: NEGATIVE_MULTIPLICITY: a row has count -2: .* \(row {"k": 1, "v": 1}\)"""


def read_by_all(session, readers, reported, raised=ViewHasErrorsError):
    """A row is missing: readers raise, and say so; then it comes."""
    view = session.maintain("v", N)
    session.maintain("told", N.inspect(lambda *update: reported.append(update)))
    session.insert("n", [THERE])
    session.retract("n", [OWED], diff=2)
    session.advance()
    for read in readers:
        with pytest.raises(raised, match=RAISED):
            read(view)
    [error] = view.errors().to_pylist()
    assert (error["operator"], error["code"], error["row"]) == ("view v", NEGATIVE, '{"k": 1, "v": 1}')
    assert_changes(view, [(1, 1, 0, -2), (2, 2, 0, 1)])
    assert sorted((tuple(row), time, diff) for row, time, diff in reported) == [(OWED, 0, -2), (THERE, 0, 1)]
    ignoring = [read(view, errors="ignore") for read in readers]
    session.insert("n", [OWED], diff=2)
    session.advance()
    assert view.errors().num_rows == 0
    return ignoring, [read(view) for read in readers]


def get_owed(view, **how):
    return view.get(dict(zip("kv", OWED, strict=True)), **how)


def test_readers_raise_and_name_the_row(reported):
    with an.Session() as session:
        readers = [View.to_arrow, View.to_pylist, get_owed]
        (arrow, rows, owed), (_, healed, found) = read_by_all(session, readers, reported)
        assert arrow.to_pylist() == [{"k": 2, "v": 2}]
        assert rows == healed == [THERE]
        assert owed == found == []


@pytest.mark.parametrize("large", [False, True])
def test_dataframes_raise_and_name_the_row(spark, monkeypatch, reported, large):
    """Small views come from the driver, large ones are read by Spark's tasks, which raise as they can."""
    from pyspark.errors import PythonException

    monkeypatch.setattr("altneu.engine.engine.READ_ROWS", 0 if large else 1000)
    readers = [lambda view, **how: view.df(**how).collect()]
    with an.Session(spark, placement="spark") as session:
        for [rows] in read_by_all(session, readers, reported, PythonException if large else ViewHasErrorsError):
            assert rows == [THERE]
