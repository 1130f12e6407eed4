"""Variants: documents of any form in a column, read, looked into, changed and described."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import casts
from altneu.expressions.documents import MISSING, Real
from altneu.expressions.documents import Reader as Documents
from altneu.expressions.documents import too_deep as document_too_deep
from altneu.expressions.each import RowFailure, each
from altneu.expressions.functions.from_json import schema_of_text
from altneu.expressions.registry import Group, Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.variants import casting, paths, schemas
from altneu.expressions.variants.binary import ARRAY, OBJECT, Reader, Variant, encoded, malformed, too_deep
from altneu.expressions.vector import Vector

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("Variants")
_documents = Documents(numbers=True, liberal=False)
_LONGEST_NUMBER, _LONGEST_NAME = 1000, 50_000
_CASTS = casting.Casts(casts.possible, casts.convert)


def _reader(value: dict[str, bytes]) -> Reader:
    return Reader(value["value"], value["metadata"])


# documents ------------------------------------------------------------------------------------------------------------


def _parsed(text: str) -> Variant | None:
    """The variant of a document; None if the text is none."""
    document = _documents(text)
    if document is MISSING:
        if document_too_deep(text):
            raise too_deep()
        return None
    if not _is_within_limits(document):
        return None
    try:
        return encoded(document)
    except UnicodeEncodeError:  # half of a character
        return None
    except RowFailure as error:
        if error.code == "VARIANT_DUPLICATE_KEY":
            return None
        raise


def _is_within_limits(document: Any) -> bool:
    """Whether names and numbers are as long as Spark's reader takes them."""
    left = [document]
    while left:
        value = left.pop()
        if isinstance(value, Real):
            if len(value) > _LONGEST_NUMBER:
                return False
        elif isinstance(value, list):
            for part in value:
                if isinstance(part, tuple):
                    if len(part[0]) > _LONGEST_NAME:
                        return False
                    left.append(part[1])
                else:
                    left.append(part)
    return True


@scalar("parse_json(s string) -> variant", fails=True, grows=True)
def parse_json(call: Call, s: pa.Array) -> Out:
    """The variant of a JSON document; an error if the text is none. What follows the document is not read."""

    def parsed(text: str) -> Variant:
        found = _parsed(text)
        if found is None:
            raise RowFailure("MALFORMED_RECORD_IN_PARSING", f"parse_json: {text[:200]!r} is no JSON document")
        return found

    return each(call, parsed, s)


@scalar("try_parse_json(s string) -> variant?", fails=True, grows=True)
def try_parse_json(call: Call, s: pa.Array) -> Out:
    """The variant of a JSON document; NULL if the text is none."""
    return each(call, _parsed, s)


@scalar("is_variant_null(v variant) -> boolean!", fails=True)
def is_variant_null(call: Call, v: Vector) -> Vector:
    """Whether a variant is the null of a document; false for NULL."""

    def is_null(value: dict[str, bytes] | None) -> bool:
        if value is not None and not value["value"]:
            raise malformed()
        return value is not None and value["value"][0] == 0

    return _together(call, each(call, is_null, v.arrow, strict=False), (v,))


@scalar("is_valid_variant(v variant) -> boolean")
def is_valid_variant(call: Call, v: pa.Array) -> Out:
    """Whether the bytes of a variant are what its format says."""

    def is_valid(value: dict[str, bytes]) -> bool:
        try:
            _reader(value).check()
        except RowFailure as error:
            if error.code == "VALUE_TOO_LARGE":
                raise
            return False
        return True

    return each(call, is_valid, v)


# parts ----------------------------------------------------------------------------------------------------------------


def _path(text: str, code: str, name: str, *, root: bool = True) -> paths.Path:
    path = paths.parsed(text)
    if path is None or not (path or root):
        raise RowFailure(code, f"{name}: {text!r} is not a path such as `$.a[0]['b c']`")
    return path


def _check_path(args: Arguments, at: int, *, root: bool) -> None:
    text = getattr(args[at], "value", None)
    if isinstance(text, str) and (paths.parsed(text) is None or not (paths.parsed(text) or root)):
        needed = "" if root else ", with a name or an index in it"
        raise TypeMismatchError(f"{args.name}: {text!r} must be a path such as `$.a[0]['b c']`{needed}")


def _variant(args: Arguments) -> None:
    """Check that the first argument is a variant.

    Raises:
        TypeMismatchError: it is none.
    """
    args.accept(0, T.VARIANT)


def _get_rule(args: Arguments) -> Typing:
    _variant(args)
    kind: pa.DataType = T.VARIANT
    if len(args) > 2:
        text = getattr(args[2], "value", None)
        if not isinstance(text, str):
            raise TypeMismatchError(f"{args.name}: the type `{args[2].text}` must be a constant text")
        kind = schema_of_text(text)
        if not casting.readable(kind):
            raise TypeMismatchError(f"{args.name}: a variant cannot be cast to {T.type_name(kind)}")
    _check_path(args, 1, root=True)
    return Typing([T.VARIANT, T.STRING, *[None] * (len(args) - 2)], casting.nullable(kind), True)


def _get(*, strict: bool) -> Callable[..., Vector]:
    def kernel(call: Call, v: pa.Array, path: pa.Array, *kind: pa.Array) -> Vector:  # noqa: ARG001 -- the call's type
        found, failures = casting.places(v)
        for row, text in enumerate(path.to_pylist()):
            place = found[row]
            if place is None or text is None:
                found[row] = None
                continue
            try:
                at = paths.place_of(place[0], _path(text, "INVALID_VARIANT_GET_PATH", call.name))
                found[row] = None if at is None else (place[0], at)
            except RowFailure as error:
                found[row], failures[row] = None, error
        return casting.vector_of(casting.read(found, call.type, _CASTS), failures, strict=strict)

    return kernel


scalar(
    "variant_get(v, path[, type])",
    rule=_get_rule,
    usage="variant_get(v, '$.a[0]'[, 'type']), v:a[0]",
    doc="What is at a path in a variant, as a variant or as a value of a type; NULL if nothing is there, an error if "
    "it does not fit. `v:a[0]` is a variant.",
    fails=True,
    grows=True,
)(_get(strict=True))
scalar(
    "try_variant_get(v, path[, type])",
    rule=_get_rule,
    usage="try_variant_get(v, '$.a[0]'[, 'type'])",
    doc="`variant_get`, but NULL for what does not fit.",
    fails=True,
    grows=True,
)(_get(strict=False))

_ENTRY = pa.struct([pa.field("pos", T.INT, False), pa.field("key", T.STRING), pa.field("value", T.VARIANT, False)])


def _entries_rule(args: Arguments) -> Typing:
    _variant(args)
    return Typing([T.VARIANT], T.list_type(_ENTRY), True)


@scalar("variant_entries(v)", rule=_entries_rule, fails=True, grows=True)
def variant_entries(call: Call, v: pa.Array) -> Out:
    """The fields of an object or the elements of an array, each with its place from zero, key and value; else NULL."""

    def entries(value: dict[str, bytes]) -> list[tuple[int, str | None, Variant]] | None:
        reader = _reader(value)
        kind = reader.kind(0)
        parts: list[tuple[str | None, int]]
        if kind == OBJECT:
            parts = list(reader.members(0))
        elif kind == ARRAY:
            parts = [(None, place) for place in reader.elements(0)]
        else:
            return None
        return [(i, name, Variant(reader.whole(place), reader.metadata)) for i, (name, place) in enumerate(parts)]

    return each(call, entries, v)


# changes --------------------------------------------------------------------------------------------------------------


def _change_rule(args: Arguments) -> Typing:
    _variant(args)
    value = args[2].type
    if value != T.NULL and not casting.writable(value, objects=False):
        raise TypeMismatchError(
            f"{args.name}: `{args[2].text}` is {T.type_name(value)}, which cannot be cast to variant; "
            "to_variant_object takes structs and maps"
        )
    _check_path(args, 1, root=args.name.endswith("append"))
    _check_constant(args, 3)
    types = [T.VARIANT, T.STRING, None, *[T.BOOLEAN] * (len(args) - 3)]
    return Typing(types, T.VARIANT, True if args.name.startswith("try") or value == T.NULL else None)


def _check_constant(args: Arguments, at: int) -> None:
    if len(args) > at and not getattr(args[at], "is_literal", False):
        raise TypeMismatchError(f"{args.name}: argument {at + 1} (`{args[at].text}`) must be a constant, true or false")


Change = Callable[..., Any]


def _changing(change: Change) -> Callable[..., Out]:
    def kernel(call: Call, v: pa.Array, path: pa.Array, value: pa.Array, *more: pa.Array) -> Out:
        name, root = call.name, call.name.endswith("append")
        new = casting.trees(value)
        lenient = ("VARIANT_PATH_TYPE_MISMATCH", "VARIANT_DUPLICATE_KEY") if name.startswith("try") else ()
        present = value.is_valid().to_pylist()

        def changed(old: dict[str, bytes], text: str, row: int, *options: bool) -> Variant | None:
            steps = _path(text, "INVALID_VARIANT_PATH", name, root=root)
            if not present[row]:
                return None
            try:
                return encoded(change(_reader(old).tree(), steps, new[row], *options))
            except RowFailure as error:
                if error.code in lenient:
                    return None
                raise

        return each(call, changed, v, path, pa.array(range(len(value)), pa.int64()), *more)

    return kernel


def _replaced(tree: Any, path: paths.Path, value: Any, create: bool = True) -> Any:
    return paths.replaced(tree, path, value, create=create)


for _name, _usage, _change, _doc in (
    (
        "variant_insert",
        "(v, path, value)",
        paths.inserted,
        (
            "The variant with a field more, or an element before the one at the path; an error if the field is there, "
            "or a value on the way is of another kind."
        ),
    ),
    (
        "variant_set",
        "(v, path, value[, create])",
        _replaced,
        (
            "The variant with another value at a path; one that is not there is made, unless create is false. An error "
            "if a value on the way is of another kind."
        ),
    ),
    (
        "variant_array_append",
        "(v, path, value)",
        paths.appended,
        (
            "The variant with an element more behind those of the array at a path, or as it is if nothing is there; "
            "an error if there is something else, or a value on the way is of another kind."
        ),
    ),
):
    _lenient = f"`{_name}`, but NULL for such an error."
    for _prefix, _said in (("", _doc), ("try_", _lenient)):
        scalar(f"{_prefix}{_name}{_usage}", rule=_change_rule, doc=_said, fails=True, grows=True)(_changing(_change))


def _delete_rule(args: Arguments) -> Typing:
    _variant(args)
    for at in range(1, len(args)):
        _check_path(args, at, root=False)
    return Typing([T.VARIANT, *[T.STRING] * (len(args) - 1)], T.VARIANT, args[0].nullable)


@scalar("variant_delete(v, path, …)", rule=_delete_rule, usage="variant_delete(v, path, path, …)", fails=True)
def variant_delete(call: Call, v: Vector, *path: Vector) -> Vector:
    """The variant without what is at the paths, one after the other; paths that are NULL are passed over."""
    size = 1 if v.constant and all(p.constant for p in path) else max(len(x) for x in (v, *path))
    columns = [x.expand(size).arrow if len(x) != size else x.arrow for x in (v, *path)]

    def deleted(old: dict[str, bytes] | None, *texts: str | None) -> Variant | None:
        if old is None:
            return None
        given = [text for text in texts if text is not None]
        if not given:
            return Variant(old["value"], old["metadata"])
        tree = _reader(old).tree()
        for text in given:
            tree = paths.deleted(tree, _path(text, "INVALID_VARIANT_PATH", "variant_delete", root=False))
        return encoded(tree)

    return _together(call, each(call, deleted, *columns, strict=False), (v, *path))


def _together(call: Call, out: Out, args: tuple[Vector, ...]) -> Vector:
    """The vector of a function that is called for nulls too."""
    failures = casting.failures_of(
        {
            int(row): RowFailure(code, text(int(row)) if callable(text) else text)
            for mask, code, text in out.failures
            for row in mask.nonzero()[0]
        },
        len(out.values),
    )
    return Vector(call.type, arrow=out.values, failures=failures, constant=all(a.constant for a in args))


@scalar(
    "variant_strip_nulls(v variant[, arrays boolean]) -> variant",
    check=lambda args: _check_constant(args, 1),
    fails=True,
)
def variant_strip_nulls(call: Call, v: pa.Array, *arrays: pa.Array) -> Out:
    """The variant without fields that are null, and, unless arrays is false, without such elements, at every depth."""

    def bare(value: dict[str, bytes], also: bool = True) -> Variant:
        return encoded(paths.without_nulls(_reader(value).tree(), arrays=also))

    return each(call, bare, v, *arrays)


# values and schemas ---------------------------------------------------------------------------------------------------


def _object_rule(args: Arguments) -> Typing:
    kind = args[0].type
    if kind == T.VARIANT or not pt.is_nested(kind) or not casting.writable(kind, objects=True):
        raise TypeMismatchError(
            f"to_variant_object takes a struct, an array or a map with texts for keys, not {T.type_name(kind)} "
            f"(`{args[0].text}`)"
        )
    return Typing([None], T.VARIANT)


@scalar("to_variant_object(a)", rule=_object_rule, fails=True, grows=True)
def to_variant_object(a: pa.Array) -> Vector:
    """The variant of a struct, an array or a map: structs and maps are objects, whose fields have no order."""
    return casting.column_written(a)


@scalar("schema_of_variant(v variant) -> string", fails=True, grows=True)
def schema_of_variant(call: Call, v: pa.Array) -> Out:
    """The type of a variant, such as `OBJECT<a: BIGINT, b: ARRAY<STRING>>`."""
    return each(call, lambda value: schemas.printed(schemas.schema_of(_reader(value))), v)


@scalar("merged_variant_schema(schemas array<string>) -> string")
def merged_variant_schema(call: Call, texts: pa.Array) -> Out:
    """The type of variants whose types are these; `VOID` if there are none."""
    return each(call, lambda values: schemas.printed(schemas.merged(map(schemas.read, values))), texts)
