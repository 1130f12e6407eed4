"""Collations: texts that have one are compared by keys, ``collation_key(s, name)``.

As in Spark, ``s COLLATE name`` is explicit, a column and ``CAST(s AS STRING COLLATE name)`` have theirs implicitly, and
a constant takes that of what it is compared with. What knows no collations refuses, so that none is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError, UnsupportedFunctionError
from altneu.errors.extras import require
from altneu.expressions.expr import Column
from altneu.expressions.icu_locales import LOCALES, OTHERS
from altneu.expressions.lambdas import Variable

if TYPE_CHECKING:
    from altneu.expressions.expr import Expr

NAMES = ("UTF8_BINARY", "UTF8_BINARY_RTRIM", "UTF8_LCASE", "UTF8_LCASE_RTRIM")
_SPECIFIERS = {"CI": "case", "CS": "case", "AI": "accents", "AS": "accents", "RTRIM": "spaces"}
_LOCALES = {name.upper(): name for name in (*LOCALES, *OTHERS)}
COMPARED = frozenset(
    {
        *("=", "<=>", "!=", "<", "<=", ">", ">=", "in", "equal_null"),
        *("array_contains", "array_position", "arrays_overlap"),
    }
)
"""Functions that compare all their arguments and give none of them."""
_ASKED = frozenset(
    {
        *("isnull", "isnotnull", "collate", "collated", "cast", "try_cast", "collation_key", "length"),
        *("octet_length", "bit_length", "ascii", "base64", "encode", "decode", "unhex", "unbase64", "to_binary"),
        *("try_to_binary", "from_base32", "to_base32", "md5", "sha1", "sha2", "crc32", "hmac", "hash", "xxhash64"),
        *("levenshtein", "jaro_winkler_similarity", "soundex", "luhn_check", "is_valid_utf8", "quote"),
        *("url_encode", "url_decode", "try_url_decode", "format_string", "parse_json", "try_parse_json"),
        *("get_json_object", "json_array_length", "json_object_keys", "from_json", "from_csv", "to_json"),
        *("size", "cardinality", "array_size", "transform", "exists", "forall"),
        *("to_date", "try_to_date", "to_timestamp", "try_to_timestamp", "to_timestamp_ntz", "to_timestamp_ltz"),
        *("unix_timestamp", "to_unix_timestamp", "date_format", "trunc", "date_trunc", "next_day"),
        *("from_utc_timestamp", "to_utc_timestamp", "to_number", "try_to_number"),
    }
)
"""Functions that read the bytes of a text whatever its collation, and give no text or one without any."""
_BOTH_ENDS = frozenset({"contains", "startswith", "endswith", "instr", "locate"})
_SEARCHING = {
    **dict.fromkeys((*_BOTH_ENDS, "find_in_set"), False),
    **dict.fromkeys(("replace", "split_part", "substring_index", "translate", "btrim", "ltrim", "rtrim"), True),
}
"""Functions that look for a text in another one, and whether they give a text: by UTF8_LCASE there is ``lcase_…``."""
_BY_PATTERN = {
    **dict.fromkeys(("like", "ilike", "rlike", "regexp_count", "regexp_instr"), False),
    **dict.fromkeys(("regexp_extract", "regexp_replace", "regexp_substr", "split"), True),
}
"""Functions that look for a pattern, of which only the text's collation matters, and whether they give a text."""
_SPACED = {
    **dict.fromkeys(_BOTH_ENDS, "all"),
    **dict.fromkeys(("replace", "translate", "ltrim"), "none"),
    "substring_index": "delimiter",
}
"""Which texts lose their spaces at the end where a function looks by a collation that ignores them."""
BY_CASE = "lcase_"
"""Before the name of a function that looks by UTF8_LCASE; messages have the name that was written."""
_CASED = frozenset({"lower", "upper"})
"""Functions whose value a language decides: the upper case of i is another one in Turkish."""
_TRIMS = frozenset({"btrim", "ltrim", "rtrim"})
_CHOOSING = frozenset({"greatest", "least"})
_PASSED = frozenset(
    {
        *("concat", "concat_ws", "substring", "left", "right", "repeat", "reverse", "lpad", "rpad"),
        *("coalesce", "case", "if", "nvl2", "conv", "overlay", "hex", "mask"),
        *("validate_utf8", "try_validate_utf8", "make_valid_utf8", "array", "array_repeat"),
    }
)
"""Functions whose value is the same by any collation, and is a text with that of their arguments, as in Spark."""
_OF_ARRAYS = frozenset(
    {
        *("[]", "element_at", "try_element_at", "get", "array_join", "slice", "array_compact"),
        *("array_append", "array_prepend", "array_insert", "filter"),
    }
)
"""Those of arrays of texts; of a map they compare its keys."""


def has_texts(kind: pa.DataType) -> bool:
    """Whether a type's values may have a collation: texts, and arrays of texts, which have that of their texts."""
    return kind == T.STRING or (pt.is_list(kind) and kind.value_type == T.STRING)


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


_BINARY, _LCASE = "UTF8_BINARY", "UTF8_LCASE"
_EXPLICIT, _IMPLICIT, _DEFAULT = 2, 1, 0


def collation_of(expr: Expr) -> str | None:
    """The collation that an expression has; None if that is ``UTF8_BINARY``, unless it is written."""
    if _is_collated(expr):
        return str(expr.args[1].value)  # type: ignore[attr-defined]
    mark: str = getattr(expr, "mark", "")
    return name_of(mark.removeprefix(_MARK)) if mark.startswith(_MARK) else None


_MARK = "collate "  # before the name of a collation in what a column's declaration says beside its type


def mark_of(expr: Expr) -> str:
    """What the declaration of a column with an expression's values says beside their type."""
    name = collation_of(expr)
    return "" if name in (None, _BINARY) else _MARK + str(name)


def _is_collated(expr: Expr) -> bool:
    return getattr(getattr(expr, "function", None), "name", "") in ("collate", "collated")


def text_of(expr: Expr) -> Expr:
    """The expression without its collation."""
    while _is_collated(expr):
        expr = expr.args[0]  # type: ignore[attr-defined]
    return replace(expr, mark="") if isinstance(expr, Column | Variable) and expr.mark.startswith(_MARK) else expr


def strength_of(expr: Expr) -> int:
    """How strong the collation of a text is: explicit, implicit or that of a constant."""
    if isinstance(expr, Column | Variable):
        return _IMPLICIT
    if _is_collated(expr):
        return _EXPLICIT if expr.function.name == "collate" else _IMPLICIT  # type: ignore[attr-defined]
    args: Sequence[Expr] = getattr(expr, "args", ())
    return max((min(strength_of(a), _IMPLICIT) for a in args if has_texts(a.type)), default=_DEFAULT)


def collation_among(name: str, args: Sequence[Expr]) -> tuple[str, bool]:
    """The collation of several texts, and whether one of them has it explicitly.

    Raises:
        TypeMismatchError: two have different ones, both explicitly, or both implicitly and none explicitly.
    """
    texts = [a for a in args if has_texts(a.type)]
    for strength in (_EXPLICIT, _IMPLICIT):
        names = {collation_of(a) or _BINARY for a in texts if strength_of(a) == strength}
        if len(names) > 1:
            what = f"the collations {' and '.join(sorted(names))} do not mix"
            raise TypeMismatchError(
                f"{name}: {what}; write one (COLLATION_MISMATCH.EXPLICIT)"
                if strength == _EXPLICIT
                else f"{name}: {what}; write COLLATE at one side (INDETERMINATE_COLLATION_IN_EXPRESSION)"
            )
        if names:
            return names.pop(), strength == _EXPLICIT
    return _BINARY, False


def plain(expr: Expr) -> Expr:
    """The expression, if it has no collation.

    Raises:
        UnsupportedFunctionError: it has.
    """
    name = collation_of(expr)
    if name == _BINARY:
        return text_of(expr)
    if name is not None:
        kind = T.type_name(expr.type).upper()
        raise UnsupportedFunctionError(
            f"`{expr.text}`: a text with a collation is not supported here; CAST({text_of(expr).text} AS {kind}) has "
            f"none, and the text that it is compared by is collation_key({text_of(expr).text}, '{name}')"
        )
    return expr


def _values_of(name: str, args: Sequence[Expr]) -> Sequence[Expr]:
    """The arguments of a function among which its collation is chosen: not the conditions of a CASE."""
    if name == "case":
        return [a for i, a in enumerate(args) if i % 2 or i == len(args) - 1]
    return args[1:] if name in ("if", "nvl2") else args


class Search(NamedTuple):
    """A function that looks for texts as a collation tells them apart.

    ``trimmed`` are the arguments whose spaces at the end are ignored; ``given`` is the collation of its value, and
    whether that is explicit, or None where the value has none.
    """

    name: str
    args: list[Expr]
    trimmed: range
    given: tuple[str, bool] | None


def searching(name: str, args: Sequence[Expr]) -> Search | None:
    """How a function looks for texts, by the collation of its arguments; None: it does not, or by none that is known.

    Raises:
        TypeMismatchError: several collations.
    """
    if all(collation_of(a) is None for a in args):
        return None
    texts = list(map(text_of, args))
    if name in _BY_PATTERN:  # Spark asks the collation of the text alone
        mixed = name == "regexp_replace"
        collation = collation_among(name, args)[0] if mixed else collation_of(args[0]) or _BINARY
        explicit = strength_of(args[0]) == _EXPLICIT
        if collation not in (_BINARY, _LCASE):
            return None
        given = (collation, explicit) if _BY_PATTERN[name] and collation == _LCASE else None
        return Search(BY_CASE * (collation == _LCASE) + name, texts, range(0), given)
    if name not in _SEARCHING or (name in _TRIMS and len(args) == 1):
        return None
    collation, explicit = collation_among(name, args)
    base, trims = collation.removesuffix("_RTRIM"), collation.endswith("_RTRIM")
    if base not in (_BINARY, _LCASE) or (trims and name not in _SPACED):
        return None
    trimmed = {"all": range(len(args)), "delimiter": range(1, 2)}.get(_SPACED[name], range(0)) if trims else range(0)
    return Search(
        BY_CASE * (base == _LCASE) + name, texts, trimmed, (collation, explicit) if _SEARCHING[name] else None
    )


def refused(name: str, args: Sequence[Expr]) -> UnsupportedFunctionError:
    """The error of a function whose arguments have a collation, and that knows none."""
    written = next(a for a in args if collation_of(a) is not None)
    kind, bare = T.type_name(written.type).upper(), text_of(written).text
    return UnsupportedFunctionError(
        f"{name}() of `{written.text}`, which has the collation {collation_of(written)}, is not supported; "
        f"{name}(CAST({bare} AS {kind})) compares bytes"
    )


def compared(name: str, args: Sequence[Expr]) -> tuple[Sequence[Expr], str | None, tuple[str, bool] | None]:
    """The arguments of a function without collations, the collation they are compared by, and that of the result.

    Beside the latter stands whether it is explicit.

    Raises:
        TypeMismatchError: several collations, or what is compared is no text.
        UnsupportedFunctionError: a function of a text with a collation that knows none.
    """
    names = {c for a in args if (c := collation_of(a)) is not None}
    if not names or (name in ("collate", "collated") and not _is_collated(args[0])):
        return args, None, None
    texts = [text_of(a) for a in args]
    if name in _ASKED:
        return texts, None, None
    passed = name in _PASSED or (name in _CASED and all((of_icu(n) or ("UNICODE",))[0] == "UNICODE" for n in names))
    passed = passed or (name in _TRIMS and len(args) == 1) or (name in _OF_ARRAYS and has_texts(args[0].type))
    passed = passed or (name == "initcap" and all(n.startswith(_BINARY) for n in names))
    if name not in (*COMPARED, *_CHOOSING) and not passed:
        raise refused(name, args)
    values = _values_of(name, args)
    collation, explicit = collation_among(name, values)
    if passed:
        return texts, None, (collation, explicit)
    other = next((t for t in texts if not has_texts(t.type) and t.type != T.NULL), None)
    if other is not None:
        raise TypeMismatchError(f"{name}: `{other.text}` is {T.type_name(other.type)}, not a text; cast it")
    if name in _CHOOSING:
        return texts, collation, (collation, explicit)
    return texts, collation, None


def checked(schema: pa.Schema) -> pa.Schema:
    """A schema whose collations are known, by the names that Spark gives them.

    Raises:
        UnsupportedFunctionError: altneu has none of a name.
    """
    return pa.schema([_checked(field) for field in schema])


def _checked(field: pa.Field) -> pa.Field:
    mark = T.mark_of(field)
    if not mark.startswith(_MARK):
        return field
    name = name_of(mark.removeprefix(_MARK))
    bare = field.remove_metadata()
    return bare if name == _BINARY else T.marked(bare, _MARK + name)
