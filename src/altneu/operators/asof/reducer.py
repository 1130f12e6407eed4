"""An as-of join as a function of groups, where times do not form a chain."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from altneu.operators.asof.rule import MixedSides
from altneu.operators.reduce.node import F_co, Families, Reducer


@dataclass(frozen=True)
class AsOfReduce(Reducer):
    """An as-of join of groups that hold rows of both sides: what ``AsOf`` is where times do not form a chain."""

    sides: MixedSides

    def __repr__(self) -> str:
        return repr(self.sides).replace("MixedSides", "AsOfReduce", 1)

    def __str__(self) -> str:
        return f"as-of join, {self.sides.rule}"

    def of_family(self, families: Families[F_co]) -> F_co:
        """As-of joins."""
        return families.as_of(self.sides)

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """The key, the left side's columns, the right side's, which may be null."""
        theirs = [schema.field(n).with_nullable(True) for n in self.sides.right]
        return [*key, *(schema.field(n) for n in self.sides.left), *theirs]
