"""Values too large for a column or for memory: error rows before there is memory for them, and fewer rows at a time."""

from __future__ import annotations

import resource
import subprocess
import sys

import pyarrow as pa
import pytest

import altneu as an
from altneu import Session
from altneu.errors import TooWideError
from altneu.expressions import limits
from altneu.operators.linear import logic as linear

ROWS = an.source("rows", "k long, s string", keep=True)
LARGE = {
    "repeat(s, 2000000000)": "VALUE_TOO_LARGE",
    "space(cast(k as int) * 2000000000)": "ARITHMETIC_OVERFLOW",
    "lpad(s, 2000000000, 'é')": "VALUE_TOO_LARGE",
    "rpad(s, 2000000000, 'é')": "VALUE_TOO_LARGE",
    "array_repeat(s, 2000000000)": "COLLECTION_SIZE_LIMIT_EXCEEDED",
    "sequence(1, k * 5000000000)": "COLLECTION_SIZE_LIMIT_EXCEEDED",
    "sequence(-9000000000000000000, k * 2000000000000000000)": "COLLECTION_SIZE_LIMIT_EXCEEDED",
    "sequence(k, 9000000000000000000)": "COLLECTION_SIZE_LIMIT_EXCEEDED",
}


@pytest.mark.parametrize("expression", LARGE)
def test_a_value_beyond_the_limits_is_an_error_row(expression):
    with Session() as session:
        view = session.maintain("v", ROWS.filter("k > 1").select("k", x=f"{expression}"))
        session.maintain("w", ROWS.select("k"))
        session.insert("rows", [(0, "x"), (4, "abcd")])
        session.advance()
        (failed,) = view.errors().to_pylist()
        assert failed["code"] == LARGE[expression]
        session.retract("rows", [(4, "abcd")])
        session.advance()
        assert view.to_pylist() == []


def test_memory_is_not_taken_for_what_is_refused():
    program = """if True:
        import resource, altneu as an
        rows = an.source("rows", "k long, s string")
        with an.Session() as session:
            view = session.maintain("v", rows.select(x="size(sequence(1, k))", y="length(repeat(s, 2000000000))"))
            session.insert("rows", [(5, "")])
            session.advance()
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            session.insert("rows", [(5_000_000_000, ""), (1, "abcd")])
            session.advance()
            print(view.errors().num_rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    errors, megabytes = map(int, done.stdout.split())
    assert errors == 2
    assert megabytes < 100
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # the module is there: the program's figures are real


EXPRESSIONS = {
    "texts": ("repeat(s, 40)", "length(x)"),
    "padded": ("lpad(s, 40)", "length(x)"),
    "a constant": ("s || repeat('z', 300)", "length(x)"),
    "arrays": ("sequence(k, k + 40)", "size(x)"),
    "copies": ("array_repeat(s, 40)", "size(x)"),
    "a function": ("s", None),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_many_medium_values_are_made_for_fewer_rows_at_a_time(name, monkeypatch):
    expression, size = EXPRESSIONS[name]
    made = ROWS.select("k", x=expression)
    plan = made.select("k", n=size) if size else made.map(lambda r: (r.k, len(r.x)), "k long, n int")
    rows = [(i, f"s{i}") for i in range(500)]

    def contents():
        with Session() as session:
            view = session.maintain("v", plan)
            table = session.maintain("t", made)
            session.insert("rows", rows)
            session.advance()
            return sorted(view.to_pylist()), sorted(table.to_pylist())

    whole = contents()
    evaluated = []
    block = linear.run_block

    def counting(steps, spans, failures):
        evaluated.append(len(spans))
        return block(steps, spans, failures)

    monkeypatch.setattr(linear, "run_block", counting)
    monkeypatch.setattr(limits, "CHUNK_BYTES", 1 << 12)
    assert contents() == whole
    if size and "||" not in expression:
        assert max(evaluated) == 500
        assert min(evaluated) < 100, "chunks were halved until they fitted"


def test_a_large_constant_is_not_made_when_a_plan_is():
    node = ROWS.select(x="repeat('abcd', 1000000000)")
    assert "repeat" in str(node.node.describe() if hasattr(node.node, "describe") else node)
    with limits.bounded(10), pytest.raises(TooWideError, match="evaluate fewer"):
        limits.claim(11, 2)
    with limits.bounded(10):
        limits.claim(11, 1)


def refusing(block):
    """A block that has room for three rows, and for none with k = 7."""

    def overflowing(steps, spans, failures):
        ks = spans.rows.column("k").to_pylist()
        if len(ks) > 3 or 7 in ks:
            raise pa.ArrowInvalid("offset overflow while concatenating arrays")
        return block(steps, spans, failures)

    return overflowing


def test_an_overflow_that_arrow_reports_halves_too_and_leaves_a_single_row_as_an_error(monkeypatch):
    with Session() as session:
        view = session.maintain("v", ROWS.select("k", x="length(repeat(s, 2))"))
        monkeypatch.setattr(linear, "run_block", refusing(linear.run_block))
        session.insert("rows", [(i, f"s{i}") for i in range(20)])
        session.advance()
        assert len(view.to_arrow(errors="ignore")) == 19
        (failed,) = view.errors().to_pylist()
        assert failed["code"] == limits.VALUE_TOO_LARGE
        assert '"k": 7' in failed["row"]
        session.retract("rows", [(7, "s7")])
        session.advance()
        assert len(view.to_pylist()) == 19


def test_where_nobody_reads_errors_the_row_is_not_lost(monkeypatch):
    with Session() as session:
        view = session.maintain("v", ROWS.select("k", x="length(s)"))
        with monkeypatch.context() as patch:
            patch.setattr(linear, "run_block", refusing(linear.run_block))
            session.insert("rows", [(i, f"s{i}") for i in range(20)])
            with pytest.raises(TooWideError, match='"k": 7'):
                session.advance()
        session.advance()
        assert len(view.to_pylist()) == 20
