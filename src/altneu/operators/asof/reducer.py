"""An as-of join as a function of groups, where times are no chain."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from altneu.operators.asof.rule import AsOfRule
from altneu.operators.reduce.node import Reducer


@dataclass(frozen=True)
class AsOfReduce(Reducer):
    """An as-of join of groups that hold rows of both sides: what ``AsOf`` is where times are no chain.

    ``side`` is true in left rows, ``stamp`` is their timestamp; ``left`` and ``right`` are columns of one side, and
    ``shown`` the right side's columns as (name, column), for errors.
    """

    side: str
    stamp: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    shown: tuple[tuple[str, str], ...]
    rule: AsOfRule
    keeps: bool

    def __repr__(self) -> str:
        return (
            f"AsOfReduce(side={self.side!r}, stamp={self.stamp!r}, left={self.left!r}, right={self.right!r}, "
            f"shown={self.shown!r}, rule={self.rule!r}, keeps={self.keeps!r})"
        )

    def __str__(self) -> str:
        return f"as-of join, {self.rule}"

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """The key, the left side's columns, the right side's, which may be null."""
        theirs = [schema.field(n).with_nullable(True) for n in self.right]
        return [*key, *(schema.field(n) for n in self.left), *theirs]
