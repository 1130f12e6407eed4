"""Views that ask for one order of the same rows keep it once: what is shared, what is not, and that answers stay."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import altneu as an
from altneu.operators.arrange.operation import ArrangeOp
from altneu.sql import query

T = an.source("t", "g int, id long, v long, x double, w string", keep=True)
OVER = "OVER (PARTITION BY g ORDER BY"


def in_sql(text):
    return query(text, {"t": T})


PLANS = {
    "top": T.top_k(3, "v", per="g"),
    "top_desc": T.top_k(3, "v desc", per="g"),
    "top_v_w": T.top_k(3, "v, w", per="g"),
    "top_narrow": T.select("g", "v").top_k(3, "v", per="g"),
    "top_narrow_desc": T.select("g", "v").top_k(3, "v desc", per="g"),
    "top_key_behind": T.select("v", "g").top_k(3, "v", per="g"),
    "top_of_some": T.filter("x > 0").top_k(3, "v", per="g"),
    "top_x": T.top_k(2, "x desc", per="g"),
    "top_of_all": T.top_k(3, "v"),
    "min": in_sql("SELECT g, min(v) m FROM t GROUP BY g"),
    "max": in_sql("SELECT g, max(v) m FROM t GROUP BY g"),
    "max_per_id": in_sql("SELECT g, max(v) m FROM (SELECT id AS g, v FROM t) GROUP BY g"),
    "max_of_all": in_sql("SELECT max(v) m FROM t"),
    "max_of_some": in_sql("SELECT g, max(v) m FROM t WHERE x > 0 GROUP BY g"),
    "extremes": in_sql("SELECT g, min(v) a, max(v) b FROM t GROUP BY g"),
    "median": in_sql("SELECT g, median(x) m FROM t GROUP BY g"),
    "several": in_sql("SELECT g, count(*) n, median(x) m, max(v) b, min(x) a FROM t GROUP BY g"),
    "lag": in_sql(f"SELECT g, id, v, lag(v) {OVER} v) l FROM t"),
    "lag_desc": in_sql(f"SELECT g, id, v, lag(v) {OVER} v DESC) l FROM t"),
    "lag_narrow": in_sql(f"SELECT g, v, lag(v) {OVER} v) l FROM t"),
    "lag_key_behind": in_sql(f"SELECT v, g, lag(v) {OVER} v) l FROM (SELECT v, g FROM t)"),
    "lag_narrow_desc": in_sql(f"SELECT g, v, lag(v) {OVER} v DESC) l FROM t"),
    "moving": in_sql(f"SELECT g, id, v, sum(id) {OVER} v, id ROWS 2 PRECEDING) l FROM t"),
    "rank": in_sql(f"SELECT *, rank() {OVER} v) l FROM t"),
    "rank_narrow": in_sql(f"SELECT g, v, rank() {OVER} v) l FROM t"),
    "rank_v_w": in_sql(f"SELECT *, rank() {OVER} v, w) l FROM t"),
    "first_ranks": in_sql(f"SELECT * FROM (SELECT *, rank() {OVER} v) r FROM t) WHERE r <= 2"),
    "dense_rank": in_sql(f"SELECT *, dense_rank() {OVER} v) l FROM t"),
    "running": in_sql(f"SELECT *, sum(x) {OVER} v) l, max(id) {OVER} v) m FROM t"),
    "first_values": in_sql(f"SELECT *, first_value(id) {OVER} v) l, sum(x) {OVER} v) m FROM t"),
    "between": in_sql(f"SELECT *, sum(id) {OVER} v RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) l FROM t"),
    "running_key_behind": in_sql(f"SELECT *, sum(x) {OVER} v) l FROM (SELECT id, v, x, w, g FROM t)"),
    "python_key_behind": T.select("w", "g", "v")
    .group_by("g")
    .reduce(lambda _, rows: [(repr([(row.v, row.w, n) for row, n in rows]),)], "n string", needs=an.first(3, by="v")),
    "python": T.group_by("g").reduce(lambda _, rows: [(len(rows),)], "n long", needs=an.first(3, by="v")),
}
SHARED = {
    ("top", "extremes"): "the ends of a column in the order of whole rows",
    ("top", "several"): "a part of several aggregates",
    ("top", "lag"): "fewer columns, of which those that remain decide ties in the same order",
    ("top", "top_narrow"): "the same",
    ("top", "top_key_behind"): "the same, where the key is not the first column",
    ("top", "lag_key_behind"): "looking around, where the key is not the first column",
    ("top_v_w", "python_key_behind"): "a function of the first rows, where the key is not their first column",
    ("top", "python"): "a function of the first rows",
    ("top_x", "median"): None,
    ("top_desc", "extremes"): "the other direction",
    ("top_narrow", "top_narrow_desc"): "the other direction, where nothing else decides ties",
    ("lag_narrow", "lag_narrow_desc"): "the other direction, looking around",
    ("top_v_w", "extremes"): "a prefix of an order",
    ("top_v_w", "top_narrow"): "a prefix of an order, where nothing else decides ties",
    ("rank_v_w", "rank"): "a prefix of an order, of which ties are peers",
    ("rank_v_w", "running"): "the same, of running sums and extremes",
    ("rank_v_w", "between"): None,  # the ends of its frames are columns that are computed for it
    ("top_v_w", "top"): None,  # whose ties are decided by the whole row, and not by w first
    ("top", "top_desc"): None,  # in both directions by the whole row ascending
    ("top", "top_x"): None,
    ("rank_v_w", "first_values"): None,  # the first of equal rows is another there
    ("top", "rank_narrow"): None,  # rows behind a change may be many where it has few
    ("rank_v_w", "first_ranks"): None,  # all rows that are equal in v are needed, and cannot be told apart there
    ("top", "top_of_some"): None,
    ("top", "max_per_id"): None,  # whose groups are those of another column that it calls g
    ("top_of_some", "max_of_some"): "of the same filter",
    ("top", "top_of_all"): None,
    ("top_of_all", "max_of_all"): "of all rows",
}
ROWS = [(i % 3, i, i * 7919 % 1009, i % 31 / 7, f"w{i % 13}") for i in range(600)]


def orders(session):
    """The arrangements in an order that a session keeps, with their rows and bytes."""
    facts, nodes = session._engine.facts(), session._engine.plan.nodes
    names = [n.operation.arrangement for n in nodes if isinstance(n.operation, ArrangeOp) and n.operation.layout.order]
    return {name: (facts.rows(name), facts.bytes(name)) for name in names}


def kept(*names):
    """What a session keeps in an order for some views, added one after the other."""
    with an.Session() as session:
        for name in names:
            session.maintain(name, PLANS[name])
        session.insert("t", ROWS)
        session.advance()
        return orders(session), session.explain(names[-1])


@pytest.mark.parametrize("names", SHARED, ids=" ".join)
def test_a_second_view_keeps_no_order_of_its_own_where_there_is_one_that_serves_it(names):
    (both, text), *alone = kept(*names), *(kept(name) for name in names)
    first, second = (found for found, _ in alone)
    if SHARED[names]:
        assert both.keys() == first.keys() | (both.keys() & second.keys() if names[1] == "several" else set())
        assert sum(rows for rows, _ in both.values()) < sum(
            rows for found in (first, second) for rows, _ in found.values()
        )
        assert sum(size for _, size in both.values()) < sum(
            size for found in (first, second) for _, size in found.values()
        )
    else:
        assert both.keys() >= first.keys()
        assert len(both) == len(first) + len(second)
    assert any(", in order of" in line and f"shared with {names[0]}" in line for line in text.splitlines()) == bool(
        SHARED[names]
    )


def test_ten_views_keep_what_one_does():
    names = ["top", "min", "max", "extremes", "top_narrow", "top_narrow_desc", "lag", "lag_narrow", "python", "rank"]
    together, _ = kept(*names)
    apart = [kept(name)[0] for name in names]
    assert len(together) == 1
    assert [rows for rows, _ in together.values()] == [len(ROWS)]
    assert sum(rows for found in apart for rows, _ in found.values()) == len(names) * len(ROWS)


def test_a_view_shares_within_its_own_plan():
    plan = T.top_k(3, "v", per="g").select("g", a="v").join(PLANS["max"], on="g")
    with an.Session() as session:
        session.maintain("view", plan)
        assert len(orders(session)) == 1


def answer(session, name):
    return sorted(map(repr, session.view(name).to_arrow(errors="ignore").to_pylist()))


def history(rng):
    """Changes of some steps: ties, nulls, NaN, duplicates, retractions, and rows below zero."""
    live, changes = [], []
    values = [None, *range(rng.choice([3, 300]))]
    for _ in range(rng.randint(2, 5)):
        step = []
        for _ in range(rng.choice([1, 4, 120])):
            if live and rng.random() < 0.45:
                step.append((live.pop(rng.randrange(len(live))), -1))
                continue
            x, w = rng.choice([None, -1.0, 0.5, 2.5, float("nan")]), rng.choice([None, "a", "b", "alike 1", "alike 2"])
            live.append((rng.choice([1, 1, 2, None]), rng.randrange(20), rng.choice(values), x, w))
            step.append((live[-1], 1))
        if rng.random() < 0.2:
            step.append(((1, 5, 3, 0.5, "a"), rng.choice([1, -1])))
        changes.append(step)
    return changes


def run(names, changes, *, late=0, **options):
    """The answers of views after each step; all but the first may come after some steps."""
    result = []
    with an.Session(**options) as session:
        for i, step in enumerate([[], *changes]):
            for row, diff in step:
                session.insert("t", [row], diff=diff)
            if i:
                session.advance()
            for name in names if i >= late else names[:1]:
                session.maintain(name, PLANS[name])
            result.append({name: answer(session, name) for name in session.views})
        return result, len(orders(session))


def agree(seed, *names, **options):
    """Check that views of one session, some if none is named, have the answers that each has alone; if they share."""
    rng = random.Random(seed)
    names, changes = names or rng.sample(sorted(PLANS), rng.randint(2, 4)), history(rng)
    together, count = run(names, changes, late=rng.choice([0, 0, len(changes) - 1]), **options)
    alone = {name: run([name], changes) for name in names}
    for step, found in enumerate(together):
        for name, rows in found.items():
            assert rows == alone[name][0][step][name], (seed, names, name, step)
    return count < sum(many for _, many in alone.values())


@pytest.mark.parametrize("shards", [1, 3])
def test_views_that_share_orders_have_the_answers_that_they_have_alone(shards):
    assert sum(agree(seed, shards=shards) for seed in range(1_000 * shards, 1_000 * shards + 40)) > 10


@pytest.mark.parametrize("name", ["top_key_behind", "lag_key_behind", "python_key_behind", "running_key_behind"])
def test_views_of_which_the_key_is_not_the_first_column_have_their_columns_in_order(name):
    for seed in range(3):
        agree(seed, "top", name)
        agree(seed, "top_v_w", name)


@pytest.mark.spark
@pytest.mark.parametrize("placement", ["spark", "driver"])
def test_views_that_share_orders_have_them_on_spark(spark, placement):
    names = ["top_v_w", "extremes", "several", "rank", "lag_narrow_desc", "top_narrow"]
    assert agree(1, *names, spark=spark, placement=placement)


def pairs():
    return [names for names, why in SHARED.items() if why]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("names", pairs(), ids=" ".join)
def test_a_view_remembers_where_it_reads(names, first, tmp_path):
    """Whichever is maintained first when the store is opened; and when the other view is dropped."""
    with an.Session(path=tmp_path) as session:
        for name in names:
            session.maintain(name, PLANS[name])
        session.insert("t", ROWS[:400])
        session.advance()
        before = orders(session)
    with an.Session(path=tmp_path) as session:
        for name in (names[first], names[1 - first]):
            session.maintain(name, PLANS[name])
        assert orders(session).keys() == before.keys()
        session.drop(names[0])
        assert orders(session).keys() & before.keys()
        session.insert("t", ROWS[400:])
        session.insert("t", ROWS[100:300], diff=-1)
        session.advance()
        ((found, *_), _) = run(names[1:], [[]])  # of nothing
        assert answer(session, names[1]) != found[names[1]]
        with an.Session() as other:
            other.maintain(names[1], PLANS[names[1]])
            other.insert("t", [*ROWS[:100], *ROWS[300:]])
            other.advance()
            assert answer(session, names[1]) == answer(other, names[1])


def test_a_view_of_a_store_that_shares_nothing_goes_on_as_it_is(tmp_path):
    """One that came first keeps its own order, however wide those are that come later."""
    with an.Session(path=tmp_path) as session:
        session.maintain("max", PLANS["max"])
        session.maintain("top", PLANS["top"])
        before = orders(session).keys()
    with an.Session(path=tmp_path) as session:
        session.maintain("top", PLANS["top"])
        session.maintain("max", PLANS["max"])
        assert orders(session).keys() == before
        assert len(before) == 2


def read_in_steps(names, count, read):
    """Rows read by steps that change the ends and the middle of one group in which a value has many rows."""
    with an.Session() as session:
        for name in names:
            session.maintain(name, PLANS[name])
        table = [(1, i, i % 10, i / 7, f"w{i % 7}") for i in range(count)]
        columns = zip(T.schema, zip(*table, strict=True), strict=True)
        session.insert("t", pa.table({field.name: pa.array(list(values), field.type) for field, values in columns}))
        session.advance()
        result = []
        for row, diff in [((1, 0, 0, 0.0, "w0"), -1), ((1, 0, 5, 0.5, "w"), 1), ((1, -1, 9, 0.5, "w"), 1)]:
            session.insert("t", [row], diff=diff)
            read.append(0)
            session.advance()
            result.append(read[-1])
        return result, len(orders(session))


@pytest.mark.parametrize("names", [n for n in pairs() if not {"rank", "running", "python"} & {*n}], ids=" ".join)
def test_what_is_read_of_an_order_with_more_columns_does_not_grow_with_the_group(names, read):
    """Not even where a value that has one row in fewer columns has a tenth of all rows there."""
    (few, kept_few), (many, kept_many) = (read_in_steps(names, count, read) for count in (600, 60_000))
    assert kept_few == kept_many == (2 if "several" in names else 1)
    assert all(b <= 2 * a + 40 for a, b in zip(few, many, strict=True)), (few, many)
    assert max(many) < 1_000


@pytest.mark.parametrize("call", ["median(y)", "count(*) AS n, median(y)", "max(y)", "mode(y)"])
def test_rows_that_are_equal_in_the_order_are_not_all_read(call, read):
    """A percentile shares the rows of a ``top_k``, which have other columns, and most have one value."""
    rows = an.source("rows", "g int, id long, y double")
    counts = []
    for count in (1_000, 30_000):
        with an.Session() as session:
            session.maintain("top", rows.top_k(5, "y, id", per="g"))
            session.maintain("view", query(f"SELECT g, {call} AS m FROM rows GROUP BY g", {"rows": rows}))
            session.insert("rows", [(1, i, 1.0 + (i % 100 == 0)) for i in range(count)])
            session.advance()
            for id_, diff in ((-1, 1), (51, -1), (50, -1)):
                session.insert("rows", [(1, id_, 1.0)], diff=diff)
                read.append(0)
                session.advance()
                counts.append(read[-1])
    assert max(counts[3:]) <= 2 * max(counts[:3]) < 200, counts
