"""The schema of a variant, and of several: ``OBJECT<a: BIGINT, b: ARRAY<STRING>>``.

Source: Spark's ``SchemaOfVariant``, which merges types as the inference of JSON does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from functools import reduce
from itertools import pairwise
from typing import Any

from altneu import types as T
from altneu.expressions.variants.binary import ARRAY, DEEPEST, OBJECT, UUID, Reader, malformed, too_deep
from altneu.expressions.variants.text import stripped

VOID, ANY = "VOID", "VARIANT"
_NUMBERS = ("BIGINT", "FLOAT", "DOUBLE")
_MOMENTS = ("DATE", "TIMESTAMP_NTZ", "TIMESTAMP")
_TOKEN = re.compile(r"`((?:[^`]|``)*)`|([A-Za-z_][A-Za-z0-9_]*(?:\(\d+,\d+\))?)|([<>:,])|\s+")
Kind = Any
"""A name, ``[element]``, or ``{name: kind}``."""


def schema_of(reader: Reader, at: int = 0, depth: int = 0) -> Kind:
    """The kind of a value.

    Raises:
        RowFailure: the bytes are no variant.
    """
    if depth > DEEPEST:
        raise too_deep()
    kind = reader.kind(at)
    if kind == OBJECT:
        members = [(name, schema_of(reader, place, depth + 1)) for name, place in reader.members(at)]
        names = [_order(name) for name, _ in members]
        if any(a >= b for a, b in pairwise(names)):
            raise malformed()
        return dict(members)
    if kind == ARRAY:
        return [merged(schema_of(reader, place, depth + 1) for place in reader.elements(at))]
    found, value = reader.scalar(at)
    if found == Decimal:
        precision, scale = size_of(stripped(value))
        return f"DECIMAL({precision},{scale})"
    return "UUID" if found is UUID else T.type_name(found).upper()


def _order(name: str) -> bytes:
    return name.encode("utf-16-be")


def size_of(number: Decimal) -> tuple[int, int]:
    """The precision and the scale of a decimal by itself.

    >>> size_of(Decimal("1.5")), size_of(Decimal("0.01")), size_of(Decimal("100"))
    ((2, 1), (2, 2), (3, 0))
    """
    _, digits, exponent = number.as_tuple()
    scale = -int(exponent)
    return max(len("".join(map(str, digits)).lstrip("0") or "0"), scale), scale


def merged(kinds: Iterable[Kind]) -> Kind:
    """The kind of all values of some kinds.

    >>> (
    ...     merged(["BIGINT", "DECIMAL(3,2)"]),
    ...     merged([{"a": "BIGINT"}, {"b": ["STRING"]}]),
    ...     merged(["DATE", "STRING"]),
    ... )
    ('DECIMAL(22,2)', {'a': 'BIGINT', 'b': ['STRING']}, 'VARIANT')
    """
    return reduce(_both, kinds, VOID)


def _both(one: Kind, other: Kind) -> Kind:
    if other in (one, VOID):
        return one
    if one == VOID:
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        names = sorted({*one, *other}, key=_order)
        return {name: _both(one.get(name, VOID), other.get(name, VOID)) for name in names}
    if isinstance(one, list) and isinstance(other, list):
        return [_both(one[0], other[0])]
    if not (isinstance(one, str) and isinstance(other, str)):
        return ANY
    for order in (_NUMBERS, _MOMENTS):
        if one in order and other in order:
            return max(one, other, key=order.index)
    return _with_decimal(one, other)


def _with_decimal(one: str, other: str) -> str:
    sizes = [_decimal(kind) for kind in (one, other)]
    if None not in sizes:
        (precision, scale), (other_precision, other_scale) = sizes  # type: ignore[misc]
        most = max(scale, other_scale)
        whole = max(precision - scale, other_precision - other_scale)
        return f"DECIMAL({whole + most},{most})" if whole + most <= 38 else "DOUBLE"
    return "DOUBLE" if {one, other} & {"FLOAT", "DOUBLE"} and sizes != [None, None] else ANY


def _decimal(kind: str) -> tuple[int, int] | None:
    if kind == "BIGINT":
        return 20, 0
    found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
    return None if found is None else (int(found[1]), int(found[2]))


def printed(kind: Kind) -> str:
    """The text of a kind."""
    if isinstance(kind, list):
        return f"ARRAY<{printed(kind[0])}>"
    if isinstance(kind, str):
        return kind
    return f"OBJECT<{', '.join(f'{_name(name)}: {printed(member)}' for name, member in kind.items())}>"


def _name(name: str) -> str:
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name.replace('`', '``')}`"


def read(text: str) -> Kind:
    """The kind that ``printed`` wrote.

    >>> read("OBJECT<a: BIGINT, `b c`: ARRAY<OBJECT<>>>")
    {'a': 'BIGINT', 'b c': [{}]}
    """
    tokens = [m for m in _TOKEN.finditer(text) if not m[0].isspace()]
    kind, end = _read(tokens, 0)
    assert end == len(tokens), text
    return kind


def _read(tokens: list[re.Match[str]], at: int) -> tuple[Kind, int]:
    word = tokens[at][0]
    inside = at + 1 < len(tokens) and tokens[at + 1][0] == "<"
    if not inside:
        return word, at + 1
    if word == "ARRAY":
        element, at = _read(tokens, at + 2)
        return [element], at + 1
    members: dict[str, Kind] = {}
    at += 2
    while tokens[at][0] != ">":
        token = tokens[at]
        name = token[1].replace("``", "`") if token[0].startswith("`") else token[2]
        members[name], at = _read(tokens, at + 2)
        at += tokens[at][0] == ","
    return members, at + 1
