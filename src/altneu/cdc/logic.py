"""Change events as linear logic: each document becomes its updates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from altneu import types as T
from altneu.collections.grouping import user_schema
from altneu.collections.verbs import Logic, Verb, column_of
from altneu.errors import PlanError, TypeMismatchError
from altneu.expressions import Expr, literal, parse
from altneu.linear import BoundLogic, Emit, Filter, JsonField, ParseJson, Project, Step, Update
from altneu.operators.json.text import Unit, json_fields
from altneu.types import quote_name, type_name

PRESENT = pa.struct([])
"""An object of which nothing is read: null where there is none."""

WRAPPERS = ("", "payload")
"""Where an envelope may be in its document: it is the document, or the payload beside a schema; if both, the latter."""

_SPACE = "[ \t\n\r]*"
_NULL_SCHEMA, _NULL_PAYLOAD = (f'"{member}"{_SPACE}:{_SPACE}null{_SPACE}' for member in ("schema", "payload"))
_EITHER_WAY = f"{_NULL_SCHEMA},{_SPACE}{_NULL_PAYLOAD}|{_NULL_PAYLOAD},{_SPACE}{_NULL_SCHEMA}"


def debezium(fields: str | pa.Schema, *, column: str = "value", unit: Unit = "") -> Logic:
    """The rows of a table, from Debezium's change events as JSON strings.

    ``fields`` are names and types of the members of ``before`` and ``after``; the event may be enclosed in
    ``{"schema", "payload"}``. An event r or c adds the row in ``after``; d removes the row in ``before``; u does both.
    Tombstones (null documents, and documents whose payload is null) and messages (op m) do not change rows. Other
    columns of the events are dropped, since a removed row would differ in them from the row that was added.

    Error rows: MISSING_BEFORE, an update or delete without the earlier row (see ``debezium_upsert``); MISSING_AFTER;
    MISSING_FIELDS, a row that has none of the fields (as in another table, or with other case); TRUNCATED_TABLE;
    UNKNOWN_OPERATION; INVALID_JSON; JSON_TYPE, a member with another type than the field. They disappear when the
    document is retracted.

    Shape:  columns of ``fields``; an absent member is null. An update is a row with diff -1 and one with diff 1.
    Units:  ``unit`` says what whole numbers mean that are read as timestamps ("s", "ms", "us", "ns"), for all fields or
            by name; numbers read as dates are days.
    Cost:   linear: no exchange, no state; one pass over the bytes. Members that no view reads are not parsed.
    Law:    the events of any history of a table give the table (tests/session/test_cdc.py).
    Source: Debezium's documentation of its connectors' change events.

    Raises:
        UnknownColumnError, PlanError: a unit is given for a name that is not a field, or does not fit its field.
        TypeMismatchError: JSON cannot be read as the type of a field; when bound, the column is not a string.

    >>> event = '{"payload": {"op": "u", "before": {"id": 1, "n": 5}, "after": {"id": 1, "n": 6}}}'
    >>> rows, errors = debezium("id long, n int").run([event, None], "value string")
    >>> rows
    [((1, 5), 0, -1), ((1, 6), 0, 1)]
    """
    members = members_of(fields, unit)
    names = tuple(m.name for m in members)
    needs = tuple((within(wrapper, image), names) for wrapper in WRAPPERS for image in ("before", "after"))
    parsed = tuple(
        JsonField(named(*path), path, kind, way)
        for wrapper in WRAPPERS
        for path, kind, way in (
            (within(wrapper, "op"), T.STRING, ""),
            (within(wrapper, "before"), PRESENT, ""),
            (within(wrapper, "after"), PRESENT, ""),
            *((within(wrapper, image, m.name), m.type, m.unit) for image in ("before", "after") for m in members),
        )
    )

    def bind(schema: pa.Schema) -> BoundLogic:
        steps: list[Step] = documents(column, schema)
        steps.append(ParseJson(column, parsed, needs))
        fields = parsed_schema(steps, schema)
        before, after = (_present(image) for image in ("before", "after"))
        steps.append(Filter(parse(f"debezium_event({OP}, {before}, {after})", fields)))
        emitted = [
            Update(
                tuple((m.name, column_of(named(*within(wrapper, image, m.name)), fields)) for m in members),
                diff=literal(diff, T.LONG),
                when=parse(f"{alone}{quote_name(named(*within(wrapper, 'op')))} IN ({ops})", fields),
            )
            for wrapper, alone in zip(WRAPPERS, (f"NOT ({_WRAPPED}) AND ", ""), strict=True)
            for image, diff, ops in (("before", -1, "'u', 'd'"), ("after", 1, "'r', 'c', 'u'"))
        ]
        return BoundLogic((*steps, Emit(tuple(emitted))))

    return Logic((Verb("debezium", (members, column), bind),))


def updates(
    fields: str | pa.Schema, *, data: str = "data", time: str = "time", diff: str = "diff", unit: Unit = ""
) -> Logic:
    """The rows of events that are updates themselves: ``data``, a JSON object, at ``time`` with ``diff``.

    Events with a null time or diff are ignored. Each event must arrive once; if events may be repeated, use ``Feed``.

    Shape:  columns of ``fields``; an absent member is null. Times are joined with those of the rows, diffs multiplied.
    Units:  ``unit`` as for ``debezium``.
    Cost:   linear: no exchange, no state; future updates wait in the operator that needs them.

    Raises:
        PlanError, TypeMismatchError: as ``debezium``; when bound, a time or a diff is not a whole number.

    >>> rows = [('{"x": 1}', 5, 2), ('{"x": 1}', 7, -2)]
    >>> updates("x long").run(rows, "data string, time long, diff long")
    ([((1,), 5, 2), ((1,), 7, -2)], [])
    """
    members = members_of(fields, unit)
    parsed = tuple(JsonField(named(m.name), (m.name,), m.type, m.unit) for m in members)

    def bind(schema: pa.Schema) -> BoundLogic:
        text_column(data, schema), column_of(time, schema), column_of(diff, schema)
        parsing = BoundLogic((ParseJson(data, parsed),))
        columns = {m.name: quote_name(named(m.name)) for m in members}
        emitting = Logic().join_function([(columns, quote_name(time), quote_name(diff))])
        return parsing.followed_by(emitting.bind(parsing.output(schema)))

    return Logic((Verb("updates", (members, data, time, diff), bind),))


# parts that other decoders share --------------------------------------------------------------------------------------


def members_of(fields: str | pa.Schema, unit: Unit) -> tuple[JsonField, ...]:
    """Members of an object by their names, in which a dot is a character, with their types and units.

    Raises:
        PlanError: there are no fields; or as ``json_fields``.
    """
    schema = user_schema(fields)
    if not len(schema):
        raise PlanError('fields must name the fields to read and their types, for example "id long, name string"')
    days = {f.name: "d" for f in schema if f.type == T.DATE}
    return tuple(replace(m, path=(m.name,), unit=days.get(m.name, m.unit)) for m in json_fields(schema, unit))


def documents(column: str, schema: pa.Schema) -> list[Step]:
    """A step that keeps the rows with a document."""
    text_column(column, schema)
    return [Filter(parse(is_document(column), schema))]


def is_document(column: str, *, envelope: bool = True) -> str:
    """SQL that is true for a document, and false or null for a tombstone.

    Tombstones are null, a JSON null, and both of these in Kafka Connect's ``{"schema", "payload"}``; for an envelope,
    which has no member of that name, also a null payload by itself.
    """
    members = f"{_EITHER_WAY}|{_NULL_PAYLOAD}" if envelope else _EITHER_WAY
    tombstone = f"^{_SPACE}(null|[{{]{_SPACE}({members})[}}]){_SPACE}$"
    return f"{quote_name(column)} NOT RLIKE {literal(tombstone).sql}"


def reading(
    column: str, members: tuple[JsonField, ...], keys: tuple[str, ...] = (), needs: tuple[str, ...] = ()
) -> Logic:
    """The columns ``keys``, passed on, then the members of a JSON object, except those that are such columns.

    If there are ``needs``, an object with none of these members is an error row (MISSING_FIELDS).
    """
    names = [m.name for m in members]
    read = tuple(JsonField(named(m.name), m.path, m.type, m.unit) for m in members if m.name not in keys)

    def bind(schema: pa.Schema) -> BoundLogic:
        steps: tuple[Step, ...] = (ParseJson(column, read, (((), needs),) if needs else ()),) if read else ()
        parsed = parsed_schema(steps, schema)
        own = [(k, column_of(k, parsed)) for k in keys if k not in names]
        outputs = [(n, column_of(n if n in keys else named(n), parsed)) for n in names]
        return BoundLogic((*steps, Project((*own, *outputs))))

    return Logic((Verb("members", (column, members, keys, needs), bind),))


def text_column(name: str, schema: pa.Schema) -> Expr:
    """A string column.

    Raises:
        UnknownColumnError, TypeMismatchError: the column does not exist, or is not a string.
    """
    column = column_of(name, schema)
    if column.type != T.STRING:
        raise TypeMismatchError(
            f"documents are texts, but column {name!r} is {type_name(column.type)}; cast it (a binary one to string)"
        )
    return column


def parsed_schema(steps: Iterable[Step], schema: pa.Schema) -> pa.Schema:
    """The schema after some steps."""
    return BoundLogic(tuple(steps)).output(schema)


def within(wrapper: str, *path: str) -> tuple[str, ...]:
    """The path to a member, from the root of the document."""
    return (wrapper, *path) if wrapper else path


def named(*path: str) -> str:
    """The name of the column into which a member is read."""
    return f"#{'.'.join(path)}"


def first_of(*columns: str) -> str:
    """SQL of the first member that is present."""
    return f"coalesce({', '.join(map(quote_name, columns))})"


def of_event(*paths: tuple[str, ...]) -> str:
    """SQL of the first member that is present in the event: in the payload, or else in the document itself."""
    plain, wrapped = (first_of(*(named(*within(w, *p)) for p in paths)) for w in WRAPPERS)
    return f"if({_WRAPPED}, {wrapped}, {plain})"


def _present(image: str) -> str:
    plain, wrapped = (f"{quote_name(named(*within(w, image)))} IS NOT NULL" for w in WRAPPERS)
    return f"if({_WRAPPED}, {wrapped}, {plain})"


_WRAPPED = f"{quote_name(named('payload', 'op'))} IS NOT NULL"
OP = of_event(("op",))
"""SQL of what an event did."""
