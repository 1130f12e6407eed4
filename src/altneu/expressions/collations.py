"""Collations: where ``s COLLATE name`` stands, texts are compared by keys, ``collation_key(s, name)``.

A column has no collation. What compares takes the one that is written at a side of it and compares the keys of both;
what knows no collations refuses, so that none is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from altneu import types as T
from altneu.errors import TypeMismatchError, UnsupportedFunctionError
from altneu.errors.extras import require
from altneu.expressions.icu_locales import LOCALES, OTHERS

if TYPE_CHECKING:
    from altneu.expressions.expr import Expr

NAMES = ("UTF8_BINARY", "UTF8_BINARY_RTRIM", "UTF8_LCASE", "UTF8_LCASE_RTRIM")
_SPECIFIERS = {"CI": "case", "CS": "case", "AI": "accents", "AS": "accents", "RTRIM": "spaces"}
_LOCALES = {name.upper(): name for name in (*LOCALES, *OTHERS)}
COMPARED = frozenset({"=", "<=>", "!=", "<", "<=", ">", ">=", "in", "equal_null"})
"""Functions that compare all their arguments and give none of them."""
_ASKED = frozenset({"isnull", "isnotnull", "collate", "cast", "try_cast", "collation_key", "length"})
"""Functions that give the same of a text whatever its collation."""
_CASED = frozenset({"lower", "upper"})
"""Functions whose value a language decides: the upper case of i is another one in Turkish."""
_PASSED = frozenset(
    {"concat", "substring", "left", "right", "repeat", "reverse", "lpad", "rpad", "coalesce", "case", "if"}
)
"""Functions whose value is the same by any collation, and is a text with that of their arguments, as in Spark."""


def name_of(text: str) -> str:
    """The name of a collation, as Spark writes it.

    >>> name_of("utf8_lcase"), name_of("SYSTEM.BUILTIN.UTF8_BINARY"), name_of("DE_rtrim_ci")
    ('UTF8_LCASE', 'UTF8_BINARY', 'de_CI_RTRIM')

    Raises:
        UnsupportedFunctionError: altneu has none of that name.
        MissingExtraError: it is one of ICU's, and DuckDB is not installed.
    """
    upper = text.upper().removeprefix("SYSTEM.BUILTIN.")
    if upper in NAMES:
        return upper
    parts, last = upper.split("_"), []
    while len(parts) > 1 and parts[-1] in _SPECIFIERS:
        last.append(parts.pop())
    locale = _LOCALES.get("_".join(parts))
    if {*parts[-1:]} & {"BINARY", "LCASE"} or len({_SPECIFIERS[s] for s in last}) < len(last) or locale is None:
        raise UnsupportedFunctionError(
            f"the collation {text} is not supported; there are {', '.join(NAMES)}, UNICODE, and {len(LOCALES) - 1} "
            "languages, such as de and en_USA, these with _CI, _AI and _RTRIM behind"
        )
    if locale in OTHERS:
        raise UnsupportedFunctionError(
            f"the collation {text} is not supported: the ICU that altneu has does not order as Spark does in {locale}; "
            "UNICODE is the order of no language"
        )
    require("collations", f"the collation {text}")
    return locale + "".join(f"_{s}" for s in ("CI", "AI", "RTRIM") if s in last)


def of_icu(name: str) -> tuple[str, str] | None:
    """The locale and the strength of a collation of ICU's; None of another one.

    >>> of_icu("sr_Latn_CI_AI_RTRIM"), of_icu("UTF8_LCASE")
    (('sr_Latn', '_CI_AI'), None)
    """
    if name in NAMES:
        return None
    bare = name.removesuffix("_RTRIM")
    locale = bare.removesuffix("_AI").removesuffix("_CI")
    return locale, bare.removeprefix(locale)


def collation_of(expr: Expr) -> str | None:
    """The collation that an expression is written with; None if it has none."""
    return str(expr.args[1].value) if getattr(expr, "name", "") == "collate" else None  # type: ignore[attr-defined]


def text_of(expr: Expr) -> Expr:
    """The expression without the collation that it is written with."""
    while collation_of(expr) is not None:
        expr = expr.args[0]  # type: ignore[attr-defined]
    return expr


def plain(expr: Expr) -> Expr:
    """The expression, if it has no collation.

    Raises:
        UnsupportedFunctionError: it has.
    """
    name = collation_of(expr)
    if name is not None:
        raise UnsupportedFunctionError(
            f"`{expr.text}`: a column has no collation; COLLATE stands in comparisons, ORDER BY, PARTITION BY and "
            f"GROUP BY. The text that it is compared by is collation_key({text_of(expr).text}, '{name}')"
        )
    return expr


def compared(name: str, args: Sequence[Expr]) -> tuple[Sequence[Expr], str | None, str | None]:
    """The arguments of a function without collations, the collation they are compared by, and that of the result.

    Raises:
        TypeMismatchError: several collations, or what is compared is no text.
        UnsupportedFunctionError: a function of a text with a collation that knows none.
    """
    names = {c for a in args if (c := collation_of(a)) is not None}
    if not names:
        return args, None, None
    texts = [text_of(a) for a in args]
    if name in _ASKED:
        return texts, None, None
    passed = name in _PASSED or (name in _CASED and all((of_icu(n) or ("UNICODE",))[0] == "UNICODE" for n in names))
    if name not in COMPARED and not passed:
        written = next(a for a in args if collation_of(a) is not None)
        raise UnsupportedFunctionError(
            f"{name}() of `{written.text}` is not supported: COLLATE stands at a side of a comparison; write "
            f"(f(s) COLLATE {collation_of(written)}) = …"
        )
    if len(names) > 1:
        raise TypeMismatchError(f"{name}: the collations {' and '.join(sorted(names))} do not mix; write one")
    collation = names.pop()
    if passed:
        return texts, None, collation
    other = next((t for t in texts if t.type not in (T.STRING, T.NULL)), None)
    if other is not None:
        raise TypeMismatchError(f"{name}: `{other.text}` is {T.type_name(other.type)}, not a text; cast it")
    return texts, collation, None
