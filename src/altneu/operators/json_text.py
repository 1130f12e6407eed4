"""``json``: members of JSON texts as columns; what is not asked for is checked to be JSON and not read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from altneu.linear.steps import JsonField
from altneu.operators.expansion import Mask
from altneu.operators.json_values import Reader, Values


def parse_json(
    texts: pa.Array, fields: Sequence[JsonField]
) -> tuple[list[pa.Array], Mask | None, Callable[[int], tuple[str, str]]]:
    """Read fields of each text; return the columns, the rows that failed, and the code and message of each of those.

    A null text gives nulls, and so does a member that is absent or null, or within such a one. Of members of one name
    the last counts. A text that is no JSON (one value, at most 1,000 levels deep) fails as INVALID_JSON, and a member
    that its field's type cannot hold as JSON_TYPE:

    * boolean takes true and false; integers take numbers without fraction and exponent; float and double take numbers
      and Spark's words for those that JSON lacks ("NaN", "Infinity", "-INF" ...);
    * decimals take numbers, or strings of them, and round as a cast does;
    * strings take strings, and of other values the JSON without its white space;
    * binary takes base64;
    * dates and timestamps take strings as a cast does, and whole numbers where the field has a unit;
    * arrays take arrays, structs and maps take objects; members that a struct lacks are null.

    >>> from altneu.types import parse_type
    >>> fields = [JsonField("id", ("after", "id"), pa.int64()), JsonField("op", ("op",), pa.string())]
    >>> texts = pa.array(
    ...     ['{"op": "c", "after": {"id": 7}}', '{"op": "d", "after": null}', '{"after": [7]}', None]
    ... )
    >>> columns, failed, failure = parse_json(texts, fields)
    >>> [c.to_pylist() for c in columns], failed.tolist()
    ([[7, None, None, None], ['c', 'd', None, None]], [False, False, True, False])
    >>> failure(2)
    ('JSON_TYPE', 'after is [7], which is no object')

    Shape:  n texts in; a column a field, each of n values, which mean nothing where the row failed.
    Cost:   one pass over the bytes of the texts, and one more over those of lists and maps that are read.
    Law:    the values are those of Python's ``json`` (tests/operators/test_json_text.py).
    Source: RFC 8259.

    Raises:
        TypeMismatchError: a field's type is none that JSON is read as.
    """
    reader = Reader()
    root = Values.of_texts(texts)
    found = reader.find(root, [(f.path, f.type) for f in fields])
    columns = [reader.field(found, f) for f in fields]
    if not reader.failed:
        return columns, None, reader.failed.__getitem__
    mask = np.zeros(len(texts), np.bool_)
    mask[list(reader.failed)] = True
    return columns, mask, reader.failed.__getitem__
