"""Arithmetic of whole numbers, against Python's own: at the ends of each type, and whatever else is in the column."""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import numpy as np
import pyarrow as pa
import pytest

from altneu import types as T
from altneu.columnar.rows import Rows
from altneu.expressions import parse
from altneu.expressions.expr import Scope

WIDTHS = {"byte": 8, "short": 16, "int": 32, "long": 64}
SYMBOLS = {"+": "a + b", "-": "a - b", "*": "a * b", "%": "a % b", "pmod": "pmod(a, b)", "div": "a div b"}


def edges(bits: int) -> list[int]:
    top = 2 ** (bits - 1)
    root = math.isqrt(top)
    return [0, 1, -1, 2, -2, 7, -7, 24, -24, root, root + 1, -root - 1, top // 2, -top // 2, top - 1, -top, 1 - top]


def expected(symbol: str, x: int | None, y: int | None, bits: int) -> int | str | None:
    """The value, or the code of the error."""
    if x is None or y is None:
        return None
    if symbol in ("%", "pmod", "div") and y == 0:
        return "DIVIDE_BY_ZERO" if symbol == "div" else "REMAINDER_BY_ZERO"
    if symbol == "pmod":
        first = remainder(x, y)
        return first if first >= 0 else remainder(wrapped(first + y, max(bits, 32)), y)
    exact = {"+": x + y, "-": x - y, "*": x * y}.get(symbol)
    if symbol == "%":
        exact = remainder(x, y)
    if symbol == "div":
        exact, bits = (x - remainder(x, y)) // y, 64
    assert exact is not None
    if wrapped(exact, bits) == exact:
        return exact
    return "BINARY_ARITHMETIC_OVERFLOW" if bits < 32 else "ARITHMETIC_OVERFLOW"


def remainder(x: int, y: int) -> int:
    return int(math.copysign(1, x)) * (abs(x) % abs(y))


def wrapped(value: int, bits: int) -> int:
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


parsed = cache(parse)


def outcomes(text: str, rows: Rows) -> list[object]:
    """Of every row its value or the code of its error."""
    result = parsed(text, rows.schema).evaluate(rows)
    values: list[object] = result.values.to_pylist()
    for row in [] if result.failed is None else np.flatnonzero(result.failed):
        assert values[row] is None
        values[row] = result.error(int(row))[0]
    return values


def rows_of(pairs, kind):
    return Rows.from_pylist(pairs, schema_of(kind))


@cache
def schema_of(kind):
    return T.parse_schema(f"a {kind}, b {kind}")


@pytest.mark.parametrize("kind", WIDTHS)
@pytest.mark.parametrize("symbol", SYMBOLS)
class TestWholeNumbers:
    def test_every_pair_of_edges_in_one_column(self, symbol, kind):
        bits = WIDTHS[kind]
        pairs = list(product([None, *edges(bits)], repeat=2))
        assert outcomes(SYMBOLS[symbol], rows_of(pairs, kind)) == [expected(symbol, x, y, bits) for x, y in pairs]

    def test_each_pair_is_the_same_alone_and_among_its_like(self, symbol, kind):
        """The bounds of few rows are narrow, so that nothing, or all, is seen to fit."""
        bits = WIDTHS[kind]
        for x, y in product(edges(bits), repeat=2):
            for pairs in ([(x, y)], [(x, y)] * 3, [(x, y), (None, y), (x, None)], [(x, y), (x // 3, y)]):
                assert outcomes(SYMBOLS[symbol], rows_of(pairs, kind)) == [expected(symbol, *p, bits) for p in pairs]

    def test_one_side_a_constant(self, symbol, kind):
        bits = WIDTHS[kind]
        values = [None, *edges(bits)]
        suffix = {"byte": "Y", "short": "S", "int": "", "long": "L"}[kind]
        for constant in edges(bits):
            literal = f"({constant}{suffix})"
            if constant == -(2 ** (bits - 1)):
                literal = f"cast('{constant}' as {kind})"
            right, left = (SYMBOLS[symbol].replace(name, literal) for name in "ba")
            if symbol == "pmod":
                right, left = f"pmod(a, {literal})", f"pmod({literal}, b)"
            for some in (values, [v for v in values if v is not None and 0 <= v < 25]):
                rows = rows_of([(v, v) for v in some], kind)
                assert outcomes(right, rows) == [expected(symbol, v, constant, bits) for v in some], right
                assert outcomes(left, rows) == [expected(symbol, constant, v, bits) for v in some], left

    def test_bounds_hold(self, symbol, kind):
        """What a kernel says of its values, the next one relies on."""
        bits = WIDTHS[kind]
        generator = np.random.default_rng(bits)
        expression = parse(SYMBOLS[symbol], schema_of(kind))
        answer = 0
        for low, high in product((-9, -1, 0, 1, 5), (1, 4, 11)):
            a, b = generator.integers(low, low + high, 40), generator.integers(max(low, -2), high + 9, 40)
            rows = rows_of(list(zip(a.tolist(), b.tolist(), strict=True)), kind)
            vector = expression.vector(Scope(rows))
            if vector.failures:
                continue
            answer += 1
            least, greatest = vector.bounds
            assert least <= vector.values.min()
            assert vector.values.max() <= greatest
        assert answer


def test_a_chain_fails_where_it_leaves_the_type():
    """Bounds go from kernel to kernel: exact at first, wider than the values later on."""
    schema = T.parse_schema("a long")
    rows = Rows.from_pylist([(v,) for v in (-3, 0, None, 5, 3_000_000_000)], schema)
    square = 9 * 10**18 - 25 + 2**40
    for text, exact in (
        ("a * a - 25 + 1099511627776", lambda a: a * a - 25 + 2**40),
        ("(a * a - 25 + 1099511627776) * 2", lambda a: (a * a - 25 + 2**40) * 2),
        ("pmod(a * a, 1000) * 9223372036854775", lambda a: a * a % 1000 * 9223372036854775),
        ("(a * a) div 7 % 1000 - 9223372036854775807", lambda a: a * a // 7 % 1000 - (2**63 - 1)),
        ("(a div 2) * 9000000000000000000", lambda a: int(a / 2) * 9 * 10**18),
    ):
        wanted = [None if a is None else exact(a) for a in (-3, 0, None, 5, 3_000_000_000)]
        wanted = ["ARITHMETIC_OVERFLOW" if w is not None and wrapped(w, 64) != w else w for w in wanted]
        assert outcomes(text, rows) == wanted, text
    assert outcomes("a * a - 25 + 1099511627776", rows)[-1] == square


def test_no_rows():
    for text in SYMBOLS.values():
        assert outcomes(text, rows_of([], "long")) == []


def test_what_stands_under_a_null_or_a_failed_row_fails_nothing():
    """Arrow says nothing of the bytes under a null; they widen bounds, and no more."""
    schema = T.parse_schema("a long, b long")
    valid = pa.py_buffer(np.packbits([1, 0, 1], bitorder="little"))
    hidden = pa.Array.from_buffers(pa.int64(), 3, [valid, pa.py_buffer(np.array([4, 2**63 - 1, -6]))])
    divisor = pa.Array.from_buffers(pa.int64(), 3, [valid, pa.py_buffer(np.array([3, 0, 2]))])
    rows = Rows(schema, (hidden, divisor), 3)
    actual = {symbol: outcomes(text, rows) for symbol, text in SYMBOLS.items()}
    assert actual == {
        "+": [7, None, -4],
        "-": [1, None, -8],
        "*": [12, None, -12],
        "%": [1, None, 0],
        "pmod": [1, None, 0],
        "div": [1, None, -3],
    }
    narrow = Rows(T.parse_schema("a int"), (pa.array([1, 2], pa.int32()),), 2)
    text = "coalesce(try_add(a, 2147483646), 0) + 2147483646"
    assert outcomes(text, narrow) == ["ARITHMETIC_OVERFLOW", 2147483646]


def test_fractions_are_left_as_they_were():
    rows = Rows.from_pylist(
        [(-0.0, 3.0), (5.5, -0.0), (float("nan"), 2.0), (-7.5, 2.0), (7.5, float("inf"))],
        T.parse_schema("a double, b double"),
    )
    assert repr(outcomes("pmod(a, b)", rows)) == "[0.0, 'REMAINDER_BY_ZERO', nan, 0.5, 7.5]"
    assert repr(outcomes("a % b", rows)) == "[0.0, 'REMAINDER_BY_ZERO', nan, -1.5, 7.5]"
    assert repr(outcomes("a * b", rows)) == "[0.0, 0.0, nan, -15.0, inf]"
    amounts = Rows.from_pylist([("-7.25", "2.00"), ("99999999.99", "0.01")], T.parse_schema("s string, t string"))
    decimal = "cast(s as decimal(10,2)) {} cast(t as decimal(10,2))"
    assert [str(v) for v in outcomes(decimal.format("*"), amounts)] == ["-14.5000", "999999.9999"]
    assert [str(v) for v in outcomes(decimal.format("%"), amounts)] == ["-1.25", "0.00"]
    assert outcomes(decimal.format("div"), amounts) == [-3, 9999999999]
