"""Sequences of dates and timestamps, by steps that are intervals, are those of Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from altneu import types as T
from altneu.columnar.rows import Rows
from altneu.errors import TypeMismatchError
from altneu.expressions import parse
from tests.expressions.against_spark import compare


def test_sequences_of_moments_are_sparks(spark):
    days = ["2024-01-31", "2024-02-29", "1999-12-31", "2023-03-01", None]
    steps = ["INTERVAL 1 MONTH", "INTERVAL '-1' MONTH", "INTERVAL 1 YEAR", "INTERVAL 7 DAY", "INTERVAL '-36' HOUR"]
    steps += ["INTERVAL '30 06:00:00' DAY TO SECOND", "INTERVAL 13 MONTH"]
    pairs = [(a, b) for a in days for b in days]
    table = pa.table({"a": pa.array([a for a, _ in pairs]), "b": pa.array([b for _, b in pairs])})
    kinds = [
        "CAST({} AS DATE)",
        "CAST({} AS TIMESTAMP) + INTERVAL '05:06:07.8' HOUR TO SECOND",
        "CAST({} AS TIMESTAMP_NTZ)",
    ]
    made = []
    for kind in kinds:
        start, stop = kind.format("a"), kind.format("b")
        made.append(f"sequence({start}, {stop})")
        for step in steps:
            ordered = ("greatest", "least") if "'-" in step else ("least", "greatest")
            ends = ", ".join(f"{f}({start}, {stop})" for f in ordered)
            made.append(f"sequence({ends}, {step})")
    made.append("sequence(CAST(a AS DATE), CAST(a AS TIMESTAMP), INTERVAL 0 DAY)")
    assert compare(spark, table, made) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("sequence(d, d + 1, INTERVAL 12 HOUR)", "ILLEGAL_SEQUENCE_BOUNDARIES"),
        ("sequence(d, d + 1, INTERVAL '-1' DAY)", "ILLEGAL_SEQUENCE_BOUNDARIES"),
        ("sequence(d, d + 1, INTERVAL 0 MONTH)", "ILLEGAL_SEQUENCE_BOUNDARIES"),
        ("sequence(CAST(d AS TIMESTAMP), CAST(d + 40000 AS TIMESTAMP), INTERVAL 1 SECOND)", "COLLECTION_SIZE"),
    ],
)
def test_sequences_of_moments_fail_by_the_row(text, code):
    rows = Rows.from_batch(pa.table({"d": pa.array([19_000], pa.date32())}))
    result = parse(text, T.parse_schema("d date")).evaluate(rows)
    assert result.failed.all()
    assert result.error(0)[0].startswith(code)


def test_a_sequence_of_moments_has_no_number_for_a_step():
    with pytest.raises(TypeMismatchError, match="sequence of moments: the step is an interval, not int"):
        parse("sequence(d, d, 1)", T.parse_schema("d date"))
