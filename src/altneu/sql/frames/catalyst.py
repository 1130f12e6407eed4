"""Analysed plans of Spark's own sessions as plans of altneu.

A DataFrame of a classic session has no description but the plan that Catalyst has analysed: names are resolved to
attributes with numbers; casts, windows, grouping sets and pivots are spelled out. Expressions are asked for their SQL
after each attribute was given its number as its name, so that what Spark can write, SQL's parser reads.

The plan is walked over py4j: about ten calls for each node of an expression, 0.1 ms each.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from altneu.errors import AltneuError, PlanError, SchemaError
from altneu.expressions.pyspark import forms
from altneu.expressions.pyspark.catalyst import BYTES, Expressions, class_of, listed, name_of
from altneu.sql import tables
from altneu.sql.binding import Answer
from altneu.sql.frames.binder import ORDER, SOURCE, Frames, kept, select_from
from altneu.sql.frames.constants import constant_rows, series
from altneu.sql.frames.reshaping import key
from altneu.sql.scope import Around, Field, Relation
from altneu.sql.spans import after

_JOINS = {
    "Inner": ("", ""),
    "Cross": ("", ""),
    "LeftOuter": ("LEFT", ""),
    "RightOuter": ("RIGHT", ""),
    "FullOuter": ("FULL", ""),
    "LeftSemi": ("", "SEMI"),
    "LeftAnti": ("", "ANTI"),
}
_SAME = (
    "Repartition",
    "RepartitionByExpression",
    "RebalancePartitions",
    "ResolvedHint",
    "UnresolvedHint",
    "View",
    "LocalLimit",
)
_ROWS = ("LogicalRDD", "LocalRelation")
_CHANCE = "its answer depends on chance, but a view must depend on its rows alone; filter on a hash of a key"
_OUTSIDE = "make a source, an.source(name, schema), use session.frame(name), and insert or follow the rows"
_READ = ("LogicalRelation", "HiveTableRelation", "DataSourceV2Relation", "RelationV2")
_REFUSED = {
    "Sample": _CHANCE,
    "Tail": "rows of a view have no place; use orderBy(...desc()).limit(n)",
    "MapInPandas": BYTES,
    "MapInArrow": BYTES,
    "PythonMapInArrow": BYTES,
    "FlatMapGroupsInPandas": BYTES,
    "FlatMapGroupsInArrow": BYTES,
    "FlatMapCoGroupsInPandas": BYTES,
    "FlatMapCoGroupsInArrow": BYTES,
    "CollectMetrics": "a view is not a job with observations; maintain the aggregates as a view of their own",
    "EventTimeWatermark": "altneu keeps right what comes late; leave it out, or drop old rows with a temporal filter",
    "StreamingRelation": "follow the stream: session.follow",
    "StreamingRelationV2": "follow the stream: session.follow",
    "InMemoryRelation": "use the DataFrame before it was cached",
}
"""Catalyst's nodes that are refused, and what to do instead."""
_TABLES = (*_ROWS, "View", *_READ)
_MOST_ROWS = 100_000
_SESSION = "spark.sessionWindow"
"""What Catalyst writes into the metadata of a column that is a window of a session."""
_WHERE = " of the DataFrame]"
Fetch = Callable[[Any, int], "pa.Table | None"]


@dataclass(eq=False)
class _Node:
    """A node of the plan, with what is asked of it once."""

    plan: Any
    kind: str
    children: list[_Node]
    item: exp.Select = field(default_factory=exp.Select)


class Analysed:
    """Relations of one analysed plan; each becomes a tree that stands for it in queries (``Frames.item``).

    ``fetch`` gives the rows of a leaf that has them, or None if there are more than a number.
    """

    def __init__(
        self,
        frames: Frames,
        jvm: Any,
        names: Sequence[str],
        fetch: Fetch,
        functions: forms.PythonFunctions | None = None,
    ) -> None:
        self._frames, self._jvm, self._fetch = frames, jvm, fetch
        self._names = {name.lower(): name for name in names}
        self._named: dict[int, exp.Select] = {}  # what WITH names, by Spark's numbers
        self._trees = Expressions(jvm, self._item, functions)
        self._made: dict[str, Callable[[Frames, _Node, Around | None], Answer]] = {
            "Project": self._project,
            "Filter": self._filter,
            "Join": self._join,
            "LateralJoin": self._lateral,
            "Aggregate": self._aggregate,
            "Window": self._window,
            "Expand": self._expand,
            "Generate": self._generate,
            "Sort": self._sort,
            "GlobalLimit": self._limit,
            "Offset": self._offset,
            "Distinct": lambda frames, node, around: frames.distinct(node.children[0].item, around),
            "Deduplicate": self._deduplicate,
            "Union": self._union,
            "Intersect": self._set_operation,
            "Except": self._set_operation,
            "SubqueryAlias": self._alias,
            "Range": self._range,
            "OneRowRelation": lambda *_: Answer(Relation(tables.one_row(), ())),
            "WithCTE": lambda frames, node, around: frames.query(node.children[-1].item, around),
            "CTERelationDef": lambda frames, node, around: frames.query(node.children[0].item, around),
            "CTERelationRef": lambda frames, node, around: frames.query(self._named[int(node.plan.cteId())], around),
            **dict.fromkeys(_SAME, lambda frames, node, around: frames.query(node.children[0].item, around)),
            **dict.fromkeys(_ROWS, self._rows),
        }

    def relation(self, plan: Any) -> Relation:
        """What a whole plan is bound to.

        Raises:
            PlanError: a part that is not supported, by Catalyst's name for it.
        """
        return self._frames.query(self._item(plan, eagerly=True)).relation

    def _item(self, plan: Any, *, eagerly: bool = False) -> exp.Select:
        """The tree that stands for a plan; ``eagerly`` it is bound from its leaves up, so that none is too deep."""
        root = _Node(plan, class_of(plan), [])
        todo, order = [root], []
        while todo:
            node = todo.pop()
            order.append(node)
            if not self._is_leaf(node):
                node.children = [_Node(child, class_of(child), []) for child in listed(node.plan.children())]
                todo += node.children
        for node in reversed(order):
            node.item = self._frames.item(self._binding(node))
            if node.kind == "CTERelationDef":
                self._named[int(node.plan.id())] = node.children[0].item
        if eagerly:
            for node in reversed(order):
                self._frames.query(node.item)
        return root.item

    def _is_leaf(self, node: _Node) -> bool:
        """Whether a node stands for a source or a view, so that what is below it is not read."""
        return node.kind == "SubqueryAlias" and self._source(node.plan) is not None

    def _source(self, plan: Any) -> str | None:
        """The source or view for which an alias stands: of ``session.frame``, or Spark's table or view of that name."""
        name = str(plan.alias())
        if name.startswith(SOURCE):
            return name.removeprefix(SOURCE)
        below = plan.child()
        if class_of(below) == "SubqueryAlias" and str(below.alias()).startswith(SOURCE):
            return None
        return self._names.get(name.lower()) if class_of(below) in _TABLES else None

    def _binding(self, node: _Node) -> Callable[[Frames, Around | None], Answer]:
        def bind(frames: Frames, around: Around | None) -> Answer:
            try:
                made = self._made.get(node.kind)
                if node.kind in _READ:
                    raise forms.unsupported(f"reading {_read_from(node.plan)} in a view's DataFrame", _OUTSIDE)
                if made is None:
                    remedy = _REFUSED.get(node.kind, "write it with the verbs of a collection, or in SQL")
                    raise forms.unsupported(f"{node.kind} in a DataFrame", remedy)
                return _known(made(frames, node, around), node.plan)
            except AltneuError as error:
                _place(error, node)
                raise

        return bind

    # leaves ---------------------------------------------------------------------------------------------------------

    def _alias(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        name = self._source(node.plan)
        if name is None:
            return frames.query(node.children[0].item, around)
        _refuse_another(name, node.plan)
        relation = frames.table(exp.Table(this=exp.to_identifier(name, quoted=True)))
        by_name = {f.name.lower(): f for f in relation.shown}
        names = [str(a.name()) for a in listed(node.plan.output())]
        if missing := [n for n in names if n.lower() not in by_name]:
            raise SchemaError(
                f"Spark's table {name!r} has columns that the source of that name lacks: {', '.join(missing)}; it has "
                f"{', '.join(f.name for f in relation.shown)}"
            )
        return Answer(replace(relation, fields=tuple(by_name[n.lower()] for n in names)))

    def _rows(self, _frames: Frames, node: _Node, _around: Around | None) -> Answer:
        if node.kind == "LogicalRDD" and listed(node.plan.otherCopyArgs())[1].isDefined():
            raise forms.unsupported("a DataFrame after checkpoint()", "use the DataFrame as it was before")
        for attribute in listed(node.plan.output()):
            if " collate " in str(attribute.dataType().sql()).lower():
                raise forms.unsupported(f"the collation of the column {attribute.name()}", forms.COLLATED)
        table = self._fetch(node.plan, _MOST_ROWS)
        if table is None:
            raise forms.unsupported(f"a DataFrame of more than {_MOST_ROWS:,} rows in a view's DataFrame", _OUTSIDE)
        return Answer(constant_rows(table))

    def _range(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        numbers = (int(node.plan.start()), int(node.plan.end()), int(node.plan.step()))
        return series(frames, *numbers, around)

    # rows -----------------------------------------------------------------------------------------------------------

    def _filter(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        condition = self._trees.tree(node.plan.condition())
        (below,) = node.children
        if below.kind == "Join":
            return frames.filtered(self._join_tree(below), condition, around)
        return frames.filtered(below.item, condition, around)

    def _join(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        return frames.joined(self._join_tree(node), around)

    def _join_tree(self, node: _Node) -> exp.Select:
        how = str(node.plan.joinType().toString())
        if how not in _JOINS:
            raise forms.unsupported(f"the join type {how}", "use inner, left, right, full, semi, anti or cross")
        side, kind = _JOINS[how]
        given = node.plan.condition()
        on = self._trees.tree(given.get()) if given.isDefined() else None
        if on is None:
            kind, on = (kind, exp.true()) if side or kind else ("CROSS", None)
        left, right = (exp.Subquery(this=child.item) for child in node.children)
        tree = select_from(left)
        tree.append("joins", exp.Join(this=right, side=side or None, kind=kind or None, on=on))
        return tree

    def _lateral(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        side, kind = _JOINS[str(node.plan.joinType().toString())]
        given = node.plan.condition()
        on = self._trees.tree(given.get()) if given.isDefined() else exp.true()
        right = exp.Lateral(this=exp.Subquery(this=self._item(node.plan.right().plan())))
        tree = select_from(exp.Subquery(this=node.children[0].item))
        tree.append("joins", exp.Join(this=right, side=side or None, kind=kind or None, on=on))
        return frames.joined(tree, around)

    def _sort(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        if not getattr(node.plan, "global")():
            return frames.query(node.children[0].item, around)
        keys = [self._trees.ordered(o) for o in listed(node.plan.order())]
        return frames.sorted(node.children[0].item, keys, around)

    def _limit(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        return frames.limited(node.children[0].item, self._count(node.plan.limitExpr()), 0, around)

    def _offset(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        return frames.limited(node.children[0].item, None, self._count(node.plan.offsetExpr()), around)

    def _count(self, expression: Any) -> int:
        tree = self._trees.tree(expression)
        if not isinstance(tree, exp.Literal):
            raise PlanError(f"limit and offset must be numbers, got {tree.sql('spark')}")
        return int(tree.name)

    def _deduplicate(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        keys = [name_of(a) for a in listed(node.plan.keys())]
        item = node.children[0].item
        if {name_of(a) for a in listed(node.plan.output())} <= {*keys}:
            return frames.distinct(item, around)
        return frames.first_of_keys(item, keys, around)

    def _union(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        first, *others = [child.item for child in node.children]
        for other in others[:-1]:
            first = _both(frames, first, other)
        return frames.set_operation_of(exp.Union, [first, others[-1]], all_=True, around=around)

    def _set_operation(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        kind = exp.Intersect if node.kind == "Intersect" else exp.Except
        sides = [child.item for child in node.children]
        return frames.set_operation_of(kind, sides, all_=bool(node.plan.isAll()), around=around)

    # columns --------------------------------------------------------------------------------------------------------

    def _project(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        outputs = [self._output(e) for e in listed(node.plan.projectList())]
        if node.children[0].kind == "OneRowRelation":
            return frames.query(exp.Select(expressions=outputs), around)
        return frames.selected(node.children[0].item, outputs, around)

    def _output(self, expression: Any) -> exp.Expr:
        session = self._session(expression)
        if session is not None:  # that of the row itself; what groups have of it is made with them
            time, gap = session.expressions
            bounds = [exp.Literal.string("start"), time.copy(), exp.Literal.string("end"), after(time, gap, session)]
            return forms.named(exp.Anonymous(this="named_struct", expressions=bounds), str(expression.name()))
        inner = expression.child() if class_of(expression) == "Alias" else expression
        return forms.named(self._trees.tree(inner), str(expression.name()))

    def _session(self, expression: Any) -> exp.Anonymous | None:
        """``session_window(time, gap)``, where a column is what Catalyst makes of it: a time and a later one."""
        if class_of(expression) != "Alias" or not expression.metadata().contains(_SESSION):
            return None
        if class_of(expression.child()) != "CreateNamedStruct":
            return None  # another name of it
        _, start, _, end = listed(expression.child().children())
        time = self._trees.tree(start.child().child())
        return exp.Anonymous(this="session_window", expressions=[time, self._gap(end.child().child())])

    def _gap(self, later: Any) -> exp.Expr:
        """The text that was made an interval, and added to a time."""
        todo = [later]
        while todo:
            one = todo.pop()
            if class_of(one) == "Cast" and str(one.dataType().simpleString()) == "interval":
                return self._trees.tree(one.child())
            todo += listed(one.children())
        raise forms.unsupported("this gap of session_window", "write it as a text, '10 minutes'")

    def _sessions(self, node: _Node) -> dict[str, exp.Anonymous]:
        """The windows of sessions that are columns below a node, by the numbers of their attributes."""
        (below,) = node.children
        while below.kind == "Filter":
            (below,) = below.children
        outputs = listed(below.plan.projectList()) if below.kind == "Project" else []
        return {name_of(e): session for e in outputs if (session := self._session(e)) is not None}

    def _aggregate(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        sessions = self._sessions(node)
        for one in listed(node.plan.groupingExpressions()):
            if class_of(one) != "AttributeReference" or name_of(one) in sessions:
                continue
            if one.metadata().contains(_SESSION):
                raise forms.sessions_of_before(str(one.name()))

        def whole(tree: exp.Expr) -> exp.Expr:
            def visit(part: exp.Expr) -> exp.Expr:
                return sessions[part.name].copy() if isinstance(part, exp.Column) and part.name in sessions else part

            return tree.transform(visit) if sessions else tree

        keys = [key(whole(self._trees.tree(e))) for e in listed(node.plan.groupingExpressions())]
        outputs = [whole(self._output(e)) for e in listed(node.plan.aggregateExpressions())]
        if [key(o.this) for o in outputs] == keys and node.plan.origin().sqlText().isEmpty():
            # Also what is left of a pivot of texts or times if the frame has no rows in which Spark finds its values.
            raise PlanError(
                "groups without an aggregate: what Spark has analysed is the same for agg({}) and for a pivot whose "
                "values are not given; for the groups alone use select(...).distinct(), and give a pivot its values, "
                "pivot('column', [value, ...])"
            )
        group = exp.Group(expressions=keys) if keys else None
        outputs = [forms.named(key(o.this), o.alias) if isinstance(o.this, exp.Literal) else o for o in outputs]
        item = node.children[0].item
        return frames.selected(
            _without(frames, item, sessions) if sessions else item, outputs, around, group=group, grouped=True
        )

    def _window(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        item = node.children[0].item
        before = [kept(f) for f in frames.relation_of(item, around).shown]
        new = [self._output(e) for e in listed(node.plan.windowExpressions())]
        return frames.selected(item, [*before, *new], around)

    def _expand(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        """Each row once for each list of expressions: grouping sets, unpivot and sliding windows."""
        names = [str(a.name()) for a in listed(node.plan.output())]
        rows = []
        for projection in listed(node.plan.projections()):
            values = [self._trees.tree(e) for e in listed(projection)]
            parts = [part for i, v in enumerate(values) for part in (exp.Literal.string(f"c{i}"), v)]
            rows.append(exp.Anonymous(this="named_struct", expressions=parts))
        pairs = exp.Anonymous(this="inline", expressions=[exp.Anonymous(this="array", expressions=rows)])
        titles = [exp.to_identifier(n, quoted=True) for n in names]
        return frames.selected(node.children[0].item, [exp.Aliases(this=pairs, expressions=titles)], around)

    def _generate(self, frames: Frames, node: _Node, around: Around | None) -> Answer:
        item = node.children[0].item
        call = self._trees.tree(node.plan.generator())
        if node.plan.outer() and isinstance(call, exp.Anonymous):
            call = exp.Anonymous(this=f"{call.name.lower()}_outer", expressions=call.expressions)
        names = [str(a.name()) for a in listed(node.plan.generatorOutput())]
        before = [kept(f) for f in frames.relation_of(item, around).shown]
        titles = [exp.to_identifier(n, quoted=True) for n in names]
        return frames.selected(item, [*before, exp.Aliases(this=call, expressions=titles)], around)


def _known(answer: Answer, plan: Any) -> Answer:
    """An answer whose columns are found by the numbers of Spark's attributes."""
    relation = answer.relation
    attributes = listed(plan.output())
    shown = relation.shown
    if len(shown) != len(attributes):
        raise PlanError(
            f"not supported: {class_of(plan)} with {len(attributes)} columns, of which {len(shown)} are read"
        )
    fields = [Field("", str(a.name()), f.column) for f, a in zip(shown, attributes, strict=True)]
    by_number = {name_of(a): f.column for f, a in zip(shown, attributes, strict=True)}
    fields += [Field("", name, column, starred=False) for name, column in by_number.items()]
    fields += [f for f in relation.fields if f.table == ORDER]
    return replace(answer, relation=replace(relation, fields=tuple(fields)))


def _without(frames: Frames, item: exp.Select, names: Container[str]) -> exp.Select:
    """A DataFrame without columns, by the numbers of their attributes."""

    def bind(binder: Frames, around: Around | None) -> Answer:
        relation = binder.relation_of(item, around)
        left_out = {f.column for f in relation.fields if f.name in names}
        return Answer(replace(relation, fields=tuple(f for f in relation.fields if f.column not in left_out)))

    return frames.item(bind)


def _both(frames: Frames, left: exp.Select, right: exp.Select) -> exp.Select:
    def bind(binder: Frames, around: Around | None) -> Answer:
        return binder.set_operation_of(exp.Union, [left, right], all_=True, around=around)

    return frames.item(bind)


def _refuse_another(name: str, alias: Any) -> None:
    """Refuse a temporary view of Spark that is made of frames of the session, under the name of one that it is not.

    Raises:
        PlanError: the view's query and the source or view of that name would have different rows.
    """
    inner = alias.child()
    if class_of(inner) != "View" or SOURCE not in str(inner.toString()):
        return
    inner = inner.child()
    while class_of(inner) == "SubqueryAlias":
        if str(inner.alias()) == SOURCE + name:
            return
        inner = inner.child()
    raise PlanError(
        f"{name!r} is a source or view of the session, and a temporary view of Spark with another query: give the "
        "temporary view another name, or use its DataFrame"
    )


def _place(error: AltneuError, node: _Node) -> None:
    """Add to an error which operation of the DataFrame it is about, unless one below has done so."""
    text = str(error)
    if text.endswith(_WHERE):
        return
    for attribute in (a for child in node.children for a in listed(child.plan.output())):
        text = text.replace(f"`{name_of(attribute)}`", str(attribute.name()))
        text = text.replace(f"'{name_of(attribute)}'", f"'{attribute.name()}'")
    error.args = (f"{text} [in {'table' if node.kind in _READ else node.kind}{_WHERE}",)


def _read_from(plan: Any) -> str:
    """The table or the files, with their format, that a leaf of Spark's reads; what it says of itself if neither."""
    kind = class_of(plan)
    if kind == "HiveTableRelation":
        return f"table {plan.tableMeta().identifier().unquotedString()}"
    if kind != "LogicalRelation":
        return f"table {plan.name()}"
    if plan.catalogTable().isDefined():
        return f"table {plan.catalogTable().get().identifier().unquotedString()}"
    relation = plan.relation()
    if class_of(relation) == "HadoopFsRelation":
        return f"{str(relation.fileFormat()).lower()} {relation.location().rootPaths().mkString(', ')}"
    return str(relation)


__all__ = ["Analysed"]
