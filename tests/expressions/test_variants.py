"""The binary form of variants: as pyspark's own reader and writer have it, and what is no variant is told."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from altneu import types as T
from altneu.columnar.rows import Rows
from altneu.errors import PlanError
from altneu.expressions import parse
from altneu.expressions.documents import Reader as Documents
from altneu.expressions.each import RowFailure
from altneu.expressions.variants import paths, schemas
from altneu.expressions.variants.binary import Reader, encoded
from altneu.expressions.variants.casting import column_written
from altneu.expressions.variants.text import json_text

_documents = Documents(numbers=True, liberal=False)
NUMBERS = st.integers(-(10**40), 10**40) | st.decimals(-(10**9), 10**9, allow_nan=False, places=3)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def written(value: object) -> str:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{written(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


@given(VALUES)
def test_documents_become_the_bytes_that_pyspark_writes(value):
    variant_utils = pytest.importorskip("pyspark.sql.variant_utils")
    text = written(value)
    mine = encoded(_documents(text))
    theirs = variant_utils.VariantUtils.parse_json(text)
    if text.isascii() and "." not in text and "e" not in text:  # its numbers and its order of names are Python's
        assert (mine.value, mine.metadata) == theirs
    assert variant_utils.VariantUtils.to_python(*mine) == variant_utils.VariantUtils.to_python(*theirs)


@given(VALUES)
def test_what_is_read_is_written_again(value):
    mine = encoded(_documents(written(value)))
    reader = Reader(*mine)
    again = encoded(reader.tree())
    assert json_text(Reader(*again)) == json_text(reader)
    assert encoded(Reader(*again).tree()) == again
    kind = schemas.schema_of(reader)
    assert schemas.read(schemas.printed(kind)) == kind
    assert schemas.merged([kind, kind]) == kind
    Reader(*again).check()


@given(VALUES, st.data())
def test_bytes_that_are_damaged_are_told_or_read(value, data):
    """Whatever the bytes are, they are read as a variant or refused as none; nothing else is raised."""
    variant = encoded(_documents(written(value)))
    part = data.draw(st.sampled_from(["value", "metadata"]))
    raw = bytearray(getattr(variant, part))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    damaged = variant._replace(**{part: bytes(raw[: data.draw(st.integers(0, len(raw)))])})
    for read in (lambda r: r.check(), lambda r: r.tree(), json_text, schemas.schema_of, lambda r: encoded(r.tree())):
        try:
            read(Reader(*damaged))
        except RowFailure as error:
            assert error.code in (  # noqa: PT017 -- any of these, or none
                "MALFORMED_VARIANT",
                "UNKNOWN_PRIMITIVE_TYPE_IN_VARIANT",
                "VARIANT_DUPLICATE_KEY",
                "VALUE_TOO_LARGE",
            )


def evaluated(text: str, documents: list[str | None]):
    table = pa.table({"s": pa.array(documents, pa.string())})
    rows = Rows.from_batch(table)
    return parse(text, rows.schema).evaluate(rows)


def test_deep_documents_are_error_rows():
    result = evaluated("parse_json(s)", ["[" * 201 + "]" * 201, "[" * 200 + "]" * 200, "[" * 10])
    assert [result.error(row)[0] if result.failed[row] else None for row in range(3)] == [
        "VALUE_TOO_LARGE",
        None,
        "MALFORMED_RECORD_IN_PARSING",
    ]


def test_an_array_is_not_extended_without_end():
    result = evaluated("variant_set(parse_json(s), '$[2147483647]', 1)", ["[]"])
    assert result.error(0)[0] == "VALUE_TOO_LARGE"


def test_many_fields_and_elements_have_wide_headers():
    array = column_written(pa.array([list(range(300))], T.list_type(T.LONG))).arrow[0].as_py()
    reader = Reader(array["value"], array["metadata"])
    assert [reader.scalar(at).value for at in reader.elements(0)] == list(range(300))
    fields = {f"k{i}": "x" * i for i in range(400)}
    variant = encoded(_documents(json.dumps(fields)))
    assert json.loads(json_text(Reader(*variant))) == fields
    assert paths.place_of(Reader(*variant), ("k399",)) is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("parse_json(s) = parse_json(s)", "variants cannot be compared"),
        ("parse_json(s) <=> null", "variants cannot be compared"),
        ("parse_json(s) in (parse_json(s))", "variants cannot be compared"),
        ("greatest(parse_json(s), parse_json(s))", "variants cannot be compared"),
        ("array_sort(array(parse_json(s)))", "variants cannot be compared"),
        ("array_contains(array(parse_json(s)), parse_json(s))", "variants cannot be compared"),
        ("map(parse_json(s), 1)", "keys of a map must not be variants"),
        ("hash(parse_json(s))", "has variants, which have no hash"),
        ("parse_json(s).value", "has no field 'value'"),
        ("parse_json(s)['value']", "has no elements"),
        ("cast(struct(s) as variant)", "cannot be cast to variant"),
        ("cast(interval 1 day as variant)", "cannot be cast to variant"),
        ("cast(parse_json(s) as map<int,int>)", "cannot be cast to"),
        ("cast(time '12:00' as variant)", "cannot be cast to variant"),
        ("variant_get(parse_json(s), 'a')", "must be a path"),
        ("variant_set(parse_json(s), '$', 1)", "must be a path"),
        ("variant_set(parse_json(s), '$.a', struct(1))", "cannot be cast to variant"),
        ("variant_get(parse_json(s), '$', 'interval day')", "cannot be cast"),
        ("variant_get(s, '$')", "must be variant"),
        ("s:a", "must be variant"),
        ("from_json(s, 'a variant')", "not read from JSON"),
        ("to_csv(struct(parse_json(s)))", "a variant is not written"),
        ("abs(parse_json(s))", "takes a number, not variant"),
        ("variant_strip_nulls(parse_json(s), s = 'x')", "must be a constant"),
        ("try_cast(array(parse_json(s)) as array<int>)", "use try_variant_get"),
        ("to_variant_object(array(null))", "to_variant_object takes"),
        ("parse_json(s):a[*]", "names and indices only"),
    ],
)
def test_refusals(text, said):
    with pytest.raises(PlanError) as caught:
        evaluated(text, [])
    assert said in str(caught.value)
