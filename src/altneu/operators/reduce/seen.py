"""Some columns of what was read of groups in an order: what their function is one of (``asked``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from altneu.columnar.hashing import hash_rows
from altneu.columnar.ranking import has_exact_words
from altneu.columnar.rows import Ints, Rows
from altneu.operators.kernels.groups import Groups, Skipped
from altneu.operators.reduce.node import Around, Needed, Quantiles, Suffix, Within
from altneu.trace.batch import Layout


@dataclass(frozen=True)
class Seen:
    """Some columns of an arrangement's rows, as rows of ``layout``; ``names`` are those of its value columns there."""

    layout: Layout
    names: tuple[str, ...]

    def called(self, needed: Needed) -> Needed:
        """Rows that are needed, in the names of the arrangement."""
        names = dict(zip(self.layout.values, self.names, strict=True))
        if isinstance(needed, Around | Within | Suffix):
            wide, bounds = _named(needed.sums_of_wide, names), _named(needed.bounds, names)
            needed = replace(needed, sums_of_wide=wide, bounds=bounds)
        if isinstance(needed, Quantiles):
            (column,) = self.layout.values
            return replace(needed, of_words=has_exact_words(self.layout.schema.field(column).type))
        if isinstance(needed, Around):
            return replace(needed, values=tuple((names[column], units) for column, units in needed.values))
        if isinstance(needed, Suffix):
            extremes = tuple((names[column], greatest) for column, greatest in needed.extremes)
            beside = None if needed.beside is None else self.called(needed.beside)
            assert isinstance(beside, Around | None)
            return replace(needed, extremes=extremes, beside=beside)
        return needed

    def groups(self, groups: Groups) -> Groups:
        """Groups of the arrangement's rows as those of these columns."""
        old, new = (
            Rows(self.layout.value_schema, tuple([rows.column(name) for name in self.names]), rows.count)
            for rows in (groups.old_values, groups.new_values)
        )
        skipped = groups.skipped and _SkippedColumns(
            groups.skipped, dict(zip(self.layout.values, self.names, strict=True))
        )
        return Groups(
            self.layout,
            groups.keys,
            groups.new_group,
            new,
            hash_rows(new),
            groups.new_times,
            groups.new_diffs,
            groups.old_start,
            old,
            hash_rows(old),
            groups.old_diffs,
            skipped,
        )


def _named(columns: tuple[str, ...], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names[column] for column in columns)


@dataclass(frozen=True)
class _SkippedColumns:
    """Rows that were not read, with some of their columns under other names."""

    skipped: Skipped
    names: Mapping[str, str]

    @property
    def units(self) -> Ints:
        """As they are."""
        return self.skipped.units

    @property
    def peers(self) -> Ints:
        """As they are."""
        return self.skipped.peers

    def sums(self, name: str, kind: int) -> Ints:
        """Those of the column of that name."""
        return self.skipped.sums(self.names.get(name, name), kind)
