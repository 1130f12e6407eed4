"""Bits of whole numbers: ``& | ^ ~``, shifts and counting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.coercion import INTEGRAL, common_type, describe
from altneu.expressions.registry import Typing, register
from altneu.expressions.rules import expect_count, numeric
from altneu.expressions.vector import Values

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr

GROUP = "Bits"


def _bits_rule(symbol: str) -> Callable[[Sequence[Expr]], Typing]:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(symbol, args, 1 if symbol == "~" else 2)
        found = common_type((a.type for a in args), f"`{symbol}`")
        found = T.INT if found == T.NULL else found
        if found not in INTEGRAL:
            raise TypeMismatchError(f"`{symbol}` takes whole numbers, not {T.type_name(found)}; cast it")
        return Typing([found] * len(args), found)

    return rule


@register("&", rule=_bits_rule("&"), style="numpy", group=GROUP, usage="a & b", doc="Bits set in both.", infix=True)
def bit_and(call: Call, a: Values, b: Values) -> Values:
    """Bits set in both."""
    return a & b


@register("|", rule=_bits_rule("|"), style="numpy", group=GROUP, usage="a | b", doc="Bits set in either.", infix=True)
def bit_or(call: Call, a: Values, b: Values) -> Values:
    """Bits set in either."""
    return a | b


@register(
    "^", rule=_bits_rule("^"), style="numpy", group=GROUP, usage="a ^ b", doc="Bits set in one of the two.", infix=True
)
def bit_xor(call: Call, a: Values, b: Values) -> Values:
    """Bits set in one of the two."""
    return a ^ b


@register("~", rule=_bits_rule("~"), style="numpy", group=GROUP, usage="~a", doc="Every bit turned.", infix=True)
def bit_not(call: Call, a: Values) -> Values:
    """Every bit turned."""
    return ~a


def _shift_rule(args: Sequence[Expr]) -> Typing:
    expect_count("a shift", args, 2)
    kind = {T.BYTE: T.INT, T.SHORT: T.INT, T.NULL: T.INT}.get(args[0].type, args[0].type)
    if kind not in (T.INT, T.LONG) or args[1].type not in (*INTEGRAL[:3], T.NULL):
        raise TypeMismatchError(f"a shift takes an int or bigint and an int, not {describe(a.type for a in args)}")
    return Typing((kind, T.INT), kind)


def _distance(a: Values, b: Values) -> Values:
    return b.astype(a.dtype) & (a.dtype.itemsize * 8 - 1)


@register(
    "<<", "shiftleft", rule=_shift_rule, style="numpy", group=GROUP, usage="a << n", doc="Bits moved left.", infix=True
)
def shift_left(call: Call, a: Values, b: Values) -> Values:
    """Bits moved left."""
    return a << _distance(a, b)


@register(
    ">>",
    "shiftright",
    rule=_shift_rule,
    style="numpy",
    group=GROUP,
    usage="a >> n",
    doc="Bits moved right, the sign kept.",
    infix=True,
)
def shift_right(call: Call, a: Values, b: Values) -> Values:
    """Bits moved right, the sign kept."""
    return a >> _distance(a, b)


@register(
    ">>>",
    "shiftrightunsigned",
    rule=_shift_rule,
    style="numpy",
    group=GROUP,
    usage="a >>> n",
    doc="Bits moved right, zeros moved in.",
    infix=True,
)
def shift_right_unsigned(call: Call, a: Values, b: Values) -> Values:
    """Bits moved right, zeros moved in."""
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return (a.view(unsigned) >> _distance(a, b).astype(unsigned)).view(a.dtype)


@register(
    "bit_count",
    rule=numeric("bit_count", T.INT),
    style="numpy",
    group=GROUP,
    usage="bit_count(a)",
    doc="Number of bits set (of a bigint's 64).",
)
def bit_count(call: Call, a: Values) -> Values:
    """Number of bits set."""
    return np.bitwise_count(a.astype(np.int64).view(np.uint64)).astype(np.int32)
