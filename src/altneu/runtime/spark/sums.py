"""Sums that Spark makes of a bulk load before anything reaches Python, where sums are all that reads a source."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

import pyarrow as pa

from altneu.expressions import Expr, Literal
from altneu.linear.asked import Look, all_columns, looks_of
from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.reduce.accumulate import SUMMED, Accumulator
from altneu.operators.reduce.operation import ExplodeOp
from altneu.plan.physical import Plan, Port
from altneu.runtime.inputs import Stamp
from altneu.runtime.spark.catalyst import Translator, Untranslatable, is_simple, plain_columns
from altneu.runtime.spark.decimals import as_numbers
from altneu.runtime.spark.frames import (
    asked,
    columns_to_check,
    has_diffs,
    narrowed,
    of_their_types,
    placed,
    refused_diffs,
    rows_needed,
    titled,
)
from altneu.runtime.spark.jobs import Jobs
from altneu.runtime.spark.static_keys import StaticKeys
from altneu.runtime.spark.versions import spark_type
from altneu.runtime.spark.wire import SPARK_SCHEMA
from altneu.runtime.spark.worker import APART, DIFF, OF, Adder, Task, read_partials, read_source
from altneu.types import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Sums and grouping sets for which Spark makes a row each of every row. Of 600,000 rows of TPC-H two took 1.4 times what
# they take here, and eight 1.9 times: more than one does not pay, as far as it was measured.
TOGETHER = 1


def read_frame(
    task: Task, source: str, frame: DataFrame, stamp: Stamp, jobs: Jobs, keys: StaticKeys | None
) -> tuple[DataFrame, DataFrame | None]:
    """The messages that come of a DataFrame's rows in stage 0, made by the tasks that read it; ``jobs`` count them.

    ``keys`` tell which of its rows meet what never changes.

    Beside them, the rows themselves as they come to these tasks; None if Spark has added them up before.
    """
    sums = _sums(task, source, frame, stamp, jobs)
    if sums is not None:
        return sums, None
    needed, where = rows_needed(task.plan, source, frame, stamp, keys)
    frame, stamp = placed(needed, narrowed(task.plan, source, frame, stamp))
    jobs.asked[source] = asked(", ".join(stamp.columns), where)
    chosen = jobs.observed(source, frame.select(*map(quote_name, stamp.columns)))
    handed, decimals = as_numbers(_numbered(chosen))
    kernel = titled(read_source(task, source, stamp, decimals), f"read {source}")
    return handed.mapInArrow(kernel, SPARK_SCHEMA), handed


def _numbered(frame: DataFrame) -> DataFrame:
    """A DataFrame whose columns have numbers for names: ``mapInArrow`` takes no dots and backticks in these."""
    return frame.toDF(*(f"c{i}" for i in range(len(frame.columns))))


@dataclass(frozen=True)
class Sum:
    """An accumulator that reads a source: what it is given of a row, by each of the looks, and where its slots go."""

    accumulator: Accumulator
    looks: tuple[Look, ...]
    node: int
    channel: int


@dataclass(frozen=True)
class Reader:
    """A node that reads a source, of which nothing is made but sums; a row on which it fails adds to none of them."""

    nodes: frozenset[int]
    sums: tuple[Sum, ...]

    @property
    def exprs(self) -> Iterator[Expr]:
        """All that is computed of a row, what nothing is made of too: it may fail."""
        for one in self.sums:
            for look in one.looks:
                yield from (*look.tests, *look.columns.values())


def readers_of(plan: Plan, source: str) -> tuple[Reader, ...]:
    """What reads a source, if all that is made of its rows are sums of expressions; else nothing."""
    port = Port(plan.sources[source])
    start, result = all_columns(plan.schema(port)), []
    for node in _reading(plan, port):
        found = [*_sums_behind(plan, node, (start,))]
        if not found or None in found:
            return ()
        sums = tuple(one for one in found if one is not None)
        between = {below for one in sums for below in plan.upstream(Port(one.node))} - {port.node}
        result.append(Reader(frozenset({port.node, *between, *(one.node for one in sums)}), sums))
    return tuple(result)


def _reading(plan: Plan, port: Port) -> list[int]:
    return [i for i, node in enumerate(plan.nodes) if port in node.inputs]


def _sums_behind(plan: Plan, number: int, looks: tuple[Look, ...]) -> Iterator[Sum | None]:
    """The sums that a node, or those behind it, make; None for anything else."""
    operation = plan.nodes[number].operation
    readers, channels = _reading(plan, Port(number)), plan.outlets.get(Port(number), ())
    if isinstance(operation, ExplodeOp):
        arranged = len(readers) == len(channels) == 1 and isinstance(plan.nodes[readers[0]].operation, ArrangeOp)
        yield Sum(operation.accumulator, looks, number, channels[0]) if arranged else None
        return
    behind = looks_of(operation.applied, looks) if operation.is_linear and readers else None
    if behind is None:
        yield None
        return
    for reader in readers:
        yield from _sums_behind(plan, reader, behind)


def _sums(task: Task, source: str, frame: DataFrame, stamp: Stamp, jobs: Jobs) -> DataFrame | None:
    """Let Spark filter, compute and add up a bulk load at one time, where that is exact.

    Spark reads the rows once and groups what it makes of each, for several sums and grouping sets beside each other,
    by the number of the sum as well. Rows on which something fails, whose decimals are too large to add up there, or
    that may be refused come beside the sums, in a struct by which they are grouped, and are read as all rows would be.
    """
    readers = readers_of(task.plan, source)
    sums = [one for reader in readers for one in reader.sums]
    if (
        not sums
        or sum(len(one.looks) for one in sums) > TOGETHER
        or any(s.accumulator.partials() is None for s in sums)
    ):
        return None
    unsure = columns_to_check(frame, stamp)
    if not (stamp.has_one_time and has_diffs(frame, stamp) and of_their_types(frame, stamp, unsure)):
        return None
    if isinstance(stamp.diff, int) and (stamp.diff == 0 or (stamp.append_only and stamp.diff * stamp.sign < 0)):
        return None  # nothing is to be added up, or all is refused
    computed = {c for reader in readers for e in reader.exprs if not e.is_column for c in e.columns}
    rest = narrowed(task.plan, source, frame, stamp)
    if not computed <= plain_columns(frame):
        return None
    added = _Added(rows_needed(task.plan, source, frame, stamp)[0], unsure, rest)
    try:
        for reader in readers:
            added.read(reader)
    except Untranslatable:
        return None
    if added.apart and any(pa.types.is_nested(f.type) for f in rest.schema):
        return None  # Spark may not group by what holds a map
    jobs.asked[source] = "; ".join(dict.fromkeys(asked(*_said(one)) for one in sums))
    grouped = added.grouped(jobs, source)
    adders = [Adder(s.accumulator, s.channel, s.node, reader.nodes) for reader in readers for s in reader.sums]
    kernel = read_partials(task, source, adders, grouped.columns, rest, int(stamp.time))
    return _numbered(grouped).mapInArrow(titled(kernel, f"sums of {source}"), SPARK_SCHEMA)


def _said(one: Sum) -> tuple[str, str]:
    """What a sum is of, and of which rows, in words."""
    columns = one.looks[0].columns
    arguments = [columns[name].sql for name in one.accumulator.arguments]
    what = f"counts and sums of {', '.join(arguments)}" if arguments else "counts"
    keys = [look.columns[name] for look in one.looks for name in one.accumulator.key]
    groups = dict.fromkeys(key.sql for key in keys if not key.is_literal)
    by = f" by {', '.join(groups)}" if groups else ""
    sets = f" in {len(one.looks)} grouping sets" if len(one.looks) > 1 else ""
    return what + by + sets, " AND ".join(test.sql for test in one.looks[0].tests)


class _Added:
    """What Spark makes of a row: for each look of each sum, the row's group and what is added to its sums.

    Rows with diffs of their own are grouped by these as well: the sums of a group times its diff are what its rows add.
    """

    def __init__(self, frame: DataFrame, unsure: Collection[str], rest: Stamp) -> None:
        self.frame, self.unsure, self.rest = frame, sorted(unsure), rest
        self.apart = False
        self._looks: list[tuple[Column, dict[str, Column]]] = []
        self._keys: list[str] = [OF, *([DIFF] if isinstance(rest.diff, str) else [])]
        self._aggregates: dict[str, str] = {}
        self._readers = self._sums = 0

    def read(self, reader: Reader) -> None:
        """A further reader.

        Raises:
            Untranslatable: Spark may mean something else by an expression.
        """
        from pyspark.sql import functions as sf

        to = Translator(self.frame, prefix=f"#computed{self._readers}_")
        diffs = {DIFF: sf.col(quote_name(self.rest.diff))} if isinstance(self.rest.diff, str) else {}
        made: list[tuple[Column, dict[str, Column]]] = []
        wide: list[Column] = []
        for number, one in enumerate(reader.sums, self._sums):
            accumulator, prefix = one.accumulator, f"{number}:"
            used = dict.fromkeys((*accumulator.key, *accumulator.arguments))
            self._keys += [prefix + name for name in accumulator.key]
            self._aggregates |= dict(accumulator.partials(prefix) or ())
            for look in one.looks:
                values = {n: _value(to, look.columns[n], accumulator.schema.field(n).type) for n in used}
                to.columns(e for n, e in look.columns.items() if n not in used and e.can_fail)
                passes = reduce(and_, to.columns(look.tests), sf.lit(True))
                named = {prefix + name: value for name, value in values.items()}
                made.append((passes, {OF: sf.lit(number), **diffs, **named}))
                for name in accumulator.wide:
                    limit = Decimal(10) ** (SUMMED - accumulator.schema.field(name).type.scale)
                    wide.append(sf.abs(values[name]) >= sf.lit(limit))
        to.check()
        if refused := [test for test, _ in refused_diffs(self.frame, self.rest)]:  # in Python, where one comes there
            (first, columns), *others = made
            made = [(reduce(or_, [first, *refused]), columns), *others]
        self.frame = to.frame
        self._readers, self._sums = self._readers + 1, self._sums + len(reader.sums)
        if apart := [*to.failed, *(sf.col(quote_name(name)).isNull() for name in self.unsure), *wide]:
            self.apart, is_apart = True, sf.coalesce(reduce(or_, apart), sf.lit(False))
            row = sf.struct(*map(quote_name, self.rest.columns))
            (first, columns), *others = made  # the first look gives the row as it is
            made = [(is_apart | first, {**columns, APART: sf.when(is_apart, row)})]
            made += [(~is_apart & passes, columns) for passes, columns in others]
        self._looks += made

    def grouped(self, jobs: Jobs, source: str) -> DataFrame:
        """The sums; one row for each group of each of them."""
        from pyspark.sql import functions as sf

        if len(self._looks) == 1:
            ((passes, columns),) = self._looks
            frame = jobs.observed(source, self.frame.where(passes).select(*(c.alias(n) for n, c in columns.items())))
        else:
            frame = self._stacked(jobs, source).where(sf.col(quote_name(_PASSES))).drop(_PASSES)
        keys = [sf.col(quote_name(n)) for n in (*self._keys, *([APART] if self.apart else []))]
        return frame.groupBy(*keys).agg(*(sf.expr(e).alias(n) for n, e in self._aggregates.items()))

    def _stacked(self, jobs: Jobs, source: str) -> DataFrame:
        """A row for each look at each row; what is of another sum is null."""
        from pyspark.sql import functions as sf

        lines = [{_PASSES: passes, **columns} for passes, columns in self._looks]
        values = [(i, name, column) for i, line in enumerate(lines) for name, column in line.items()]
        chosen = [column.alias(f"#{j}") for j, (_, _, column) in enumerate(values)]  # as Spark prunes through no more
        at = {(i, name): sf.col(quote_name(f"#{j}")) for j, (i, name, _) in enumerate(values)}
        some = {name: column for (_, name), column in at.items()}
        nothing = {name: sf.when(sf.lit(False), column) for name, column in some.items()}  # a null of its type
        cells = [at.get((i, name), nothing[name]) for i in range(len(lines)) for name in some]
        read = jobs.observed(source, self.frame.select(*chosen))
        return read.select(sf.stack(sf.lit(len(lines)), *cells).alias(*some))


_PASSES = "#passes"


def _value(to: Translator, expr: Expr, kind: pa.DataType) -> Column:
    """What is grouped by, or added up.

    Raises:
        Untranslatable: Spark may compute something else, or groups no such values.
    """
    from pyspark.sql import functions as sf

    if isinstance(expr, Literal) and expr.value is None:
        return sf.lit(None).cast(spark_type(kind))
    if not (expr.is_column and not pa.types.is_map(kind)) and not is_simple(kind):
        raise Untranslatable(expr.sql)
    return to.column(expr).cast(spark_type(kind))
