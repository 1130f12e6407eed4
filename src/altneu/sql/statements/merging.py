"""MERGE INTO: the queries of the rows that go and of those that come, over a table and what is merged into it.

The first clause whose condition is true says what is done with a row, so that each condition excludes those before it.
A row of the table is changed by one row at most, as in Delta Lake; a table may contain the same row several times, and
then each of them is changed. The rows of a small source are read once, and the rows of the table that they meet are
looked up, where the table has an index by columns that ON compares with columns of the source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from altneu.collections.collection import Collection
from altneu.columnar.python_values import python_values
from altneu.errors import StatementError
from altneu.errors.nearest import listed
from altneu.expressions.dialect import any_of
from altneu.plan import ir
from altneu.sql.scope import Within, full_name, table_named
from altneu.sql.statements.tree import Merge, MergeClause, MergeWhen
from altneu.views.lookup import MOST_KEYS

_SOURCE = "#merged"  # the name of rows that are read once


@dataclass(frozen=True)
class Coming:
    """The rows that a clause puts into the table: a query of some of its columns."""

    columns: tuple[str, ...]
    query: exp.Expr


@dataclass(frozen=True)
class Merging:
    """The queries of a MERGE.

    ``counts`` count the pairs of rows that meet a clause WHEN MATCHED, and the rows of the table in them: as many, if
    each is changed once. None: no clause changes rows that are matched, and those may be deleted twice. ``by`` are the
    columns of the table that ON reads.
    """

    counts: tuple[exp.Expr, exp.Expr] | None
    by: tuple[exp.Expr, ...]
    gone: tuple[exp.Expr, ...]
    updates: tuple[Coming, ...]
    inserts: tuple[Coming, ...]

    @classmethod
    def of(cls, merge: Merge, table: pa.Schema, source: Sequence[str]) -> Merging:
        """The queries of a statement, over the columns of its table and of its source.

        Raises:
            StatementError: a clause sets a column that does not exist, or a clause that is always met is not the last.
        """
        met, new, old = (_exclusive(merge, when) for when in ("matched", "not matched", "not matched by source"))
        target, other = merge.target, merge.source
        on = merge.on
        any_met = _any([clause for _, clause in met])
        updates, inserts, gone = [], [], []
        if met:
            gone.append(_select([_all(merge.alias)], target, other, "SEMI", _and(on, any_met)))
        if old:
            where = _any([clause for _, clause in old])
            gone.append(_select([_all(merge.alias)], target, other, "ANTI", on, where))
        for condition, clause in met:
            if clause.action == "update":
                values = _set(merge, clause, table, source)
                updates.append(Coming(*_of(values, target, other, None, _and(on, condition))))
        for condition, clause in old:
            if clause.action == "update":
                values = _set(merge, clause, table, source)
                updates.append(Coming(*_of(values, target, other, "ANTI", on, condition)))
        for condition, clause in new:
            inserts.append(Coming(*_of(_values(merge, clause, table, source), other, target, "ANTI", on, condition)))
        counts = None
        if any(clause.action == "update" for _, clause in met):
            count = [exp.alias_(exp.Anonymous(this="count", expressions=[exp.Star()]), "n")]
            changed = _and(on, any_met)
            counts = _select(count, target, other, None, changed), _select(count, target, other, "SEMI", changed)
        for query in [*(counts or ()), *gone, *(c.query for c in (*updates, *inserts))]:
            if merge.common is not None:
                query.set("with_", merge.common.copy())
        return cls(counts, _keys(merge, table, source), tuple(gone), tuple(updates), tuple(inserts))

    def several(self, rows_of: Callable[[exp.Expr], pa.Table]) -> dict[str, object]:
        """The key of a row of the table that is in more pairs than one: its columns in ON; none where ON has none."""
        if self.counts is None or not self.by:
            return {}
        pairs, changed = (_counted(rows_of(_grouped(query, self.by))) for query in self.counts)
        key = next((key for text, (key, count) in pairs.items() if text not in changed or count > changed[text][1]), ())
        return dict(zip((column.name for column in self.by), key, strict=False))


def read_once(
    merge: Merge, rows_of: Callable[[exp.Expr], pa.Table], within: Within
) -> tuple[Merge, Mapping[str, Collection]]:
    """The statement over the rows that its source has, if they are few, with these rows by the name that it reads then.

    A table or a view keeps its name, with which its columns may be written.
    """
    count = exp.Anonymous(this="count", expressions=[exp.Star()])
    if rows_of(merge.select(exp.alias_(count, "n")))["n"][0].as_py() > MOST_KEYS:
        return merge, {}
    rows = rows_of(merge.select("*"))
    if len({name.lower() for name in rows.column_names}) < rows.num_columns:
        return merge, {}  # a column that nothing reads may have the name of another
    columns = [python_values(column.combine_chunks()) for column in rows.columns]
    given = Collection(ir.Constant(tuple(zip(*columns, strict=True)), rows.schema))
    common = {cte.alias.lower() for cte in merge.common.expressions} if merge.common is not None else set[str]()
    source = merge.source
    alone = isinstance(source, exp.Table) and {name for name, value in source.args.items() if value} <= _NAME
    if isinstance(source, exp.Table) and alone and (source.db or source.name.lower() not in common):
        return merge, {full_name([part.name for part in source.parts], within): given}
    return replace(merge, source=table_named(_SOURCE, source.alias_or_name)), {_SOURCE: given}


_NAME = {"this", "db", "catalog"}


def _exclusive(merge: Merge, when: MergeWhen) -> list[tuple[exp.Expr, MergeClause]]:
    """The clauses of a kind, each with its condition and that none of those before it was true."""
    clauses = [clause for clause in merge.clauses if clause.when == when]
    result = []
    for place, clause in enumerate(clauses):
        if clause.condition is None and place < len(clauses) - 1:
            raise StatementError(
                f"MERGE: WHEN {when.upper()} without a condition must be the last of its kind: those behind it would "
                "never be reached"
            )
        parts = [] if clause.condition is None else [clause.condition]
        if place:
            known = exp.Anonymous(this="coalesce", expressions=[_any(clauses[:place]), exp.false()])
            parts.append(exp.Not(this=known))
        result.append((_and(*parts), clause))
    return result


def _and(*parts: exp.Expr) -> exp.Expr:
    rest = [exp.Paren(this=part.copy()) for part in parts if part != exp.true()]
    return exp.and_(*rest, copy=False) if rest else exp.true()


def _any(clauses: Sequence[MergeClause]) -> exp.Expr:
    """That a clause is met; TRUE where one has no condition."""
    conditions = [exp.Paren(this=c.condition.copy()) for c in clauses if c.condition is not None]
    return any_of(conditions) if conditions and len(conditions) == len(clauses) else exp.true()


def _all(alias: str) -> exp.Expr:
    return exp.Column(this=exp.Star(), table=exp.to_identifier(alias, quoted=True))


def _of(
    values: Sequence[tuple[str, exp.Expr]],
    first: exp.Expr,
    second: exp.Expr,
    kind: str | None,
    on: exp.Expr,
    where: exp.Expr | None = None,
) -> tuple[tuple[str, ...], exp.Expr]:
    items = [exp.alias_(value.copy(), name, quoted=True) for name, value in values]
    return tuple(name for name, _ in values), _select(items, first, second, kind, on, where)


def _select(
    items: Sequence[exp.Expr],
    first: exp.Expr,
    second: exp.Expr,
    kind: str | None,
    on: exp.Expr,
    where: exp.Expr | None = None,
) -> exp.Expr:
    """Rows of two relations: pairs, or with a kind of join those of the first that have partners, or have none."""
    join = exp.Join(this=second.copy(), on=on.copy())
    if kind is not None:
        join.set("side", "LEFT")
        join.set("kind", kind)
    query = exp.Select(expressions=list(items), from_=exp.From(this=first.copy()), joins=[join])
    if where is not None and where != exp.true():
        query.set("where", exp.Where(this=where.copy()))
    return query


def _keys(merge: Merge, table: pa.Schema, source: Sequence[str]) -> tuple[exp.Expr, ...]:
    """The columns of the table that ON reads, outside of subqueries."""
    names = {name.lower(): name for name in table.names}
    others = {name.lower() for name in source}
    read = []
    for column in merge.on.find_all(exp.Column):
        name, of = column.name.lower(), column.table.lower()
        mine = of == merge.alias.lower() or (not of and name not in others)
        if mine and name in names and column.find_ancestor(exp.Query) is None:
            read.append(names[name])
    return tuple(_column(name, merge.alias) for name in table.names if name in read)


def _grouped(query: exp.Expr, by: Sequence[exp.Expr]) -> exp.Expr:
    """A query that counts rows, by columns."""
    grouped = query.copy()
    keys = [exp.alias_(column.copy(), f"key{i}") for i, column in enumerate(by)]  # a key may have the count's name
    grouped.set("expressions", [*keys, *grouped.expressions])
    grouped.set("group", exp.Group(expressions=[column.copy() for column in by]))
    return grouped


def _counted(rows: pa.Table) -> dict[str, tuple[tuple[object, ...], int]]:
    """Each key, which is in all columns but the last one, and its count; by its text, as lists cannot be looked up."""
    *keys, counts = (python_values(column.combine_chunks()) for column in rows.columns)
    return {repr(key): (key, int(count)) for key, count in zip(zip(*keys, strict=True), counts, strict=True)}


def _set(merge: Merge, clause: MergeClause, table: pa.Schema, source: Sequence[str]) -> list[tuple[str, exp.Expr]]:
    """The values of all columns of the table after UPDATE SET."""
    values = dict(_values(merge, clause, table, source))
    return [(c, values.get(c) or _column(c, merge.alias)) for c in table.names]


def _values(merge: Merge, clause: MergeClause, table: pa.Schema, source: Sequence[str]) -> list[tuple[str, exp.Expr]]:
    """What a clause sets, by the columns of the table; ``*`` sets each to the source's column of its name.

    Raises:
        StatementError: a column does not exist, or is set twice.
    """
    known = {name.lower(): name for name in table.names}
    if clause.values is None:
        there = {name.lower() for name in source}
        missing = [name for name in table.names if name.lower() not in there]
        if missing:
            raise StatementError(
                f"MERGE: {clause.action.upper()} * needs a column of the source for each of {merge.name!r}, which has "
                f"no {', '.join(missing)}; name the columns that are set"
            )
        return [(name, _column(name, merge.source.alias_or_name)) for name in table.names]
    result: dict[str, exp.Expr] = {}
    for name, value in clause.values:
        if name.lower() not in known:
            raise StatementError(f"{merge.name!r} has no column {name!r}; it has: {listed(name, table.names)}")
        if known[name.lower()] in result:
            raise StatementError(f"MERGE sets column {name!r} twice in one clause")
        result[known[name.lower()]] = value
    return list(result.items())


def _column(name: str, table: str) -> exp.Expr:
    return exp.column(name, table, quoted=True)
