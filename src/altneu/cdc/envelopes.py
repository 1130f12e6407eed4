"""Change events of other tools than Debezium, as linear logic: Maxwell, Canal, Oracle GoldenGate and MongoDB.

Each has the row before and after its change, in a format of its own. An ``Envelope`` names the operations and the
places of the two images. Their meaning is the same for all: an insert is the row with diff 1, a delete with diff -1,
an update both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.cdc.logic import PRESENT, documents, members_of, named, parsed_schema
from altneu.collections.verbs import Logic, Verb, column_of
from altneu.errors import PlanError, TypeMismatchError
from altneu.expressions import literal, parse
from altneu.linear import BoundLogic, Emit, Extend, Filter, JsonField, ParseJson, Step, Unnest, Update
from altneu.operators.json.text import Unit
from altneu.types import quote_name, type_name

Members = tuple[JsonField, ...]
Values = dict[str, str]  # SQL of the value of each member
NONE: tuple[str, ...] = ()


@dataclass(frozen=True)
class Envelope:
    """The words of a tool: its operations, and the advice if an image is missing.

    ``emptied`` are operations that delete all rows without naming them, ``silent`` those that change no row.
    """

    name: str
    inserted: tuple[str, ...]
    updated: tuple[str, ...]
    deleted: tuple[str, ...]
    emptied: tuple[str, ...]
    silent: tuple[str, ...]
    remedy: str

    def changes(self, op: str, has_before: str, has_after: str) -> str:
        """SQL that is true for an event that changes rows, and fails for one that does not name them."""
        return (
            f"CASE WHEN {self.is_one(op, self.inserted)} THEN {self.must(has_after, 'AFTER', 'is')}"
            f" WHEN {self.is_one(op, self.updated)}"
            f" THEN {self.must(has_before, 'BEFORE', 'was')} AND {self.must(has_after, 'AFTER', 'is')}"
            f" WHEN {self.is_one(op, self.deleted)} THEN {self.must(has_before, 'BEFORE', 'was')}"
            f" ELSE {self.other(op)} END"
        )

    def other(self, op: str) -> str:
        """SQL that is false for an operation that changes no row, and fails for unknown operations."""
        emptied = "the event takes all rows of the table away and does not say which those were; retract them yourself"
        known = ", ".join((*self.inserted, *self.updated, *self.deleted, *self.emptied, *self.silent))
        unknown = f"those of {self.name} are {known}; got "
        return (
            f"CASE WHEN {self.is_one(op, self.silent)} THEN false"
            f" WHEN {self.is_one(op, self.emptied)} THEN raise_error('TRUNCATED_TABLE', {literal(emptied).sql})"
            f" ELSE raise_error('UNKNOWN_OPERATION', concat({literal(unknown).sql}, coalesce({op}, 'none'))) END"
        )

    def must(self, there: str, image: str, verb: str) -> str:
        """SQL that is true where an image is present, and fails elsewhere."""
        text = f"the event does not have the row as it {verb}: {self.remedy}"
        return f"({there} OR raise_error('MISSING_{image}', {literal(text).sql}))"

    @staticmethod
    def is_one(op: str, names: Iterable[str]) -> str:
        """SQL that is true if the operation is one of some."""
        names_listed = ", ".join(literal(name).sql for name in names)
        return f"coalesce({op} IN ({names_listed}), false)" if names_listed else "false"

    def emit(self, op: str, before: Values, after: Values, schema: pa.Schema) -> Emit:
        """The updates of an event."""
        images = ((before, -1, (*self.updated, *self.deleted)), (after, 1, (*self.inserted, *self.updated)))
        return Emit(
            tuple(
                Update(
                    tuple((name, parse(sql, schema)) for name, sql in values.items()),
                    diff=literal(diff, T.LONG),
                    when=parse(self.is_one(op, names), schema),
                )
                for values, diff, names in images
            )
        )


MAXWELL = Envelope(
    "Maxwell",
    inserted=("insert", "bootstrap-insert"),
    updated=("update",),
    deleted=("delete",),
    emptied=("table-drop", "database-drop"),
    silent=(
        *("bootstrap-start", "bootstrap-complete"),
        *("table-create", "table-alter", "database-create", "database-alter"),
    ),
    remedy="MySQL must have binlog_row_image=FULL",
)
CANAL = Envelope(
    "Canal",
    inserted=("INSERT",),
    updated=("UPDATE",),
    deleted=("DELETE",),
    emptied=("TRUNCATE", "ERASE", "RENAME"),
    silent=("CREATE", "ALTER", "CINDEX", "DINDEX", "QUERY"),
    remedy="MySQL must have binlog_row_image=FULL",
)
OGG = Envelope(
    "Oracle GoldenGate",
    inserted=("I",),
    updated=("U",),
    deleted=("D",),
    emptied=("T",),
    silent=NONE,
    remedy="the extract must have LOGALLSUPCOLS, GETUPDATEBEFORES, NOCOMPRESSUPDATES and NOCOMPRESSDELETES",
)
MONGODB = Envelope(
    "MongoDB",
    inserted=("insert", "c", "r"),
    updated=("update", "replace", "u"),
    deleted=("delete", "d"),
    emptied=("drop", "dropDatabase", "rename", "invalidate", "t"),
    silent=(
        *("create", "createIndexes", "dropIndexes", "modify", "m"),
        *("shardCollection", "reshardCollection", "refineCollectionShardKey"),
    ),
    remedy=(
        "the collection must have changeStreamPreAndPostImages, and the connector ask for both "
        "(fullDocument and fullDocumentBeforeChange); or read the events by key with an.cdc.mongodb_upsert"
    ),
)


def maxwell(fields: str | pa.Schema, *, column: str = "value", table: str | None = None, unit: Unit = "") -> Logic:
    """The rows of a table, from Maxwell's change events as JSON strings.

    ``fields`` are names and types of the members of ``data``. In an update ``old`` has the earlier values of the
    columns that changed. With ``table``, such as "shop.orders", events of other tables are ignored.

    Error rows: MISSING_BEFORE, MISSING_AFTER, an event without the row; MISSING_FIELDS, a row that has none of the
    fields; TRUNCATED_TABLE; UNKNOWN_OPERATION; INVALID_JSON; JSON_TYPE. They disappear when the document is retracted.

    Shape:  columns of ``fields``; an absent member is null.
    Units:  ``unit`` as for ``debezium``.
    Cost:   linear: no exchange, no state; two passes over the bytes, three with ``table``.
    Source: Maxwell's documentation of its producers' format.

    Raises:
        UnknownColumnError, PlanError, TypeMismatchError: as ``debezium``.

    >>> event = '{"type": "update", "data": {"id": 1, "n": 6, "s": "x"}, "old": {"n": 5}}'
    >>> maxwell("id long, n int, s string").run([event], "value string")[0]
    [((1, 5, 'x'), 0, -1), ((1, 6, 'x'), 0, 1)]
    """
    members = members_of(fields, unit)

    def bind(schema: pa.Schema) -> BoundLogic:
        steps = _of_table(column, schema, table, (("database",),), (("table",),))
        steps.append(ParseJson(column, (JsonField(named("kind"), ("type",), T.STRING),)))
        silent = MAXWELL.is_one(quote_name(named("kind")), MAXWELL.silent)  # some of them have an empty object as data
        steps.append(Filter(parse(f"NOT {silent}", parsed_schema(steps, schema))))
        read = [_text("type"), _image("data"), _image("old")]
        read += [JsonField(named("after", m.name), ("data", m.name), m.type, m.unit) for m in members]
        read += [
            JsonField(named("before", m.name), ("old", m.name), m.type, m.unit, (("data", m.name),)) for m in members
        ]
        steps.append(ParseJson(column, tuple(read), ((("data",), _names(members)),)))
        op, data, old = (quote_name(named(name)) for name in ("type", "data", "old"))
        has_before = f"({data} IS NOT NULL AND ({old} IS NOT NULL OR {op} = 'delete'))"
        check = MAXWELL.changes(op, has_before, f"{data} IS NOT NULL")
        return _decoded(MAXWELL, steps, schema, op, check, *_values(members))

    return Logic((Verb("maxwell", (members, column, table), bind),))


def ogg(fields: str | pa.Schema, *, column: str = "value", table: str | None = None, unit: Unit = "") -> Logic:
    """The rows of a table, from Oracle GoldenGate's change events as JSON strings (its handler for Kafka and big data).

    ``fields`` are names and types of the members of ``before`` and ``after``. With ``table``, such as "SHOP.ORDERS",
    events of other tables are ignored. Images must be full: a missing member is null.

    Error rows, shape, units, cost and exceptions are those of ``maxwell``, with one pass fewer.

    >>> event = '{"op_type": "U", "before": {"ID": 1, "N": 5}, "after": {"ID": 1, "N": 6}}'
    >>> ogg("ID long, N int").run([event], "value string")[0]
    [((1, 5), 0, -1), ((1, 6), 0, 1)]
    """
    members = members_of(fields, unit)

    def bind(schema: pa.Schema) -> BoundLogic:
        steps = _of_table(column, schema, table, (("table",),))
        read = [_text("op_type"), *(_image(image) for image in ("before", "after"))]
        read += [
            JsonField(named(image, m.name), (image, m.name), m.type, m.unit)
            for image in ("before", "after")
            for m in members
        ]
        steps.append(ParseJson(column, tuple(read), tuple(((i,), _names(members)) for i in ("before", "after"))))
        op = quote_name(named("op_type"))
        check = OGG.changes(op, *(f"{quote_name(named(image))} IS NOT NULL" for image in ("before", "after")))
        return _decoded(OGG, steps, schema, op, check, *_values(members))

    return Logic((Verb("ogg", (members, column, table), bind),))


def _refuse_unit(name: str, unit: Unit, why: str) -> None:
    if unit:
        raise PlanError(f"{name} takes no unit, got {unit!r}: {why}; leave it out")


def canal(fields: str | pa.Schema, *, column: str = "value", table: str | None = None, unit: Unit = "") -> Logic:
    """The rows of a table, from Canal's change events as JSON strings (its flat messages).

    ``fields`` are names and types of the members of the rows in ``data``, of which a message has several. Canal writes
    all values as strings, so each is cast to its type as by Spark's CAST. In an update ``old`` has the earlier values
    of the columns that changed. With ``table``, such as "shop.orders", events of other tables are ignored.

    Error rows, shape and cost are those of ``maxwell``, and those of casts (CAST_INVALID_INPUT ...).

    Raises:
        PlanError: there are no fields, or a ``unit`` is given, which is for formats that write times as numbers.
        TypeMismatchError: a string cannot be cast to the type of a field: an array, a map, a struct, or binary.

    >>> event = '{"type": "UPDATE", "data": [{"id": "1", "n": "6"}], "old": [{"n": "5"}], "isDdl": false}'
    >>> canal("id long, n int").run([event], "value string")[0]
    [((1, 5), 0, -1), ((1, 6), 0, 1)]
    """
    _refuse_unit("canal", unit, "Canal writes times as texts, which are cast to the type of the field")
    members = members_of(fields, "")
    for m in members:
        if pt.is_nested(m.type) or m.type == T.BINARY:
            raise TypeMismatchError(
                f"field {m.name!r} is {type_name(m.type)}, but Canal writes texts, which must be cast to its type; "
                "declare it as string"
            )

    def bind(schema: pa.Schema) -> BoundLogic:
        steps = _of_table(column, schema, table, (("database",),), (("table",),))
        rows = pa.list_(T.STRING)
        steps.append(ParseJson(column, (_text("type"), *(JsonField(named(n), (n,), rows) for n in ("data", "old")))))
        op, data, old = (quote_name(named(name)) for name in ("type", "data", "old"))
        has_before = f"({data} IS NOT NULL AND ({op} = 'DELETE' OR coalesce(size({old}) = size({data}), false)))"
        check = CANAL.changes(op, has_before, f"{data} IS NOT NULL")
        steps.append(Filter(parse(check, parsed_schema(steps, schema))))
        steps.append(
            Unnest(column_of(named("data"), parsed_schema(steps, schema)), (named("row"),), ordinality=named("n"))
        )
        row, n = quote_name(named("row")), quote_name(named("n"))
        pair = f"""concat('{{"data":', {row}, ',"old":', coalesce(element_at({old}, CAST({n} AS int)), 'null'), '}}')"""
        steps.append(Extend(((named("pair"), parse(pair, parsed_schema(steps, schema))),)))
        read = [JsonField(named("image"), ("data",), PRESENT)]
        read += [JsonField(named("after", m.name), ("data", m.name), T.STRING) for m in members]
        read += [
            JsonField(named("before", m.name), ("old", m.name), T.STRING, "", (("data", m.name),)) for m in members
        ]
        steps.append(ParseJson(named("pair"), tuple(read), ((("data",), _names(members)),)))
        before, after = (
            {m.name: f"CAST({quote_name(named(image, m.name))} AS {type_name(m.type)})" for m in members}
            for image in ("before", "after")
        )
        check = CANAL.must(f"{quote_name(named('image'))} IS NOT NULL", "AFTER", "is")
        return _decoded(CANAL, steps, schema, op, check, before, after)

    return Logic((Verb("canal", (members, column, table), bind),))


def mongodb(fields: str | pa.Schema, *, column: str = "value", table: str | None = None, unit: Unit = "") -> Logic:
    """The documents of a collection, from change events of MongoDB as JSON strings.

    Two formats are read: change streams as MongoDB's own connectors write them (``operationType``, ``fullDocument``,
    ``fullDocumentBeforeChange``), and Debezium's (``op``, ``before`` and ``after`` with the documents as strings).
    ``fields`` are names and types of the members of a document, in any of MongoDB's forms of JSON: ``{"$oid": "…"}``,
    ``{"$numberLong": "5"}`` and ``{"$date": …}`` mean the values inside. With ``table``, such as "shop.orders", events
    of other collections are ignored.

    Error rows are those of ``maxwell``, and those of casts (CAST_INVALID_INPUT ...). MISSING_BEFORE: MongoDB sends the
    document before its change only if the collection is configured to record it; see ``mongodb_upsert``.

    Shape:  columns of ``fields``; an absent member is null. Values within arrays, maps and structs are read as they
            are written.
    Units:  whole numbers read as timestamps are milliseconds, as dates days.
    Cost:   linear: no exchange, no state; two passes over the bytes of the documents.

    Raises:
        PlanError, TypeMismatchError: as ``debezium``; a ``unit`` is given, which is for other formats.

    >>> event = '{"operationType": "insert", "fullDocument": {"_id": {"$oid": "65a"}, "n": {"$numberLong": "5"}}}'
    >>> mongodb("_id string, n long").run([event], "value string")[0]
    [(('65a', 5), 0, 1)]
    """
    _refuse_unit("mongodb", unit, "numbers that are times are milliseconds")
    members = members_of(fields, "")

    def bind(schema: pa.Schema) -> BoundLogic:
        steps = mongodb_events(column, schema, table)
        op, before, after = (quote_name(named(name)) for name in ("op", "was", "is"))
        needs = ((), _names(members))
        steps += [ParseJson(named(image), mongodb_fields(members, image), (needs,)) for image in ("was", "is")]
        check = MONGODB.changes(op, f"{before} IS NOT NULL", f"{after} IS NOT NULL")
        return _decoded(MONGODB, steps, schema, op, check, *(mongodb_values(members, i) for i in ("was", "is")))

    return Logic((Verb("mongodb", (members, column, table), bind),))


# parts ----------------------------------------------------------------------------------------------------------------


def mongodb_events(column: str, schema: pa.Schema, table: str | None) -> list[Step]:
    """Steps that compute an event's operation, ``#op``, and its documents before and after, ``#was`` and ``#is``."""
    payload = "payload"
    read: dict[str, list[tuple[str, ...]]] = {
        "op": [("operationType",), ("op",), (payload, "op")],
        "was": [("fullDocumentBeforeChange",), ("before",), (payload, "before")],
        "is": [("fullDocument",), ("after",), (payload, "after")],
        "key": [("documentKey",)],
    }
    steps = _of_table(
        column,
        schema,
        table,
        (("ns", "db"), ("source", "db"), (payload, "source", "db")),
        (("ns", "coll"), ("source", "collection"), (payload, "source", "collection")),
    )
    fields = (JsonField(named(name), paths[0], T.STRING, "", tuple(paths[1:])) for name, paths in read.items())
    steps.append(ParseJson(column, tuple(fields)))
    return steps


_NUMBERS = ("$numberLong", "$numberInt", "$numberDouble", "$numberDecimal")


def mongodb_fields(members: Iterable[JsonField], image: str) -> Members:
    """Members of a document in MongoDB's extended JSON, most of them as strings."""
    fields = []
    for m in members:
        paths, kind = _extended(m)
        fields.append(JsonField(named(image, m.name), paths[0], kind, "", paths[1:]))
    return tuple(fields)


def _extended(m: JsonField) -> tuple[tuple[tuple[str, ...], ...], pa.DataType]:
    """The paths at which the value of a member may be, the innermost first, and the type as which it is read."""
    own = m.path
    if pt.is_nested(m.type):
        return (own,), m.type
    if m.type == T.BINARY:
        return ((*own, "$binary", "base64"), (*own, "$binary"), own), m.type
    if m.type == T.STRING:
        return ((*own, "$oid"), (*own, "$symbol"), (*own, "$uuid"), own), m.type
    if m.type == T.DATE or pt.is_timestamp(m.type):
        return ((*own, "$date", "$numberLong"), (*own, "$date"), own), T.STRING
    return (*((*own, name) for name in _NUMBERS), own), T.STRING


def mongodb_values(members: Iterable[JsonField], image: str) -> Values:
    """SQL of the value of each member."""
    return {m.name: _converted(quote_name(named(image, m.name)), m.type) for m in members}


def _converted(text: str, kind: pa.DataType) -> str:
    if pt.is_nested(kind) or kind in (T.BINARY, T.STRING):
        return text
    name = type_name(kind)
    if kind == T.DATE or pt.is_timestamp(kind):
        number = f"timestamp_millis(CAST({text} AS bigint))"
        return f"CAST(CASE WHEN {text} RLIKE '^-?[0-9]+$' THEN {number} ELSE CAST({text} AS timestamp) END AS {name})"
    return f"CAST({text} AS {name})"


def _of_table(column: str, schema: pa.Schema, table: str | None, *parts: tuple[tuple[str, ...], ...]) -> list[Step]:
    """Steps that keep documents, and of those the events of one table.

    ``parts`` are the members that form the table's name, joined by dots, each with its alternatives.

    Raises:
        PlanError: the table's name has fewer parts.
    """
    steps = documents(column, schema)
    if table is None:
        return steps
    if not table or table.count(".") < len(parts) - 1:
        raise PlanError(f'table must be named as "{".".join(first[-1] for first, *_ in parts)}", got {table!r}')
    names = [named("of", str(i)) for i in range(len(parts))]
    fields = (JsonField(n, first, T.STRING, "", tuple(o)) for n, (first, *o) in zip(names, parts, strict=True))
    steps.append(ParseJson(column, tuple(fields)))
    name = f"concat_ws('.', {', '.join(map(quote_name, names))})"
    steps.append(Filter(parse(f"{name} = {literal(table).sql}", parsed_schema(steps, schema))))
    return steps


def _text(member: str) -> JsonField:
    return JsonField(named(member), (member,), T.STRING)


def _image(member: str) -> JsonField:
    """Whether there is an object."""
    return JsonField(named(member), (member,), PRESENT)


def _names(members: Members) -> tuple[str, ...]:
    return tuple(m.name for m in members)


def _values(members: Members) -> tuple[Values, Values]:
    before, after = ({m.name: quote_name(named(image, m.name)) for m in members} for image in ("before", "after"))
    return before, after


def _decoded(
    envelope: Envelope, steps: list[Step], schema: pa.Schema, op: str, check: str, before: Values, after: Values
) -> BoundLogic:
    """The updates of the events that pass a check."""
    steps.append(Filter(parse(check, parsed_schema(steps, schema))))
    return BoundLogic((*steps, envelope.emit(op, before, after, parsed_schema(steps, schema))))
