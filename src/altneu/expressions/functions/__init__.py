"""The functions, by group; importing a module registers what is in it."""

from altneu.expressions.functions import arithmetic, cast, comparison, conditional, datetime, logic, math

__all__ = ["arithmetic", "cast", "comparison", "conditional", "datetime", "logic", "math"]
