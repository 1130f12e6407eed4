"""The functions, by group; importing a module registers what is in it."""

from altneu.expressions.functions import arithmetic, cast, comparison, conditional, logic

__all__ = ["arithmetic", "cast", "comparison", "conditional", "logic"]
