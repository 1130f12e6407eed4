"""Typing rules that functions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.coercion import can_implicitly_cast, common_type, is_numeric
from altneu.expressions.registry import Rule, Typing

if TYPE_CHECKING:
    from altneu.expressions.expr import Expr

Wanted: TypeAlias = "pa.DataType | Callable[[pa.DataType], bool] | None"


def expect_count(name: str, args: Sequence[Expr], least: int, most: int | None = None) -> None:
    """Check a number of arguments.

    Raises:
        TypeMismatchError: there are too few or too many.
    """
    most = least if most is None else most
    if not least <= len(args) <= most:
        wanted = str(least) if least == most else f"{least} to {most}" if most < 1000 else f"at least {least}"
        raise TypeMismatchError(f"{name} takes {wanted} argument{'s' if wanted != '1' else ''}, not {len(args)}")


def takes(
    name: str, *wanted: Wanted, returns: pa.DataType | int, optional: int = 0, nullable: bool | None = None
) -> Rule:
    """Arguments of given types, the last ``optional`` of which may be missing.

    A type is reached by an implicit cast; a predicate checks and leaves the argument alone; None takes anything.
    ``returns`` is a type, or the position of the argument whose type the result has.
    """

    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, len(wanted) - optional, len(wanted))
        types = [accept(name, i, arg, want) for i, (arg, want) in enumerate(zip(args, wanted, strict=False))]
        result = (types[returns] or args[returns].type) if isinstance(returns, int) else returns
        return Typing(types, result, nullable)

    return rule


def accept(name: str, index: int, arg: Expr, want: Wanted) -> pa.DataType | None:
    """The type an argument is cast to.

    Raises:
        TypeMismatchError: it cannot be.
    """
    if want is None:
        return None
    if isinstance(want, pa.DataType):
        if can_implicitly_cast(arg.type, want):
            return want
        wanted = T.type_name(want)
    else:
        if want(arg.type):
            return None
        wanted = (want.__doc__ or want.__name__).split(".")[0].removeprefix("Whether a type is ")
    raise TypeMismatchError(
        f"{name}: argument {index + 1} (`{arg.text}`) must be {wanted}, not {T.type_name(arg.type)}; cast it"
    )


def all_common(
    name: str, least: int = 1, most: int = 1_000_000, returns: pa.DataType | None = None, nullable: bool | None = None
) -> Rule:
    """Arguments of one common type, which the result has too unless ``returns`` says otherwise."""

    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, least, most)
        found = common_type((a.type for a in args), name)
        return Typing([found] * len(args), returns or found, nullable)

    return rule


def numeric(name: str, returns: pa.DataType | None = None) -> Rule:
    """One number; a string is read as a double."""

    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 1)
        found = args[0].type
        if found in (T.STRING, T.NULL):
            found = T.DOUBLE
        if not is_numeric(found):
            raise TypeMismatchError(f"{name} takes a number, not {T.type_name(found)} (`{args[0].text}`); cast it")
        return Typing([found], returns or found)

    return rule
