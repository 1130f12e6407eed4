"""Random programs against the second oracle (``tests.oracle.second``): some thousand locally, some on Spark."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.lane import seeds
from tests.oracle import second
from tests.oracle.second_meaning import Held

SCENES = 25


@pytest.mark.parametrize("chunk", seeds(10, 1))
def test_random_programs_are_what_the_second_oracle_says(chunk):
    tally, actual = second.search(range(chunk * SCENES, (chunk + 1) * SCENES))
    assert not actual, "\n".join(actual)
    assert tally["programs"] == SCENES * second.PROGRAMS
    assert tally["exact"] > 10 * tally["unsure"]


@pytest.mark.spark
def test_random_programs_on_spark_are_what_the_second_oracle_says(spark):
    tally, actual = second.search([900, 906], spark, programs=4)
    assert not actual, "\n".join(actual)
    assert tally["programs"] == 8


def test_every_verb_occurs_and_most_programs_show_rows():
    texts, shown, looked = "", 0, 0
    for seed in range(SCENES * 10):
        result = second.scene(seed)
        expected = second.Expected(result)
        for node in result.views.values():
            texts += node.written() + "\n"
            shown, looked = shown + any(h.rows for h in expected.of(node)), looked + 1
    verbs = (
        "select filter map flat_map explode join_function temporal delay generate_series unnest repeat_row negate",
        "concat consolidate join semijoin antijoin agg reduce count distinct threshold top_k window latest asof_join",
        "iterate an.recursive differentiate integrate delay_to_neu arrange_by sliding tumbling hopping session_windows",
        "json",
    )
    assert [v for v in " ".join(verbs).split() if f"{v}(" not in texts] == []
    words = "'full'", "per=[]", "over ()", "group_by()", "'locked'", "'revising'", "'logical'", "stddev", "percentile"
    for word in ("logical_now()", "update_time()", "listagg", "max_by", "bit_or", *words):
        assert word in texts, word
    assert shown > looked / 2


def test_a_wrong_answer_is_found_and_minimised(monkeypatch):
    """A difference between what is shown and what is meant is found, and what is printed runs as it is."""
    of = second.Expected._of

    def wrong(self, node):
        result = of(self, node)
        if ".distinct()" in node.text:
            return [Held(Counter({row: 2 * n for row, n in h.rows.items()}), h.codes, h.unsure) for h in result]
        return result

    monkeypatch.setattr(second.Expected, "_of", wrong)
    seed = next(s for s in range(1000) if any("distinct()" in v.text for v in second.scene(s).views.values()))
    for made in (second.scene(seed + i) for i in range(50)):
        error = second.outcome(made)
        if isinstance(error, second.DifferentError):
            small = second.smaller(made, seconds=20)
            assert len(small.views) == 1
            assert len(next(iter(small.views.values())).written()) < 200
            exec(second.program(small, error), {})  # noqa: S102 -- that is what it is printed for
            return
    raise AssertionError("nothing was found")
