"""Arrays, maps and structs as text, as Spark prints them: ``[1, null]``, ``{a -> 1}``, ``{1, x}``."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu.expressions.lists import explode, implode
from altneu.expressions.vector import Values


def nested_text(array: pa.Array) -> pa.Array:
    """The text of every value.

    >>> nested_text(pa.array([[1, None], [], None])).to_pylist()
    ['[1, null]', '[]', None]
    """
    if pt.is_struct(array.type):
        fields = [_inner(child) for child in array.flatten()]
        body = pc.binary_join_element_wise(*fields, ", ") if fields else pa.repeat("", len(array))
        return _wrapped("{", body, "}", np.asarray(array.is_valid()))
    lists = explode(array)
    if pt.is_map(array.type):
        keys, items = (_inner(lists.elements.field(i)) for i in (0, 1))
        elements, brackets = pc.binary_join_element_wise(keys, items, " -> "), ("{", "}")
    else:
        elements, brackets = _inner(lists.elements), ("[", "]")
    body = pc.binary_join(implode(lists.lengths, elements, None), ", ")
    return _wrapped(brackets[0], body, brackets[1], np.asarray(array.is_valid()))


def _inner(array: pa.Array) -> pa.Array:
    from altneu.expressions.text_out import to_text

    return pc.fill_null(to_text(array), "null")


def _wrapped(start: str, body: pa.Array, end: str, valid: Values) -> pa.Array:
    return pc.if_else(pa.array(valid), pc.binary_join_element_wise(start, body, end, ""), None)
