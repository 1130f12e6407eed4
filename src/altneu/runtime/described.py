"""The description of a view in a commit: what a reader needs that has the store and not the plan."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from altneu.columnar.ranking import Order
from altneu.errors import StoreCorruptError
from altneu.order import Epoch, Lattice, Product
from altneu.plan.physical import ViewPorts
from altneu.runtime.state import StateTable
from altneu.runtime.stored import StoredContents, StoredLayout, StoredOrder
from altneu.trace.batch import Layout


@dataclass(frozen=True)
class Described:
    """Where a view's contents and errors are kept, how these arrangements are laid out, and what its times are called.

    Shape:  ``layouts`` has the arrangements of ``ports``; ``coordinates`` is None for a view with one time. ``rows``
            has the fingerprint of the collection of which an arrangement of the view's plan has all rows, and
            ``below_zero`` the arrangement of negative counts beside an ordered one; ``layouts`` has these too.
            ``sources`` has how many times each source has that it is computed from; None: an earlier altneu wrote it.
    """

    ports: ViewPorts
    layouts: Mapping[str, Layout]
    coordinates: tuple[str, ...] | None
    rows: Mapping[str, str] = field(default_factory=dict)
    below_zero: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, int] | None = None

    def to_json(self) -> StoredContents:
        """Its form in a commit.

        Law:    ``from_json`` reads it back (tests/executor/test_described.py).
        """
        contents: StoredContents = {
            "schema": schema_to_text(self.ports.schema),
            "contents": self._arrangement_to_json(self.ports.contents),
            "errors": [self._arrangement_to_json(name) for name in self.ports.errors],
            "coordinates": list(self.coordinates) if self.coordinates else None,
        }
        if self.ports.changes_only:
            contents["changes_only"] = True
        if self.sources is not None:
            contents["sources"] = dict(self.sources)
        if more := [name for name in self.rows if name != self.ports.contents]:
            contents["arrangements"] = [self._arrangement_to_json(name) for name in more]
        return contents

    def _arrangement_to_json(self, name: str) -> StoredLayout:
        layout = self.layouts[name]
        result: StoredLayout = {
            "arrangement": name,
            "schema": schema_to_text(layout.schema),
            "key": list(layout.key),
            "order": order_to_json(layout.order),
            "times": layout.lattice.width,
        }
        if name in self.rows:
            result["rows"] = self.rows[name]
        if name in self.below_zero:
            result["below_zero"] = self._arrangement_to_json(self.below_zero[name])
        return result

    @classmethod
    def from_json(cls, value: StoredContents) -> Described:
        """Read what ``to_json`` wrote.

        Raises:
            StoreCorruptError: it does not have that form.
        """
        try:
            contents, errors = value["contents"], list(value["errors"])
            all_rows = [contents, *value.get("arrangements", ())]
            numbers = {own["arrangement"]: own["below_zero"] for own in all_rows if "below_zero" in own}
            told = (*all_rows, *errors, *numbers.values())
            layouts = {arrangement["arrangement"]: layout_from_json(arrangement) for arrangement in told}
            rows = {own["arrangement"]: own["rows"] for own in all_rows if "rows" in own}
            names = value["coordinates"]
            origins, schema = tuple(e["arrangement"] for e in errors), schema_from_text(value["schema"])
            ports = ViewPorts(contents["arrangement"], origins, schema, is_changes_only(value))
            below_zero = {name: number["arrangement"] for name, number in numbers.items()}
            sources = {name: int(times) for name, times in value["sources"].items()} if "sources" in value else None
            coordinates = (str(names[0]), str(names[1]), *map(str, names[2:])) if names else None
            return cls(ports, layouts, coordinates, rows, below_zero, sources)
        except (LookupError, TypeError, ValueError, pa.ArrowException) as error:
            raise StoreCorruptError(
                f"a commit describes a view in a form that this version cannot read: {error}"
            ) from error

    def open_in(self, table: StateTable) -> None:
        """Let a table know the layouts."""
        table.layouts.update(self.layouts)


def layout_from_json(value: StoredLayout) -> Layout:
    """The layout of an arrangement as a commit tells it."""
    lattice: Lattice = Epoch() if value["times"] == 1 else Product(*(Epoch() for _ in range(value["times"])))
    return Layout(schema_from_text(value["schema"]), tuple(value["key"]), lattice, order_from_json(value["order"]))


def order_to_json(order: tuple[Order, ...]) -> StoredOrder:
    """An order of columns as a commit says it: of one column, ascending, nulls first, its name."""
    if not order or order == ((order[0][0], False, True),):
        return order[0][0] if order else None
    return [list(column) for column in order]


def order_from_json(value: StoredOrder) -> tuple[Order, ...]:
    """The order that ``order_to_json`` wrote."""
    if isinstance(value, str):
        return ((value, False, True),)
    return tuple((str(name), bool(descending), bool(first)) for name, descending, first in value or ())


def is_changes_only(value: StoredContents | None) -> bool:
    """Whether a view was made without contents, by its description in a commit."""
    return value is not None and value.get("changes_only") is True


def schema_to_text(schema: pa.Schema) -> str:
    """An Arrow schema, exactly: Spark's DDL says less of nested columns."""
    return base64.b64encode(schema.remove_metadata().serialize().to_pybytes()).decode("ascii")


def schema_from_text(text: str) -> pa.Schema:
    """The schema that ``schema_to_text`` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
