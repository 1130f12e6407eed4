"""What follows MERGE, and the assignments of UPDATE."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from altneu.sql.scope import path_of, table_named
from altneu.sql.statements.tree import Merge, MergeClause, MergeWhen


def merge(p: Any) -> Merge:
    """``MERGE INTO table [AS alias] USING table | (query) [AS alias] ON condition WHEN … THEN …``."""
    if p.word("WITH", "SCHEMA", "EVOLUTION"):
        p.fail("a table's columns do not change: leave WITH SCHEMA EVOLUTION out")
    p.expect("INTO")
    parts, name = p.table_parts("a table's name")
    given = p.alias("USING")
    target, alias = table_named(name, given), given or parts[-1]
    p.expect("USING")
    source = p.relation("a table, a view or (a query)")
    if not source.alias_or_name:
        p.fail("the query needs a name: USING (SELECT …) AS name", p.last)
    if source.alias_or_name.lower() == alias.lower():
        p.fail(f"both sides are called {alias}; give one of them another name: USING … AS name", p.last)
    p.expect("ON")
    on = p.expression("a condition")
    clauses = []
    while p.word("WHEN"):
        clauses.append(_clause(p, parts, given))
    if not clauses:
        p.expected("WHEN [NOT] MATCHED … THEN …")
    return Merge(name, target, source, on, tuple(clauses))


def _clause(p: Any, parts: list[str], alias: str | None) -> MergeClause:
    when: MergeWhen = "not matched" if p.word("NOT") else "matched"
    p.expect("MATCHED")
    if when == "not matched" and p.word("BY"):
        if p.word("SOURCE"):
            when = "not matched by source"
        elif not p.word("TARGET"):
            p.expected("SOURCE or TARGET")
    condition = p.expression("a condition") if p.word("AND") else None
    p.expect("THEN")
    if when == "not matched":
        p.expect("INSERT")
        return MergeClause(when, condition, "insert", _inserted(p))
    if p.word("DELETE"):
        return MergeClause(when, condition, "delete")
    if not p.word("UPDATE"):
        p.expected("UPDATE SET … or DELETE")
    p.expect("SET")
    if p.word("*"):
        if when == "not matched by source":
            p.fail("a row that no row of the source matches cannot be set to one; name the columns", p.last)
        return MergeClause(when, condition, "update")
    return MergeClause(when, condition, "update", assignments(p, parts, alias))


def _inserted(p: Any) -> tuple[tuple[str, exp.Expr], ...] | None:
    if p.word("*"):
        return None
    columns = p.names("a column")
    p.expect("VALUES")
    p.opening()
    values = [p.expression("an expression")]
    while p.word(","):
        values.append(p.expression("an expression"))
    p.closing()
    if len(values) != len(columns):
        p.fail(f"INSERT names {len(columns)} columns, and has {len(values)} values", p.last)
    return tuple(zip(columns, values, strict=True))


def assignments(p: Any, parts: list[str], alias: str | None) -> tuple[tuple[str, exp.Expr], ...]:
    """``column = expression, …``; the column may be written behind the table's name or its alias."""
    values = [_assignment(p, parts, alias)]
    while p.word(","):
        values.append(_assignment(p, parts, alias))
    return tuple(values)


def _assignment(p: Any, parts: list[str], alias: str | None) -> tuple[str, exp.Expr]:
    first = p.token
    *before, column = p.parts("a column")
    known = [alias] if alias is not None else [*path_of(parts, p.within), parts[-1]]
    if before and [b.lower() for b in before] != [k.lower() for k in known[-len(before) :]]:
        p.fail(f"{'.'.join((*before, column))} is not a column of {known[-1]}; SET takes whole columns of it", first)
    p.expect("=")
    return column, p.expression("an expression")
