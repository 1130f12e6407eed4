"""Weights and weighted collections: differences other than whole numbers.

A weight is an element of a commutative semigroup with a zero, such as sums, least values or sets. A weighted collection
gives each row a weight at each time, as a collection gives it a count. It is made of an ordinary one, whose rows have
the weight in further columns: a row with several of these weighs what they come to together, each as often as it is
there. So operators, state, stores and errors are those of ordinary collections, and weights are added where
``consolidate`` or a join needs them (docs/weights.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from altneu.collections.asof import refuse_maps
from altneu.collections.collection import Collection, check_collection
from altneu.collections.join_keys import On
from altneu.collections.joining import JoinKind
from altneu.collections.loops import MAX_ROUNDS, OnLimit, bodies_of, loop
from altneu.collections.verbs import LinearVerbs, Text, Verb, Version
from altneu.collections.weights.carrying import carrying, weighing
from altneu.errors import PlanError, TypeMismatchError, UnknownColumnError
from altneu.expressions import Col, Expr, call, cast, literal, parse
from altneu.linear import BoundLogic, ExplodeFunction, Function, JoinFunction, MapFunction, Negate
from altneu.plan import ir
from altneu.types import parse_schema, quote_name, type_name, uncompared

_BUCKET = "#bucket"
_REMEDY = "use a weight that has it, or consolidate() first, which gives an ordinary collection"


class Weight(ABC):
    """A kind of difference, held in a column of rows: subclass it for a kind of your own.

    A subclass has a ``layout``, the type of its column in Spark's DDL; a ``zero``; and ``add``. With ``negate`` it is a
    group, whose collections may be subtracted and have counts below zero, and with ``multiply`` weighted collections
    can be joined with each other; outer joins need its unit, ``one``, too. Values are as Python functions get them
    (docs/python_functions.md): lists for arrays, dictionaries for structs. Equal weights must be equal values, and none
    may be null, which stands for zero. The methods must be pure. ``altneu.testing.assert_weight_laws`` tests the laws:

    * ``add`` is associative and commutative, and ``zero`` its identity;
    * ``add(a, negate(a))`` is zero;
    * ``multiply`` distributes over ``add`` on both sides, and zero times anything is zero;
    * ``multiply(a, one)`` and ``multiply(one, a)`` are ``a``.

    Cost:   of a group one sum is kept for each row, in a loop one for each round at which it changes; a change reads
            that, and before batches are merged two for each of them. Doubles do not obey the laws: such a sum would
            depend on the order in which rows came, so use ``Sums``, which is exact. Without ``negate`` the different
            weights of each row are kept, and read again when its weight changes. With ``buckets = (4096, 64)`` they are
            added up in stages, in so many parts of each row, then in fewer: a change reads one part of each stage, of
            262,144 weights about 64 three times, and the sums of parts are kept too.

    >>> import altneu as an
    >>> class Shortest(an.weights.Weight):
    ...     layout, zero = "bigint", 2**62
    ...
    ...     def add(self, a, b):
    ...         return min(a, b)
    ...
    ...     def multiply(self, a, b):
    ...         return min(a + b, self.zero)
    >>> roads = an.source("roads", "src long, dst long, length long").weighted(Shortest("length"))
    >>> two = roads.join(roads, on={"dst": "src"}).select("src", dst="`right.dst`")
    >>> with an.Session() as session:
    ...     view = session.maintain("two", two.consolidate())
    ...     session.insert("roads", [(1, 2, 5), (1, 3, 1), (2, 4, 1), (3, 4, 2)])
    ...     _ = session.advance()
    ...     view.to_pylist()
    [(1, 4, 3)]
    """

    layout: ClassVar[str]
    buckets: ClassVar[Sequence[int]] = ()
    zero: Any
    negate: Any = None
    multiply: Any = None
    one: Any = None

    def __init__(self, column: str, *more: str) -> None:
        self.columns: tuple[str, ...] = (column, *more)
        if len({*self.columns}) < len(self.columns):
            raise PlanError(f"{self} names a column twice")

    @abstractmethod
    def add(self, a: Any, b: Any) -> Any:
        """The sum of two weights."""

    def is_zero(self, weight: Any) -> bool:
        """Whether a weight is zero: a row of that weight is not there."""
        return bool(weight is None or weight == self.zero)

    def over(self, collection: Collection) -> Weighted:
        """A collection weighted by the columns of this weight: what ``collection.weighted(weight)`` gives.

        Raises:
            UnknownColumnError: there is no such column.
            TypeMismatchError: the type of a column is not one of this weight.
        """
        check_collection(collection, "weighted")
        for name in self.columns:
            if name not in collection.columns:
                raise UnknownColumnError(name, collection.columns, str(self))
        names = [name for name in collection.columns if name not in self.columns]
        outputs = [(name, collection._column(name)) for name in names]
        outputs += [(name, self.entered(collection._column(name))) for name in self.columns]
        same = all(e.is_column and e.column_name == n for n, e in outputs)
        same = same and [n for n, _ in outputs] == collection.columns
        return Weighted(collection if same else collection._project(outputs), self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.columns))})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((type(self), self.columns))

    # how plans are made of it; a kind that the engine knows makes them of its own operators

    def entered(self, column: Expr) -> Expr:
        """A column of weights in the type in which they are added.

        Raises:
            TypeMismatchError: it has another.
        """
        wanted = parse_schema(f"weight {self.layout}").field(0).type
        if what := uncompared(wanted):
            raise PlanError(
                f"the layout of {self} is {self.layout}, and {what} cannot be compared; use an array of structs"
            )
        if column.type != wanted:
            raise self.mismatch(column, type_name(wanted))
        return column

    def mismatch(self, column: Expr, wanted: str) -> TypeMismatchError:
        """What is raised for a column of another type."""
        return TypeMismatchError(
            f"column {column.sql} of {self} must be {wanted}, got {type_name(column.type)}; cast it"
        )

    def units(self, kinds: Sequence[pa.DataType]) -> list[Expr]:
        """The unit of the product, column by column, in the types of these."""
        values = (self.one,) if len(self.columns) == 1 else self.one
        return [_constant(value, kind) for value, kind in zip(values, kinds, strict=True)]

    def added(self, rows: Collection, data: tuple[str, ...]) -> Collection:
        """Each row of the ``data``, with the sum of its weights, which is not zero."""
        result = pa.schema([rows.schema.field(name) for name in self.columns])
        group = self.negate is not None
        reducer = ir.PythonReduce(_by(self, _sum), result, signed=group, additive=group)
        (weight,) = self.columns
        bucket = f"crc32(cast({quote_name(weight)} as string))"  # of equal weights one, so that they cancel there
        for many in sorted(self.buckets, reverse=True):
            parted = (_BUCKET, parse(f"pmod({bucket}, {int(many)}L)", rows.schema))
            rows = rows._project([*((n, rows._column(n)) for n in (*data, weight)), parted])
            rows = Collection(ir.Reduce(rows.node, (*data, _BUCKET), reducer))
            bucket = quote_name(_BUCKET)
        return Collection(ir.Reduce(rows._only([*data, weight]).node, data, reducer))

    def multiplied(self, rows: Collection, left: Sequence[str], right: Sequence[str]) -> Collection:
        """Rows without the columns of two weights, which come last, and with those of their product."""
        data = [f for f in rows.schema if f.name not in (*left, *right)]
        result = pa.schema([*data, pa.field(self.columns[0], rows.schema.field(left[0]).type)])
        function = _by(self, _product, tuple(f.name for f in data))
        return rows._linear(BoundLogic((MapFunction(function, result),)))


def _constant(value: Any, kind: pa.DataType) -> Expr:
    """A constant of a weight's type: lists and dictionaries at any depth."""
    if value is not None and pa.types.is_list(kind):
        return cast(call("array", [_constant(one, kind.value_type) for one in value]), kind)
    if value is not None and pa.types.is_struct(kind):
        fields = [part for f in kind for part in (literal(f.name), _constant(value[f.name], f.type))]
        return cast(call("named_struct", fields), kind)
    return cast(literal(value), kind)


def _sum(weight: Weight, _key: Any, rows: Iterable[tuple[Any, int]]) -> Iterator[dict[str, Any]]:
    """What the weights of a row come to, each as often as it is there."""
    total = None
    for (value,), count in rows:
        if value is not None:
            one = times(weight, value, count)
            total = one if total is None else weight.add(total, one)
    if not weight.is_zero(total):
        yield {weight.columns[0]: total}


def _product(weight: Weight, names: tuple[str, ...], row: Any) -> dict[str, Any]:
    """A row with the product of its last two columns in the place of these."""
    *data, left, right = row
    product = None if left is None or right is None else weight.multiply(left, right)
    return {**dict(zip(names, data, strict=True)), weight.columns[0]: product}


def _by(weight: Weight, what: Callable[..., Any], *given: Any) -> Function:
    """What calls the methods of a weight: a partial, so that all that they read is followed."""
    call = partial(what, weight, *given)
    setattr(call, "__name__", f"{what.__name__.strip('_')} of {weight}")  # noqa: B010 -- a partial has none
    return Function.of(call)


def times(weight: Weight, value: Any, count: int) -> Any:
    """A weight added up so many times, by doubling; its negative for a count below zero.

    >>> from altneu.collections.weights.kinds import Sums
    >>> times(Sums("n"), 3, 5), times(Sums("n"), 3, -2)
    (15, -6)
    """
    if count < 0:
        value, count = weight.negate(value), -count
    total = None
    while count:
        if count & 1:
            total = value if total is None else weight.add(total, value)
        count >>= 1
        value = weight.add(value, value) if count else value
    return total


class Weighted(LinearVerbs):
    """A collection whose rows have weights in the place of counts; ``collection.weighted(weight)`` makes one.

    The verbs of one row work as on a collection. They see the columns of the data and not those of the weight, which
    stays with what becomes of the row, as often as the verb says. Where the result of a verb has columns of the
    weight's names, the weight is multiplied by what they hold: ``select("item", n="2")`` doubles it.

    A verb that needs what a weight lacks is refused when the plan is built:

    * ``negate`` needs a weight with ``negate``;
    * ``join`` with another weighted collection, and verbs that give weights, need ``multiply``; joins that keep rows
      without a partner need ``one`` for what they lack;
    * all else needs only sums. Counts below zero, as of a row that is retracted first, need ``negate`` too: else they
      make an error row of the row whose weight they would be part of (``NEGATIVE_MULTIPLICITY``).

    >>> import altneu as an
    >>> sales = an.source("sales", "item string, price long")
    >>> weight = an.weights.Sums("n", "total", "squares")
    >>> weighed = sales.select("item", n="1", total="price", squares="price * price").weighted(weight)
    >>> weighed
    Weighted(item: string; Sums('n', 'total', 'squares'))
    >>> with an.Session() as session:
    ...     view = session.maintain("sums", weighed.consolidate())
    ...     session.insert("sales", [("tea", 3), ("tea", 4), ("jam", 5)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [('jam', 1, 5, 25), ('tea', 2, 7, 25)]
    """

    as_collection = "consolidate() makes a collection of a weighted one, with the weight in its columns"

    def __init__(self, rows: Collection, weight: Weight, *, consolidated: bool = False) -> None:
        self._rows, self.weight, self._is_consolidated = rows, weight, consolidated

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns of the data, as Arrow has them."""
        return pa.schema([f for f in self._rows.schema if f.name not in self.weight.columns])

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the data."""
        return list(self.schema.names)

    def __repr__(self) -> str:
        return f"Weighted({', '.join(f'{f.name}: {type_name(f.type)}' for f in self.schema)}; {self.weight})"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"a weighted collection has no {name!r}; {self.as_collection}", name=name, obj=self)

    # linear verbs ---------------------------------------------------------------------------------------------------

    def _then(self, verb: Verb) -> Weighted:
        try:
            logic = verb.bind(self.schema)
        except UnknownColumnError as error:
            if error.name in self.weight.columns:
                raise self._unknown_yet(error.name, verb.name) from None
            raise
        if any(isinstance(step, Negate) for step in logic.steps):
            self._needs("negate", verb.name)
        names = self.weight.columns
        output = logic.output(self.schema).names
        given = [name for name in names if name in output]
        if not given:
            return self._of(self._rows._linear(carrying(logic, self._rows.schema, names)))
        if len(given) < len(names):
            raise PlanError(
                f"{verb.name} gives {', '.join(given)} of the weight {self.weight}; it must give all columns of the "
                f"weight, {', '.join(names)}, by which the weight is multiplied, or none"
            )
        self._needs("multiply", f"{verb.name} with the columns of a weight")
        hidden = self._renamed("#by")
        made = hidden._linear(carrying(logic, hidden.schema, self._hidden("#by")))
        outputs = [(name, made._column(name)) for name in output if name not in names]
        outputs += [(name, made._column(name)) for name in self._hidden("#by")]
        outputs += [
            (other, self.weight.entered(made._column(name)))
            for name, other in zip(names, self._hidden("#with"), strict=True)
        ]
        return self._product(made._project(outputs))

    def explode(
        self,
        what: Text | Callable[..., Any],
        schema: str | pa.Schema | None = None,
        *,
        as_: str | Sequence[str] = "col",
        outer: bool = False,
        version: Version = None,
    ) -> Weighted:
        """Replace each row by the ``(row, weight)`` pairs that a Python function yields for it.

        The weight of a row is multiplied by those that are yielded: a value, or a tuple for a weight of several
        columns. With an expression of an array or a map it is ``unnest``.

        Cost:   linear: no exchange, no state, but for the weights before, which are added up.

        Raises:
            PlanError: the weight has no ``multiply``; a function is given without a schema, or takes batches.
        """
        if not callable(what) or isinstance(what, Col):
            return super().explode(what, schema, as_=as_, outer=outer, version=version)
        return self._then(self._weighing(LinearVerbs.explode, "explode", what, schema, version))

    def join_function(
        self,
        function: Any,
        schema: str | pa.Schema | None = None,
        *,
        version: Version = None,
    ) -> Weighted:
        """Replace each row by ``(row, time, weight)`` triples: times are joined, and weights multiplied.

        ``function`` is a Python function of a row, or a list of triples ``({column: expression}, time, weight)``, whose
        weight is an expression, or a tuple of them for a weight of several columns. A ``Logic`` acts as its verbs do,
        and its diffs are counts.

        Cost:   as ``explode``; future updates wait in the operator that needs them.

        Raises:
            PlanError: the weight has no ``multiply``; a function is given without a schema, or takes batches.
        """
        if callable(function):
            verb = self._weighing(LinearVerbs.join_function, "join_function", function, schema, version)
            return self._then(verb)
        if isinstance(function, list | tuple):
            function = [self._triple(triple) for triple in function]
        return super().join_function(function, schema, version=version)

    def _triple(self, triple: Any) -> Any:
        """A triple with a weight as one with the weight's columns, once."""
        if not (isinstance(triple, tuple | list) and len(triple) == 3 and isinstance(triple[0], Mapping)):
            return triple  # which is refused
        columns, time, weight = triple
        values = (weight,) if len(self.weight.columns) == 1 else weight
        if not isinstance(values, tuple | list) or len(values) != len(self.weight.columns):
            raise PlanError(
                f"the weight of a triple must have an expression for each of {', '.join(self.weight.columns)}, "
                f"got {weight!r}"
            )
        texts = {n: str(v) if isinstance(v, int) else v for n, v in zip(self.weight.columns, values, strict=True)}
        return {**columns, **texts}, time, 1

    def _weighing(self, verb: Any, name: str, function: Any, schema: Any, version: Version) -> Verb:
        self._needs("multiply", f"{name} with a function")
        if getattr(function, "__altneu_arrow__", False):
            raise PlanError(
                f"{name} with weights takes a function of a row, got one of batches; flat_map takes it, with the "
                f"columns {', '.join(self.weight.columns)} in its result"
            )
        taken: list[Verb] = []
        verb(_Taking(taken), function, schema, version=version)
        (plain,) = taken
        (step,) = plain.bind(self.schema).steps
        assert isinstance(step, ExplodeFunction | JoinFunction)
        fields = [self._rows.schema.field(n) for n in self.weight.columns]
        weighed = weighing(step, fields)
        return Verb(name, plain.arguments, lambda _: BoundLogic((weighed,)))

    # verbs of collections -------------------------------------------------------------------------------------------

    def concat(self, *others: Weighted) -> Weighted:
        """Add collections of the same columns and weight: the weights of a row add up.

        Cost:   no exchange, no state.

        Raises:
            PlanError: one of them is not weighted, or by another weight.
            SchemaError: the names or types of the columns differ.
        """
        for other in others:
            self._check_same(other, "concat")
        names = [*self.columns, *self.weight.columns]
        rows = [c._rows if c._rows.columns == names else c._rows._only(names) for c in (self, *others)]
        return self._of(rows[0].concat(*rows[1:])) if others else self

    def join(self, other: Weighted | Collection, on: On, how: JoinKind = "inner") -> Weighted:
        """Pair the rows of two collections with equal keys; null keys match nothing.

        With a weighted collection, weights are multiplied, and the weight must have ``multiply``. With an ordinary one
        weights count as often as there are partners, for which every weight will do. ``on``, ``how`` and the names of
        columns are as in ``Collection.join``; the columns of a weight cannot be keys.

        Left, right and full joins keep rows without a partner. What they lack weighs ``one``, the unit of the product:
        a row of a weighted collection has its own weight, and one of an ordinary collection ``one``, as often as it is
        there.

        Cost:   weights are added up first, of each row once; then as ``Collection.join``. So the arrangements of both
                sides have a row for each row of the data, whatever weights came together.
        Law:    at every time the weight of a pair is the product of the weights of its rows
                (tests/oracle/test_weights.py).

        Raises:
            PlanError: the weights differ, or lack ``multiply``, or for an outer join ``one``.
            UnknownColumnError: a key is not a column.
            TypeMismatchError: the keys cannot be compared.
        """
        self._check_keys(other, on)
        if not isinstance(other, Weighted):
            check_collection(other, "join")
            joined = self._consolidated()._rows.join(other, on, how)
            own = self.weight.columns
            if how in ("right", "full"):
                joined = self._with_units(joined, own, how)
            return self._of(joined._only([n for n in joined.columns if n not in own] + [*own]))
        self._needs("multiply", "join with another weighted collection")
        self._check_same(other, "join")
        left, right = self._renamed("#by"), other._renamed("#with")
        joined = left.join(right, on, how)
        mine, theirs = self._hidden("#by"), self._hidden("#with")
        for side, lacking in ((mine, ("right", "full")), (theirs, ("left", "full"))):
            joined = self._with_units(joined, side, how) if how in lacking else joined
        data = [name for name in joined.columns if name not in (*mine, *theirs)]
        clash = next((name for name in data if name in self.weight.columns), None)
        if clash is not None:
            raise PlanError(f"column {clash!r} of the data has the name of a column of {self.weight}; rename it")
        return self._product(joined._project([(n, joined._column(n)) for n in (*data, *mine, *theirs)]))

    def _with_units(self, joined: Collection, weight: Sequence[str], how: JoinKind) -> Collection:
        """Rows of an outer join with the unit of the product where a side is missing: its weight would not be zero."""
        if self.weight.one is None:
            raise PlanError(
                f"a {how} join needs a weight with one, the unit of its product, and {self.weight} has none: "
                "concat the inner join and the rows that antijoin finds, with the weights that they are to have"
            )
        missing = call("isnull", [joined._column(weight[0])])
        kinds = [joined.schema.field(name).type for name in weight]
        units = dict(zip(weight, self.weight.units(kinds), strict=True))
        return joined._project(
            [
                (n, call("if", [missing, units[n], joined._column(n)]) if n in units else joined._column(n))
                for n in joined.columns
            ]
        )

    def semijoin(self, other: Weighted | Collection, on: On) -> Weighted:
        """The rows whose key appears in the other collection, with their own weights.

        Cost:   as ``Collection.semijoin``, after the weights of each row are added up.
        """
        self._check_keys(other, on)
        return self._same(self._consolidated()._rows.semijoin(_present(other), on))

    def antijoin(self, other: Weighted | Collection, on: On) -> Weighted:
        """The rows whose key does not appear in the other collection, with their own weights; null keys stay.

        Cost:   as ``semijoin``.
        """
        self._check_keys(other, on)
        return self._same(self._consolidated()._rows.antijoin(_present(other), on))

    def consolidate(self) -> Collection:
        """An ordinary collection: each row once, with its weight in columns, and no row whose weight is zero.

        Shape:  the columns of the data, then those of the weight.
        Cost:   one exchange by row. Of sums a few numbers are kept for each row; of the least, the greatest and the
                best the weights of each row in order, or one of them if rows are only added (docs/append_only.md); of
                sets how often each row has each element; of weights of your own a sum for each row if they are a group,
                else all different weights of each row.
        Law:    at every time the weight of a row is the sum of all its weights up to then
                (tests/oracle/test_weights.py).

        Raises:
            TypeMismatchError: a column is a map, which cannot be compared.
        """
        return self._consolidated()._rows

    def count(self) -> Collection:
        """Each row once, with its weight in columns: ``consolidate``, as ``Collection.count`` gives counts."""
        return self.consolidate()

    def distinct(self) -> Collection:
        """The rows whose weight is not zero, each once, without the weight.

        Cost:   as ``consolidate``.
        """
        return self.consolidate()._only(self.columns)

    def iterate(
        self,
        body: Callable[[Weighted], Weighted],
        *,
        max_rounds: int = MAX_ROUNDS,
        on_limit: OnLimit = "error",
        step: int = 1,
    ) -> Weighted:
        """The fixpoint of ``body``, applied to this weighted collection until no weight changes.

        Weights are added up in every round, so nothing has to be made distinct. Otherwise as ``Collection.iterate``.

        Law:    at every time the result equals iteration from scratch (tests/oracle/test_weights.py).

        Raises:
            PlanError: the body returns something else than a collection of this weight.
            SchemaError: it returns other columns.
            NoFixpointError: (raised by ``advance``) weights still change after ``max_rounds`` rounds.

        >>> import altneu as an
        >>> weight = an.weights.Min("length", multiply="+")
        >>> roads = an.source("roads", "src long, dst long, length long").weighted(weight)
        >>> start = an.source("start", "node long, length long").weighted(weight)
        >>> def further(known):
        ...     return known.join(roads, on={"node": "src"}).select(node="dst").concat(start)
        >>> with an.Session() as session:
        ...     view = session.maintain("lengths", start.iterate(further).consolidate())
        ...     session.insert("roads", [(1, 2, 10), (1, 3, 1), (3, 2, 2), (2, 1, 1)])
        ...     session.insert("start", [(1, 0)])
        ...     _ = session.advance()
        ...     sorted(view.to_pylist())
        [(1, 0), (2, 3), (3, 1)]
        """
        (result,) = recursive(lambda x: (body(x),), max_rounds=max_rounds, on_limit=on_limit, step=step, x=self)
        assert isinstance(result, Weighted)
        return result

    def enter_at(self, rounds: str | Col) -> Weighted:
        """In the body of a loop: this outer weighted collection, whose rows enter at the round that ``rounds`` gives.

        All is as ``Collection.enter_at`` says; ``rounds`` is an expression of the data. If short ways enter first, the
        least weights spread first, and longer ones find them where they would have spread their own.

        Raises:
            PlanError: as ``Collection.enter_at``; or ``rounds`` reads a column of the weight.
            TypeMismatchError: the expression is not a whole number.

        >>> import altneu as an
        >>> weight = an.weights.Min("length", multiply="+")
        >>> roads = an.source("roads", "src long, dst long, length long").weighted(weight)
        >>> depots = an.source("depots", "node long, opens int, length long").weighted(weight)
        >>> def further(known):
        ...     entering = depots.enter_at("opens").select("node")
        ...     return known.join(roads, on={"node": "src"}).select(node="dst").concat(entering)
        >>> with an.Session() as session:
        ...     view = session.maintain(
        ...         "near", depots.select("node").filter("false").iterate(further).consolidate()
        ...     )
        ...     session.insert("roads", [(1, 2, 10), (3, 2, 1)])
        ...     session.insert("depots", [(1, 5, 0), (3, 0, 2)])
        ...     _ = session.advance()
        ...     sorted(view.to_pylist())
        [(1, 0), (2, 3), (3, 2)]
        """
        if name := next(iter(parse(rounds, self._rows.schema).columns & {*self.weight.columns}), None):
            raise self._unknown_yet(name, "enter_at")
        return self._of(self._rows.enter_at(rounds))

    # parts ----------------------------------------------------------------------------------------------------------

    def _of(self, rows: Collection) -> Weighted:
        return Weighted(rows, self.weight)

    def _same(self, rows: Collection) -> Weighted:
        """Some of the rows of a consolidated collection."""
        return Weighted(rows, self.weight, consolidated=True)

    def _consolidated(self) -> Weighted:
        if self._is_consolidated:
            return self
        refuse_maps(self.schema)
        added = self.weight.added(self._rows, tuple(self.columns))
        return self._same(added._only([*self.columns, *self.weight.columns]))

    def _hidden(self, prefix: str) -> list[str]:
        return [f"{prefix}{i}" for i in range(len(self.weight.columns))]

    def _renamed(self, prefix: str) -> Collection:
        """The rows with their weights, added up, in columns of altneu's own."""
        rows = self._consolidated()._rows
        outputs = [(name, rows._column(name)) for name in self.columns]
        hidden = zip(self._hidden(prefix), self.weight.columns, strict=True)
        return rows._project([*outputs, *((name, rows._column(own)) for name, own in hidden)])

    def _product(self, rows: Collection) -> Weighted:
        return self._of(self.weight.multiplied(rows, self._hidden("#by"), self._hidden("#with")))

    def _unknown_yet(self, name: str, verb: str) -> PlanError:
        return PlanError(
            f"{verb} reads {name!r}, a column of the weight {self.weight}, which is not known before weights are added "
            "up: consolidate() first, which gives an ordinary collection"
        )

    def _needs(self, operation: str, verb: str) -> None:
        if getattr(self.weight, operation) is None:
            raise PlanError(f"{verb} needs a weight with {operation}, and {self.weight} has none: {_REMEDY}")

    def _check_same(self, other: object, verb: str) -> None:
        if not isinstance(other, Weighted):
            raise PlanError(
                f"{verb} of a collection weighted by {self.weight} needs another one, got {type(other).__name__}; "
                "weighted(...) gives a collection weights"
            )
        if other.weight != self.weight:
            raise PlanError(f"{verb} needs collections of one weight, got {self.weight} and {other.weight}")

    def _check_keys(self, other: Weighted | Collection, on: On) -> None:
        pairs = {on: on} if isinstance(on, str) else dict(on) if isinstance(on, Mapping) else {n: n for n in on}
        for name in pairs:
            _check_key(self, name)
        if isinstance(other, Weighted):
            for name in pairs.values():
                _check_key(other, name)


def _check_key(side: Weighted, name: str) -> None:
    if name in side.weight.columns:
        raise side._unknown_yet(name, "a key")
    if name not in side.columns:
        raise UnknownColumnError(name, side.columns)


class _Taking(LinearVerbs):
    """What takes a verb in place of a collection, to look at it."""

    def __init__(self, taken: list[Verb]) -> None:
        self.taken = taken

    def _then(self, verb: Verb) -> _Taking:
        self.taken.append(verb)
        return self


def _present(other: Weighted | Collection) -> Collection:
    return other.distinct() if isinstance(other, Weighted) else other


def recursive(
    body: Callable[..., Weighted | Collection | Sequence[Weighted | Collection]],
    *,
    max_rounds: int = MAX_ROUNDS,
    on_limit: OnLimit = "error",
    step: int | Mapping[str, int] = 1,
    **initial: Weighted | Collection,
) -> tuple[Weighted | Collection, ...]:
    """The fixpoint of several collections that are defined by each other, weighted ones among them.

    All is as in ``altneu.recursive``; the weights of a weighted variable are added up in every round.

    Raises:
        PlanError: the body returns an ordinary collection for a weighted variable, or another weight, or the other way.
        SchemaError: it returns other columns.

    >>> import altneu as an
    >>> edges = an.source("edges", "src long, dst long")
    >>> paths = an.source("start", "node long, n long").weighted(an.weights.Sums("n"))
    >>> def step(ways, reached):
    ...     more = ways.join(edges, on={"node": "src"}).select(node="dst").concat(paths)
    ...     return more, more.distinct()
    >>> ways, reached = an.weights.recursive(step, ways=paths, reached=paths.distinct())
    >>> with an.Session() as session:
    ...     view = session.maintain("ways", ways.consolidate())
    ...     session.insert("edges", [(1, 2), (1, 3), (2, 4), (3, 4)])
    ...     session.insert("start", [(1, 1)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(1, 1), (2, 1), (3, 1), (4, 2)]
    """

    def wrapped(first: Weighted | Collection, now: Collection) -> Weighted | Collection:
        return first._same(now) if isinstance(first, Weighted) else now

    def rounds(*variables: Collection) -> Sequence[Any]:
        results = bodies_of(body(*map(wrapped, initial.values(), variables)))
        if len(results) == len(initial):
            for name, first, result in zip(initial, initial.values(), results, strict=True):
                _check_kind(name, first, result)
        return [_plain(one) for one in results]

    for name, first in initial.items():
        if not isinstance(first, Weighted):
            check_collection(first, f"the loop's variable {name}")
    loops = loop(Collection, rounds, {name: _plain(one) for name, one in initial.items()}, max_rounds, on_limit, step)
    return tuple(map(wrapped, initial.values(), loops))


def _plain(one: Any) -> Any:
    if not isinstance(one, Weighted):
        return one
    return one._consolidated()._rows


def _check_kind(name: str, first: object, result: object) -> None:
    weights = [one.weight if isinstance(one, Weighted) else None for one in (first, result)]
    if weights[0] != weights[1]:
        mine, theirs = (f"weighted by {w}" if w else "not weighted" for w in weights)
        raise PlanError(f"the loop's variable {name} is {mine}, and what its body returns is {theirs}")
