"""Queries whose cost would grow with an exponent: they are answered at once, or refused by name."""

import functools

import pytest

import altneu as an
from altneu.errors import ExpressionSyntaxError, PlanError, ViewHasErrorsError


@pytest.fixture
def session():
    with an.Session() as session:
        session.sql("CREATE TABLE t (k BIGINT, v BIGINT, d DECIMAL(10, 2)); INSERT INTO t VALUES (1, 2, 3.25)")
        yield session


def nested(form: str, times: int) -> str:
    """A form with one in the place of {}, and so on."""
    return functools.reduce(lambda text, _: form.replace("{}", text), range(times), "v")


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("bigint({})", 2),
        ("bigint(string({}))", 2),
        ("int(double(smallint({})))", 2),
        ("bigint(trim(string({})))", 2),
        ("bigint(day(date(timestamp_seconds({}))) + 1)", 2),
        ("bigint(decimal({}))", 2),
    ],
)
def test_types_that_are_called_may_be_nested(session, form, value):
    """Each was parsed as a type first and then as a call: millions of times here, where two are in each other."""
    assert session.sql(f"SELECT {nested(form, 24 // form.count('('))} AS x FROM t").to_pylist() == [(value,)]


def test_structs_may_be_nested(session):
    (row,) = session.sql(f"SELECT {nested('struct({} AS a)', 25)} AS x FROM t").to_pylist()
    value = row[0]
    for _ in range(25):
        value = value["a"]
    assert value == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("DECIMAL(3, 1) '1.5'", "1.5"),
        ("string(DATE '2024-01-02')", "2024-01-02"),
        ("TIMESTAMP '2024-01-02 03:04:05' > timestamp(date('2024-01-01'))", True),
        ("array(bigint(1), 2)[0]", 1),
        ("bigint('7') < 8", True),
        ("array(1) < array(2)", True),
        ("struct(1 AS a).a", 1),
        ("CAST('1' AS DECIMAL(3, 1))", "1.0"),
        ("bigint (v)", 2),
    ],
)
def test_a_name_of_a_type_is_a_type_or_a_call(session, text, value):
    (row,) = session.sql(f"SELECT {text} AS x FROM t").to_pylist()
    assert row[0] == value or str(row[0]) == value


@pytest.mark.parametrize(
    "form", ["nullif({}, 9)", "CAST(({} BETWEEN 0 AND 3) AS BIGINT)", "CASE {} WHEN 1 THEN 2 WHEN 2 THEN 3 ELSE 4 END"]
)
def test_what_stands_twice_has_a_bound(session, form):
    assert len(session.sql(f"SELECT {nested(form, 4)} AS x FROM t").to_pylist()) == 1
    with pytest.raises(ExpressionSyntaxError, match=r"at most 100,000 calls, got [0-9,]+; .*in a query in FROM"):
        session.sql(f"SELECT {nested(form, 16)} AS x FROM t")
    assert session.sql("SELECT v FROM t").to_pylist() == [(2,)]


@pytest.mark.parametrize(
    "by", ["CUBE({})", "ROLLUP(k), CUBE({})", "GROUPING SETS (CUBE({}), ())", "{} WITH CUBE", "CUBE({}), CUBE(k, v)"]
)
def test_grouping_sets_have_a_bound(session, by):
    keys = ", ".join(f"v + {i}" for i in range(30))
    with pytest.raises(PlanError, match=r"at most 4,096 grouping sets, got [1-9][0-9,]+; name those"):
        session.sql(f"SELECT count(*) AS n FROM t GROUP BY {by.format(keys)}")
    assert len(session.sql("SELECT count(*) AS n FROM t GROUP BY CUBE(k, v, k + v)").to_pylist()) == 8


def test_rounding_to_any_digit(session):
    for digits in (20, 40, 10**9):
        for x in ("v", "d", "CAST(9223372036854775807 AS BIGINT)", "int(v)"):
            row = session.sql(f"SELECT round({x}, -{digits}) AS a, bround({x}, -{digits}) AS b FROM t").to_pylist()
            assert row == [(0, 0)], (x, digits)


def test_messages_have_a_bound(session):
    document = "[" * 20_000 + "1" + "]" * 20_000
    with pytest.raises(ViewHasErrorsError, match=r"… \([0-9,]+ characters\)") as error:
        session.sql(f"SELECT to_json(parse_json('{document}')) AS x FROM t")
    assert len(str(error.value)) < 5_000
    with pytest.raises(PlanError, match="nosuch") as refused:
        session.sql(f"SELECT concat('{'x' * 5_000}', v, nosuch) AS x FROM t")
    assert len(str(refused.value)) < 3_000
    with pytest.raises(PlanError, match=r"cast the operands.*characters\)") as refused:
        session.sql(f"SELECT concat('{'x' * 5_000}', 'a' + 'b') AS x FROM t")
    assert len(str(refused.value)) < 3_000


@pytest.mark.parametrize("count", [150, 198, 199, 200, 201, 1_000])
def test_chains_may_be_long(session, count):
    session.sql("INSERT INTO t VALUES (5, 7, 1), (NULL, 1, 1)")
    ors = " OR ".join(f"k = {i}" for i in range(2, 2 + count))
    ands = " AND ".join(f"k <> {i}" for i in range(2, 2 + count))
    rows = ", ".join(f"({i}, {i + 2})" for i in range(2, 2 + count))
    assert session.sql(f"SELECT v FROM t WHERE {ors}").to_pylist() == [(7,)]
    assert session.sql(f"SELECT v FROM t WHERE NOT ({ors})").to_pylist() == [(2,)]
    assert session.sql(f"SELECT v FROM t WHERE (k, v) IN ({rows})").to_pylist() == [(7,)]
    assert session.sql(f"SELECT CASE WHEN NOT NOT ({ors}) THEN v END AS x FROM t WHERE k = 5").to_pylist() == [(7,)]
    assert session.sql(f"SELECT v FROM t WHERE k + 1 IN (3, 6) AND ({ors.replace('=', '= v - v +')})").to_pylist() == [
        (7,)
    ]
    if count < 198:  # chains of ANDs are as deep as they are long
        found = session.sql(f"SELECT v, {ands} AS x FROM t WHERE ({ands}) IS NOT NULL").to_pylist()
        assert sorted(found) == [(2, True), (7, False)]


def test_long_chains_stop_where_short_ones_do(session):
    """At the first part that decides them, from the left."""
    parts = [f"k = {-i}" for i in range(1, 300)]
    assert session.sql(f"SELECT k FROM t WHERE k = 1 OR {' OR '.join(parts)} OR 1 / (k - 1) > 0").to_pylist() == [(1,)]
    with pytest.raises(ViewHasErrorsError, match="DIVIDE_BY_ZERO"):
        session.sql(f"SELECT k FROM t WHERE 1 / (k - 1) > 0 OR {' OR '.join(parts)} OR k = 1")


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("generate_series(1, 1000000000000)", "1,000,000,000,000"),
        ("generate_series(9223372036854775807, -9223372036854775807, -2)", "9,223,372,036,854,775,807"),
        ("range(2147483633)", "2,147,483,633"),
        ("range(10, 1000000000000, 10)", "99,999,999,999"),
        ("generate_series(TIMESTAMP '0001-01-01', TIMESTAMP '9999-01-01', INTERVAL 1 SECOND)", "315,506,"),
    ],
)
def test_a_series_of_constants_has_a_bound(session, call, count):
    for query in (f"SELECT count(*) FROM {call}", f"SELECT * FROM {call} LIMIT 1", f"SELECT k FROM t, LATERAL {call}"):
        with pytest.raises(PlanError, match=f"a series .* must have at most 2,147,483,632 values, got {count}"):
            session.sql(query)
    assert session.sql("SELECT count(*) AS n FROM range(1, 2147483633, 1000000)").to_pylist() == [(2148,)]
    assert session.sql("SELECT count(*) AS n FROM range(1, 1000000000000, -1)").to_pylist() == [(0,)]


def test_a_series_of_as_many_values_as_an_array_may_have_is_none_too_long():
    an.logic.generate_series(1, 2_147_483_632)
    rows = an.source("rows", "a long")
    rows.generate_series(1, 2_147_483_632)
    with pytest.raises(PlanError, match="got 2,147,483,633"):
        rows.generate_series(1, 2_147_483_633)
