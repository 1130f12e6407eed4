"""Weights: what rows have in the place of counts, and the collections of such rows (docs/weights.md is a tutorial).

``collection.weighted(weight)`` takes some columns of a collection for the weights of its rows. ``Sums``, ``Moments``,
``Min``, ``Max``, ``Best`` and ``Union`` are kinds of weights that the engine adds up by itself; a subclass of
``Weight`` is one of your own.
"""

from __future__ import annotations

from altneu.collections.weights.kinds import Best, Max, Min, Moments, Sums, Union
from altneu.collections.weights.weighted import Weight, Weighted, recursive

__all__ = ["Best", "Max", "Min", "Moments", "Sums", "Union", "Weight", "Weighted", "recursive"]
