"""A ledger's counted names against names found anew."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from altneu.store.ledger import Ledger
from altneu.store.references import References, SegmentRef, admit, segment_name

KEYS = st.sampled_from("abcd")


def ref(i):
    return SegmentRef(segment_name(i, f"{i:032x}"), i, i, f"{i:032x}").to_json()


values = st.lists(st.one_of(st.integers(0, 5).map(ref), st.integers(0, 5).map(lambda i: {"blob": f"b{i}"})), max_size=4)
changes = st.lists(st.tuples(st.dictionaries(KEYS, values, max_size=3), st.sets(KEYS, max_size=2)), max_size=12)


@given(changes)
def test_a_ledger_holds_exactly_what_its_values_name(history):
    ledger = Ledger()
    for values_set, deleted in history:
        named = References()
        for value in values_set.values():
            admit(value, named)
        blobs = {name: name.encode() for name in named.blobs if name not in ledger.blobs}
        gone = [key for key in deleted if key in ledger.state and key not in values_set]
        copy = ledger.copy()
        ledger.apply(copy.prepare(values_set, gone, blobs))
        expected = References()
        for value in ledger.state.values():
            admit(value, expected)
        assert set(ledger.blobs) == expected.blobs
        assert ledger.segments == expected.segments
        assert all(bytes(view) == name.encode() for name, view in ledger.blobs.items())


def test_a_copy_is_independent():
    ledger = Ledger()
    ledger.apply(ledger.prepare({"a": {"blob": "x"}}, [], {"x": b"1"}))
    copy = ledger.copy()
    copy.apply(copy.prepare({}, ["a"], {}))
    assert (set(ledger.blobs), set(copy.blobs)) == ({"x"}, set())
    assert (dict(ledger.state), copy.state) == ({"a": {"blob": "x"}}, {})
