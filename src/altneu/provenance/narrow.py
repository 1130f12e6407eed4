"""Which rows of its inputs decide given rows of an operator: all that agree with them on some columns."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.plan import ir


def narrow(node: ir.Node, wanted: Rows) -> list[Rows]:
    """For each input of a node, what its rows have to agree with to matter for rows of the node; no column: all do.

    Shape:  ``wanted`` are rows over some of the node's columns, and so is what comes out over those of its inputs.
    Law:    what the node makes of the input rows that agree is, where it agrees with ``wanted``, what it makes of all
            (tests/provenance/test_explain_row.py, as explanations rest on it).
    """
    known = frozenset(wanted.schema.names)
    return [chosen(wanted, node.decides(i, known)) for i in range(len(node.inputs))]


def chosen(rows: Rows, names: Mapping[str, str]) -> Rows:
    """Columns of rows under other names: ``names`` says of each new one which it was."""
    found = rows.select(list(names.values()))
    schema = pa.schema([f.with_name(new) for new, f in zip(names, found.schema, strict=True)])
    return Rows(schema, found.columns, rows.count)
