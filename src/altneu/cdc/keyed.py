"""Upsert streams: each event has the new row of a key, or deletes the key."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from altneu import types as T
from altneu.cdc.envelopes import MONGODB, mongodb_events, mongodb_fields, mongodb_values
from altneu.cdc.logic import (
    OP,
    WRAPPERS,
    documents,
    first_of,
    is_document,
    members_of,
    named,
    of_event,
    parsed_schema,
    reading,
    text_column,
    within,
)
from altneu.collections.collection import Collection
from altneu.collections.grouping import check_names
from altneu.collections.verbs import Logic, Verb, column_of
from altneu.errors import PlanError, UnknownColumnError
from altneu.expressions import Col, parse
from altneu.expressions.parse import tree_of
from altneu.linear import BoundLogic, Filter, JsonField, ParseJson, Project, Step
from altneu.operators.json.text import Unit
from altneu.types import quote_name

Names = str | Sequence[str]

_ROW = "#row"
_NO_DOCUMENT_KEY = "'MISSING_KEY', 'the event does not say which document it is of (documentKey)'"
_NO_KEY = (
    """'MISSING_KEY', 'the event does not say which row it is of: read the key from the record (key_column=...)'"""
)


def upsert(
    events: Collection,
    key: Names,
    *,
    value: Names | None = None,
    fields: str | pa.Schema | None = None,
    order: Names = "offset",
    deleted: str | Col | None = None,
    unit: Unit = "",
) -> Collection:
    """The current row of each key of an upsert stream, in which a later row of a key replaces the one before.

    ``value`` are the columns of the row (by default all but the key and the order); a row in which all of them are
    null, or for which ``deleted`` is true, deletes its key. With ``fields``, ``value`` is one column of JSON strings
    from which these members are read. The current row of a key is the greatest by ``order``: rows may arrive repeatedly
    and in any order. They must not be retracted: see ``Collection.latest``.

    Shape:  at most one row for each key: the key's columns, then those of the value.
    Cost:   one exchange by key; one arrangement of the current row of each key (with ``fields``, of its string,
            whichever members are read), which all such views of the same events share. Reading members is linear;
            members that no view reads are not parsed.
    Law:    each key has its last row, in whatever order the rows arrived (tests/session/test_cdc.py).

    Raises:
        UnknownColumnError: a column does not exist.
        PlanError: ``fields`` are given without exactly one ``value`` column; or as ``Collection.latest``.

    >>> import altneu as an
    >>> prices = an.source("prices", "offset long, item string, payload string")
    >>> current = upsert(prices, "item", value="payload", fields="price int")
    >>> with an.Session() as session:
    ...     view = session.maintain("current", current)
    ...     session.insert("prices", [(2, "tea", '{"price": 4}'), (1, "tea", '{"price": 3}')])
    ...     session.insert("prices", [(3, "jam", '{"price": 7}'), (4, "jam", None)])
    ...     _ = session.advance()
    ...     view.to_pylist()
    [('tea', 4)]
    """
    keys, orders = _names(key), _names(order)
    values = tuple(n for n in events.columns if n not in (*keys, *orders)) if value is None else _names(value)
    if not values:
        raise PlanError("upsert needs a column that is null when a key is deleted: pass value=...")
    if fields is not None and len(values) != 1:
        raise PlanError(f"fields are read from one column of texts, but value is {', '.join(values)}")
    log = _without_deleted(events, (*keys, *orders), values, deleted)
    current = log.latest(keys, orders)
    if fields is not None:
        members = members_of(fields, unit)
        check_names([*keys, *(m.name for m in members)])
        there = current.filter(is_document(values[0], envelope=False))
        return there.join_function(reading(values[0], members, keys))
    there = current.filter(" OR ".join(f"{quote_name(n)} IS NOT NULL" for n in values))
    return there.select(*map(quote_name, dict.fromkeys((*keys, *values))))


def _without_deleted(
    events: Collection, columns: tuple[str, ...], values: tuple[str, ...], deleted: str | Col | None
) -> Collection:
    """The columns of events that are kept, with null values for deleted keys."""
    names = tuple(n for n in columns if n not in values)
    if deleted is None:
        return events.select(*map(quote_name, dict.fromkeys((*names, *values))))
    condition = tree_of(deleted).sql("spark")
    left = {n: f"CASE WHEN NOT coalesce({condition}, false) THEN {quote_name(n)} END" for n in values}
    return events.select(*map(quote_name, dict.fromkeys(names)), **left)


def debezium_upsert(
    events: Collection,
    fields: str | pa.Schema,
    key: Names,
    *,
    column: str = "value",
    order: Names = "offset",
    key_column: str | None = None,
    unit: Unit = "",
) -> Collection:
    """The rows of a table, from Debezium's change events without earlier row images: the last event of a key counts.

    Use it for connectors that do not send the row before its change, such as PostgreSQL's without REPLICA IDENTITY
    FULL. ``fields`` are the members of ``after``, with or without an enclosing ``{"schema", "payload"}``; ``key`` names
    those that are the table's primary key. ``key_column`` is a column with the keys of the records as JSON strings,
    needed if deletes have no ``before``; then tombstones (null documents) delete too. ``order`` decides which event of
    a key is the later one, such as a topic's offset. Events must not be retracted: see ``Collection.latest``.

    Error rows: MISSING_KEY, an event without the key of its row; the others of ``debezium``.

    Shape:  columns of ``fields``; at most one row for each key.
    Cost:   one exchange by key; one arrangement, of the key and the JSON string of the current row. Other members are
            read from it, linearly; members that no view reads are not parsed.
    Law:    the events of any history of a table give the table, in whatever order they arrive
            (tests/session/test_cdc.py).

    Raises:
        UnknownColumnError: a key is not a field, or a column does not exist.
        SchemaError: an order column has the name of a key.
        PlanError, TypeMismatchError: as ``debezium``.

    >>> import altneu as an
    >>> topic = an.source("topic", "offset long, value string")
    >>> stock = debezium_upsert(topic, "id long, item string", key="id")
    >>> with an.Session() as session:
    ...     view = session.maintain("stock", stock)
    ...     session.insert("topic", [(1, '{"op": "c", "after": {"id": 7, "item": "tea"}}')])
    ...     session.insert("topic", [(2, '{"op": "u", "before": null, "after": {"id": 7, "item": "jam"}}')])
    ...     _ = session.advance()
    ...     view.to_pylist()
    [(7, 'jam')]
    """
    members = members_of(fields, unit)
    keys, orders = _names(key), _names(order)
    names = [m.name for m in members]
    _check_keys(keys, orders, members)
    verb = Verb(
        "debezium_upsert",
        (members, keys, column, orders, key_column),
        lambda schema: _log(tuple(m for m in members if m.name in keys), column, orders, key_column, schema),
    )
    current = events.join_function(Logic((verb,))).latest(keys, orders)
    return current.filter(f"{quote_name(_ROW)} IS NOT NULL").join_function(reading(_ROW, members, keys, tuple(names)))


def mongodb_upsert(
    events: Collection,
    fields: str | pa.Schema,
    key: Names = "_id",
    *,
    column: str = "value",
    order: Names = "offset",
    table: str | None = None,
) -> Collection:
    """The documents of a collection, from MongoDB's change events without earlier documents: the last event counts.

    ``fields`` and ``table`` are as for ``mongodb``; ``key`` are the fields of ``documentKey``: ``_id``, and the shard
    key of a sharded collection. ``order`` decides which event of a key is the later one, such as a topic's offset.
    Events must not be retracted: see ``Collection.latest``.

    Error rows: MISSING_KEY, an event without the key of its document; MISSING_AFTER, an update without the document
    (configure the connector with ``fullDocument=updateLookup``); the others of ``mongodb``.

    Shape:  columns of ``fields``; at most one row for each key.
    Cost:   one exchange by key; one arrangement, of the key and the JSON string of the current document.

    Raises:
        UnknownColumnError, SchemaError, PlanError, TypeMismatchError: as ``debezium_upsert``.

    >>> import altneu as an
    >>> topic = an.source("topic", "offset long, value string")
    >>> stock = mongodb_upsert(topic, "_id int, item string")
    >>> with an.Session() as session:
    ...     view = session.maintain("stock", stock)
    ...     tea = '{"operationType": "insert", "documentKey": {"_id": 7}, "fullDocument": {"_id": 7, "item": "tea"}}'
    ...     session.insert("topic", [(1, tea), (2, tea.replace("insert", "replace").replace("tea", "jam"))])
    ...     session.insert(
    ...         "topic",
    ...         [(3, tea.replace("7", "8")), (4, '{"operationType": "delete", "documentKey": {"_id": 8}}')],
    ...     )
    ...     _ = session.advance()
    ...     view.to_pylist()
    [(7, 'jam')]
    """
    members = members_of(fields, "")
    keys, orders = _names(key), _names(order)
    _check_keys(keys, orders, members)
    parts = tuple(m for m in members if m.name in keys)
    rest = tuple(m for m in members if m.name not in keys)
    log = Verb(
        "mongodb_upsert", (members, keys, column, orders, table), lambda s: _documents(parts, column, orders, table, s)
    )
    read = Verb("mongodb_members", (members, keys), lambda s: _members_of_documents(members, rest, keys, s))
    current = events.join_function(Logic((log,))).latest(keys, orders)
    return current.filter(f"{quote_name(_ROW)} IS NOT NULL").join_function(Logic((read,)))


def _documents(
    keys: tuple[JsonField, ...], column: str, orders: tuple[str, ...], table: str | None, schema: pa.Schema
) -> BoundLogic:
    """Events as rows of key, order and the document as a JSON string, null if it was deleted."""
    steps = mongodb_events(column, schema, table)
    op, document = quote_name(named("op")), quote_name(named("is"))
    steps.append(Filter(parse(MONGODB.changes(op, "true", f"{document} IS NOT NULL"), parsed_schema(steps, schema))))
    steps.append(ParseJson(named("key"), mongodb_fields(keys, "key")))
    parts = mongodb_values(keys, "key")
    parsed = parsed_schema(steps, schema)
    known = " AND ".join(f"{sql} IS NOT NULL" for sql in parts.values())
    steps.append(Filter(parse(f"({known}) OR raise_error({_NO_DOCUMENT_KEY})", parsed)))
    row = f"CASE WHEN NOT ({MONGODB.is_one(op, MONGODB.deleted)}) THEN {document} END"
    outputs = [(n, parse(sql, parsed)) for n, sql in parts.items()] + [(n, column_of(n, parsed)) for n in orders]
    return BoundLogic((*steps, Project((*outputs, (_ROW, parse(row, parsed))))))


def _members_of_documents(
    members: tuple[JsonField, ...], rest: tuple[JsonField, ...], keys: tuple[str, ...], schema: pa.Schema
) -> BoundLogic:
    """The members of the current documents, with their keys."""
    needs = ((), tuple(m.name for m in members))
    steps: list[Step] = [ParseJson(_ROW, mongodb_fields(rest, "is"), (needs,))]
    parsed = parsed_schema(steps, schema)
    values = {k: quote_name(k) for k in keys} | mongodb_values(rest, "is")
    return BoundLogic((*steps, Project(tuple((m.name, parse(values[m.name], parsed)) for m in members))))


def _check_keys(keys: tuple[str, ...], orders: tuple[str, ...], members: tuple[JsonField, ...]) -> None:
    names = [m.name for m in members]
    unknown = next((k for k in keys if k not in names), None)
    if unknown is not None:
        raise UnknownColumnError(unknown, names, "the key; it is one of the fields")
    check_names([*keys, *orders])


def _log(
    keys: tuple[JsonField, ...], column: str, orders: tuple[str, ...], key_column: str | None, schema: pa.Schema
) -> BoundLogic:
    """Events as rows of key, order and the row as a JSON string, null if it was deleted."""
    envelope = [JsonField(named(*p), p, T.STRING) for w in WRAPPERS for p in (within(w, "op"), within(w, "after"))]
    row = of_event(("after",))
    event = f"debezium_event({OP}, true, {row} IS NOT NULL)"
    steps: list[Step] = []
    if key_column is None:
        images = ("after", "before")
        steps += documents(column, schema)
        envelope += _keys(keys, *((*within(w, image),) for w in WRAPPERS for image in images))
        parts = [(k.name, of_event(*((image, k.name) for image in images))) for k in keys]
    else:
        text_column(column, schema), text_column(key_column, schema)
        steps.append(ParseJson(key_column, _keys(keys, *(within(w) for w in WRAPPERS), prefix="key")))
        event = f"NOT coalesce({is_document(column)}, false) OR {event}"
        parts = [(k.name, first_of(*(named("key", *within(w, k.name)) for w in WRAPPERS))) for k in keys]
    steps.append(ParseJson(column, tuple(envelope)))
    parsed = parsed_schema(steps, schema)
    known = " AND ".join(f"{sql} IS NOT NULL" for _, sql in parts)
    steps += [Filter(parse(event, parsed)), Filter(parse(f"({known}) OR raise_error({_NO_KEY})", parsed))]
    outputs = [(n, parse(sql, parsed)) for n, sql in parts] + [(n, column_of(n, parsed)) for n in orders]
    return BoundLogic((*steps, Project((*outputs, (_ROW, parse(row, parsed))))))


def _keys(keys: tuple[JsonField, ...], *places: tuple[str, ...], prefix: str = "") -> tuple[JsonField, ...]:
    """The parts of a key at each of several places of a document."""
    return tuple(
        JsonField(named(*prefix.split(), *place, k.name), (*place, k.name), k.type, k.unit)
        for place in places
        for k in keys
    )


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
