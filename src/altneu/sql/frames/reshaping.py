"""Verbs of DataFrames that change which columns there are: by name, by place, between rows and columns."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from altneu.errors import PlanError, SchemaError, UnknownColumnError
from altneu.expressions.pyspark import forms
from altneu.expressions.pyspark.names import name_of, shown
from altneu.sql.binding import Answer
from altneu.sql.frames.binder import Frames, kept
from altneu.sql.scope import Around, Scope, bound, common_type
from altneu.sql.trees import has_aggregate
from altneu.types import NULL, STRING, type_name


def key(tree: exp.Expr) -> exp.Expr:
    """A key as GROUP BY takes it: without its name, and not as the number of an output."""
    tree = (tree.this if isinstance(tree, exp.Alias) else tree).copy()
    if isinstance(tree.unnest(), exp.Literal):
        return exp.Cast(this=tree, to=exp.DataType.build("string" if tree.unnest().is_string else "int"))
    return tree


def with_columns(
    frames: Frames, item: exp.Select, new: Sequence[tuple[str, exp.Expr]], around: Around | None
) -> Answer:
    """``withColumns``: each in the place of the column of its name, or after all others."""
    relation = frames.relation_of(item, around)
    left = {name.lower(): (name, tree) for name, tree in new}
    outputs: list[exp.Expr] = []
    replaced = set()
    for f in relation.shown:
        given = left.get(f.name.lower())
        if given is None:
            outputs.append(kept(f))
        else:
            outputs.append(forms.named(_value(given[1]), given[0]))
            replaced.add(f.name.lower())
    outputs += [forms.named(_value(t), n) for n, t in new if n.lower() not in replaced]
    return frames.selected(item, outputs, around)


def _value(tree: exp.Expr) -> exp.Expr:
    return tree.this if isinstance(tree, exp.Alias) else tree


def renamed(frames: Frames, item: exp.Select, renames: Sequence[tuple[str, str]], around: Around | None) -> Answer:
    """``withColumnsRenamed``: names that no column has are none of its business, as in Spark."""
    relation = frames.relation_of(item, around)
    names = [f.name for f in relation.shown]
    for old, new in renames:
        names = [new if name.lower() == old.lower() else name for name in names]
    outputs = [
        kept(f) if f.name == name else forms.named(bound(f.column), name)
        for f, name in zip(relation.shown, names, strict=True)
    ]
    return frames.selected(item, outputs, around)


def titled(frames: Frames, item: exp.Select, names: Sequence[str], around: Around | None) -> Answer:
    """``toDF``: new columns in place of all, also where a name is the same."""
    fields = frames.relation_of(item, around).shown
    if len(fields) != len(names):
        raise SchemaError(f"toDF has {len(names)} names ({', '.join(names)}), and there are {len(fields)} columns")
    outputs = [forms.named(bound(f.column), name) for f, name in zip(fields, names, strict=True)]
    return frames.selected(item, outputs, around)


def dropped(
    frames: Frames, item: exp.Select, names: Sequence[str], trees: Sequence[exp.Expr], around: Around | None
) -> Answer:
    """``drop``: columns that are not there are none of its business, as in Spark."""
    relation = frames.relation_of(item, around)
    gone = {f.column for f in relation.shown if f.name.lower() in {n.lower() for n in names}}
    for tree in trees:
        if not isinstance(tree, exp.Column):
            raise PlanError(f"drop({shown(tree)}): only columns can be dropped")
        found = relation.find([p.name for p in tree.parts])
        if found is not None and not found[1]:
            gone.add(found[0].column)
    left = [kept(f) for f in relation.shown if f.column not in gone]
    if not left:
        raise PlanError("drop: no column would be left; rows without columns cannot be told apart")
    return frames.selected(item, left, around)


def by_name(frames: Frames, sides: Sequence[exp.Select], around: Around | None, *, missing: bool) -> list[exp.Select]:
    """Both sides of ``unionByName`` with the columns of the first one in its order, then those that it does not have.

    Raises:
        UnknownColumnError: one side does not have a column of the other, and ``missing`` does not allow that.
    """
    fields = [frames.relation_of(side, around).shown for side in sides]
    columns = [{f.name.lower(): f for f in side} for side in fields]
    for side, known in zip(fields, columns, strict=True):
        if len(known) < len(side):
            raise PlanError("unionByName: several columns have the same name; rename one")
    names = [f.name for f in fields[0]]
    more = [f.name for f in fields[1] if f.name.lower() not in columns[0]]
    for name in [*names, *more]:
        for side, known in zip(fields, columns, strict=True):
            if name.lower() not in known and not missing:
                raise UnknownColumnError(name, [f.name for f in side], "unionByName")
    results = []
    for item, known in zip(sides, columns, strict=True):
        outputs = [
            kept(known[n.lower()]) if n.lower() in known else forms.named(exp.Null(), n) for n in [*names, *more]
        ]
        results.append(_later(frames, item, outputs))
    return results


def _later(frames: Frames, item: exp.Select, outputs: Sequence[exp.Expr]) -> exp.Select:
    return frames.item(lambda binder, around: binder.selected(item, outputs, around))


def pivoted(  # what there is to a pivot
    frames: Frames,
    item: exp.Select,
    keys: Sequence[exp.Expr],
    column: exp.Expr,
    values: Sequence[exp.Expr],
    calls: Sequence[exp.Expr],
    around: Around | None,
) -> Answer:
    """``pivot``: a column for each value and each aggregate; null where a group has no row with the value."""
    if not values:
        raise forms.pivot_of_rows(shown(column))
    if any(not has_aggregate(call) for call in calls):
        raise PlanError("pivot: each of agg must be an aggregate")
    named = [forms.named(key(k), f"#key {i}") for i, k in enumerate(keys)]
    named.append(forms.named(key(column), "#pivot"))
    named += [forms.named(_value(call), f"#call {i}") for i, call in enumerate(calls)]
    group = exp.Group(expressions=[*(key(k) for k in keys), key(column)])
    cells = frames.item(lambda binder, inside: binder.selected(item, named, inside, group=group, grouped=True))
    outputs = [forms.named(_column(f"#key {i}"), name_of(k)) for i, k in enumerate(keys)]
    for value in values:
        for i, call in enumerate(calls):
            title = shown(value) if not isinstance(value, exp.Null) else "null"
            title = title if len(calls) == 1 else f"{title}_{name_of(call)}"
            test = exp.Where(this=exp.NullSafeEQ(this=_column("#pivot"), expression=value.copy()))
            only = exp.Anonymous(this="any_value", expressions=[_column(f"#call {i}")])
            outputs.append(forms.named(exp.Filter(this=only, expression=test), title))
    again = exp.Group(expressions=[_column(f"#key {i}") for i in range(len(keys))]) if keys else None
    return frames.selected(cells, outputs, around, group=again, grouped=True)


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def unpivoted(  # what there is to an unpivot
    frames: Frames,
    item: exp.Select,
    ids: Sequence[exp.Expr],
    values: Sequence[exp.Expr] | None,
    names: tuple[str, str],
    around: Around | None,
) -> Answer:
    """``unpivot``: a row for each of some columns, with its name and its value.

    Raises:
        SchemaError: the columns have no common type.
    """
    relation = frames.relation_of(item, around)
    scope = Scope(relation)
    if values is None:
        read = {scope.resolve(tree).name for tree in ids}
        values = [kept(f) for f in relation.shown if f.column not in read]
    if not values:
        raise PlanError("unpivot: there must be at least one column that becomes rows")
    trees = [_value(v) for v in values]
    kinds = [frames.type_of(tree, relation) for tree in trees]
    if STRING in kinds and not {STRING, NULL}.issuperset(kinds):
        raise SchemaError(f"unpivot: the columns are {', '.join(map(type_name, kinds))}; cast them to one type")
    kind = common_type(kinds, lambda: f"unpivot: the columns are {', '.join(map(type_name, kinds))}")
    to = forms.data_type(type_name(kind))
    rows = []
    for value, tree in zip(values, trees, strict=True):
        pair: list[exp.Expr] = [exp.Literal.string(names[0]), exp.Literal.string(name_of(value))]
        pair += [exp.Literal.string(names[1]), exp.Cast(this=tree.copy(), to=to.copy())]
        rows.append(exp.Anonymous(this="named_struct", expressions=pair))
    pairs = exp.Anonymous(this="inline", expressions=[exp.Anonymous(this="array", expressions=rows)])
    titles = [exp.to_identifier(n, quoted=True) for n in names]
    return frames.selected(item, [*ids, exp.Aliases(this=pairs, expressions=titles)], around)
