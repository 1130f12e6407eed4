"""Typing rules: what a function makes of the types of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.coercion import can_implicitly_cast, common_type, is_numeric

if TYPE_CHECKING:
    from altneu.expressions.expr import Expr


class Typing(NamedTuple):
    """What a typing rule says: types the arguments are cast to (None: left alone), the result's type and nullability.

    ``nullable`` None means: when any argument is.
    """

    args: Sequence[pa.DataType | None]
    type: pa.DataType
    nullable: bool | None = None


class Arguments(tuple["Expr", ...]):  # noqa: SLOT001 -- a tuple has none
    """The arguments of a call, with the function's name for messages."""

    name: str

    def __new__(cls, name: str, args: Iterable[Expr]) -> Self:
        """Arguments of the function of a name."""
        arguments = super().__new__(cls, args)
        arguments.name = name
        return arguments

    def accept(self, index: int, want: pa.DataType) -> pa.DataType:
        """The type that an argument reaches by an implicit cast.

        Raises:
            TypeMismatchError: it cannot.
        """
        return accept(self.name, index, self[index], want)

    def common(self, start: int = 0) -> pa.DataType:
        """The common type of the arguments from a place on.

        Raises:
            TypeMismatchError: they have none.
        """
        return common_type((a.type for a in self[start:]), self.name)

    def number(self, index: int = 0) -> pa.DataType:
        """The type of a number; a string is read as a double.

        Raises:
            TypeMismatchError: the argument is none.
        """
        arg = self[index]
        kind = T.DOUBLE if arg.type in (T.STRING, T.NULL) else arg.type
        if not is_numeric(kind):
            raise TypeMismatchError(f"{self.name} takes a number, not {T.type_name(kind)} (`{arg.text}`); cast it")
        return kind

    def element(self, index: int = 0, *, ordered: bool = False) -> pa.DataType:
        """The type of an array's elements.

        Raises:
            TypeMismatchError: the argument is not an array, or ``ordered`` and its elements cannot be compared.
        """
        arg = self[index]
        if arg.type == T.NULL:
            return T.NULL
        if not pt.is_list(arg.type):
            raise TypeMismatchError(f"{self.name} takes an array, not {T.type_name(arg.type)} (`{arg.text}`)")
        if ordered:
            self.check_ordered(arg.type.value_type)
        return arg.type.value_type

    def check_ordered(self, kind: pa.DataType) -> None:
        """Check that values of a type can be compared.

        Raises:
            TypeMismatchError: there are maps or variants in them.
        """
        if what := T.uncompared(kind):
            raise TypeMismatchError(f"{self.name}: {what} cannot be compared")


Rule: TypeAlias = Callable[[Arguments], Typing]


def expect_count(name: str, args: Sequence[Expr], least: int, most: int | None = None) -> None:
    """Check a number of arguments.

    Raises:
        TypeMismatchError: there are too few or too many.
    """
    most = least if most is None else most
    if not least <= len(args) <= most:
        expected = str(least) if least == most else f"{least} to {most}" if most < 1000 else f"at least {least}"
        raise TypeMismatchError(f"{name} takes {expected} argument{'s' if expected != '1' else ''}, not {len(args)}")


def accept(name: str, index: int, arg: Expr, want: pa.DataType) -> pa.DataType:
    """The type an argument is cast to.

    Raises:
        TypeMismatchError: it cannot be.
    """
    if can_implicitly_cast(arg.type, want):
        return want
    raise TypeMismatchError(
        f"{name}: argument {index + 1} (`{arg.text}`) must be {T.type_name(want)}, not {T.type_name(arg.type)}; cast it"
    )
