"""A signature says which types a function takes and gives; the kernel's parameters say what it is given."""

from __future__ import annotations

import pyarrow as pa
import pytest

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import registry, signatures
from altneu.expressions.construct import call
from altneu.expressions.expr import Column
from altneu.expressions.parse import parse
from altneu.expressions.registry import Inputs
from altneu.expressions.rules import Arguments
from altneu.expressions.vector import Values


def typed(signature: str, *types: pa.DataType):
    args = [Column(f"c{i}", kind) for i, kind in enumerate(types)]
    read = signatures.read(signature)
    return read.rule(None)(Arguments(read.name, args))


@pytest.mark.parametrize(
    ("signature", "types", "args", "result"),
    [
        ("f(a string) -> int", [T.STRING], [T.STRING], T.INT),
        ("f(a bigint[, b string]) -> a", [T.INT], [T.LONG], T.LONG),
        ("f(a bigint[, b string]) -> b", [T.INT, T.INT], [T.LONG, T.STRING], T.STRING),
        ("f(a as timestamp) -> date", [T.STRING], [T.TIMESTAMP], T.DATE),
        ("f(a string|binary) -> a", [T.BINARY], [None], T.BINARY),
        ("f(a string|binary) -> a", [T.INT], [T.STRING], T.STRING),
        ("f(a string|array) -> a", [T.list_type(T.INT)], [None], T.list_type(T.INT)),
        ("f(a as double|float) -> boolean", [T.STRING], [T.DOUBLE], T.BOOLEAN),
        ("f(a number) -> a", [T.STRING], [T.DOUBLE], T.DOUBLE),
        ("f(a any) -> a", [T.DATE], [None], T.DATE),
        ("f(a decimal(16,6)) -> array<string>", [T.INT], [pa.decimal128(16, 6)], T.list_type(T.STRING)),
    ],
)
def test_types_are_those_of_the_signature(signature, types, args, result):
    typing = typed(signature, *types)
    assert list(typing.args) == args
    assert typing.type == result
    assert typing.nullable is None


def test_a_mark_after_the_result_says_when_it_is_null():
    assert typed("f(a any) -> int?", T.INT).nullable is True
    assert typed("f(a any) -> int!", T.INT).nullable is False


def test_an_ordered_array_has_no_maps():
    typed("f(a array) -> a", T.list_type(pa.map_(T.STRING, T.INT)))
    with pytest.raises(TypeMismatchError, match="maps cannot be compared"):
        typed("f(a ordered array) -> a", T.list_type(pa.map_(T.STRING, T.INT)))


def test_the_parameters_of_a_kernel_say_what_it_is_given():
    def kernel(call: object, count: int, s: pa.Array, pattern: str | None = None) -> pa.Array:
        raise NotImplementedError

    assert Inputs.read(kernel) == ("arrow", True, frozenset({1}), True, True)
    with pytest.raises(TypeError, match="must have annotations"):
        Inputs.read(lambda x: x)


def test_a_number_of_arguments_is_checked_by_the_signature():
    with pytest.raises(TypeMismatchError, match="lpad takes 2 to 3 arguments, not 1"):
        call("lpad", [Column("s", T.STRING)])


def test_a_name_is_registered_once():
    def kernel(x: Values) -> Values:
        raise NotImplementedError

    with pytest.raises(ValueError, match="'sqrt' is registered twice"):
        registry.Group("Mathematics")("sqrt(x double) -> double", doc="Twice.")(kernel)


@pytest.mark.parametrize("n", [2**31 - 1, -(2**31) + 1])
def test_a_substring_index_as_far_as_numbers_go_takes_no_memory_for_it(n):
    result = parse(f"substring_index('a,b,c', ',', {n})", pa.schema([]))
    assert result.value == "a,b,c"
