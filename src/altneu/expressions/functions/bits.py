"""Bits of whole numbers: ``& | ^ ~``, shifts and counting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.coercion import INTEGRAL, common_type, describe
from altneu.expressions.registry import Group, Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Values

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("Bits")


def _bits_rule(args: Arguments) -> Typing:
    result = common_type((a.type for a in args), f"`{args.name}`")
    result = T.INT if result == T.NULL else result
    if result not in INTEGRAL:
        raise TypeMismatchError(f"`{args.name}` takes whole numbers, not {T.type_name(result)}; cast it")
    return Typing([result] * len(args), result)


@scalar("&(a, b)", rule=_bits_rule, usage="a & b", infix=True)
def bit_and(a: Values, b: Values) -> Values:
    """Bits set in both."""
    return a & b


@scalar("|(a, b)", rule=_bits_rule, usage="a | b", infix=True)
def bit_or(a: Values, b: Values) -> Values:
    """Bits set in either."""
    return a | b


@scalar("^(a, b)", rule=_bits_rule, usage="a ^ b", infix=True)
def bit_xor(a: Values, b: Values) -> Values:
    """Bits set in exactly one of the two."""
    return a ^ b


@scalar("~(a)", rule=_bits_rule, usage="~a", infix=True)
def bit_not(a: Values) -> Values:
    """Every bit inverted."""
    return ~a


def _shift_rule(args: Arguments) -> Typing:
    kind = {T.BYTE: T.INT, T.SHORT: T.INT, T.NULL: T.INT}.get(args[0].type, args[0].type)
    if kind not in (T.INT, T.LONG) or args[1].type not in (*INTEGRAL[:3], T.NULL):
        raise TypeMismatchError(f"a shift takes an int or bigint and an int, not {describe(a.type for a in args)}")
    return Typing((kind, T.INT), kind)


def _distance(a: Values, b: Values) -> Values:
    return b.astype(a.dtype) & (a.dtype.itemsize * 8 - 1)


@scalar("<<(a, n)", "shiftleft", message_name="a shift", rule=_shift_rule, usage="a << n", infix=True)
def shift_left(a: Values, b: Values) -> Values:
    """Bits shifted left."""
    return a << _distance(a, b)


@scalar(">>(a, n)", "shiftright", message_name="a shift", rule=_shift_rule, usage="a >> n", infix=True)
def shift_right(a: Values, b: Values) -> Values:
    """Bits shifted right; the sign is kept."""
    return a >> _distance(a, b)


@scalar(">>>(a, n)", "shiftrightunsigned", message_name="a shift", rule=_shift_rule, usage="a >>> n", infix=True)
def shift_right_unsigned(a: Values, b: Values) -> Values:
    """Bits shifted right; zeros are shifted in."""
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return (a.view(unsigned) >> _distance(a, b).astype(unsigned)).view(a.dtype)


def _bit_rule(args: Arguments) -> Typing:
    kind = T.INT if args[0].type == T.NULL else args[0].type
    if kind not in INTEGRAL:
        raise TypeMismatchError(f"bit_get takes a whole number, not {describe(a.type for a in args[:1])}")
    return Typing((kind, args.accept(1, T.INT)), T.BYTE)


@scalar("bit_get(a, place)", "getbit", rule=_bit_rule, fails=True)
def bit_get(call: Call, a: Values, place: Values) -> Out:
    """A bit of a whole number, 0 or 1; places count from the right, from zero."""
    width = a.dtype.itemsize * 8
    bad = (place < 0) | (place >= width)
    text = f"`{call.text}`: the place of a bit must be from 0 to {width - 1}"
    bits = (a.astype(np.int64) >> np.where(bad, 0, place)) & 1
    return Out(bits.astype(np.int8), ((np.broadcast_to(bad, bits.shape), "INVALID_PARAMETER_VALUE", text),))


@scalar("bit_count(a number) -> int")
def bit_count(a: Values) -> Values:
    """Number of bits set, in the number as a bigint."""
    return np.bitwise_count(a.astype(np.int64).view(np.uint64)).astype(np.int32)
