"""Declaring sources: the collections whose rows a session inserts and retracts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import pyarrow as pa

from altneu.collections.collection import Collection, W_co, Weighing
from altneu.collections.grouping import user_schema
from altneu.collections.verbs import name_of, names_in
from altneu.errors import PlanError, SchemaError
from altneu.plan import ir
from altneu.types import StructType, mark_of


@overload
def source(
    name: str,
    schema: str | pa.Schema | StructType,
    *,
    keep: bool = False,
    time: tuple[str, ...] | None = None,
    key: str | Sequence[str] | None = None,
    distinct: bool = False,
    static: bool = False,
    append_only: bool = False,
) -> Collection: ...
@overload
def source(
    name: str,
    schema: str | pa.Schema | StructType,
    *,
    keep: bool = False,
    time: tuple[str, ...] | None = None,
    static: bool = False,
    append_only: bool = False,
    weight: Weighing[W_co],
) -> W_co: ...
def source(
    name: str,
    schema: str | pa.Schema | StructType,
    *,
    keep: bool = False,
    time: tuple[str, ...] | None = None,
    key: str | Sequence[str] | None = None,
    distinct: bool = False,
    static: bool = False,
    append_only: bool = False,
    weight: Weighing[Any] | None = None,
) -> Any:
    """A collection whose rows a session inserts and retracts.

    ``schema`` is Spark DDL (``"src long, dst long"``), a pyarrow schema, or a Spark DataFrame's (``df.schema``).

    With ``keep=True`` the session keeps the rows themselves, so that every view that is added later can be computed
    from them. It keeps them from the first ``maintain`` that reads the source until ``session.drop_source``, also while
    no view reads the source.

    With ``time=("system", "event")`` the rows have two times: the time at which they became known, which is the
    session's clock, and the time that they are about. Corrections to the past arrive at later system times, and
    everything computed from the source can be read at both: what was known at one time about the other. With more
    names, as in ``time=("system", "day", "shift")``, a row has further times of its own, and is there from each of them
    on: times are ordered as a product. All sources of a session with several times need equally many.

    With ``distinct=True`` the source is a set: a row exists once, however often it is inserted; to insert a row that
    exists, or to retract one that does not, changes nothing. With a ``key`` of one or several columns, the source is a
    set with one row for each key: ``session.insert_or_update`` replaces the row and ``session.delete_key`` deletes it
    by its key. Inserting a second row of a key makes both rows error rows (``DUPLICATE_KEY``) until the key has at most
    one row (docs/keyed.md).

    With ``static=True``, the first ``advance`` with rows of the source closes it, as ``session.close_source`` does, so
    insert all rows before it. A join with a closed source does not store its other side (docs/static.md).

    With ``append_only=True``, rows are only added: a retraction is refused. The least and the greatest values of
    groups, ``max_by`` and the first row of an order then keep one row a group and not the group (docs/append_only.md).

    With a ``weight``, one of ``an.weights``, the columns that it names are the weights of the rows, which
    ``session.insert(name, rows, diff=...)`` takes in the place of counts. The result is a weighted collection, as of
    ``source(...).weighted(weight)`` (docs/weights.md).

    Cost:   no state, unless ``keep``: then one arrangement of all rows. A set or a source with a key keeps one
            arrangement, by row or by key, as long as any view reads it; all views share it, and a step looks up the
            keys of its commands. With two times, a change of a group is followed through the group's later event times.

    Raises:
        SchemaError: the schema cannot be parsed, or two columns have the same name.
        UnknownColumnError: a column of the key does not exist.
        PlanError: a key has no columns, or ``key``, ``distinct`` and two times are combined, or ``append_only`` or
            ``weight`` with ``key`` or ``distinct``.
        TypeMismatchError: a column has a type that is not the weight's.

    >>> import altneu as an
    >>> delays = an.source("delays", "carrier string, minutes long", time=("known", "day"))
    >>> with an.Session(retain="all") as session:
    ...     total = session.maintain("total", delays.group_by("carrier").agg(minutes="sum(minutes)"))
    ...     session.insert("delays", [("UA", 10)], time=1)
    ...     session.insert("delays", [("UA", 5)], time=3)
    ...     _ = session.advance()
    ...     session.retract("delays", [("UA", 10)], time=1)  # a correction of day 1, known a day later
    ...     _ = session.advance()
    ...     [total.to_pylist(at=at) for at in [(0, 1), (0, 3), (1, 1), (1, 3)]]
    [[('UA', 10)], [('UA', 15)], [], [('UA', 5)]]
    """
    if time is not None and not _names_times(time):
        raise SchemaError(
            f'time must name the two times of a source, or more, such as time=("system", "event"), got {time!r}; for a '
            f"source with one time, pass the time with the rows: session.insert({name!r}, rows, time=...)"
        )
    if not name:
        raise SchemaError("a source needs a name")
    columns = user_schema(schema)
    if not len(columns):
        raise SchemaError(f"source {name!r} needs at least one column")
    for option, value in (("distinct", distinct), ("static", static), ("append_only", append_only)):
        if not isinstance(value, bool):
            raise PlanError(f"{option} must be True or False, got {value!r}")
    by = None if key is None else _key_of(name, key, columns)
    if by and distinct:
        raise PlanError(
            f"source {name!r} has a key, so it is a set already, with one row for each key: leave out distinct=True, "
            "or leave out key= if a key may have several rows"
        )
    if time is not None and (by or distinct):
        raise PlanError(
            f"source {name!r} has {ir.times_named(time)}, and {'key=' if by else 'distinct='} is for sources with one: "
            "a key alone does not say which row a correction to the past replaces; retract that row"
        )
    if append_only and (by or distinct):
        raise PlanError(
            f"source {name!r} is append-only, and {'key=' if by else 'distinct='} makes rows of commands, which may "
            + ("replace a row" if by else "delete one; the set of rows that are only added is source(...).distinct()")
        )
    if weight is None:
        return Collection(ir.Source(name, columns, keep, time, by, distinct, static, append_only))
    if by or distinct:
        raise PlanError(
            f"source {name!r} has a weight, and {'key=' if by else 'distinct='} makes rows of commands, whose weights "
            "do not add up; leave it out, or give the rows that there are their weights: source(...).weighted(...)"
        )
    kind = ir.SourceWeight(weight.columns, repr(weight), weight.negate is not None)
    return weight.over(Collection(ir.Source(name, columns, keep, time, None, False, static, append_only, kind)))


def _key_of(source: str, key: str | Sequence[str], columns: pa.Schema) -> tuple[str, ...]:
    """The columns of a source's key, checked."""
    names = tuple(name_of(name, columns, f"the key of source {source!r}") for name in names_in(key))
    if not names or len({*names}) < len(names):
        raise PlanError(f"key={key!r} of source {source!r} must name one column or several, each once")
    for name in names:
        if mark_of(columns.field(name)).startswith("collate"):
            raise PlanError(
                f"the key {name!r} of source {source!r} has a collation, and keys are compared by their bytes"
            )
    return names


def _names_times(time: Any) -> bool:
    named = isinstance(time, tuple) and len(time) > 1 and all(isinstance(t, str) and t for t in time)
    return named and len(set(time)) == len(time)
