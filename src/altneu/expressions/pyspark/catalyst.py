"""Expressions of Catalyst as trees, over py4j: about ten calls for each node, 0.1 ms each.

Each attribute is renamed to its number, and the expression is then asked for its SQL, which the parser reads. An
expression whose SQL does not say all of it is read part by part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from altneu import types as T
from altneu.errors import PlanError
from altneu.expressions import dialect
from altneu.expressions.pyspark import forms

BYTES = "Spark keeps the function as bytes; use map, flat_map or reduce of a collection"
"""What to do instead of a function in Python or Java."""
_WRAPPERS = frozenset(
    ("KnownNullable", "KnownNotNull", "KnownNotContainsNull", "NormalizeNaNAndZero", "PromotePrecision")
)
"""Nodes with which Catalyst notes what it knows; their value is that of what they wrap."""
_UNFRAMED = frozenset(("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"))
_BY_PARAMETERS = "org.apache.spark.sql.catalyst.expressions.InheritAnalysisRules"
"""Expressions that are written as others; only their parameters are what was written."""
_DEFAULTS = {"regexp_replace": (3, "1"), "split": (2, "-1"), "locate": (2, "1")}
"""Arguments that Spark adds where none are written: how many there are before, and what it adds."""
_COMPARATOR = (
    "(`x_0`, `x_1`) -> (IF(((`x_0` IS NULL) AND (`x_1` IS NULL)), 0, (IF((`x_0` IS NULL), 1, (IF((`x_1` IS NULL), -1, "
    "(IF((`x_0` < `x_1`), -1, (IF((`x_0` > `x_1`), 1, 0))))))))))"
)
"""What array_sort compares with where it is given nothing."""
_VARIABLE = "#lambda "
"""What the name of a lambda's variable begins with until it has its own."""
_PICKED = frozenset(("First", "Last", "AnyValue"))
"""Aggregates whose SQL does not say whether they pass over nulls."""
_COLLECTED = frozenset(("CollectList", "CollectSet"))
_NUMBERS = {
    "tinyint": T.BYTE,
    "smallint": T.SHORT,
    "int": T.INT,
    "bigint": T.LONG,
    "float": T.FLOAT,
    "double": T.DOUBLE,
}
_NESTED = ("array<", "map<", "struct<")
_FUNCTIONS = frozenset(
    ("PythonUDF", "PythonUDAF", "PythonUDTF", "ScalaUDF", "ScalaUDAF", "ScalaAggregator", "HiveSimpleUDF")
)


class Expressions:
    """Makes trees of Catalyst's expressions.

    ``item`` gives the tree that stands for the plan of a subquery. Without it columns keep their names, which in a plan
    are the numbers of their attributes. ``functions`` makes functions of what PySpark keeps of them.
    """

    def __init__(
        self,
        jvm: Any,
        item: Callable[[Any], exp.Expr] | None = None,
        functions: forms.PythonFunctions | None = None,
    ) -> None:
        self._jvm, self._item, self._functions = jvm, item, functions
        self._now: dict[str, str] = {}  # the numbers of the columns of what parameters are written as, by their names
        self._numbers: set[str] = set()

    def tree(self, expression: Any) -> exp.Expr:
        """One expression, whose columns are named by the numbers of their attributes.

        Raises:
            PlanError: altneu does not evaluate it.
        """
        return _renumbered(self._tree(expression))

    def ordered(self, expression: Any) -> exp.Ordered:
        """A sort key."""
        result: exp.Ordered = _renumbered(self._SortOrder(expression))
        return result

    def _tree(self, expression: Any) -> exp.Expr:
        """The tree of an expression that may be a part of another: variables of lambdas have Spark's numbers."""
        special = self._special(class_of(expression), expression)
        if special is not None:
            return special
        parts: dict[str, exp.Expr] = {}
        text = str(self._renamed(expression, parts).sql())
        return _restored(dialect.parse_tree(text), parts)

    def _renamed(self, expression: Any, parts: dict[str, exp.Expr]) -> Any:
        """An expression whose SQL is unambiguous; what has none here is a column that stands for one of ``parts``."""
        kind = class_of(expression)
        if kind == "AttributeReference":
            return self._attribute(self._number(expression) if self._item else str(expression.name()), expression)
        if kind == "OuterReference":  # whose number a column of the subquery may have too, if that reads a name of WITH
            outer = expression.e()
            return self._attribute(f"{forms.OUTER}{self._number(outer)}", outer)
        if kind in _WRAPPERS:
            return self._renamed(expression.child(), parts)
        if kind == "NamedLambdaVariable":
            return self._attribute(f"{_VARIABLE}{expression.exprId().id()}", expression)
        special = self._special(kind, expression)
        if special is not None:
            name = f"#part {len(parts)}"
            parts[name] = special
            return self._attribute(name, expression)
        children = listed(expression.children())
        if not children:
            return expression
        return expression.withNewChildren(self._jvm.PythonUtils.toSeq([self._renamed(c, parts) for c in children]))

    def _attribute(self, name: str, like: Any) -> Any:
        types = self._jvm.org.apache.spark.sql
        made = types.catalyst.expressions.AttributeReference
        number = types.catalyst.expressions.NamedExpression.newExprId()
        none = self._jvm.PythonUtils.toSeq([])
        kind = like.dataType() if like.resolved() else types.types.DataTypes.NullType
        return made(name, kind, True, types.types.Metadata.empty(), number, none)

    def _special(self, kind: str, expression: Any) -> exp.Expr | None:
        """The tree of an expression whose SQL does not say all of it; None for those that it does."""
        if kind == "PythonUDF" and self._functions is not None:
            return self._python(expression, self._functions)
        if kind in _FUNCTIONS:
            raise forms.unsupported(f"the Python or Java function {expression.name()}() in a DataFrame", BYTES)
        made = getattr(self, f"_{kind}", None)
        if made is not None:
            result: exp.Expr | None = made(expression)
            return result
        if self._jvm.py4j.reflection.TypeUtil.isInstanceOf(_BY_PARAMETERS, expression):
            return self._by_parameters(expression)
        return None

    def _by_parameters(self, expression: Any) -> exp.Expr:
        """A call of what was written, whose columns have the numbers of those in what it is written as.

        Of a DataFrame that is joined with itself Spark numbers the columns of one side anew, but not in parameters.
        """
        around = self._now
        read = listed(expression.references().toSeq())
        numbers = {name_of(a) for a in read}
        names = Counter(str(a.name()) for a in read)
        self._now = {str(a.name()): name_of(a) for a in read if names[str(a.name())] == 1}
        self._numbers, before = numbers, self._numbers
        try:
            return forms.call(str(expression.prettyName()), self._trees(expression.parameters()))
        finally:
            self._now, self._numbers = around, before

    def _number(self, attribute: Any) -> str:
        """The number of an attribute, as it is now."""
        name = name_of(attribute)
        return name if name in self._numbers else self._now.get(str(attribute.name()), name)

    def _python(self, expression: Any, functions: forms.PythonFunctions) -> exp.Expr:
        command, kind = expression.func().command().toList(), int(expression.evalType())
        return functions.made(
            str(expression.name()),
            bytes(command.apply(i) & 0xFF for i in range(command.size())),
            kind,
            str(expression.dataType().sql()),
            self._trees(expression.children()),
            deterministic=bool(expression.udfDeterministic()),
        )

    def _trees(self, expressions: Any) -> list[exp.Expr]:
        return [self._tree(e) for e in (expressions if isinstance(expressions, list) else listed(expressions))]

    # subqueries

    def _query(self, plan: Any) -> exp.Expr:
        if self._item is None:
            raise PlanError("a subquery is not an expression here: write it as a join or a semijoin")
        return self._item(plan)

    def _ScalarSubquery(self, expression: Any) -> exp.Expr:  # noqa: N802  # the names are Catalyst's
        return exp.Subquery(this=self._query(expression.plan()))

    def _Exists(self, expression: Any) -> exp.Expr:  # noqa: N802
        return exp.Exists(this=self._query(expression.plan()))

    def _InSubquery(self, expression: Any) -> exp.Expr:  # noqa: N802
        values = self._trees(expression.values())
        tested = values[0] if len(values) == 1 else exp.Tuple(expressions=values)
        return exp.In(this=tested, query=exp.Subquery(this=self._query(expression.query().plan())))

    def _Cast(self, expression: Any) -> exp.Expr | None:  # noqa: N802
        """A cast to a type whose values have parts, which Spark leaves out of SQL; None for others."""
        if not str(expression.dataType().simpleString()).startswith(_NESTED):
            return None
        node = exp.TryCast if str(expression.evalMode().toString()) == "TRY" else exp.Cast
        return node(this=self._tree(expression.child()), to=forms.data_type(str(expression.dataType().sql())))

    # names that nothing has resolved yet

    def _UnresolvedFunction(self, expression: Any) -> exp.Expr:  # noqa: N802
        name = str(listed(expression.nameParts())[-1])
        return forms.call(name, self._trees(expression.arguments()), distinct=bool(expression.isDistinct()))

    def _UnresolvedStar(self, _expression: Any) -> exp.Expr:  # noqa: N802
        return exp.Star()

    def _Alias(self, expression: Any) -> exp.Expr:  # noqa: N802
        return forms.named(self._tree(expression.child()), str(expression.name()))

    def _UnresolvedAlias(self, expression: Any) -> exp.Expr:  # noqa: N802
        return self._tree(expression.child())

    def _SortOrder(self, expression: Any) -> exp.Ordered:  # noqa: N802
        descending = str(expression.direction().toString()) == "Descending"
        nulls_first = str(expression.nullOrdering().toString()) == "NullsFirst"
        return forms.ordered(self._tree(expression.child()), descending=descending, nulls_first=nulls_first)

    # aggregates and windows

    def _AggregateExpression(self, expression: Any) -> exp.Expr:  # noqa: N802
        function = expression.aggregateFunction()
        call = self._tree(function)
        kind, respected = class_of(function), False
        if kind in _PICKED and function.ignoreNulls() and isinstance(call, exp.Anonymous):
            call = exp.Anonymous(this=call.name, expressions=[*call.expressions, exp.true()])
        if kind in _COLLECTED and str(function.sql(bool(expression.isDistinct()))).endswith(" RESPECT NULLS"):
            respected = isinstance(call, exp.Anonymous)
        if expression.isDistinct() and isinstance(call, exp.Anonymous):
            call = forms.call(call.name, call.expressions, distinct=True)
        if respected:
            call = exp.RespectNulls(this=call)
        given = expression.filter()
        if given.isDefined():
            call = exp.Filter(this=call, expression=exp.Where(this=self._tree(given.get())))
        return call

    def _PivotFirst(self, expression: Any) -> exp.Expr:  # noqa: N802
        """The values of one column by those of another, as an array in the order of the latter.

        Raises:
            PlanError: Spark has looked for the values in a frame that has no rows.
        """
        if not expression.pivotColumnValues().size():
            given = str(getattr(expression.pivotColumn(), "name", lambda: "column")())
            raise forms.pivot_of_rows(given)
        column, value = self._tree(expression.pivotColumn()), self._tree(expression.valueColumn())
        literal = self._jvm.org.apache.spark.sql.catalyst.expressions.Literal
        kind = expression.pivotColumn().dataType()
        number = _NUMBERS.get(str(kind.simpleString()))  # of which py4j keeps the value, and not Java's class
        cells: list[exp.Expr] = []
        for one in listed(expression.pivotColumnValues()):
            is_number = number is not None and one is not None
            wanted = forms.constant(one, number) if is_number else self._tree(literal.create(one, kind))
            test = exp.Where(this=exp.NullSafeEQ(this=column.copy(), expression=wanted))
            only = exp.Anonymous(this="any_value", expressions=[value.copy()])
            cells.append(exp.Filter(this=only, expression=test))
        return exp.Anonymous(this="array", expressions=cells)

    def _WindowExpression(self, expression: Any) -> exp.Expr:  # noqa: N802
        function, spec = self._tree(expression.windowFunction()), expression.windowSpec()
        called = function.this if isinstance(function, exp.IgnoreNulls) else function
        frame, given = None, spec.frameSpecification()
        framed = not isinstance(called, exp.Anonymous) or called.name.lower() not in _UNFRAMED
        if class_of(given) == "SpecifiedWindowFrame" and framed:
            kind = "ROWS" if class_of(given.frameType()) == "RowFrame" else "RANGE"
            frame = forms.frame(kind, self._bound(given.lower()), self._bound(given.upper()))
        order = [self._SortOrder(o) for o in listed(spec.orderSpec())]
        return forms.window(function, self._trees(spec.partitionSpec()), order, frame)

    def _bound(self, bound: Any) -> exp.Expr | str | None:
        kind = class_of(bound)
        if kind in ("UnboundedPreceding", "UnboundedFollowing"):
            return None
        return "CURRENT ROW" if kind == "CurrentRow" else self._tree(bound)

    def _Lag(self, expression: Any) -> exp.Expr:  # noqa: N802
        offset = expression.inputOffset() if class_of(expression) == "Lag" else expression.offset()
        arguments = [expression.input(), offset, expression.default()]
        call = exp.Anonymous(this=str(expression.prettyName()), expressions=[self._tree(a) for a in arguments])
        return exp.IgnoreNulls(this=call) if expression.ignoreNulls() else call

    _Lead = _Lag

    # values

    def _Collate(self, expression: Any) -> exp.Expr:  # noqa: N802
        name = str(expression.collation().dataType().sql()).partition(" COLLATE ")[2].strip("'`")
        return exp.Anonymous(
            this="collate", expressions=[self._tree(expression.child()), exp.Literal.string(name or "UTF8_BINARY")]
        )

    def _Literal(self, expression: Any) -> exp.Expr | None:  # noqa: N802
        """A moment, whose SQL depends on the time zone of the session; None for others."""
        kind, value = str(expression.dataType().simpleString()), expression.value()
        if value is None or not kind.startswith("timestamp"):
            return None
        return forms.constant(int(value), T.TIMESTAMP_NTZ if kind == "timestamp_ntz" else T.TIMESTAMP)

    def _ArraySort(self, expression: Any) -> exp.Expr | None:  # noqa: N802
        """Without a comparator, where Catalyst adds one that is the order of the type; None with another."""
        if _renumbered(self._tree(expression.function())).sql("spark") != _COMPARATOR:
            return None
        return exp.Anonymous(this="array_sort", expressions=[self._tree(expression.argument())])

    def _DatetimeSub(self, expression: Any) -> exp.Expr:  # noqa: N802
        return forms.call("-", self._trees(expression.parameters()))

    def _DateAdd(self, expression: Any) -> exp.Expr | None:  # noqa: N802
        """A date and an interval of days, of which Catalyst takes the number, turned round if it is subtracted."""
        days, symbol = expression.days(), "+"
        if class_of(days) == "UnaryMinus":
            days, symbol = days.child(), "-"
        if class_of(days) != "ExtractANSIIntervalDays":
            return None
        if class_of(days.child()) != "Literal":
            raise forms.unsupported("a date plus or minus an interval of days that varies", "use date_add or date_sub")
        return forms.call(symbol, self._trees([expression.startDate(), days.child()]))

    def _PreciseTimestampConversion(self, expression: Any) -> exp.Expr:  # noqa: N802
        to_number = str(expression.toType().simpleString()) == "bigint"
        name = "unix_micros" if to_number else "timestamp_micros"
        return exp.Anonymous(this=name, expressions=[self._tree(expression.child())])

    def _CreateNamedStruct(self, expression: Any) -> exp.Expr:  # noqa: N802
        return exp.Anonymous(this="named_struct", expressions=self._trees(expression.children()))

    def _UpdateFields(self, expression: Any) -> exp.Expr:  # noqa: N802
        result = self._tree(expression.structExpr())
        for operation in listed(expression.fieldOps()):
            arguments = [result, exp.Literal.string(str(operation.name()))]
            if class_of(operation) == "WithField":
                arguments.append(self._tree(operation.valExpr()))
            result = exp.Anonymous(this="#update_field", expressions=arguments)
        return result

    def _JsonToStructs(self, expression: Any) -> exp.Expr:  # noqa: N802
        """The texts with their schema, which may be null, and the options; Catalyst passes neither as arguments."""
        schema = exp.Literal.string(str(expression.schema().asNullable().sql()))
        return self._with_options(expression, schema)

    _CsvToStructs = _JsonToStructs

    def _with_options(self, expression: Any, *more: exp.Expr) -> exp.Expr:
        arguments = [*self._trees(expression.children()), *more]
        pairs = listed(expression.options().toSeq())
        if pairs:
            texts = [exp.Literal.string(str(part)) for pair in pairs for part in (pair._1(), pair._2())]
            arguments.append(exp.Anonymous(this="map", expressions=texts))
        return exp.Anonymous(this=str(expression.prettyName()), expressions=arguments)

    _StructsToJson = _StructsToCsv = _SchemaOfJson = _SchemaOfCsv = _with_options

    def _VariantGet(self, expression: Any) -> exp.Expr:  # noqa: N802
        """The expression with its type, which Catalyst does not pass as an argument."""
        arguments, kind = self._trees(expression.children()), str(expression.targetType().sql())
        if kind != "VARIANT":
            arguments.append(exp.Literal.string(kind))
        return exp.Anonymous(this=str(expression.prettyName()), expressions=arguments)

    def _AtLeastNNonNulls(self, expression: Any) -> exp.Expr:  # noqa: N802
        tests = []
        for child in listed(expression.children()):
            is_floating = str(child.dataType().simpleString()) in ("float", "double")
            tests.append(forms.present(self._tree(child), floating=is_floating))
        return forms.at_least(int(expression.n()), tests)


def name_of(attribute: Any) -> str:
    """The name by which expressions read an attribute."""
    return f"#{attribute.exprId().id()}"


def listed(sequence: Any) -> list[Any]:
    """The elements of a sequence of Scala's."""
    return [sequence.apply(i) for i in range(sequence.size())]


def class_of(value: Any) -> str:
    """The class of one of Catalyst's nodes, by its own name."""
    return str(value.getClass().getSimpleName()).removesuffix("$")


def _restored(tree: exp.Expr, parts: dict[str, exp.Expr]) -> exp.Expr:
    """A parsed text with what columns of it stand for, and with lambdas and defaults as SQL writes them."""

    def visit(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        first, *fields = node.parts
        if first.name.startswith(_VARIABLE):
            result: exp.Expr = exp.to_identifier(first.name, quoted=True)
        elif first.name in parts:
            result = parts[first.name]
        else:
            return node
        for name in fields:  # which the parser took for the columns of a table
            result = exp.Dot(this=result, expression=name)
        return result

    tree = exp.Paren(this=tree.transform(visit, copy=False))  # whose child may be replaced like any other
    for call in list(tree.find_all(exp.Anonymous)):
        name, arguments = call.name.lower(), call.expressions
        if name == "lambdafunction":
            call.replace(exp.Lambda(this=arguments[0], expressions=arguments[1:]))
        elif name in _DEFAULTS and len(arguments) > _DEFAULTS[name][0]:
            most, default = _DEFAULTS[name]
            if arguments[most].sql() == default:
                call.set("expressions", arguments[:most])
    return tree.this


def _renumbered(tree: Any) -> Any:
    """A whole tree, the variables of whose lambdas are called x_0, x_1 … and not by numbers that Spark counts."""
    names: dict[str, str] = {}
    for node in tree.dfs():
        if isinstance(node, exp.Identifier) and node.name.startswith(_VARIABLE):
            node.set("this", names.setdefault(node.name, f"x_{len(names)}"))
    return tree
