"""Partitions of an Iceberg table: columns, and transforms of them as Spark's SQL writes them, ``days(at)``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from altneu.errors import SinkError
from altneu.sinks.base import check_partitions
from altneu.types import type_name
from altneu.views.view import View

if TYPE_CHECKING:
    from pyiceberg.table.update.spec import UpdateSpec

_FORM = re.compile(r"\s*(\w+)\s*\(\s*(?:(\d+)\s*,\s*)?(`(?:[^`]|``)+`|[^(),`]+?)\s*\)\s*")
_NAMES = {
    **{word: name for name in ("year", "month", "day", "hour") for word in (name, f"{name}s")},
    "date": "day",
    "date_hour": "hour",
    "bucket": "bucket",
    "truncate": "truncate",
}
_NUMBERED = ("bucket", "truncate")


@dataclass(frozen=True)
class Partition:
    """A column of a view, or a transform of it; ``number`` is that of a bucket's or a truncation's."""

    column: str
    transform: str = "identity"
    number: int | None = None

    @property
    def text(self) -> str:
        """The transform as Iceberg writes it."""
        return self.transform if self.number is None else f"{self.transform}[{self.number}]"


def partition_of(text: str, columns: Sequence[str]) -> Partition:
    """What a text of ``partition_by`` says: a column, or a transform.

    >>> partition_of("bucket(16, id)", ["id", "at"]), partition_of("at", ["id", "at"]).text
    (Partition(column='id', transform='bucket', number=16), 'identity')

    Raises:
        SinkError: a transform that Iceberg does not have.
    """
    match = None if text in columns else _FORM.fullmatch(text)
    if match is None:
        return Partition(text)
    name, number, column = _NAMES.get(match[1].lower()), match[2], match[3]
    if name is None or (number is not None) != (name in _NUMBERED) or number == "0":
        raise SinkError(
            f"partition_by says {text!r}; there are: a column, years(t), months(t), days(t), hours(t), bucket(n, c) "
            "and truncate(n, c)"
        )
    column = column[1:-1].replace("``", "`") if column.startswith("`") else column
    return Partition(column, name, None if number is None else int(number))


def checked(view: View, texts: Sequence[str]) -> list[Partition]:
    """The partitions that a sink of a view has.

    Raises:
        SinkError: one is of no column of the view, or of one whose values it does not take.
    """
    found = [partition_of(text, view.schema.names) for text in texts]
    check_partitions(view, [one.column for one in found])
    plain = [one for one in found if one.transform == "identity"]
    if len(plain) < len(found) and find_spec("pyiceberg_core") is None:
        raise SinkError(
            f"partition_by says {next(t for t, one in zip(texts, found, strict=True) if one not in plain)!r}, which "
            "pyiceberg computes with pyiceberg-core, which is not installed: pip install 'altneu[iceberg]'"
        )
    for one in found:
        kind = _iceberg_type(view, one.column)
        if not _transform(one).can_transform(kind):
            shown = type_name(view.schema.field(one.column).type)
            raise SinkError(f"partition_by: {one.transform} takes no {shown} (column {one.column!r})")
    return found


def _transform(partition: Partition) -> Any:
    from pyiceberg.transforms import parse_transform

    return parse_transform(partition.text)


def _iceberg_type(view: View, column: str) -> Any:
    from pyiceberg.catalog import Catalog

    schema = Catalog._convert_schema_if_needed(view.schema)
    return next(field.field_type for field in schema.fields if field.name == column)


def add(spec: UpdateSpec, partitions: Sequence[Partition]) -> None:
    """Add partitions to the spec of a table that is created, by the names that Spark gives them: ``at_day``."""
    for one in partitions:
        if one.transform == "identity":
            spec.add_identity(one.column)
        else:
            name = "trunc" if one.transform == "truncate" else one.transform
            spec.add_field(one.column, _transform(one), f"{one.column}_{name}")
