"""CAST and TRY_CAST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import casts
from altneu.expressions.registry import Group
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.variants import casting
from altneu.expressions.vector import Vector

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("Conversion")


def _rule(args: Arguments) -> Typing:
    source, target = args[0].type, args[1].type
    if not casts.possible(source, target):
        raise TypeMismatchError(
            f"`{args[0].text}` is {T.type_name(source)}, which cannot be cast to {T.type_name(target)}"
        )
    if args.name == "try_cast" and source != T.VARIANT and T.contains(source, T.VARIANT.equals):
        raise TypeMismatchError(f"try_cast(`{args[0].text}`): {T.type_name(source)} has variants; use try_variant_get")
    of_variant = source == T.VARIANT and target != T.VARIANT
    kind = casting.nullable(target) if of_variant else target
    of_nan = pt.is_floating(source) and pt.is_decimal(target)
    return Typing((None,), kind, args.name == "try_cast" or of_variant or of_nan or args[0].nullable)


def _written_out(call: Call) -> bool:
    """Whether arrays, maps, structs or bytes become a text, which may be longer than they are, or are in a variant."""
    source = call.args[0].type
    return T.VARIANT in (source, call.type) or (call.type == T.STRING and (pt.is_nested(source) or source == T.BINARY))


@scalar(
    "cast(…)",
    rule=_rule,
    usage="CAST(a AS type), a::type, int(a), date(a) …",
    fails=lambda call: casts.can_fail(call.args[0].type, call.type),
    grows=_written_out,
)
def cast(call: Call, a: Vector) -> Any:
    """The value converted to another type; an error if it does not fit."""
    return casts.convert(a.with_failures(()), call.type)


def _of_variant(call: Call) -> bool:
    return bool(call.args[0].type == T.VARIANT != call.type)


@scalar("try_cast(…)", rule=_rule, usage="TRY_CAST(a AS type)", fails=_of_variant, grows=_written_out)
def try_cast(call: Call, a: Vector) -> Any:
    """The value converted to another type; NULL if it does not fit, or that part of it which does not."""
    if _of_variant(call):
        return casts.from_variant(a.with_failures(()), call.type, strict=False)
    return casts.or_null(casts.convert(a.with_failures(()), call.type, strict=False))
