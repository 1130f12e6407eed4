"""Relations without a source: VALUES, a single row, and table functions of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from sqlglot import exp

from altneu.collections.collection import Collection
from altneu.columnar.python_values import python_values
from altneu.columnar.rows import Rows
from altneu.errors import PlanError, SchemaError
from altneu.expressions import Expr, cast, parse
from altneu.expressions.collations import collation_of, mark_of
from altneu.plan import ir
from altneu.sql.binding import QueryBinder
from altneu.sql.ordering import CHOSEN, OWN, SHOWN
from altneu.sql.pipes import PLACE
from altneu.sql.scope import Field, Relation, Scope, bound, common_type, fresh
from altneu.sql.trees import has_aggregate, name_of
from altneu.types import NULL, is_struct, marked, type_with_collation

_NOTHING = pa.schema([])
_EXPLODES = {"explode": False, "explode_outer": True, "posexplode": False, "posexplode_outer": True, "unnest": False}
_INLINES = {"inline": False, "inline_outer": True}
_SERIES = ("generate_series", "range")
_REPEATS = ("repeat_row", "repeat_row_non_negative")
_STRUCTS = ("json_tuple", "stack")
_VARIANTS = {"variant_explode": False, "variant_explode_outer": True}
_IN_SELECT = (*_EXPLODES, *_INLINES, *_STRUCTS, *_VARIANTS)
FUNCTIONS = (*_SERIES, *_EXPLODES, *_INLINES, *_REPEATS, *_STRUCTS, *_VARIANTS)


def one_row() -> ir.Node:
    """A single row, for a SELECT without FROM."""
    return ir.Constant(((1,),), pa.schema([pa.field("^row", pa.int32(), nullable=False)]))


def numbered(tree: exp.Select, relation: Relation) -> None:
    """Put the columns of a relation into a SELECT, in place, where their numbers are in it.

    Raises:
        PlanError: there are not as many columns.
    """
    for call in [c for c in tree.find_all(exp.Anonymous) if c.name == PLACE and c.find_ancestor(exp.Select) is tree]:
        number, shown = int(call.expressions[0].name), relation.shown
        if not 1 <= number <= len(shown):
            raise PlanError(f"GROUP BY {number}: there are {len(shown)} columns")
        column: exp.Expr = bound(shown[number - 1].column)
        if call.arg_key == "expressions" and call.parent is tree:
            column = exp.alias_(column, shown[number - 1].name, quoted=True)
        call.replace(column)


def values(tree: exp.Values) -> Relation:
    """VALUES: constant expressions, of one type each column.

    Raises:
        SchemaError: rows of different length, or values that have no common type.
        PlanError: an expression that reads a column.
    """
    rows = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in tree.expressions]
    width = len(rows[0])
    for number, row in enumerate(rows):
        if len(row) != width:
            raise SchemaError(f"VALUES: row 1 has {width} columns, and row {number + 1} has {len(row)}")
    parsed = [[parse(value, _NOTHING) for value in row] for row in rows]
    columns, marks = [], []
    for place in range(width):
        kind = common_type([row[place].type for row in parsed], partial("VALUES: column {}".format, place + 1))
        one = Rows(_NOTHING, (), 1)
        results = [cast(row[place], kind).evaluate(one) for row in parsed]
        failed = next((i for i, result in enumerate(results) if result.failed is not None), None)
        if failed is not None:
            raise PlanError(f"VALUES: row {failed + 1}, column {place + 1}: {results[failed].error(0)[1]}")
        marks.append(_mark_of_all([row[place] for row in parsed], place + 1))
        columns.append((kind, [python_values(result.values)[0] for result in results]))
    alias = tree.args.get("alias")
    aliases = [c.name for c in alias.columns] if alias and alias.columns else []
    if aliases and len(aliases) != width:
        raise SchemaError(f"VALUES has {width} columns, and {len(aliases)} names: {', '.join(aliases)}")
    names = aliases or [f"col{i + 1}" for i in range(width)]
    called: list[str] = []
    for name in names:
        called.append(fresh(name, called))
    fields = [pa.field(n, kind, None in data) for n, (kind, data) in zip(called, columns, strict=True)]
    schema = pa.schema([marked(field, mark) for field, mark in zip(fields, marks, strict=True)])
    node = ir.Constant(tuple(zip(*(data for _, data in columns), strict=True)), schema)
    table = alias.name if alias else ""
    return Relation(node, tuple(Field(table, n, c) for n, c in zip(names, called, strict=True)))


def _mark_of_all(column: Sequence[Expr], number: int) -> str:
    """What the declaration of a column of constants says beside its type: the collation that all of them have."""
    collations = {mark_of(value) for value in column if value.type != NULL}
    if len(collations) > 1:
        raise SchemaError(
            f"VALUES: column {number} has texts of several collations; write COLLATE behind each, or behind none"
        )
    return "".join(collations)


@dataclass(frozen=True)
class Generator:
    """A call of a table function, with its alias, and whether rows without elements stay."""

    call: exp.Anonymous
    table: str = ""
    columns: tuple[str, ...] = ()
    outer: bool = False
    ordinality: bool = False

    @property
    def name(self) -> str:
        """The function."""
        return str(self.call.name).lower()

    def applied(self, binder: QueryBinder, scope: Scope) -> Relation:
        """The rows of a relation, each joined with the rows that the function returns for it.

        Raises:
            PlanError: no such table function, or arguments that do not fit.
        """
        if self.name not in FUNCTIONS:
            raise PlanError(f"not supported: the table function {self.name}(); there are {', '.join(FUNCTIONS)}")
        arguments = []
        for argument in self.call.expressions:
            scope, value = binder.value(argument, scope)
            arguments.append(value)
        collection = Collection(scope.relation.node)
        if self.name in _REPEATS:
            self._expect(arguments, 1, 1)
            count = arguments[0]
            if self.outer:  # a row that is repeated no times stays, once
                zero = exp.Literal.number(0)
                unless_zero = exp.Anonymous(this="nullif", expressions=[count, zero])
                count = exp.Anonymous(this="coalesce", expressions=[unless_zero, exp.Literal.number(1)])
            result = getattr(collection, self.name)(count)
            return scope.relation.with_node(result.node)
        if self.name in _SERIES:
            return self._series(scope.relation, arguments)
        if self.name in _STRUCTS:
            rows = exp.Anonymous(this="array", expressions=self._structs(arguments, scope.relation.node.schema))
            if (listed := _with_collations(rows, scope.relation.node.schema)) is not None:
                return self._listed(scope.relation, *listed)
            kind = parse(rows, scope.relation.node.schema).type
            return self._inlined(scope.relation, rows, kind, outer=self.outer)
        self._expect(arguments, 1, 1)
        if self.name in _VARIANTS:
            rows = exp.Anonymous(this="variant_entries", expressions=arguments)
            kind = parse(rows, scope.relation.node.schema).type
            return self._inlined(scope.relation, rows, kind, outer=self.outer or _VARIANTS[self.name])
        return self._unnested(scope.relation, arguments[0])

    def _structs(self, arguments: list[exp.Expr], schema: pa.Schema) -> list[exp.Expr]:
        """The rows of a function whose arguments say how many there are, each a struct."""
        if self.name == "json_tuple":
            return [exp.Anonymous(this="json_tuple", expressions=arguments)]
        count = arguments[0] if arguments else None
        if not isinstance(count, exp.Literal) or count.is_string or not count.this.isdigit() or not int(count.this):
            raise PlanError("stack() takes how many rows there are, a whole number above 0, and their values")
        values = arguments[1:]
        self._expect(arguments, 2, len(arguments))
        width = -(-len(values) // int(count.this))
        for place in range(width):
            parsed = [parse(value, schema) for value in values[place::width]]
            known = [type_with_collation(v.type, _collation_of(v)) for v in parsed if v.type != NULL]
            other = next((kind for kind in known if kind != known[0]), None)
            if other is not None:
                raise PlanError(
                    f"stack(): the values of column col{place} must have one type, got {known[0]} and {other}; "
                    "CAST them"
                )
        rows: list[exp.Expr] = []
        for start in range(0, width * int(count.this), width):
            row = values[start : start + width]
            row += [exp.Null() for _ in range(width - len(row))]
            named = [part for i, value in enumerate(row) for part in (exp.Literal.string(f"col{i}"), value)]
            rows.append(exp.Anonymous(this="named_struct", expressions=named))
        return rows

    def _expect(self, arguments: Sequence[exp.Expr], least: int, most: int) -> None:
        if not least <= len(arguments) <= most:
            shown = least if least == most else f"{least} to {most}"
            raise PlanError(f"{self.name}() takes {shown} argument(s), got {len(arguments)}")

    def _named(self, defaults: Sequence[str], relation: Relation) -> tuple[list[str], list[Field]]:
        """Columns of the plan and fields for what the function adds."""
        names = list(self.columns)
        if not names and len(defaults) == 1 and self.table:
            names = [self.table] if self.name in _SERIES or self.name == "unnest" else list(defaults)
        names = names or list(defaults)
        if len(names) != len(defaults):
            raise SchemaError(
                f"{self.name}() returns {len(defaults)} column(s), but {len(names)} are named: {', '.join(names)}"
            )
        taken = list(relation.node.schema.names)
        columns = []
        for name in names:
            columns.append(fresh(name, taken))
            taken.append(columns[-1])
        fields = [Field(self.table or self.name, n, c) for n, c in zip(names, columns, strict=True)]
        return columns, fields

    def _series(self, relation: Relation, arguments: list[exp.Expr]) -> Relation:
        if self.name == "range":
            self._expect(arguments, 1, 3)
            if len(arguments) == 1:
                arguments = [exp.Literal.number(0), *arguments]
            last = exp.Sub(this=exp.Paren(this=arguments[1]), expression=exp.Literal.number(1))
            arguments = [exp.cast(arguments[0], "bigint"), exp.cast(last, "bigint"), *arguments[2:]]
        self._expect(arguments, 2, 3)
        defaults = ["id" if self.name == "range" else "generate_series"]
        (column,), fields = self._named(defaults, relation)
        if self.ordinality:
            raise PlanError(f"not supported: {self.name}() WITH ORDINALITY; its values are in order already")
        result = Collection(relation.node).generate_series(*arguments, as_=column, outer=self.outer)  # type: ignore[arg-type]
        return Relation(result.node, (*relation.fields, *fields), relation.carried, relation.plain)

    def _unnested(self, relation: Relation, value: exp.Expr) -> Relation:
        schema = relation.node.schema
        if self.name in _INLINES and (listed := _with_collations(value, schema)) is not None:
            return self._listed(relation, *listed)
        kind = parse(value, schema).type
        outer = self.outer or _EXPLODES.get(self.name, _INLINES.get(self.name, False))
        positions = self.name.startswith("posexplode") or self.ordinality
        base = ["key", "value"] if pa.types.is_map(kind) else ["col"]
        first = self.name.startswith("posexplode")
        defaults = [*(["pos"] if first else []), *base, *(["ordinality"] if positions and not first else [])]
        if self.name in _INLINES:
            return self._inlined(relation, value, kind, outer=outer)
        columns, fields = self._named(defaults, relation)
        position = columns[0] if first else columns[-1] if positions else None
        rest = tuple(c for c in columns if c != position)
        as_ = rest if len(rest) > 1 else rest[0]
        result = Collection(relation.node).unnest(value, as_=as_, ordinality=position, outer=outer)  # type: ignore[arg-type]
        if first:  # Spark counts from 0
            outputs = {n: f"CAST(`{n}` - 1 AS INT)" if n == position else f"`{n}`" for n in result.columns}
            result = result.select(**outputs)
        return Relation(result.node, (*relation.fields, *fields), relation.carried, relation.plain)

    def _listed(self, relation: Relation, members: Sequence[str], rows: Sequence[Sequence[exp.Expr]]) -> Relation:
        """Each row once for each list of values, which are chosen by a number: a struct would have no collations."""
        columns, fields = self._named(members, relation)
        number = fresh("^number", [*relation.node.schema.names, *columns])
        numbers = exp.Anonymous(this="array", expressions=[exp.Literal.number(i) for i in range(len(rows))])
        result = Collection(relation.node).unnest(numbers, as_=number)  # type: ignore[arg-type]
        outputs: list[tuple[str, exp.Expr]] = [(n, bound(n)) for n in relation.node.schema.names]
        for column, values in zip(columns, zip(*rows, strict=True), strict=True):
            branches = [exp.If(this=exp.Literal.number(i), true=v.copy()) for i, v in enumerate(values)]
            outputs.append((column, exp.Case(this=bound(number), ifs=branches)))
        result = result._project((n, parse(t, result.schema)) for n, t in outputs)
        return Relation(result.node, (*relation.fields, *fields), relation.carried, relation.plain)

    def _inlined(self, relation: Relation, value: exp.Expr, kind: pa.DataType, *, outer: bool) -> Relation:
        if not pa.types.is_list(kind) or not is_struct(kind.value_type):
            raise PlanError(f"{self.name}() needs an array of structs, not `{value.sql('spark')}`")
        members = [kind.value_type.field(i).name for i in range(kind.value_type.num_fields)]
        columns, fields = self._named(members, relation)
        element = fresh("^element", [*relation.node.schema.names, *columns])
        result = Collection(relation.node).unnest(value, as_=element, outer=outer)  # type: ignore[arg-type]
        outputs: list[tuple[str, exp.Expr]] = [(n, bound(n)) for n in relation.node.schema.names]
        for column, member in zip(columns, members, strict=True):
            outputs.append((column, exp.Dot(this=bound(element), expression=exp.to_identifier(member, quoted=True))))
        result = result._project((n, parse(t, result.schema)) for n, t in outputs)
        return Relation(result.node, (*relation.fields, *fields), relation.carried, relation.plain)


def _collation_of(value: Expr) -> str:
    return mark_of(value).removeprefix("collate ")


def _with_collations(value: exp.Expr, schema: pa.Schema) -> tuple[list[str], list[list[exp.Expr]]] | None:
    """The names and the rows of an array of structs with a collation among their values; None of another one."""
    structs = value.expressions if isinstance(value, exp.Anonymous) and value.name.lower() == "array" else []
    if not structs or any(getattr(s, "name", "").lower() != "named_struct" for s in structs):
        return None
    rows = [struct.expressions[1::2] for struct in structs]
    if all(collation_of(parse(v, schema)) is None for row in rows for v in row):
        return None
    return [name.name for name in structs[0].expressions[::2]], rows


def _generator_of(item: exp.Expr) -> exp.Anonymous | None:
    """The generator that an item of a SELECT list is, such as ``explode(tags) AS tag``."""
    inner = (item.this if isinstance(item, exp.Alias | exp.Aliases) else item).unnest()
    return inner if isinstance(inner, exp.Anonymous) and inner.name.lower() in _IN_SELECT else None


def after_groups(tree: exp.Select) -> exp.Select:
    """A SELECT whose generators are applied to its rows, and not to those that it groups: a query around it."""
    groups = tree.args.get("group") or tree.args.get("having") or any(map(has_aggregate, tree.expressions))
    if not groups or not any(map(_generator_of, tree.expressions)):
        return tree
    inner, outer, added = list[exp.Expr](), list[exp.Expr](), list[exp.Expr]()
    names = [name_of(item).lower() for item in tree.expressions]
    for place, item in enumerate(tree.expressions):
        call = _generator_of(item)
        if call is None:
            name = name_of(item) if names.count(names[place]) == 1 else f"^{place}"
            inner.append(exp.alias_(item.unalias().copy(), name, quoted=True))
            outer.append(exp.alias_(exp.column(name, quoted=True), name_of(item), quoted=True))
            continue
        around = item.copy()
        for number, argument in enumerate(call.expressions):
            name = f"^{place} {number}"
            if not isinstance(argument, exp.Literal):
                added.append(exp.alias_(argument.copy(), name, quoted=True))
                copied = _generator_of(around)
                assert copied is not None
                copied.expressions[number].replace(exp.column(name, quoted=True))
        inner.append(exp.alias_(exp.Null(), f"^{place}", quoted=True))  # so that numbers in GROUP BY are right
        outer.append(around)
    grouped = tree.copy()
    clauses = {name: grouped.args.pop(name, None) for name in ("order", "limit", "offset", "distinct", "with_")}
    grouped.set("expressions", [*inner, *added])
    aliased = exp.TableAlias(this=exp.to_identifier("^groups", quoted=True))
    result = exp.Select(expressions=outer, from_=exp.From(this=exp.Subquery(this=grouped, alias=aliased)), **clauses)
    for key in (SHOWN, CHOSEN, OWN):
        if grouped.meta.pop(key, None):
            result.meta[key] = True
    return result


def generated(binder: QueryBinder, scope: Scope, items: list[exp.Expr]) -> tuple[Scope, list[exp.Expr]]:
    """Generators in a SELECT list, such as ``explode(tags) AS tag``, applied to the rows; one at most, as in Spark."""
    outputs: list[exp.Expr] = []
    generators = 0
    for item in items:
        inner = _generator_of(item)
        if inner is None:
            outputs.append(item)
            continue
        generators += 1
        if generators > 1:
            raise PlanError("one generator such as explode() is allowed in a SELECT list; put the others into FROM")
        names = tuple(a.name for a in item.args["expressions"]) if isinstance(item, exp.Aliases) else ()
        names = (item.alias,) if isinstance(item, exp.Alias) else names
        before = len(scope.relation.fields)
        relation = Generator(inner, columns=names).applied(binder, scope)
        new = relation.fields[before:]
        scope = Scope(Relation(relation.node, scope.relation.fields, relation.carried, relation.plain), scope.around)
        outputs += [exp.alias_(bound(f.column), f.name, quoted=True) for f in new]
    return scope, outputs
