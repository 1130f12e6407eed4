"""What may be inserted and retracted: every form of rows, times and diffs; what is refused leaves no trace."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import BeforeFrontierError, DiffOverflowError, InputError, SchemaError, UnknownSourceError
from altneu.testing import assert_changes

ROWS = [(1, "x"), (2, None), (None, "y"), (2, None)]
ARROW = pa.table({"k": pa.array([r[0] for r in ROWS], pa.int64()), "s": [r[1] for r in ROWS]})
FORMS = {
    "tuples": ROWS,
    "lists": [list(r) for r in ROWS],
    "dictionaries": [{"s": s, "k": k} for k, s in ROWS],
    "missing keys are null": [{"k": 1, "s": "x"}, {"k": 2}, {"s": "y"}, {"k": 2}],
    "a generator": ROWS,
    "a table": ARROW,
    "a record batch": ARROW.to_batches()[0],
    "a table in another order": ARROW.select(["s", "k"]),
    "a table in chunks": pa.concat_tables([ARROW.slice(0, 1), ARROW.slice(1)]),
    "narrower numbers": ARROW.set_column(0, "k", ARROW.column("k").cast(pa.int8())),
    "unsigned numbers": ARROW.set_column(0, "k", ARROW.column("k").cast(pa.uint64())),
    "large strings": ARROW.set_column(1, "s", ARROW.column("s").cast(pa.large_string())),
    "a dictionary column": ARROW.set_column(1, "s", ARROW.column("s").dictionary_encode()),
    "pandas": pd.DataFrame({"k": pd.array([1, 2, None, 2], "Int64"), "s": ["x", None, "y", None]}),
    "polars": pl.DataFrame({"k": [1, 2, None, 2], "s": ["x", None, "y", None]}),
    "lazy polars": pl.LazyFrame({"k": [1, 2, None, 2], "s": ["x", None, "y", None]}),
}


@pytest.fixture
def session():
    with an.Session() as session:
        yield session


@pytest.fixture
def view(session):
    return session.maintain("v", an.source("t", "k long, s string"))


def contents(view):
    return Counter(view.to_pylist())


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_rows_goes_in_and_out(session, view, form):
    def data():
        return (row for row in ROWS) if form == "a generator" else FORMS[form]

    session.insert("t", data())
    assert session.advance().changes_in == 4
    assert contents(view) == Counter(ROWS)
    session.retract("t", data())
    session.advance()
    assert contents(view) == Counter()


def test_bare_values_do_for_one_column(session):
    view = session.maintain("v", an.source("n", "x double"))
    session.insert("n", [1.5, None, 2])
    session.advance()
    assert contents(view) == Counter([(1.5,), (None,), (2.0,)])


def test_nothing_may_be_inserted_too(session, view):
    session.insert("t", [])
    session.insert("t", ARROW.slice(0, 0))
    step = session.advance()
    assert (step.changes_in, step.changes_out) == (0, {"v": 0})
    assert contents(view) == Counter()


def test_rows_count_from_the_current_time_and_not_before_advance(session, view):
    session.insert("t", [(1, "x")])
    assert contents(view) == Counter()
    step = session.advance(to=5)
    assert (step.lower, step.upper, session.lower) == (0, 5, 5)
    assert_changes(view, [(1, "x", 0, 1)])
    session.insert("t", [(2, "y")])
    session.advance()
    assert_changes(view, [(2, "y", 5, 1)])


def test_a_diff_is_a_number_or_a_column(session, view):
    session.insert("t", [(1, "x")], diff=3)
    session.insert("t", [(1, "x", -1), (2, "y", 2), (3, "z", 0)], diff="n")
    session.advance()
    assert contents(view) == Counter({(1, "x"): 2, (2, "y"): 2})
    session.retract("t", [{"k": 1, "s": "x", "n": 2}, {"k": 2, "s": "y", "n": 1}], diff="n")
    session.retract("t", [(2, "y")], diff=1)
    session.advance()
    assert contents(view) == Counter()


def test_a_time_is_a_number_or_a_column(session, view):
    session.insert("t", [(1, "x", 2), (2, "y", 0), (1, "x", 1)], time="when")
    session.insert("t", [(3, "z")], time=1)
    session.advance(to=3)
    assert_changes(view, "k | s | time\n1 | x | 2\n1 | x | 1\n2 | y | 0\n3 | z | 1")


def test_a_column_of_the_source_may_say_the_time(session):
    view = session.maintain("v", an.source("e", "k long, ts long"))
    session.insert("e", [(1, 4), (2, 1)], time="ts")
    session.advance(to=2)
    assert contents(view) == Counter([(2, 1)])
    session.advance(to=5)
    assert contents(view) == Counter([(2, 1), (1, 4)])


def test_future_rows_wait_and_may_be_taken_back_before_their_time(session, view):
    session.insert("t", [(1, "x", 3), (2, "y", 3), (3, "z", 1_000_000)], time="when")
    assert session.advance(to=3).changes_out == {"v": 0}
    session.retract("t", [(2, "y")], time=3)
    assert session.advance().changes_out == {"v": 1}
    assert contents(view) == Counter([(1, "x")])
    session.retract("t", [(3, "z")], time=1_000_000)
    session.advance(to=2_000_000)
    assert contents(view) == Counter([(1, "x")])
    assert session.advance().state_rows == 1


def test_every_type_goes_in_and_comes_out(session):
    row = {
        "a": True,
        "b": -128,
        "c": -(2**15),
        "d": 2**31 - 1,
        "e": -(2**63),
        "f": 1.5,
        "g": -1e308,
        "h": Decimal("-9.99"),
        "i": "ä\0x",
        "j": b"\0\xff",
        "k": dt.date(1, 1, 1),
        "l": dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC),
        "m": dt.datetime(1970, 1, 1),  # noqa: DTZ001 -- a timestamp_ntz is meant
        "n": [1, None],
        "o": [("x", None)],
        "p": {"y": 1, "z": [None]},
    }
    ddl = (
        "a boolean, b byte, c short, d int, e long, f float, g double, h decimal(3,2), i string, j binary, k date, "
        "l timestamp, m timestamp_ntz, n array<int>, o map<string,int>, p struct<y:int,z:array<string>>"
    )
    view = session.maintain("v", an.source("all", ddl))
    session.insert("all", [row])
    session.insert("all", [dict.fromkeys(row)])
    session.advance()
    actual = sorted((dict(zip(row, r, strict=True)) for r in view.to_pylist()), key=lambda r: r["a"] is None)
    assert actual == [row, dict.fromkeys(row)]
    session.retract("all", pa.Table.from_pylist([row, dict.fromkeys(row)], view.schema))
    session.advance()
    assert view.to_pylist() == []


def test_floats_of_equal_value_are_one_row(session):
    view = session.maintain("v", an.source("f", "x double, ys array<float>").count())
    odd = np.array([0x7FF8000000000001], np.uint64).view(np.float64)
    session.insert("f", pa.table({"x": [0.0, -0.0], "ys": [[0.0, -0.0], [-0.0, 0.0]]}))
    session.insert("f", pa.table({"x": pa.array([float("nan"), odd[0]]), "ys": [[], []]}))
    session.advance()
    assert sorted(r[-1] for r in view.to_pylist()) == [2, 2]


# refused --------------------------------------------------------------------------------------------------------------

REFUSED = {
    "a tuple too short": ([(1, "x"), (2,)], SchemaError, "row 1 .* 1 values for the 2 columns k, s"),
    "an unknown key": ([{"k": 1, "z": 2}], SchemaError, "'z', which is not a column; the columns are: k, s"),
    "a value of another type": ([(1, "x"), ("two", "y")], SchemaError, "row 1 .*'two' in column 'k', which is bigint"),
    "a number too large": ([(2**63, "x")], SchemaError, "column 'k', which is bigint"),
    "a fraction": ([(1.5, "x")], SchemaError, "1.5 in column 'k'"),
    "a bare value": ([1], SchemaError, "row 0 .*, got a int"),
    "a number for a string": ([(1, 2)], SchemaError, "2 in column 's', which is string"),
    "a table without a column": (ARROW.select(["k"]), SchemaError, "lacks column 's'; it has: k"),
    "a table of another type": (
        ARROW.set_column(0, "k", pa.array(["a"] * 4)),
        SchemaError,
        "'k' .* is bigint, but the data has string",
    ),
    "a table of fractions": (
        ARROW.set_column(0, "k", pa.array([1.5] * 4)),
        SchemaError,
        "bigint, but the data has double",
    ),
    "a number beyond the type": (
        ARROW.set_column(0, "k", pa.array([2**64 - 1] * 4, pa.uint64())),
        SchemaError,
        "does not fit",
    ),
    "something else": (42, InputError, "got a int"),
    "a text": ("1,x", InputError, "got a str"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_whole(session, view, case):
    data, error, message = REFUSED[case]
    session.insert("t", [(7, "before")])
    with pytest.raises(error, match=message):
        session.insert("t", data)
    session.advance()
    assert contents(view) == Counter([(7, "before")])


MOMENTS = {
    "at timestamp": "give a datetime.datetime, in UTC if it has no time zone, or a whole number of microseconds since",
    "at timestamp_ntz": "give a datetime.datetime without a time zone, or a whole number of microseconds since 1970",
    "at date": "give a datetime.date, or a whole number of days since 1970",
    "at time": "give a datetime.time, or a whole number of microseconds since midnight",
}


@pytest.mark.parametrize("schema", MOMENTS)
def test_a_moment_is_no_fraction_and_no_text(session, schema):
    wanted = MOMENTS[schema]
    session.maintain("v", an.source("m", f"k long, {schema}"))
    with pytest.raises(SchemaError, match=f"row 1 for source 'm' has 1.7 in column 'at', .*; {wanted}"):
        session.insert("m", [(1, None), (2, 1.7)])
    with pytest.raises(SchemaError, match=f"row 0 for source 'm' has 'soon' in column 'at', .*; {wanted}"):
        session.insert("m", [(1, "soon")])


@pytest.mark.parametrize("value", [5, 1.5, True])
def test_an_interval_is_no_number(session, value):
    session.maintain("v", an.source("m", "gap interval day to second"))
    said = f"row 1 for source 'm' has {value!r} in column 'gap', .*; give a datetime.timedelta$"
    with pytest.raises(SchemaError, match=said):
        session.insert("m", [(None,), (value,)])
    session.insert("m", [(timedelta(days=1),)])


def test_a_timestamp_without_a_time_zone_takes_none_with_one(session):
    view = session.maintain("v", an.source("m", "at timestamp_ntz"))
    noon = datetime(2026, 3, 31, 12, tzinfo=UTC)
    for zone in (UTC, timezone(timedelta(hours=2))):
        with pytest.raises(SchemaError, match=r"row 1 for source 'm' has .* give a datetime.datetime without a time"):
            session.insert("m", [(None,), (noon.astimezone(zone),)])
    session.insert("m", [(noon.replace(tzinfo=None),)])
    session.advance()
    assert view.to_pylist() == [(noon.replace(tzinfo=None),)]


def test_a_float_beyond_its_type_is_infinite_as_in_spark(session):
    """PySpark's createDataFrame and CAST(1e300 AS FLOAT) make the same of it."""
    view = session.maintain("v", an.source("m", "x float"))
    session.insert("m", [(1e300,), (-1e300,)])
    session.advance()
    assert sorted(view.to_pylist()) == [(float("-inf"),), (float("inf"),)]


def test_a_decimal_says_what_it_takes(session):
    session.maintain("v", an.source("m", "p decimal(10,2)"))
    with pytest.raises(SchemaError, match=r"has 1.25 in column 'p', which is decimal\(10,2\); give a decimal.Decimal"):
        session.insert("m", [(1.25,)])


def test_a_column_that_is_named_beside_the_rows_is_told_from_the_sources_own(session, view):
    with pytest.raises(SchemaError, match=r"of which kk is named by an argument and not .*; did you mean 'k'"):
        session.insert("t", [(1, "x")], time="kk")


def test_a_column_in_another_case_is_told(session, view):
    with pytest.raises(SchemaError, match="lacks column 'k'; it has: K, s; did you mean 'K'"):
        session.insert("t", ARROW.rename_columns(["K", "s"]))


def test_the_schema_of_a_dataframe_is_one_of_a_source():
    from pyspark.sql.types import ArrayType, DecimalType, LongType, MapType, StringType, StructField, StructType

    inner = StructType([StructField("a b", LongType()), StructField("c", MapType(StringType(), LongType()))])
    schema = StructType(
        [
            StructField("id", LongType(), nullable=False),
            StructField("the name", DecimalType(10, 2)),
            StructField("xs", ArrayType(inner)),
        ]
    )
    ddl = "id bigint not null, `the name` decimal(10,2), xs array<struct<`a b`:bigint,c:map<string,bigint>>>"
    assert an.source("t", schema).schema == an.source("t", ddl).schema
    with pytest.raises(SchemaError, match="or a DataFrame's schema, got LongType"):
        an.source("t", LongType())


def test_null_where_none_is_allowed_is_refused(session):
    view = session.maintain("v", an.source("n", "x long not null"))
    with pytest.raises(SchemaError, match="'x' of source 'n' is NOT NULL, but row 1 has a null"):
        session.insert("n", [1, None])
    session.insert("n", [1])
    session.advance()
    assert view.to_pylist() == [(1,)]


def test_a_dictionary_without_a_key_that_is_needed_is_told_of_as_such(session):
    view = session.maintain("v", an.source("n", "x long not null, y long not null, z long"))
    for data, told in (
        ([{"x": 1, "y": 2}, {"x": 1, "z": 3}], r"^row 1 for source 'n' lacks the key 'y', whose column is NOT NULL$"),
        ([{"z": 1}], r"^row 0 for source 'n' lacks the key 'x', whose column is NOT NULL$"),
        ([{"x": 1, "y": None}], "'y' of source 'n' is NOT NULL, but row 0 has a null there"),
    ):
        with pytest.raises(SchemaError, match=told):
            session.insert("n", data)
    session.insert("n", [{"x": 1, "y": 2}])  # null where a column may be null
    session.advance()
    assert view.to_pylist() == [(1, 2, None)]


def test_an_unknown_source_is_refused_by_name(session, view):
    with pytest.raises(UnknownSourceError, match="'u'; the sources are: t"):
        session.insert("u", [(1, "x")])
    with an.Session() as empty, pytest.raises(UnknownSourceError, match="maintain a view first"):
        empty.insert("t", [])


def test_the_past_is_closed(session, view):
    session.insert("t", [(1, "x")])
    session.advance(to=4)
    with pytest.raises(BeforeFrontierError, match="time 3 is closed: the session's lower is 4"):
        session.insert("t", [(2, "y")], time=3)
    with pytest.raises(BeforeFrontierError, match=r"row 1 .* has time 3"):
        session.insert("t", [(2, "y", 4), (3, "z", 3)], time="when")
    with pytest.raises(InputError, match=r"advance\(to=4\) would go back"):
        session.advance(to=4)
    session.advance()
    assert contents(view) == Counter([(1, "x")])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, "x", None)], "null in row 0; every row needs a"),
        (pa.table({"k": [1], "s": ["x"], "c": [1.5]}), "is double, but a .* is a whole number"),
        (pa.table({"k": [1], "s": ["x"], "c": pa.array([2**64 - 1], pa.uint64())}), "beyond 64 bits"),
        (pa.table({"k": [1], "s": ["x"]}), "is not a column of the data; its columns are: k, s"),
    ],
)
@pytest.mark.parametrize("what", ["time", "diff"])
def test_a_column_of_times_or_diffs_holds_whole_numbers(session, view, rows, message, what):
    with pytest.raises(SchemaError, match=message):
        session.insert("t", rows, **{what: "c"})
    session.advance()
    assert contents(view) == Counter()


@pytest.mark.parametrize("bad", [{"time": 1.5}, {"diff": 0.5}, {"time": True}, {"diff": False}])
def test_a_time_or_diff_that_is_no_number_is_refused(session, view, bad):
    with pytest.raises(InputError):
        session.insert("t", [(1, "x")], **bad)


def test_numbers_of_numpy_are_numbers():
    """As times of rows, of steps and of reading, and as diffs."""
    rows = an.source("known", "k int", time=("known", "day"))
    with an.Session() as session:
        view = session.maintain("view", rows)
        session.insert("known", [(1,)], time=(np.int64(2), np.int32(3)), diff=np.int64(2))
        session.insert("known", [(2,)], time=(np.int64(2), np.uint8(9)))
        session.advance(to=np.int64(4), event=np.int64(2))
        assert [list(r.values()) for r in view.changes().to_pylist()] == [[1, 2, 3, 2], [2, 2, 9, 1]]
        assert view.to_pylist(at=(np.int64(3), np.int64(5))) == [(1,), (1,)]
        with pytest.raises(InputError, match="event=True is neither a whole number nor the name of a column"):
            session.insert("known", [(1,)], time=(5, True))


def test_times_and_diffs_stay_within_int64(session, view):
    with pytest.raises(InputError):
        session.insert("t", [(1, "x")], time=2**63)
    with pytest.raises(InputError):
        session.insert("t", [(1, "x")], diff=2**63)
    with pytest.raises(DiffOverflowError):
        session.retract("t", [(1, "x", -(2**63))], diff="n")
    session.insert("t", [(1, "x")])
    session.advance()
    assert contents(view) == Counter([(1, "x")])


def test_discard_forgets_what_was_inserted(session, view):
    session.insert("t", [(1, "x")])
    session.discard("t")
    session.insert("t", [(2, "y")])
    session.advance()
    assert contents(view) == Counter([(2, "y")])
    session.insert("t", [(3, "z")])
    session.discard()
    assert session.advance().changes_in == 0


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("array<int>", [1.5]),
        ("struct<a: int>", {"a": 1.5}),
        ("map<string, long>", {"a": 1.5}),
        ("array<array<int>>", [[1.5]]),
    ],
)
def test_a_fraction_inside_a_value_is_refused(column, value):
    with an.Session() as session:
        session.maintain("view", an.source("nested", f"x {column}"))
        with pytest.raises(SchemaError, match="in column 'x'"):
            session.insert("nested", [(value,)])


MAPS = pa.map_(pa.string(), pa.int32())
TWO_MAPS = [[("b", 2), ("a", 1)], [("a", 1), ("b", 2)]]
WAYS = {
    "dictionaries": [({"a": 1, "b": 2},), ({"b": 2, "a": 1},)],
    "pairs": [(m,) for m in TWO_MAPS],
    "a table": pa.table({"m": pa.array(TWO_MAPS, MAPS)}),
    "a sliced table": pa.table({"m": pa.array([None, *TWO_MAPS], MAPS)}).slice(1),
}


@pytest.mark.parametrize("way", WAYS)
def test_maps_cancel_whatever_the_order_of_their_entries(way):
    with an.Session() as session:
        source = an.source("maps", "m map<string, int>")
        views = [
            session.maintain("rows", source),
            session.maintain("nested", source.select("array(struct(m)) as x")),
        ]
        session.insert("maps", WAYS[way])
        session.advance()
        inner = [("a", 1), ("b", 2)]
        assert [v.to_pylist() for v in views] == [[(inner,)] * 2, [([{"m": inner}],)] * 2]
        for order in ({"b": 2, "a": 1}, {"a": 1, "b": 2}):
            session.retract("maps", [(order,)])
            session.advance()
        assert [v.to_pylist() for v in views] == [[], []]


def test_maps_that_expressions_and_functions_make_cancel_too():
    with an.Session() as session:
        source = an.source("words", "w string, n long")
        result = [
            source.select("map(w, n, 'm', 0L) as m"),
            source.select("map_from_arrays(array(w, 'm'), array(n, 0L)) as m"),
            source.select("CAST(map(n, w, 5L, 'five') AS map<string, string>) as m"),
            source.map(lambda r: {"m": {r.w: r.n, "m": 0}}, "m map<string, long>"),
        ]
        sides = [m.map(lambda r: {"m": list(reversed(r.m))}, m.schema).negate() for m in result]
        keys = session.maintain("keys", source.select("map_keys(map(w, 1, 'm', 2)) as ks"))
        views = [session.maintain(f"v{i}", a.concat(b)) for i, (a, b) in enumerate(zip(result, sides, strict=True))]
        session.insert("words", [("z", 1), ("a", 2), ("zz", 10), ("b", 30)])
        session.advance()
        assert [v.to_pylist() for v in views] == [[], [], [], []]
        assert sorted(keys.to_pylist()) == [(["a", "m"],), (["b", "m"],), (["m", "z"],), (["m", "zz"],)]


def test_a_map_with_a_key_twice_is_refused():
    twice = [("a", 1), ("b", 2), ("a", 3)]
    with an.Session() as session:
        view = session.maintain("view", an.source("maps", "m map<string, int>"))
        for data in ([({"a": 1},), (twice,)], pa.table({"m": pa.array([[], twice], MAPS)})):
            with pytest.raises(
                SchemaError, match=r"column 'm' of source 'maps' has a map with a repeated key in row 1"
            ):
                session.insert("maps", data)
        session.advance()
        assert view.to_pylist() == []
        result = session.maintain(
            "made", an.source("n", "n long").map(lambda r: {"m": [(1, 2), (r.n, 3)]}, "m map<long, long>")
        )
        session.insert("n", [(1,), (2,)])
        session.advance()
        assert result.to_pylist(errors="ignore") == [([(1, 2), (2, 3)],)]
        assert [e["code"] for e in result.errors().to_pylist()] == ["PYTHON_RESULT_TYPE"]


ZONED = datetime(2020, 1, 1, tzinfo=timezone(timedelta(hours=2)))
UNFIT = [  # which pyarrow takes, and cuts or reads as something else
    ("date", 1.5, "1.5 is no date32"),
    ("timestamp", 1.5, "1.5 is no timestamp"),
    ("timestamp_ntz", ZONED, r"tzinfo=.* is no timestamp\[us\]"),
    ("interval day to second", 3, "3 is no duration"),
    ("time(6)", dt.time(1, tzinfo=UTC), r"tzinfo=.* is no time64"),
    ("long", Decimal("Infinity"), r"Decimal\('Infinity'\) is no int64"),
    ("array<string>", "ab", "an array must be a list or a tuple, got 'ab'"),
    ("array<long>", {2, 1}, r"an array must be a list or a tuple, got \{1, 2\}"),
    ("struct<a: long, b: string>", {"a": 1, "c": 2}, "'c' is none of the fields a, b"),
    ("struct<a: long, b: string>", [("a", 1), ("c", 2)], "'c' is none of the fields a, b"),
    ("struct<a: long, b: string>", (1,), r"\(1,\) must have the 2 fields a, b"),
]


@pytest.mark.parametrize(("inner", "value", "said"), UNFIT)
@pytest.mark.parametrize("around", ["{}", "array<{}>", "struct<x: {}>", "struct<x: array<{}>>", "map<string, {}>"])
def test_values_that_do_not_fit_are_refused_at_any_depth(inner, value, said, around):
    inside = {
        "{}": value,
        "array<{}>": [value],
        "struct<x: {}>": {"x": value},
        "struct<x: array<{}>>": ([value],),
        "map<string, {}>": {"k": value},
    }
    with an.Session() as session:
        session.maintain("v", an.source("s", f"c {around.format(inner)}"))
        is_nested = around != "{}" or "<" in inner
        with pytest.raises(SchemaError, match=f"row 1 for source 's' has .* in column 'c', which .*{said * is_nested}"):
            session.insert("s", [(None,), (inside[around],)])
        session.insert("s", [(None,)])
        session.advance()
        assert session.view("v").to_pylist() == [(None,)]


def test_keys_that_are_no_fields_are_left_out_if_asked_for():
    with an.Session() as session:
        view = session.maintain("v", an.source("s", "c struct<a: long, b: array<struct<x: long>>>"))
        session.insert("s", [({"a": 1, "b": [{"x": 2, "y": 3}], "c": 4},)], extra="ignore")
        session.advance()
        assert view.to_pylist() == [({"a": 1, "b": [{"x": 2}]},)]
