"""Values too large for a column or for memory: error rows before there is memory for them, and fewer rows at a time."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pytest

import altneu as an
from altneu import Session
from altneu.errors import TooWideError
from altneu.expressions import limits, registry
from altneu.expressions.expr import Scope
from altneu.expressions.vector import Vector
from altneu.operators.kernels.spans import show_row
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
def test_many_medium_values_are_computed_for_fewer_rows_at_a_time(name, monkeypatch):
    expression, size = EXPRESSIONS[name]
    result = ROWS.select("k", x=expression)
    plan = result.select("k", n=size) if size else result.map(lambda r: (r.k, len(r.x)), "k long, n int")
    rows = [(i, f"s{i}") for i in range(500)]

    def contents():
        with Session() as session:
            view = session.maintain("v", plan)
            table = session.maintain("t", result)
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


def test_a_large_constant_is_not_computed_when_a_plan_is_built():
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


OBJECT = "to_variant_object(struct(s))"
GROWING = {
    "concat": "length(s || s)",
    "replace": "length(replace(s, 'x', 'yyy'))",
    "lcase_regexp_replace": "length(regexp_replace(s COLLATE UTF8_LCASE, 'X', 'yyy'))",
    "lcase_replace": "length(replace(s COLLATE UTF8_LCASE, 'X', 'yyy'))",
    "lcase_translate": "length(translate(s COLLATE UTF8_LCASE, 'X', 'y'))",
    "regexp_replace": "length(regexp_replace(s, 'x', 'yyy'))",
    "concat_ws": "length(concat_ws(',', s, s))",
    "translate": "length(translate(s, 'x', 'é'))",
    "overlay": "length(overlay(s, s, 3))",
    "hex": "length(hex(s))",
    "base64": "length(base64(binary(s)))",
    "array_join": "length(array_join(split(s, ''), ', '))",
    "array": "size(array(s, s))",
    "array_append": "size(array_append(split(s, 'k'), s))",
    "array_prepend": "size(array_prepend(split(s, 'k'), s))",
    "array_union": "size(array_union(split(s, 'k'), split(s, 'l')))",
    "transform": "size(transform(split(s, ''), x -> s))",
    "encode": "length(encode(s, 'UTF-16'))",
    "decode": "length(decode(s, 'ISO-8859-1'))",
    "to_base32": "length(to_base32(s))",
    "url_encode": "length(url_encode(s))",
    "quote": "length(quote(s))",
    "regexp_extract_all": "size(regexp_extract_all(s, 'x', 0))",
    "array_insert": "size(array_insert(split(s, ''), 1, s))",
    "transform_keys": "size(transform_keys(map(s, 1), (k, v) -> k))",
    "transform_values": "size(transform_values(map(1, s), (k, v) -> v))",
    "zip_with": "size(zip_with(split(s, ''), split(s, ''), (x, y) -> s))",
    "map_concat": "size(map_concat(map('p', s), map('q', s)))",
    "map_zip_with": "size(map_zip_with(map(1, s), map(2, s), (k, v, w) -> s))",
    "named_arrays_zip": "size(arrays_zip(split(s, ''), split(s, '')))",
    "format_string": "length(format_string('%s%s', s, s))",
    "to_json": "length(to_json(struct(s)))",
    "to_csv": "length(to_csv(named_struct('s', s)))",
    "parse_json": "length(string(parse_json(to_json(struct(s)))))",
    "try_parse_json": "length(string(try_parse_json(to_json(struct(s)))))",
    "variant_get": f"length(variant_get({OBJECT}, '$.s', 'string'))",
    "try_variant_get": f"length(try_variant_get({OBJECT}, '$.s', 'string'))",
    "variant_entries": f"size(variant_entries({OBJECT}))",
    "variant_insert": f"length(string(variant_insert({OBJECT}, '$.t', s)))",
    "try_variant_insert": f"length(string(try_variant_insert({OBJECT}, '$.t', s)))",
    "variant_set": f"length(string(variant_set({OBJECT}, '$.s', s)))",
    "try_variant_set": f"length(string(try_variant_set({OBJECT}, '$.s', s)))",
    "variant_array_append": "length(string(variant_array_append(cast(array(s) as variant), '$', s)))",
    "try_variant_array_append": "length(string(try_variant_array_append(cast(array(s) as variant), '$', s)))",
    "to_variant_object": f"length(string({OBJECT}))",
    "schema_of_variant": f"length(schema_of_variant({OBJECT}))",
    "cast": "length(string(split(s, '')))",
    "aggregate": "length(aggregate(split(s, ''), s, (x, y) -> x || y))",
}


def test_every_function_whose_values_grow_is_tried():
    registry.function("concat")
    grows = {f.name for f in registry.FUNCTIONS.values() if f.grows}
    assert grows - {"try_cast"} == {*GROWING} - {"aggregate"}


def full_for(name, monkeypatch):
    """Arrow has no room for what a function makes of a text with an x, even alone: what it says of gigabytes."""
    function = registry.function(name)
    kernel = function.kernel

    def overflowing(*arguments):
        of = [a.arrow if isinstance(a, Vector) else a for a in arguments if isinstance(a, Vector | pa.Array)]
        of += [a.rows.column("s") for a in arguments if isinstance(a, Scope)]
        if any("x" in str(a.to_pylist()).replace("\\x", "") for a in of):
            raise pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes, have 2400000000")
        return kernel(*arguments)

    patched = replace(function, kernel=overflowing)
    monkeypatch.setattr(registry, "function", lambda n, known=registry.function: patched if n == name else known(n))


@pytest.mark.parametrize("name", GROWING)
@pytest.mark.parametrize("filtered", [False, True])
def test_a_value_that_grew_too_large_is_an_error_row_that_names_its_function(name, filtered, monkeypatch):
    full_for("concat" if name == "aggregate" else name, monkeypatch)
    plan = ROWS.filter(f"{GROWING[name]} > -1").select("k") if filtered else ROWS.select("k", n=GROWING[name])
    with Session() as session:
        view = session.maintain("v", plan)
        session.insert("rows", [(1, "ab"), (2, "axb"), (3, "")])
        session.advance()
        assert sorted(view.to_arrow(errors="ignore")["k"].to_pylist()) == [1, 3]
        (failed,) = view.errors().to_pylist()
        assert failed["code"] == "VALUE_TOO_LARGE"
        written = "concat" if name == "aggregate" else name.removeprefix("lcase_")  # which stands for it by a collation
        assert failed["message"].startswith(f"`{written}(…)` would have more than 2,147,4")
        assert failed["row"] == '{"k": 2, "s": "axb"}'
        session.retract("rows", [(2, "axb")])
        session.advance()
        assert sorted(row[0] for row in view.to_pylist()) == [1, 3]


@pytest.mark.parametrize("expression", ["s || s", "replace(s, 'x', 'yyy')", "regexp_replace(s, 'x', 'yyy')"])
def test_how_large_a_text_would_be_is_known_before_it_is_allocated(expression, monkeypatch):
    monkeypatch.setattr(limits, "MOST_BYTES", 100)
    monkeypatch.setattr(limits, "CHUNK_BYTES", 90)
    with Session() as session:
        view = session.maintain("v", ROWS.select("k", n=f"length({expression})"))
        session.insert("rows", [(i, "x" * i) for i in range(60)])
        session.advance()
        times = 2 if "||" in expression else 3
        assert sorted(view.to_arrow(errors="ignore")["n"].to_pylist()) == [
            times * i for i in range(60) if times * i <= 100
        ]
        assert view.errors().num_rows == sum(times * i > 100 for i in range(60))


@pytest.mark.parametrize("name", ["concat", "concat_ws"])
def test_texts_of_more_than_two_gigabytes_really(name):
    copies = ", ".join(["repeat(s, 100)"] * 220)  # of 10 MB each
    with Session() as session:
        result = f"concat({copies})" if name == "concat" else f"concat_ws('', {copies})"
        view = session.maintain("v", ROWS.select("k", n=f"length({result})"))
        session.insert("rows", [(1, "x" * 100_000), (2, "é")])
        session.advance()
        (failed,) = view.errors().to_pylist()
        assert failed["message"].startswith(f"`{name}(…)` would have ")
        assert view.to_arrow(errors="ignore").to_pylist() == [{"k": 2, "n": 22000}]
        session.retract("rows", [(1, "x" * 100_000)])
        session.advance()
        assert view.to_pylist() == [(2, 22000)]


def test_a_kernel_of_arrow_that_does_not_look_is_looked_after(monkeypatch):
    monkeypatch.setattr(limits, "MOST_BYTES", 100)
    with pytest.raises(TooWideError, match="120 bytes"):
        limits.whole(pa.array(["x" * 60, "y" * 60]))
    assert limits.whole(pa.array(["x" * 60])).to_pylist() == ["x" * 60]


def test_an_error_row_shows_the_beginning_of_a_text_of_many_megabytes():
    shown = show_row(["s", "#t"], ("ab" * (1 << 24), "hidden"))
    assert len(shown) < 2000
    assert shown.endswith('… (33,554,432 in all)"}')
    assert show_row(["s"], ("ab" * 1000,)) == json.dumps({"s": "ab" * 1000})


def test_a_store_of_before_its_texts_could_fail_opens(tmp_path, monkeypatch):
    def step(i):
        joined = ROWS.join(an.source("other", "k long, t string"), on="k").select("k", x="s || t")
        plans = {"v": joined, "loop": ROWS.iterate(lambda v: v.concat(v.select("k", s="left(s || 'a', 3)")).distinct())}
        with Session(path=tmp_path / "state") as session:
            views = {name: session.maintain(name, plan) for name, plan in plans.items()}
            session.insert("rows", [(i, "b")])
            session.insert("other", [(i, "t")])
            session.advance()
            errors = [len(session._engine.ports(n).errors) for n in views]
            return errors, {n: sorted(v.to_pylist()) for n, v in views.items()}

    with monkeypatch.context() as patch:
        patch.setattr(registry.Function, "can_grow", lambda _, __: False)
        assert step(0)[0] == [0, 1]
    for i in (1, 2):
        errors, actual = step(i)
        assert errors == [1, 2], "those of texts beside what could fail before"
    assert actual["v"] == [(i, "bt") for i in range(3)]
    assert actual["loop"] == [(i, s) for i in range(3) for s in ("b", "ba", "baa")]
