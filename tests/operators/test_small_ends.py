"""Walking through groups from their ends gives the answers of the kernels that read and rank their rows."""

from __future__ import annotations

import random

import pytest

import altneu as an
from altneu import sql
from altneu.operators.kernels import below_zero, ends, small_ends
from altneu.operators.reduce import collate, operation, ranked, top_k, window
from tests.operators.small_steps import T, history, shown


def plans():
    for key in ("k", "t", "p", ("k", "t")):
        by = T.group_by(*([key] if isinstance(key, str) else key))
        named = key if isinstance(key, str) else "two"
        yield f"ends of numbers by {named}", by.agg(low="min(v)", high="max(v)")
        yield f"greatest day by {named}", by.agg(high="max(d)")
        yield f"greatest by {named}", by.agg(best="max_by(s, v)", v="max(v)")
        yield f"first by {named}", T.top_k(3, "v desc", per=[key] if isinstance(key, str) else list(key))
    yield "least of everything", T.group_by().agg(low="min(v)")
    yield "first of everything", T.top_k(5, "d").select("d", "v", "s")
    yield "by texts", T.select("k", "s").top_k(2, "s", per="k")
    yield "by floats", T.select("k", "x", "v").top_k(2, "x desc nulls last, v", per="k")
    yield "by decimals", T.select("k", "m", "v").top_k(2, "m, v desc", per="k")
    yield "of ties", T.select("k", "few").top_k(4, "few", per="k")
    yield "of ties that are others", T.select("k", "few", "v").top_k(4, "few desc", per="k")
    for rank in ("rank", "dense_rank"):
        yield f"{rank} of numbers", by_rank(rank, "k, v", "ORDER BY v DESC", 3)
        yield f"{rank} by two keys", by_rank(rank, "k, t, d", "PARTITION BY k, t ORDER BY d", 2)
        yield f"{rank} of copies", by_rank(rank, "k, few", "PARTITION BY k ORDER BY few", 2)
        yield f"{rank} of ties that are others", by_rank(rank, "k, few, v", "PARTITION BY k ORDER BY few, v % 3", 2)


def by_rank(rank, columns, over, most):
    ranked = f"SELECT {columns}, {rank}() OVER ({over}) AS r FROM t"
    return sql.query(f"SELECT {columns} FROM ({ranked}) AS ranked WHERE r <= {most}", {"t": T})


PLANS = dict(plans())


@pytest.fixture
def answered(monkeypatch):
    """How often a kernel answered."""
    counts = {"yes": 0, "no": 0}
    for module, name in ((top_k, "first_rows"), (window, "first_rows"), (ranked, "extremes")):
        ask = getattr(small_ends, name)

        def asked(*given, ask=ask):
            result = ask(*given)
            counts["no" if result is None else "yes"] += 1
            return result

        monkeypatch.setattr(module, name, asked)
    return counts


# Texts that begin alike, NaN beside infinity, and different rows that are equal in the order are left to the others.
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_the_ends_of_groups_say_what_the_groups_say(name, nulls, answered, monkeypatch):
    rng = random.Random(f"{name}{nulls}")
    for _ in range(4):
        often = 7 if "rank of" in name or "rank by" in name else 1 << 41  # ranks are whole numbers of 32 bits
        steps, together = history(rng, nulls, often), rng.choice([1, 1, 3])
        made = shown(PLANS[name], steps, together=together)
        with monkeypatch.context() as patch:
            patch.setattr(operation, "is_small", lambda _: False)
            assert made == shown(PLANS[name], steps, together=together)
    if not nulls and name not in ("by texts", "by floats") and "that are others" not in name:
        assert 2 * answered["yes"] >= answered["no"], answered


@pytest.mark.parametrize("name", ["first by k", "first by t", "by decimals", "rank by two keys"])
def test_that_no_count_is_below_zero_is_told_where_rows_lie(name, monkeypatch):
    rng, told = random.Random(f"below {name}"), {True: 0, False: 0}
    ask = below_zero._none_is

    def asked(given):
        result = ask(given)
        told[result] += 1
        return result

    for _ in range(6):
        steps, together = history(rng, True, 7), rng.choice([1, 1, 3])
        with monkeypatch.context() as patch:
            patch.setattr(below_zero, "_none_is", asked)
            made = shown(PLANS[name], steps, together=together)
        with monkeypatch.context() as patch:
            patch.setattr(below_zero, "_none_is", lambda _: False)
            assert made == shown(PLANS[name], steps, together=together)
    assert told[True] > told[False] / 4 > 0, told


TOGETHER = {
    "by number": T.group_by("k").agg(n="count(*)", high="max(v)", some="count(distinct few)"),
    "by several": T.group_by("k", "few").agg(s="sum(v)", low="min(d)", high="max(d)"),
    "by text": T.group_by("t").agg(n="count(v)", high="max(v)", s="sum(distinct v)"),
    "of everything": T.group_by().agg(n="count(*)", high="max(v)", some="count(distinct s)"),
    "beside percentiles": T.group_by("k").agg(n="count(*)", high="max(v)", m="median(v)"),
    "beside the value at one": T.group_by("k").agg(n="avg(v)", best="max_by(s, v)", low="min(v)"),
}


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("name", TOGETHER)
def test_parts_of_a_group_say_from_where_they_lie_what_they_say_of_its_rows(name, nulls, monkeypatch):
    rng, told = random.Random(f"{name}{nulls}"), []
    for _ in range(4):
        steps, together = history(rng, nulls), rng.choice([1, 1, 3])
        with monkeypatch.context() as patch:
            for part in (collate.SumsPart, collate.OrderedPart, collate.DistinctPart):
                patch.setattr(part, "history", lambda *given, ask=part.history: told.append(ask(*given)) or told[-1])
            made = shown(TOGETHER[name], steps, together=together)
        with monkeypatch.context() as patch:
            for part in (collate.SumsPart, collate.OrderedPart, collate.DistinctPart):
                patch.setattr(part, "history", lambda *_: None)
            assert made == shown(TOGETHER[name], steps, together=together)
    assert sum(one is not None for one in told) > len(told) // 4, told


@pytest.mark.parametrize(
    "name", ["ends of numbers by k", "ends of numbers by t", "first by k", "by decimals", "of ties"]
)
def test_rows_that_are_noted_as_cancelled_are_passed_over_in_all_batches(name, monkeypatch):
    """Of every second step the groups are read as others, which note each row that cancels."""
    rng = random.Random(name)
    for _ in range(4):
        steps = history(rng, rng.random() < 0.3)
        gone = [(row, at, -diff) for at, step in enumerate(steps) for row, _, diff in step if rng.random() < 0.3]
        for row, at, diff in gone:
            if at + 3 < len(steps):
                steps[at + 3].append((row, at + 3, diff))
        with monkeypatch.context() as patch:
            patch.setattr(ends, "LEAST", 1)
            patch.setattr(operation, "is_small", lambda given: rng.random() < 0.5 and small_ends.is_small(given))
            made = shown(PLANS[name], steps)
        with monkeypatch.context() as patch:
            patch.setattr(operation, "is_small", lambda _: False)
            assert made == shown(PLANS[name], steps)


def test_ends_that_many_cancelled_rows_lie_before_are_read_as_others(answered):
    """And what was noted of these is not forgotten by the steps after them."""
    with an.Session() as session:
        view = session.maintain("view", an.source("q", "k bigint, v bigint").group_by("k").agg(low="min(v)"))
        session.insert("q", [(1, i) for i in range(2_000)])
        session.advance()
        for i in range(700):
            session.retract("q", [(1, i)])
            session.advance()
            assert view.to_pylist() == [(1, i + 1)]
    assert answered["yes"] > 500
    assert answered["no"] > 10  # where what cancels is noted
