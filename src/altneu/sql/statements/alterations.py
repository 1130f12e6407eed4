"""What follows ALTER."""

from __future__ import annotations

from typing import Any

from altneu.sql.statements.tree import AddColumn, Alter, Change, DropColumn, RenameColumn, WidenColumn


def alter(p: Any) -> Alter:
    """``ALTER TABLE | SOURCE name`` and a change of its columns."""
    kind = p.one_of("TABLE", "SOURCE", "MATERIALIZED VIEW", "VIEW", "INDEX", "SINK")
    if kind is None:
        p.expected("TABLE or SOURCE")
    if kind in ("VIEW", "MATERIALIZED VIEW"):
        p.fail(f"ALTER {kind} is not supported; CREATE OR REPLACE {kind} gives it another definition", p.last)
    if kind not in ("TABLE", "SOURCE"):
        p.fail(f"ALTER {kind} is not supported; DROP {kind} and CREATE it again", p.last)
    return Alter(kind, p.table("a name"), _change(p))


def _change(p: Any) -> Change:
    if p.word("ADD"):
        return _added(p)
    if p.word("DROP"):
        p.word("COLUMN")
        if_exists = p.word("IF", "EXISTS")
        return DropColumn(p.name("a column"), if_exists)
    if p.word("RENAME"):
        if not p.word("COLUMN") and p.word("TO", advance=False) and not p.word("TO", "TO", advance=False):
            p.fail("a table keeps its name: CREATE another one AS SELECT * FROM it, and a VIEW of its old name")
        name = p.name("a column")
        p.expect("TO")
        return RenameColumn(name, p.name("the new name of the column"))
    if p.one_of("ALTER", "CHANGE") is not None:
        p.word("COLUMN")
        name = p.name("a column")
        p.word("SET", "DATA")
        p.expect("TYPE")
        return WidenColumn(name, p.type_text())
    return p.expected("ADD COLUMN, DROP COLUMN, RENAME COLUMN or ALTER COLUMN … TYPE")


def _added(p: Any) -> AddColumn:
    if p.word("COLUMNS"):
        return AddColumn(p.in_parentheses())
    p.word("COLUMN")
    unless = p.word("IF", "NOT", "EXISTS")
    first = p.token
    p.name("a column")
    p.type_text()
    if p.word("NOT"):
        p.expect("NULL")
    if (place := p.one_of("FIRST", "AFTER")) is not None:
        p.fail(f"a new column is the last one: leave {place} out, and SELECT the columns in the order you want", p.last)
    columns = p.text_from(first)
    default = p.expression("a value") if p.word("DEFAULT") else None
    return AddColumn(columns, default, unless)
