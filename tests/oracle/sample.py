"""What a sample means: SplitMix64 in whole numbers, of rows of whole numbers."""

from __future__ import annotations

from functools import reduce

from altneu.plan import ir

WORD = 2**64 - 1


def mix(word: int) -> int:
    z = (word + 0x9E3779B97F4A7C15) & WORD
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & WORD
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & WORD
    return z ^ (z >> 31)


def of_value(value: int | None) -> int:
    return 0x6E756C6C5F726F77 if value is None else mix(value & WORD)


def folded(before: int, then: int) -> int:
    return mix(((before << 23 | before >> 41) & WORD) ^ then)


def sample(node: ir.Sample, rows):
    """The rows whose hash is among the least of all."""
    at = [node.input.schema.names.index(name) for name in node.key]

    def is_in(row):
        actual = reduce(folded, [of_value(row[i]) for i in at])
        return mix(actual ^ mix(node.seed)) < node.fraction * 2**64

    return {row: n for row, n in rows.items() if is_in(row)}
