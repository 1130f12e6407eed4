"""Which input rows decide given rows of an operator: all that agree with them on some columns."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.plan import ir


def narrow(node: ir.Node, wanted: Rows) -> list[Rows]:
    """For each input of a node, the rows with which its rows have to agree to matter for ``wanted``; no column: all do.

    Shape:  ``wanted`` are rows over some of the node's columns; each result is of rows over some columns of an input.
    Law:    the node's output over the input rows that agree equals, where it agrees with ``wanted``, its output over
            all (tests/provenance/test_explain_row.py, as explanations rest on it).
    """
    known = frozenset(wanted.schema.names)
    return [chosen(wanted, node.decides(i, known)) for i in range(len(node.inputs))]


def chosen(rows: Rows, names: Mapping[str, str]) -> Rows:
    """Columns of rows under other names: ``names`` says of each new one which it was."""
    columns = rows.select(list(names.values()))
    schema = pa.schema([f.with_name(new) for new, f in zip(names, columns.schema, strict=True)])
    return Rows(schema, columns.columns, rows.count)
