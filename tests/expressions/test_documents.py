"""JSON documents: what Python's scanner reads and what the slower one reads are the same, liberties aside."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from altneu.expressions.documents import MISSING, Object, Reader, written

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, width=32) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("numbers", [False, True])
@given(_VALUES, st.sampled_from([None, 1, 3]), st.booleans())
def test_both_readers_read_a_document(numbers, value, indent, ascii_only):
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    reader = Reader(numbers=numbers)
    read = reader(text)
    slowly, end = reader._slowly(text, 0, 0)
    assert (slowly, end) == (read, len(text))
    assert written(slowly) == written(read)


@given(_VALUES)
def test_what_is_written_is_read_again(value):
    reader = Reader(numbers=False)
    read = reader(json.dumps(value))
    assert written(reader(written(read))) == written(read)


def test_deep_documents_are_none():
    for reader in (Reader(numbers=False), Reader(numbers=True)):
        assert reader("[" * 201 + "]" * 201) is MISSING
        assert reader("['x', " * 200 + "[]" + "]" * 200) is MISSING
        assert written(reader("[" * 200 + "]" * 200)) == "[" * 200 + "]" * 200
        assert written(reader("{'a':" * 199 + '["' + "[" * 99 + '"]' + "}" * 199)).count("a") == 199


def test_members_keep_their_order():
    assert Reader(numbers=False)('{"b": 1, "a": 2, "b": 3}') == Object([("b", 1), ("a", 2), ("b", 3)])
