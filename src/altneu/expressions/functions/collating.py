"""``COLLATE``, and the texts by which collations compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.collations import name_of, of_icu
from altneu.expressions.functions.strings import scalar
from altneu.expressions.icu import sort_keys
from altneu.expressions.registry import Out
from altneu.expressions.rules import Arguments

if TYPE_CHECKING:
    from altneu.expressions.expr import Call


def _check_name(args: Arguments) -> None:
    name = getattr(args[1], "value", None)
    if not isinstance(name, str):
        raise TypeMismatchError(f"{args.name}: the collation `{args[1].text}` must be a constant, such as 'UTF8_LCASE'")
    name_of(name)
    if args[0].type not in (T.STRING, T.NULL):
        raise TypeMismatchError(
            f"{args.name} takes a text, not {T.type_name(args[0].type)} (`{args[0].text}`); cast it"
        )


@scalar(
    "collate(s string, name string) -> string",
    check=_check_name,
    usage="s COLLATE name, collate(s, 'name')",
    fold=False,
)
def collate(s: pa.Array, name: str) -> pa.Array:  # noqa: ARG001 -- read where the text is compared
    """The text, compared by the collation UTF8_BINARY, UTF8_LCASE, UNICODE or that of a language, such as de.

    ``_CI``, ``_AI`` and ``_RTRIM`` behind a name ignore case, accents and spaces at the end. It stands in comparisons,
    ORDER BY, PARTITION BY and GROUP BY.
    """
    return s


@scalar("collated(s string, name string) -> string", check=_check_name, fold=False)
def collated(s: pa.Array, name: str) -> pa.Array:  # noqa: ARG001 -- read where the text is compared
    """The text with the collation of a column, as CAST(s AS STRING COLLATE name) gives it."""
    return s


def _of_icu(call: Call) -> bool:
    name = getattr(call.args[1], "value", None)
    return not isinstance(name, str) or of_icu(name_of(name)) is not None


@scalar("collation_key(s string, name string) -> string", check=_check_name, fails=_of_icu)
def collation_key(s: pa.Array, name: str) -> pa.Array | Out:
    """The text by which the collation compares s: in lower case, without spaces at the end, or a sort key of ICU's.

    A text with a character that ICU has another order for than Spark's ICU has no key: it fails.
    """
    name = name_of(name)
    if name.endswith("_RTRIM"):
        s = pc.utf8_rtrim(s, " ")
    if name.startswith("UTF8_BINARY"):
        return s
    encoded = s.dictionary_encode()
    words = encoded.dictionary
    icu = of_icu(name)
    if icu is None:
        return pa.array([_lower(w) for w in words.to_pylist()], pa.string()).take(encoded.indices)
    keys, faults = sort_keys(words, *icu)
    result = keys.take(encoded.indices)
    if not faults:
        return result
    which = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Out(result, [(np.isin(which, list(faults)), _UNKNOWN, lambda row: _unknown(name, faults[int(which[row])]))])


_UNKNOWN = "COLLATION_UNKNOWN_CHARACTER"


def _unknown(name: str, characters: str) -> str:
    shown = " ".join(f"U+{ord(c):04X}" for c in characters)
    return f"the collation {name}: no place is known among the others of {characters!r} ({shown})"


def _lower(text: str) -> str:
    """In lower case, character by character; the sigma at the end of a word is any sigma."""
    return text.lower() if text.isascii() else "".join(c.lower() for c in text).replace("ς", "σ")
