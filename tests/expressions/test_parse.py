"""From text to expressions: names, precedence, what is refused and how it is said."""

from __future__ import annotations

import pyarrow as pa
import pytest

from altneu import types as T
from altneu.columnar.rows import Rows
from altneu.errors import (
    ExpressionSyntaxError,
    NonDeterministicError,
    TypeMismatchError,
    UnknownColumnError,
    UnsupportedFunctionError,
)
from altneu.expressions import literal, parse, parse_aggregate, parse_order, parse_predicate, parse_projection

SCHEMA = T.parse_schema(
    "a int, b int, c boolean, d double, n decimal(10,2), t string, `right.dst` long, "
    "s struct<x:int,y:struct<z:string>>, "
    "xs array<int>, m map<string,int>, ss array<struct<x:int>>, Mixed int, at timestamp, day date"
)


def sql(text):
    return parse(text, SCHEMA).sql


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("`right.dst`", "`right.dst`"),
        ("right.dst", "`right.dst`"),
        ("left.a", "a"),
        ("right.b", "b"),
        ("A", "a"),
        ("mixed", "Mixed"),
        ("s.x", "s.x"),
        ("s.y.z", "s.y.z"),
        ("S.Y.Z", "s.y.z"),
        ("left.s.x", "s.x"),
        ("s['x']", "s.x"),
        ("ss.x", "ss.x"),
        ("m.k", "m['k']"),
        ("xs[0]", "xs[0L]"),
    ],
)
def test_names(text, meaning):
    assert sql(text) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("a + b * 2", "a + (b * 2)"),
        ("a | b & 1 ^ 2", "a | ((b & 1) ^ 2)"),
        ("a = b is null", "(a = b) IS NULL"),
        ("not a = b", "NOT (a = b)"),
        ("!c and c", "(NOT c) AND c"),
        ("c or c and c", "c OR (c AND c)"),
        ("-a.b", None),
        ("a << 1 + 1", "a << 2"),
        ("a - b - 1", "(a - b) - 1"),
        ("t || 'x' || t", "concat(concat(t, 'x'), t)"),
        ("a between 1 and 2 and c", "((a >= 1) AND (a <= 2)) AND c"),
        ("a::string", "CAST(a AS string)"),
        ("- -5", "5"),
        ("-2147483648", "-2147483648"),
        ("2147483648", "2147483648L"),
        ("-9223372036854775808", "-9223372036854775808L"),
        ("1.50", "CAST('1.50' AS decimal(3,2))"),
        ("1e3", "1000.0D"),
        ("1.5BD", "CAST('1.5' AS decimal(2,1))"),
        ("-128Y", "-128Y"),
        ("X'1f'", "X'1F'"),
        ("'it\\'s'", "'it\\'s'"),
        ('"text"', "'text'"),
        ("r'a\\d'", "'a\\\\d'"),
        ("'a' 'b'", "'ab'"),
        ("case a when 1 then 2 end", "CASE WHEN a = 1 THEN 2 END"),
        ("nullif(a, 1)", "CASE WHEN a = 1 THEN CAST(NULL AS int) ELSE a END"),
        ("interval 2 days + day", "date_add(day, 2)"),
        ("1 + 2 * 3", "7"),
        ("upper('x')", "'X'"),
        ("1 = '1'", "true"),
        ("date '2020-02-29'", "DATE '2020-02-29'"),
        ("timestamp '2020-02-29 10:00:00+01:00'", "TIMESTAMP '2020-02-29 09:00:00'"),
    ],
)
def test_grammar(text, meaning):
    if meaning is None:
        with pytest.raises(UnknownColumnError):
            parse(text, SCHEMA)
    else:
        assert sql(text) == meaning


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("zz + 1", UnknownColumnError, "columns are: a, b"),
        ("cast(a as itn)", ExpressionSyntaxError, "there is no type 'itn' (did you mean int?) near 'itn'"),
        ("s.q", UnknownColumnError, "fields of `s`"),
        ("a.x", UnknownColumnError, "'a.x'"),
        ("uper(t)", UnsupportedFunctionError, "upper"),
        ("foo(zz)", UnsupportedFunctionError, "'foo'"),
        ("rand()", NonDeterministicError, "source"),
        ("now() > at", NonDeterministicError, "column that holds the time"),
        ("current_date", NonDeterministicError, "current_date"),
        ("uuid()", NonDeterministicError, "uuid"),
        ("unix_timestamp()", NonDeterministicError, "clock"),
        ("sum(a)", UnsupportedFunctionError, "agg"),
        ("rank() over (order by a)", UnsupportedFunctionError, "window(name="),
        ("(select 1)", UnsupportedFunctionError, "join"),
        ("a in (select 1)", UnsupportedFunctionError, "semijoin"),
        ("a +", ExpressionSyntaxError, "'a +'"),
        ("a; b", ExpressionSyntaxError, "one expression"),
        ("", ExpressionSyntaxError, "empty"),
        ("a, b", ExpressionSyntaxError, "must be one expression, got 2"),
        ("a from t", ExpressionSyntaxError, "from"),
        ("*", ExpressionSyntaxError, "count"),
        ("a where c", ExpressionSyntaxError, "where"),
        ("distinct a", ExpressionSyntaxError, "one expression"),
        ("t + t", TypeMismatchError, "string + string"),
        ("c + 1", TypeMismatchError, "boolean + int"),
        ("a and c", TypeMismatchError, "boolean"),
        ("day = 1", TypeMismatchError, "cannot be compared"),
        ("m = m", TypeMismatchError, "maps"),
        ("cast(c as date)", TypeMismatchError, "cannot be cast"),
        ("if(c, 1, day)", TypeMismatchError, "int, date"),
        ("upper(t, t)", TypeMismatchError, "1 argument"),
        ("d div 2", TypeMismatchError, "whole"),
        ("xs['a']", TypeMismatchError, "whole number"),
        ("a.b.c.d", UnknownColumnError, "a.b.c.d"),
        ("a[0]", TypeMismatchError, "no elements"),
        ("round(d, a)", TypeMismatchError, "constant"),
        ("t rlike '(?=x)'", UnsupportedFunctionError, "look-around"),
        ("date_format(at, 'yyyy B')", UnsupportedFunctionError, "'B'"),
        ("extract(foo from at)", TypeMismatchError, "year"),
        ("cast(a as foo)", ExpressionSyntaxError, "foo"),
        ("cast(a as decimal(60))", TypeMismatchError, "decimal(60,0)"),
        ("count(distinct a)", UnsupportedFunctionError, "agg"),
        ("lower(distinct t)", ExpressionSyntaxError, "DISTINCT"),
        ("at + 1", TypeMismatchError, "timestamp + int"),
        ("transform(a, x -> x)", TypeMismatchError, "takes an array"),
        ("transform(xs, (x, i, j) -> x)", TypeMismatchError, "2 parameters"),
        ("filter(xs, x -> x + 1)", TypeMismatchError, "boolean"),
        ("aggregate(xs, 0L, s -> s)", TypeMismatchError, "2 parameters"),
        ("aggregate(xs, 'a', (s, x) -> x)", TypeMismatchError, "cast the start"),
        ("upper(x -> x)", TypeMismatchError, "no lambda"),
        ("transform(xs, x -> zz)", UnknownColumnError, "'zz'"),
        ("a as b + 1", ExpressionSyntaxError, "a as b"),
    ],
)
def test_refusals_say_what_is_wrong_and_where(text, error, said):
    with pytest.raises(error) as caught:
        parse(text, SCHEMA)
    assert said in str(caught.value)


def test_names_that_differ_by_case_only_are_not_guessed():
    schema = T.parse_schema("a int").append(T.parse_schema("A int").field(0))
    assert parse("A", schema).column_name == "A"
    ambiguous = T.parse_schema("ab int").append(T.parse_schema("aB int").field(0))
    with pytest.raises(UnknownColumnError, match="write one of them as it is, since they differ by case alone"):
        parse("AB", ambiguous)


def test_deep_chains_and_deep_nesting():
    rows = Rows.from_pydict({"a": [1]}, T.parse_schema("a int"))
    assert parse(" + ".join(["a"] * 150), rows.schema).evaluate(rows).values.to_pylist() == [150]
    assert parse(" or ".join(["a > 5"] * 150), rows.schema).evaluate(rows).values.to_pylist() == [False]
    with pytest.raises(ExpressionSyntaxError, match="deep"):
        parse(" + ".join(["a"] * 400), rows.schema)
    with pytest.raises(ExpressionSyntaxError, match="deep"):
        parse("(" * 4000 + "a" + ")" * 4000, rows.schema)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a", "a"),
        ("A", "a"),
        ("a as x", "x"),
        ("a + b x", "x"),
        ("right.dst", "dst"),
        ("`right.dst`", "dst"),
        ("left.a", "a"),
        ("s.y.z", "z"),
        ("(a)", "a"),
        ("a + b", "a + b"),
        ("a as `two words`", "two words"),
    ],
)
def test_projections_name_their_column(text, name):
    assert parse_projection(text, SCHEMA)[0] == name


def test_order_has_sparks_nulls():
    keys = parse_order("a desc, b, t desc nulls first, s.x asc nulls last", SCHEMA)
    assert [(k.expr.sql, k.descending, k.nulls_first) for k in keys] == [
        ("a", True, False),
        ("b", False, True),
        ("t", True, True),
        ("s.x", False, False),
    ]
    assert parse_order(["a", "b desc"], SCHEMA) == parse_order("a, b desc", SCHEMA)
    with pytest.raises(TypeMismatchError, match="no order"):
        parse_order("m", SCHEMA)


def test_predicates_are_boolean():
    assert parse_predicate("null", SCHEMA).type == T.BOOLEAN
    with pytest.raises(TypeMismatchError, match="must be boolean"):
        parse_predicate("a + 1", SCHEMA)


def test_aggregates():
    actual = parse_aggregate("sum(a * 2) / count(*) + sum(a * 2)", SCHEMA)
    assert [c.sql for c in actual.calls] == ["sum(CAST(a * 2 AS bigint))", "count(*)"]
    assert actual.result.columns == {"#0", "#1"}
    filtered = parse_aggregate("count(distinct a, b) filter (where c)", SCHEMA).calls[0]
    assert (filtered.function, filtered.distinct, len(filtered.args), filtered.filter.sql) == ("count", True, 2, "c")
    assert parse_aggregate("a + max(b)", SCHEMA, keys=("a",)).result.columns == {"a", "#0"}


@pytest.mark.parametrize(
    "text",
    [
        "sum(a)",
        "sum(n)",
        "sum(d)",
        "avg(a)",
        "avg(n)",
        "avg(d)",
        "count(a)",
        "count(*)",
        "min(t)",
        "max(n)",
        "collect_list(a)",
        "collect_set(t)",
        "count_if(c)",
        "bool_and(c)",
        "every(c)",
        "any(c)",
        "some(c)",
        "array_agg(d)",
        "mean(a)",
        "sum(distinct n)",
        "max(s)",
        "count(1)",
        "sum(null)",
        "max(a) - min(n)",
        "stddev(n)",
        "corr(a, n)",
        "regr_count(a, n)",
        "regr_avgx(a, n)",
        "bit_xor(a)",
        "try_sum(n)",
        "try_avg(n)",
        "median(n)",
        "percentile(a, array(0.1, 0.2))",
        "percentile_approx(n, 0.5)",
        "percentile_disc(0.5) within group (order by n)",
        "max_by(t, a)",
        "max_by(s, a, 2)",
        "mode(s)",
        "listagg(a, ',')",
        "any_value(s)",
        "approx_count_distinct(t)",
        "stddev(null)",
        "bit_and(null)",
        "percentile_approx(null, 0.5)",
    ],
)
def test_aggregates_have_sparks_types(spark, text):
    ddl = "a int, b int, c boolean, d double, n decimal(10,2), t string, s struct<x:int>"
    frame = spark.createDataFrame([], ddl)
    theirs = frame.selectExpr(f"{text} as x").schema["x"].dataType.simpleString()
    assert (
        T.type_name(
            parse_aggregate(
                text, T.parse_schema("a int, b int, c boolean, d double, n decimal(10,2), t string, s struct<x:int>")
            ).result.type
        )
        == theirs
    )


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("first(a)", UnsupportedFunctionError, "min_by(x, y) or max_by(x, y)"),
        ("last_value(a)", UnsupportedFunctionError, "min_by(x, y) or max_by(x, y)"),
        ("histogram_numeric(a, 3)", UnsupportedFunctionError, "percentile(x, array("),
        ("product(a)", UnsupportedFunctionError, "exp(sum(ln(x)))"),
        ("hll_sketch_agg(a)", UnsupportedFunctionError, "count(DISTINCT x)"),
        ("approx_top_k(a)", UnsupportedFunctionError, "top_k"),
        ("grouping(a)", UnsupportedFunctionError, "ROLLUP"),
        ("percentile(a, 0.5, b)", UnsupportedFunctionError, "repeat_row"),
        ("percentile(a, 1.5)", TypeMismatchError, "between 0 and 1"),
        ("percentile(a, b)", TypeMismatchError, "between 0 and 1"),
        ("percentile_cont(0.5)", TypeMismatchError, "WITHIN GROUP"),
        ("median(day)", TypeMismatchError, "numbers, not date"),
        ("stddev(c)", TypeMismatchError, "numbers, not boolean"),
        ("sum(a) within group (order by b)", ExpressionSyntaxError, "takes no WITHIN GROUP"),
        ("listagg(t, s)", TypeMismatchError, "constant text"),
        ("listagg(distinct t) within group (order by a)", TypeMismatchError, "ordered by its own values"),
        ("mode(distinct a)", TypeMismatchError, "DISTINCT"),
        ("max_by(a, m)", TypeMismatchError, "maps"),
        ("max_by(a, b, -1)", TypeMismatchError, "above 0"),
        ("bit_or(d)", TypeMismatchError, "whole numbers"),
        ("sum(t)", TypeMismatchError, "string"),
        ("avg(day)", TypeMismatchError, "date"),
        ("a + sum(b)", TypeMismatchError, "neither a key"),
        ("a", TypeMismatchError, "neither a key"),
        ("1 + 1", TypeMismatchError, "no aggregate"),
        ("sum(*)", TypeMismatchError, "count(*)"),
        ("count()", TypeMismatchError, "argument"),
        ("sum(sum(a))", UnsupportedFunctionError, "agg"),
        ("count_if(a)", TypeMismatchError, "boolean"),
        ("max(m)", TypeMismatchError, "maps"),
        ("sum(a) filter (where b)", TypeMismatchError, "boolean"),
        ("sum(a, b)", TypeMismatchError, "1 argument"),
        ("sum(zz)", UnknownColumnError, "zz"),
    ],
)
def test_aggregates_refused(text, error, said):
    with pytest.raises(error) as caught:
        parse_aggregate(text, SCHEMA)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it''s'", "it's"),
        ("r'a''b'", "ab"),
        ("r'a\\n' 'b\\n'", "a\\nb\n"),
        ("'a' r'\\d'", "a\\d"),
        ("''''", "'"),
        ("'a'''", "a'"),
        ("'''a'''''", "'a''"),
        ('"a""b"', 'a"b'),
        ("'a' 'b'", "ab"),
        ("'a'\n'b'", "ab"),
        ("\"a\"'b'", "ab"),
        ("'a\"\"b'", 'a""b'),
        ("'' ''", ""),
    ],
)
def test_a_doubled_quote_is_one_as_in_spark_4(text, value):
    rows = Rows(pa.schema([]), (), 1)
    found = parse(text, rows.schema)
    assert found.evaluate(rows).values.to_pylist() == [value]
    assert parse(found.sql, rows.schema).evaluate(rows).values.to_pylist() == [value]


def test_substitution_fuses_expressions():
    outer, inner = parse("a + b > 3", SCHEMA), parse("b * 2", SCHEMA)
    fused = outer.substitute({"a": inner})
    assert fused == parse("b * 2 + b > 3", SCHEMA)
    assert fused.columns == {"b"}
    assert outer.substitute({"zz": inner}) is outer
    assert outer.substitute({"a": literal(5)}).columns == {"b"}
