"""Plans of Spark Connect's protocol as plans of altneu: relation by relation, from the leaves up.

The messages are read by the names of their fields, so that this needs neither pyspark nor protobuf nor a server; they
are described in Spark's ``relations.proto``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from sqlglot import exp

from altneu.errors import AltneuError, PlanError, UnknownColumnError
from altneu.errors.nearest import listed
from altneu.expressions.pyspark import forms
from altneu.expressions.pyspark.connect import TAG, Columns, field, has, name_parts
from altneu.runtime.spark.versions import arrow_schema
from altneu.sql.binding import Answer
from altneu.sql.dialect import parse_query
from altneu.sql.frames import cleaning, reshaping
from altneu.sql.frames.binder import SOURCE, Frames, select_from, tagged, under
from altneu.sql.frames.constants import constant_rows, series
from altneu.sql.scope import Around, Relation
from altneu.types import parse_schema
from altneu.types.syntax import refuse_unread

_JOINS = {
    1: ("", ""),
    2: ("FULL", ""),
    3: ("LEFT", ""),
    4: ("RIGHT", ""),
    5: ("", "ANTI"),
    6: ("", "SEMI"),
    7: ("", "CROSS"),
}
_SETS: dict[int, type[exp.SetOperation]] = {1: exp.Intersect, 2: exp.Union, 3: exp.Except}
_CHANCE = "its answer depends on chance, but a view must depend on its rows alone; filter on a hash of a key"
_BYTES = "Spark keeps the function as bytes; use map, flat_map or reduce of a collection"
_ONCE = "it describes one state of the data; write the aggregates that it is made of with agg"
_REFUSED = {
    "sample": _CHANCE,
    "sample_by": _CHANCE,
    "tail": "rows of a view have no place; use orderBy(...desc()).limit(n)",
    "map_partitions": _BYTES,
    "group_map": _BYTES,
    "co_group_map": _BYTES,
    "apply_in_pandas_with_state": _BYTES,
    "common_inline_user_defined_table_function": _BYTES,
    "common_inline_user_defined_data_source": "make a source, an.source(name, schema), and insert its rows",
    "cached_local_relation": "the rows are on Spark's server; make a source, an.source(name, schema), and insert them",
    "chunked_cached_local_relation": "the rows are on Spark's server; make a source and insert them",
    "cached_remote_relation": "the plan is on Spark's server; use the DataFrame before it was cached or checkpointed",
    "with_watermark": "altneu keeps right whatever comes late; leave it out, or drop old rows with a temporal filter",
    "collect_metrics": "a view is not a job with observations; maintain the aggregates as a view of their own",
    "transpose": "its columns depend on the rows; use unpivot and pivot with values",
    "summary": _ONCE,
    "describe": _ONCE,
    "crosstab": "its columns depend on the rows; use groupBy(a).pivot(b, values).count()",
    "cov": _ONCE,
    "corr": _ONCE,
    "approx_quantile": _ONCE,
    "freq_items": _ONCE,
    "as_of_join": "use asof_join of a collection, or ASOF JOIN in SQL",
    "nearest_by_join": "use asof_join of a collection, or a window that ranks the pairs",
    "zip": "rows of a view have no place; join by a key",
    "parse": "use from_json, or F.from_csv, of the column",
    "relation_changes": "follow the table as a source: session.follow",
    "to_schema": "name and cast the columns with select",
}
"""Relations that are refused, by their names in the protocol, and what to do instead."""
_VERBS = {
    "read": "table",
    "project": "select",
    "set_op": "union, intersect or except",
    "aggregate": "groupBy().agg",
    "sort": "orderBy",
    "deduplicate": "dropDuplicates",
    "subquery_alias": "alias",
    "to_df": "toDF",
    "with_columns_renamed": "withColumnRenamed",
    "with_columns": "withColumn",
    "fill_na": "fillna",
    "drop_na": "dropna",
    "with_relations": "subqueries",
    "local_relation": "createDataFrame",
    "unresolved_table_valued_function": "tvf",
    "lateral_join": "lateralJoin",
    "map_partitions": "mapInPandas or mapInArrow",
    "group_map": "applyInPandas",
    "co_group_map": "cogroup().applyInPandas",
    "cached_local_relation": "createDataFrame",
    "collect_metrics": "observe",
    "repartition_by_expression": "repartition",
    "as_of_join": "joinAsOf",
}


_WHERE = " of the DataFrame]"
_ITSELF = " itself"
"""What the name of a table ends with that stands for a DataFrame as the side of a join, and not within the other."""


def _verb(message: Any) -> str:
    """What of a DataFrame has made a relation."""
    kind = str(message.WhichOneof("rel_type"))
    if kind == "sample" and message.sample.deterministic_order:
        return "randomSplit"
    return _VERBS.get(kind, kind.replace("_", " "))


class Plans:
    """Relations of one DataFrame; each becomes a tree that stands for it in queries (``Frames.item``).

    A relation that is there twice, by the number that Spark gives it, is bound once.
    """

    def __init__(self, frames: Frames, functions: forms.PythonFunctions | None = None) -> None:
        self._frames = frames
        self._items: dict[int, exp.Select] = {}  # by the number of the plan
        self._references: dict[int, Any] = {}
        self._columns = Columns(tagged=True, subquery=self._subquery, functions=functions)
        self._steps: dict[int, str] = {}
        self._kept: list[Any] = []  # messages whose identities are keys

    def relation(self, root: Any) -> Relation:
        """What a whole plan is bound to.

        Raises:
            PlanError: a part that is not supported, by name, with its place.
        """
        items = {}
        self._kept = order = list(_upwards(root))
        for message in order:
            if message.WhichOneof("rel_type") == "with_relations":
                self._refer(message.with_relations)
        for step, message in enumerate(order, 1):
            items[id(message)] = self._item(message, f"{_verb(message)}, step {step} of {len(order)}")
        for message in order:  # from the leaves up, so that no long plan is a deep recursion
            self._frames.query(items[id(message)])
        return self._frames.query(items[id(root)]).relation

    # each relation --------------------------------------------------------------------------------------------------

    def item(self, message: Any) -> exp.Select:
        """The tree that stands for a relation."""
        return self._item(message, "")

    def _item(self, message: Any, title: str) -> exp.Select:
        number = message.common.plan_id if has(message, "common") and has(message.common, "plan_id") else None
        if number is not None and number in self._items:
            return self._items[number]
        if title:
            self._steps[id(message)] = title
        title = self._steps.get(id(message)) or _verb(message)

        def bind(frames: Frames, around: Around | None) -> Answer:
            try:
                answer = self._bound(frames, message, around)
            except AltneuError as error:
                _place(error, title)
                raise
            relation = answer.relation if number is None else tagged(answer.relation, f"{TAG}{number}")
            return Answer(relation, answer.empties)

        item = self._frames.item(bind)
        if number is not None:
            self._items[number] = item
        return item

    def _bound(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        kind = message.WhichOneof("rel_type")
        made = getattr(self, f"_{kind}", None)
        if made is None:
            raise forms.unsupported(
                f"{_verb(message)} of a DataFrame",
                _REFUSED.get(str(kind), "write it with the verbs of a collection, or in SQL"),
            )
        answer: Answer = made(frames, getattr(message, kind), around)
        return answer

    def _subquery(self, number: int) -> exp.Expr:
        reference = self._references.get(number)
        if reference is None:
            raise PlanError("a subquery of a DataFrame that is not part of this plan; use the DataFrame itself")
        return self.item(reference)

    # leaves ---------------------------------------------------------------------------------------------------------

    def _read(self, frames: Frames, message: Any, _around: Around | None) -> Answer:
        if message.WhichOneof("read_type") == "data_source":
            source = message.data_source
            shown = ", ".join([source.format or "a file", *source.paths])
            raise forms.unsupported(
                f"reading {shown} in a view's DataFrame",
                "make a source, an.source(name, schema), use session.frame(name), and insert or follow the rows",
            )
        table = message.named_table
        if table.options:
            raise forms.unsupported(f"options of the table {table.unparsed_identifier}", "leave them out")
        return Answer(frames.table(_table(name_parts(table.unparsed_identifier))))

    def _local_relation(self, _frames: Frames, message: Any, _around: Around | None) -> Answer:
        if "__COLLATIONS" in message.schema:
            raise forms.unsupported("a column with a collation", forms.COLLATED)
        if message.data:
            table = pa.ipc.open_stream(message.data).read_all()
        elif message.schema:
            table = _columns_of(message.schema).empty_table()
        else:
            raise forms.unsupported(
                "createDataFrame without rows and columns", "make a source, an.source(name, schema)"
            )
        return Answer(constant_rows(table))

    def _range(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        start = message.start if message.HasField("start") else 0
        return series(frames, start, message.end, message.step or 1, around)

    def _sql(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        if any(field(message, name) for name in ("args", "pos_args", "named_arguments", "pos_arguments")):
            raise forms.unsupported("arguments of spark.sql", "write the values into the text")
        tree = parse_query(message.query)
        refuse_unread(tree)
        return frames.query(tree, around)

    def _with_relations(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        self._refer(message)
        if not _is_text_of_frames(message):
            return frames.query(self.item(message.root), around)
        views = {
            r.subquery_alias.alias.lower(): (lambda r=r: frames.relation_of(self.item(r))) for r in message.references
        }
        answer = self._sql(frames.naming(views), message.root.sql, around)
        return Answer(tagged(answer.relation, f"{TAG}{message.root.common.plan_id}"), answer.empties)

    def _refer(self, message: Any) -> None:
        """Note the DataFrames that the subqueries of a plan are."""
        for reference in message.references:
            self._references[reference.common.plan_id] = reference

    # rows -----------------------------------------------------------------------------------------------------------

    def _filter(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        condition = self._columns.tree(message.condition)
        below = message.input
        own = f"{TAG}{below.common.plan_id}"
        if below.WhichOneof("rel_type") == "join" and not any(
            c.parts[0].name == own for c in condition.find_all(exp.Column)
        ):
            return frames.filtered(self._join_tree(below.join), condition, around)
        return frames.filtered(self.item(below), condition, around)

    def _join(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        return frames.joined(self._join_tree(message), around)

    def _join_tree(self, message: Any) -> exp.Select:
        if has(message, "join_data_type"):
            raise forms.unsupported("joinWith", "use join")
        if message.join_type not in _JOINS:
            raise forms.unsupported(f"the join type {message.join_type}", "use one of Spark's own")
        side, kind = _JOINS[message.join_type]
        using = [exp.to_identifier(name, quoted=True) for name in message.using_columns]
        on = self._columns.tree(message.join_condition) if message.HasField("join_condition") else None
        if on is None and not using:
            if side or kind in ("SEMI", "ANTI"):
                on = exp.true()
            else:
                kind = "CROSS"
        left, right = self._sides(message.left, message.right, on)
        join = exp.Join(this=exp.Subquery(this=right), side=side or None, kind=kind or None, on=on, using=using or None)
        tree = select_from(exp.Subquery(this=left))
        tree.append("joins", join)
        return tree

    def _sides(self, left: Any, right: Any, on: exp.Expr | None) -> list[exp.Select]:
        """The sides of a join; in its condition a column of one of them is not that of the other, derived from it."""
        items = [self.item(left), self.item(right)]
        numbers = [side.common.plan_id for side in (left, right)]
        if on is None or numbers[0] == numbers[1]:
            return items
        for i, number in enumerate(numbers):
            mine = [c.args["table"] for c in on.find_all(exp.Column) if c.parts[0].name == f"{TAG}{number}"]
            if mine and all(mine):
                table = f"{TAG}{number}{_ITSELF}"
                items[i] = self._tagged(items[i], table)
                for identifier in mine:
                    identifier.set("this", table)
        return items

    def _tagged(self, item: exp.Select, table: str) -> exp.Select:
        def bind(frames: Frames, around: Around | None) -> Answer:
            answer = frames.query(item, around)
            return Answer(tagged(answer.relation, table), answer.empties)

        return self._frames.item(bind)

    def _lateral_join(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        side, kind = _JOINS.get(message.join_type, ("", ""))
        on = self._columns.tree(message.join_condition) if message.HasField("join_condition") else None
        right = exp.Lateral(this=exp.Subquery(this=self.item(message.right)))
        if on is None:
            kind = kind if side else "CROSS"
            on = exp.true() if side else None
        tree = select_from(exp.Subquery(this=self.item(message.left)))
        tree.append("joins", exp.Join(this=right, side=side or None, kind=kind or None, on=on))
        return frames.joined(tree, around)

    def _set_op(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        kind = _SETS.get(message.set_op_type)
        if kind is None:
            raise forms.unsupported("this set operation", "use union, intersect or exceptAll")
        sides = [self.item(message.left_input), self.item(message.right_input)]
        if message.by_name:
            sides = reshaping.by_name(frames, sides, around, missing=message.allow_missing_columns)
        return frames.set_operation_of(kind, sides, all_=message.is_all, around=around)

    def _sort(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        item = self.item(message.input)
        if not message.is_global:
            return frames.query(item, around)  # an order inside of partitions, which rows of a view do not have
        return frames.sorted(item, [self._columns.ordered(o) for o in message.order], around)

    def _limit(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        return frames.limited(self.item(message.input), message.limit, 0, around)

    def _offset(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        return frames.limited(self.item(message.input), None, message.offset, around)

    def _deduplicate(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        if message.within_watermark:
            raise forms.unsupported("dropDuplicatesWithinWatermark", "use dropDuplicates")
        item = self.item(message.input)
        if message.all_columns_as_keys:
            return frames.distinct(item, around)
        if not message.column_names:
            raise PlanError("dropDuplicates([]): name at least one column, or use distinct() for whole rows")
        return frames.first_of_keys(item, list(message.column_names), around)

    def _same(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        """Where rows are, or how Spark is to compute them, changes no answer."""
        return frames.query(self.item(message.input), around)

    _repartition = _repartition_by_expression = _hint = _same

    def _fill_na(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        values = [self._columns.literal(v) for v in message.values]
        kinds = [str(v.WhichOneof("literal_type")) for v in message.values]
        return cleaning.filled(frames, self.item(message.input), list(message.cols), values, kinds, around)

    def _drop_na(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        least = message.min_non_nulls if message.HasField("min_non_nulls") else None
        return cleaning.without_nulls(frames, self.item(message.input), list(message.cols), least, around)

    def _replace(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        literal = self._columns.literal
        pairs = [(literal(r.old_value), literal(r.new_value)) for r in message.replacements]
        kinds = [str(r.old_value.WhichOneof("literal_type")) for r in message.replacements]
        return cleaning.replaced(frames, self.item(message.input), list(message.cols), pairs, kinds, around)

    # columns --------------------------------------------------------------------------------------------------------

    def _project(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        outputs = self._columns.trees(message.expressions)
        if not message.HasField("input"):
            return frames.query(exp.Select(expressions=outputs), around)
        return frames.selected(self.item(message.input), outputs, around)

    def _with_columns(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        new = [(a.name[0], self._columns.tree(a.expr)) for a in message.aliases]
        return reshaping.with_columns(frames, self.item(message.input), new, around)

    def _with_columns_renamed(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        renames = [(r.col_name, r.new_col_name) for r in getattr(message, "renames", ())]
        renames = renames or list(message.rename_columns_map.items())
        return reshaping.renamed(frames, self.item(message.input), renames, around)

    def _to_df(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        return reshaping.titled(frames, self.item(message.input), list(message.column_names), around)

    def _drop(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        trees = self._columns.trees(message.columns)
        return reshaping.dropped(frames, self.item(message.input), list(message.column_names), trees, around)

    def _subquery_alias(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        if message.alias.startswith(SOURCE):
            return Answer(frames.table(_table([message.alias.removeprefix(SOURCE)])))
        answer = frames.query(self.item(message.input), around)
        return Answer(under(answer.relation, message.alias), answer.empties)

    def _unpivot(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        ids = self._columns.trees(message.ids)
        values = self._columns.trees(message.values.values) if message.HasField("values") else None
        names = (message.variable_column_name, message.value_column_name)
        return reshaping.unpivoted(frames, self.item(message.input), ids, values, names, around)

    # groups ---------------------------------------------------------------------------------------------------------

    def _aggregate(self, frames: Frames, message: Any, around: Around | None) -> Answer:
        item = self.item(message.input)
        for one in message.grouping_expressions:
            name = one.unresolved_attribute.unparsed_identifier if has(one, "unresolved_attribute") else ""
            if name and _makes_sessions(message.input, name.split(".")[-1].strip("`")):
                raise forms.sessions_of_before(name)
        keys = self._columns.trees(message.grouping_expressions)
        calls = self._columns.trees(message.aggregate_expressions)
        match message.group_type:
            case 1:
                group = exp.Group(expressions=[reshaping.key(k) for k in keys]) if keys else None
            case 2:
                group = exp.Group(expressions=[exp.Rollup(expressions=[reshaping.key(k) for k in keys])])
            case 3:
                group = exp.Group(expressions=[exp.Cube(expressions=[reshaping.key(k) for k in keys])])
            case 4:
                values = [self._columns.literal(v) for v in message.pivot.values]
                column = self._columns.tree(message.pivot.col)
                return reshaping.pivoted(frames, item, keys, column, values, calls, around)
            case 5:
                sets = [
                    exp.Tuple(expressions=[reshaping.key(k) for k in self._columns.trees(s.grouping_set)])
                    for s in message.grouping_sets
                ]
                group = exp.Group(expressions=[exp.GroupingSets(expressions=sets)])
            case _:
                raise forms.unsupported("this way of grouping", "use groupBy, rollup, cube or groupingSets")
        return frames.selected(item, [*keys, *calls], around, group=group, grouped=True)


def _makes_sessions(message: Any, name: str) -> bool:
    """Whether a column of a DataFrame is a session_window, as far as the steps down to one that makes it say."""
    kind = message.WhichOneof("rel_type")
    inner: Any = getattr(message, kind) if kind else None
    aliases = list(inner.aliases) if kind == "with_columns" else []
    if kind == "project":
        aliases = [e.alias if has(e, "alias") else None for e in inner.expressions]
        calls = [e.unresolved_function.function_name for e in inner.expressions if has(e, "unresolved_function")]
        if name == "session_window" and name in calls:
            return True
    for one in aliases:
        if one is not None and list(one.name) == [name]:
            return (
                has(one.expr, "unresolved_function") and one.expr.unresolved_function.function_name == "session_window"
            )
    passes = kind in ("project", "with_columns", "filter", "subquery_alias", "sort", "limit", "drop", "deduplicate")
    return passes and _makes_sessions(inner.input, name)


def _table(parts: list[str]) -> exp.Table:
    names = [exp.to_identifier(p, quoted=True) for p in parts]
    return exp.Table(**dict(zip(("this", "db", "catalog"), reversed(names), strict=False)))


def _upwards(root: Any) -> Iterator[Any]:
    """The relations of a plan, those below before those above; references of subqueries are read where they stand."""
    todo: list[tuple[Any, bool]] = [(root, False)]
    while todo:
        message, done = todo.pop()
        if done:
            yield message
            continue
        todo.append((message, True))
        todo += [(below, False) for below in reversed(_below(message))]


def _below(message: Any) -> list[Any]:
    kind = message.WhichOneof("rel_type")
    if kind is None:
        return []
    inner = getattr(message, kind)
    if kind == "lateral_join":
        return [inner.left]
    if kind == "subquery_alias" and inner.alias.startswith(SOURCE):
        return []  # what it is an alias of only has the columns
    if kind == "with_relations" and _is_text_of_frames(inner):
        return []  # the text is read with the names of what it reads
    names = ("input", "left", "right", "left_input", "right_input", "root")
    known = {f.name for f in inner.DESCRIPTOR.fields}
    return [getattr(inner, n) for n in names if n in known and inner.HasField(n)]


def _is_text_of_frames(message: Any) -> bool:
    """Whether relations are those that a text of SQL reads by name: ``spark.sql("SELECT … FROM {o}", o=df)``."""
    views = [r.WhichOneof("rel_type") == "subquery_alias" for r in message.references]
    return message.root.WhichOneof("rel_type") == "sql" and bool(views) and all(views)


def _columns_of(schema: str) -> pa.Schema:
    """The columns of a DataFrame that brings no rows: as JSON, or as in DDL."""
    if not schema.lstrip().startswith("{"):
        return parse_schema(schema)
    from pyspark.sql.types import StructType

    return arrow_schema(StructType.fromJson(json.loads(schema)))


def _place(error: AltneuError, title: str) -> None:
    """Add to an error which operation of the DataFrame it is about, unless one above has done so."""
    text = str(error)
    if text.endswith(_WHERE):
        return
    of_other = re.search(rf"'{TAG}\d+(?:{_ITSELF})?\.(.*?)'", text)
    if of_other and "may be one of several" in text:
        text = (
            f"{of_other[1]!r} may be one of several, since both sides of a join have it from the same DataFrame; give "
            f"the DataFrames names, df.alias('a'), and say 'a.{of_other[1]}'"
        )
    elif of_other:
        text = f"no column {of_other[1]!r} here: it may be one of another DataFrame, or of one before a change of it"
        if isinstance(error, UnknownColumnError):
            text += f"; the columns are: {listed(of_other[1], error.columns)}"
    error.args = (f"{text} [in {title}{_WHERE}",)


__all__ = ["Plans"]
