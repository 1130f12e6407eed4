"""``fillna``, ``dropna`` and ``replace`` of DataFrames: which columns they are about, and what becomes of these."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.errors import UnknownColumnError
from altneu.expressions.coercion import is_numeric
from altneu.expressions.pyspark import forms
from altneu.sql.binding import Answer
from altneu.sql.frames.binder import Frames
from altneu.sql.scope import Around, Field, Relation, bound

_FLOATING = (T.FLOAT, T.DOUBLE)


def filled(
    frames: Frames,
    item: exp.Select,
    names: Sequence[str],
    values: Sequence[exp.Expr],
    kinds: Sequence[str],
    around: Around | None,
) -> Answer:
    """``fillna``: a value in place of nulls, and of NaN; one value only in the columns that it may stand in."""
    relation = frames.relation_of(item, around)
    _check(relation, names, "fillna")
    value_of = dict(zip((n.lower() for n in names), zip(values, kinds, strict=False), strict=False))

    def change(f: Field, kind: pa.DataType) -> exp.Expr | None:
        if len(values) > 1:
            given = value_of.get(f.name.lower())
        else:
            given = (values[0], kinds[0]) if _is_one_of(f, names) and _takes(kind, kinds[0]) else None
        if given is None:
            return None
        present: exp.Expr = bound(f.column)
        if kind in _FLOATING:
            present = exp.Anonymous(this="nanvl", expressions=[present, _null(kind)])
        return exp.Anonymous(this="coalesce", expressions=[present, _as(given[0], kind)])

    return frames.replaced(item, change, around)


def without_nulls(
    frames: Frames, item: exp.Select, names: Sequence[str], least: int | None, around: Around | None
) -> Answer:
    """``dropna``: the rows with at least so many values, or with all of them; NaN is none."""
    relation = frames.relation_of(item, around)
    _check(relation, names, "dropna")
    there = [
        forms.present(bound(f.column), floating=relation.node.schema.field(f.column).type in _FLOATING)
        for f in relation.shown
        if _is_one_of(f, names)
    ]
    condition = forms.at_least(len(there) if least is None else least, there)
    return frames.filtered(item, condition, around)


def replaced(
    frames: Frames,
    item: exp.Select,
    names: Sequence[str],
    pairs: Sequence[tuple[exp.Expr, exp.Expr]],
    kinds: Sequence[str],
    around: Around | None,
) -> Answer:
    """``replace``: other values in place of some, in the columns whose type these have; numbers are doubles there."""
    relation = frames.relation_of(item, around)
    _check(relation, names, "replace")
    about = next((k for k in kinds if k != "null"), "double")

    def value(tree: exp.Expr) -> exp.Expr:
        return tree.copy() if about in ("string", "boolean") else _as(tree, T.DOUBLE)

    def change(f: Field, kind: pa.DataType) -> exp.Expr | None:
        if not pairs or not _is_one_of(f, names) or not _takes(kind, about):
            return None
        ifs = [exp.If(this=value(old), true=_as(value(new), kind)) for old, new in pairs]
        return exp.Case(this=bound(f.column), ifs=ifs, default=bound(f.column))

    return frames.replaced(item, change, around)


def _check(relation: Relation, names: Sequence[str], verb: str) -> None:
    known = {f.name.lower() for f in relation.shown}
    for name in names:
        if name.lower() not in known:
            raise UnknownColumnError(name, [f.name for f in relation.shown], verb)


def _is_one_of(f: Field, names: Collection[str]) -> bool:
    return not names or f.name.lower() in {n.lower() for n in names}


def _takes(kind: pa.DataType, literal: str) -> bool:
    """Whether a column may have a literal of some kind in place of its nulls."""
    if literal == "string":
        return bool(kind == T.STRING)
    return bool(kind == T.BOOLEAN) if literal == "boolean" else is_numeric(kind)


def _as(value: exp.Expr, kind: pa.DataType) -> exp.Expr:
    return exp.Cast(this=value.copy(), to=forms.data_type(T.type_name(kind)))


def _null(kind: pa.DataType) -> exp.Expr:
    return exp.Cast(this=exp.Null(), to=forms.data_type(T.type_name(kind)))
