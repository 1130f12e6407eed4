"""``COLLATE``, and the texts by which collations compare."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.collations import name_of
from altneu.expressions.functions.strings import scalar
from altneu.expressions.rules import Arguments


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
    """The text, compared by the collation UTF8_BINARY, UTF8_LCASE, UTF8_BINARY_RTRIM or UTF8_LCASE_RTRIM.

    It stands in comparisons, ORDER BY, PARTITION BY and GROUP BY.
    """
    return s


@scalar("collation_key(s string, name string) -> string", check=_check_name)
def collation_key(s: pa.Array, name: str) -> pa.Array:
    """The text by which the collation compares s: in lower case, without spaces at the end."""
    name = name_of(name)
    if name.endswith("_RTRIM"):
        s = pc.utf8_rtrim(s, " ")
    if not name.startswith("UTF8_LCASE"):
        return s
    encoded = s.dictionary_encode()
    words = pa.array([None if w is None else _lower(w) for w in encoded.dictionary.to_pylist()], pa.string())
    return words.take(encoded.indices)


def _lower(text: str) -> str:
    """In lower case, character by character; the sigma at the end of a word is any sigma."""
    return text.lower() if text.isascii() else "".join(c.lower() for c in text).replace("ς", "σ")
