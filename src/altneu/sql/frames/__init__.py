"""Queries written as PySpark DataFrames, as collections: their plans go through the SQL front end.

docs/howto/dataframes.md has what there is of them.
"""

from __future__ import annotations

from altneu.sql.frames.described import Described, from_connect

__all__ = ["Described", "from_connect"]
