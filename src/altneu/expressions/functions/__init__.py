"""The functions, by group; importing a module registers what is in it."""

from altneu.expressions.functions import (
    arithmetic,
    cast,
    comparison,
    conditional,
    datetime,
    formatted,
    higher_order,
    logic,
    maps,
    math,
    nested,
    patterns,
    strings,
)

__all__ = [
    "arithmetic",
    "cast",
    "comparison",
    "conditional",
    "datetime",
    "formatted",
    "higher_order",
    "logic",
    "maps",
    "math",
    "nested",
    "patterns",
    "strings",
]
