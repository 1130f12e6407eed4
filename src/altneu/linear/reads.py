"""What a Python function reads, followed as far as it can be, as text that is equal in every process.

Its code, defaults and captured variables; the globals that its code names, and what these read in turn; of objects the
class and the attributes. What belongs to a library is known by name and version. Nothing depends on addresses, on the
order of sets or on the seed of Python's hashes, and what refers to itself is read once.
"""

from __future__ import annotations

import builtins
import copyreg
import enum
import functools
import hashlib
import importlib
import operator
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.linear.code import Chain, code_text, names_of
from altneu.linear.modules import library

MOST_VALUES = 2_000_000
_AN_OBJECT = 20  # plain values are looked at as fast as this many times one object
_ATOMS = {int, float, complex, str, bytes, bool, type(None), type(Ellipsis), type(NotImplemented)}
_FLAT: dict[type, Callable[[Any], Iterable[Any]]] = {
    list: iter,
    tuple: iter,
    set: iter,
    frozenset: iter,
    dict: lambda d: (x for item in d.items() for x in item),
}
_CONTENTS: dict[type, Callable[[Any], Any]] = {
    dict: lambda d: dict(dict.items(d)),
    list: lambda x: list(list.__iter__(x)),
    tuple: lambda x: tuple(tuple.__iter__(x)),
    set: lambda x: frozenset(set.__iter__(x)),
    frozenset: lambda x: frozenset(frozenset.__iter__(x)),
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: lambda x: bytes(memoryview(x)),
}
_GENERATED = frozenset(
    (
        *("__module__", "__doc__", "__dict__", "__weakref__", "__qualname__", "__slots__", "__slotnames__"),
        *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "__match_args__"),
        *(
            "__conditional_annotations__",
            "__firstlineno__",
            "__static_attributes__",
            "__abstractmethods__",
            "_abc_impl",
        ),
        *("__dataclass_fields__", "__dataclass_params__", "__parameters__", "__orig_bases__", "__orig_class__"),
    )
)
_ENUM = _GENERATED | {
    *("_member_names_", "_member_map_", "_value2member_map_", "_unhashable_values_", "_unhashable_values_map_"),
    *("_hashable_values_", "_new_member_", "_value_repr_"),
}
_MARKS = frozenset(("__altneu_arrow__", "__altneu_version__"))
_OPAQUE = (weakref.ref, weakref.WeakKeyDictionary, weakref.WeakValueDictionary, weakref.WeakSet)
_OPAQUE_PACKAGES = ("altneu", "pyspark", "py4j")
_SLOTS = types.MemberDescriptorType | types.GetSetDescriptorType
_HEAP_TYPE = 1 << 9
_DEEPEST = 4
_MOST_AROUND = 50  # sets inside one another, beyond which they are known by their size


class TooMuch(Exception):  # noqa: N818 -- a signal to the plan, which makes an error of it
    """A function reads more values than are followed; ``what`` says where."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def parts_of(call: Callable[..., Any]) -> dict[str, str]:
    """Everything that a callable reads: a short digest of each part, by the name of the part.

    Cost:   one look at every value that is read: about a microsecond for a plain one, tens of them for an object; the
            bytes of arrays.

    Raises:
        TooMuch: it reads more than ``MOST_VALUES`` values.
    """
    reads = Reads()
    reads.follow(call)
    return {label: digest.hexdigest() for label, digest in reads.parts.items()}


class Reads:
    """Values still to be looked at, and what has been read of each part so far.

    A value is looked at once. Where it comes again it is named by the way on which it was first met, so that one part's
    text does not change with another's.
    """

    def __init__(self, budget: list[int] | None = None, around: frozenset[int] = frozenset()) -> None:
        self.parts: dict[str, Any] = {}
        self._known: dict[int, str] = {}
        self._alive: list[object] = []  # what is known by its id has to stay
        self._waiting: deque[tuple[Any, str, str]] = deque()
        self._budget = [MOST_VALUES] if budget is None else budget
        self._around = around  # sets whose elements are being read, each by itself
        self._way = ""

    def follow(self, call: Any) -> None:
        """Read a callable, and all that it leads to."""
        self._reference(call, "")
        self.drain()

    def drain(self) -> None:
        """Read what is waiting, and what that leads to."""
        while self._waiting:
            value, label, self._way = self._waiting.popleft()
            self._spend(_AN_OBJECT, label)
            try:
                texts = list(self._texts(value, label))
            except TooMuch:
                raise
            except Exception:  # noqa: BLE001 -- an object may answer a look at it with anything
                texts = ["unread"]
            for text in texts:
                self._write(label or "code", text)

    def _write(self, label: str, text: str) -> None:
        digest = self.parts.get(label)
        if digest is None:
            digest = self.parts[label] = hashlib.blake2b(digest_size=8)
        digest.update(text.encode("utf-8", "surrogatepass"))
        digest.update(b"\0")

    def _part(self, label: str, what: str, value: Any) -> None:
        part = _below(label, what)
        self._write(part, f"{what} {self.text(value, part)}")

    def _spend(self, many: int, label: str) -> None:
        self._budget[0] -= many
        if self._budget[0] < 0:
            raise TooMuch(label or "itself")

    # values ---------------------------------------------------------------------------------------------------------

    def text(self, value: Any, label: str, step: str = "") -> str:
        """A value as text: itself where that is all, else the name under which it will be read."""
        kind = type(value)
        self._spend(1, label)
        if kind in _ATOMS:
            return _atom(value)
        if kind in _FLAT and (flat := self._flat(value, kind, label)) is not None:
            return flat
        if isinstance(value, enum.Enum):
            return f"{self._reference(kind, _class_label(kind))}.{value.name} {self.text(value.value, label, '.value')}"
        return self._reference(value, label, step)

    def _flat(self, value: Any, kind: type, label: str) -> str | None:
        """A container of nothing but plain values as text; None for any other."""
        if not set(map(type, _FLAT[kind](value))) <= _ATOMS:
            return None
        self._spend(len(value), label)
        if kind in (set, frozenset):
            return f"{kind.__name__}({sorted(map(_atom, value))})"
        try:
            return repr(value)
        except ValueError:  # an integer of more digits than Python writes
            return f"{kind.__name__}({[_atom(x) for x in _FLAT[kind](value)]})"

    def _reference(self, value: Any, label: str, step: str = "") -> str:
        name = self._known.get(id(value))
        if name is None:
            if id(value) in self._around:
                return "@around"
            name = hashlib.blake2b(f"{self._way}/{label}/{step}".encode(), digest_size=8).hexdigest()
            self._known[id(value)] = name
            self._alive.append(value)
            self._waiting.append((value, label, name))
        return f"@{name}"

    def _texts(self, value: Any, label: str) -> Iterator[str]:
        for kind, read in _READERS:
            if isinstance(value, kind):
                yield from read(self, value, label)
                return
        if (known := _named(value)) is not None:
            yield known
        else:
            yield from self._object(value, label)

    # functions ------------------------------------------------------------------------------------------------------

    def _function(self, value: types.FunctionType, label: str) -> Iterator[str]:
        if (known := _named(value)) is not None:
            yield known
            return
        code, place = value.__code__, value.__globals__.get("__name__")
        for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
            yield f"captured {name}"
            self._captured(value, name, cell, label)
        parameters = code.co_varnames[: code.co_argcount]
        defaults = value.__defaults__ or ()
        defaults_by_name = [*zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True)]
        for name, default in [*defaults_by_name, *(value.__kwdefaults__ or {}).items()]:
            self._part(label, f"default of {name}", default)
        if (of := library(place)) is not None:  # a library's wrapper around what it is given
            yield f"library {of} {value.__qualname__}"
            return
        yield code_text(code)
        names = names_of(code)
        for chain in names.globals:
            self._global(value, chain, label)
        for one in names.imports:
            self._import(value, one.module, one.level, one.names, names.attributes, label)

    def _captured(self, value: types.FunctionType, name: str, cell: Any, label: str) -> None:
        part = _below(label, f"captured variable {name}")
        try:
            contents = cell.cell_contents
        except ValueError:
            self._write(part, "empty")
            return
        chains = [c for c in names_of(value.__code__).enclosed if c[0] == name] or [(name,)]
        for chain in chains:
            self._along(contents, part, chain, names_of(value.__code__).attributes)

    def _global(self, value: types.FunctionType, chain: Chain, label: str) -> None:
        name = chain[0]
        part = _below(label, f"global {name}")
        if name in value.__globals__:
            self._along(value.__globals__[name], part, chain, names_of(value.__code__).attributes)
        elif not hasattr(builtins, name):
            self._write(part, f"{name} absent")

    def _import(
        self,
        value: types.FunctionType,
        module: str,
        level: int,
        names: tuple[str, ...],
        attributes: frozenset[str],
        label: str,
    ) -> None:
        """What an import statement inside the function will find; a user's module is imported for it."""
        part = _below(label, f"import {'.' * level}{module}")
        if not level and (of := library(module)) is not None:
            self._write(part, f"library {of}")
            return
        try:
            package = value.__globals__.get("__package__") if level else None
            imported = importlib.import_module("." * level + module, package)
        except Exception as error:  # noqa: BLE001 -- a module may raise anything; the call will say it
            self._write(part, f"not imported: {type(error).__name__}")
            return
        if names:
            for name in names:
                self._along(vars(imported).get(name), part, (name,), attributes)
        else:
            top = imported if level else sys.modules.get(module.partition(".")[0], imported)
            self._along(top, part, (module,), attributes)

    def _along(self, value: Any, part: str, chain: Chain, attributes: frozenset[str]) -> None:
        """A value that code reads by name: of a user's module only the attributes that it takes of it."""
        rest = list(chain[1:])
        while rest and type(value) is types.ModuleType and library(value.__name__) is None:
            name = rest.pop(0)
            part = f"{part}.{name}"
            if name not in vars(value):
                self._write(part, f"{name} absent")
                return
            value = vars(value)[name]
        if type(value) is types.ModuleType and library(value.__name__) is None:
            for name in sorted(attributes & set(vars(value))):
                taken = vars(value)[name]
                if not isinstance(taken, types.ModuleType) or library(taken.__name__) is not None:
                    self._write(f"{part}.{name}", f"{name} {self.text(taken, f'{part}.{name}')}")
            return
        self._write(part, f"{chain} {self.text(value, part)}")

    def _method(self, value: types.MethodType, label: str) -> Iterator[str]:
        yield f"method {value.__func__.__name__}"
        yield self.text(value.__func__, label, ".function")
        yield self.text(value.__self__, label, ".self")

    def _builtin(self, value: Any, label: str) -> Iterator[str]:
        of = getattr(value, "__self__", None)
        yield f"builtin {library(getattr(value, '__module__', None))} {value.__qualname__}"
        if of is not None and not isinstance(of, types.ModuleType):
            yield self.text(of, label, ".self")

    def _partial(self, value: functools.partial[Any], label: str) -> Iterator[str]:
        yield type(value).__qualname__
        self._part(label, "function of the partial", value.func)
        for name, argument in (*enumerate(value.args), *value.keywords.items()):
            self._part(label, f"argument {name} of the partial", argument)

    def _inside(self, value: Any, label: str) -> Iterator[str]:
        """Descriptors, by the functions inside."""
        yield type(value).__qualname__
        for name in ("__func__", "fget", "fset", "fdel", "func", "__wrapped__"):
            if (inner := getattr(value, name, None)) is not None:
                yield f"{name} {self.text(inner, label, name)}"

    def _module(self, value: types.ModuleType, label: str) -> Iterator[str]:
        """A module that is handed on whole: a library's by name, a user's by its source."""
        of = library(value.__name__)
        if of is not None:
            yield f"library {of}"
            return
        yield f"module {value.__name__}"
        try:
            yield hashlib.blake2b(Path(str(value.__file__)).read_bytes()).hexdigest()
        except (OSError, AttributeError):
            yield "without a file"

    # containers -----------------------------------------------------------------------------------------------------

    def _sequence(self, value: list[Any] | tuple[Any, ...], label: str) -> Iterator[str]:
        yield type(value).__name__
        for i, item in enumerate(value):
            yield self.text(item, label, f"[{i}]")

    def _dict(self, value: dict[Any, Any], label: str) -> Iterator[str]:
        yield "dict"
        for i, (key, item) in enumerate(value.items()):
            yield f"{self.text(key, label, f'key {i}')}: {self.text(item, label, f'[{i}]')}"

    def _set(self, value: set[Any] | frozenset[Any], label: str) -> Iterator[str]:
        """Each element by itself, in the order of what is read of it."""
        elements = []
        if len(self._around) >= _MOST_AROUND:
            yield f"{type(value).__name__} of {len(value)}"
            return
        for item in value:
            one = Reads(self._budget, self._around | {id(value)})
            text = one.text(item, label)
            one.drain()
            digests = sorted((name, digest.hexdigest()) for name, digest in one.parts.items())
            elements.append(f"{text} {digests}")
        yield f"{type(value).__name__} {sorted(elements)}"

    def _array(self, value: np.ndarray[Any, Any], label: str) -> Iterator[str]:
        yield f"array {value.dtype.descr if value.dtype.names else value.dtype.str} {value.shape}"
        if value.dtype.hasobject:
            yield self.text(value.tolist(), label, ".items")
        else:
            yield hashlib.blake2b(np.ascontiguousarray(value).tobytes()).hexdigest()

    def _arrow(self, value: Any, label: str) -> Iterator[str]:
        schema = value.schema if hasattr(value, "schema") else getattr(value, "type", value)
        yield f"{type(value).__name__} {schema}"
        if hasattr(value, "to_pylist"):
            yield self.text(value.to_pylist(), label, ".items")
        elif hasattr(value, "as_py"):
            yield self.text(value.as_py(), label, ".value")

    # classes and objects --------------------------------------------------------------------------------------------

    def _class(self, value: type, label: str) -> Iterator[str]:
        of = library(value.__module__)
        if of is not None:
            yield f"library {of} {value.__qualname__}"
            return
        yield f"class {value.__qualname__}"
        for base in (*value.__bases__, type(value)):
            if base is not object and base is not type:
                yield f"base {self.text(base, _class_label(base))}"
        skipped = _ENUM if issubclass(value, enum.Enum) else _GENERATED
        if issubclass(value, enum.Enum):
            for name, member in value.__members__.items():
                yield f"{name} = {self.text(member.value, label, name)}"
        for name, member in sorted(vars(value).items()):
            if name in skipped or isinstance(member, _SLOTS | enum.Enum):
                continue
            self._part("", f"{name} of {_class_label(value)}", member)

    def _object(self, value: Any, label: str) -> Iterator[str]:
        kind = type(value)
        yield f"a {self.text(kind, _class_label(kind))}"
        if isinstance(value, _OPAQUE) or kind.__module__.partition(".")[0] in _OPAQUE_PACKAGES:
            if kind.__module__.startswith("pyspark") and kind.__name__ == "Broadcast":
                yield self.text(value.value, label, ".value")
            return
        if library(kind.__module__) is None:
            yield from self._own(value, label)
        elif (wrapped := _wrapped(value)) is not None:
            yield f"around {self.text(wrapped, label, '.__wrapped__')}"
        else:
            yield from self._reduced(value, label)

    def _own(self, value: Any, label: str) -> Iterator[str]:
        """An object of a user's class: its attributes, or what its ``__getstate__`` says, and what its base holds."""
        kind = type(value)
        for base, contents in _CONTENTS.items():
            if isinstance(value, base):
                yield self.text(contents(value), label, ".contents")
                break
        else:
            if any(not c.__flags__ & _HEAP_TYPE and c is not object for c in kind.__mro__):
                yield from self._reduced(value, label)
        custom = getattr(kind, "__getstate__", None) not in (None, getattr(object, "__getstate__", None))
        if custom:
            yield self.text(value.__getstate__(), label, ".state")
            return
        for name, attribute in sorted(_attributes(value).items()):
            self._part(label, f"attribute {name} of {_class_label(kind)}", attribute)

    def _reduced(self, value: Any, label: str) -> Iterator[str]:
        """An object of a library's class: what it would be pickled as; by its class alone where it cannot be."""
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception:  # noqa: BLE001 -- what cannot be pickled says so in any way it likes
            yield "unread"
            return
        if isinstance(reduced, str):
            yield reduced
            return
        for i, component in enumerate(reduced):
            listed = list(component) if i in (3, 4) and component is not None else component
            yield self.text(listed, label, f".reduced {i}")


def _below(label: str, what: str) -> str:
    """What a part of a part is called; those further down than anybody reads share a name."""
    return f"{label}: {what}" if label and label.count(": ") < _DEEPEST else label or what


def _atom(value: object) -> str:
    if type(value) is int and value.bit_length() > 1000:
        return hex(value)
    return repr(value)


def _class_label(kind: type) -> str:
    return f"class {kind.__qualname__}"


def _named(value: Any) -> str | None:
    """A library's object that goes by a name there: which; None for what does not."""
    try:
        module, name = value.__module__, getattr(value, "__qualname__", None) or value.__name__
        of = library(module)
        resolved = operator.attrgetter(name)(sys.modules[module]) if of is not None else None
    except Exception:  # noqa: BLE001 -- no such name; a proxy may raise anything
        return None
    return f"library {of} {name}" if of is not None and resolved is value else None


def _wrapped(value: Any) -> Any:
    """What a library's object is put around, such as a function with a cache, or one that is compiled."""
    attributes = getattr(value, "__dict__", {})
    return attributes.get("__wrapped__", attributes.get("py_func"))


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, without what its class computes once and keeps there."""
    kind = type(value)
    names = [n for n in copyreg._slotnames(kind) if hasattr(value, n)]  # type: ignore[attr-defined]
    attributes = {n: getattr(value, n) for n in names} | dict(getattr(value, "__dict__", {}))
    cached = {n for c in kind.__mro__ for n, x in vars(c).items() if isinstance(x, functools.cached_property)}
    return {n: x for n, x in attributes.items() if n not in cached | _GENERATED | _MARKS}


_READERS: list[tuple[Any, Callable[..., Iterator[str]]]] = [
    (types.FunctionType, Reads._function),
    (types.MethodType, Reads._method),
    (
        types.BuiltinFunctionType | types.MethodWrapperType | types.WrapperDescriptorType | types.MethodDescriptorType,
        Reads._builtin,
    ),
    (functools.partial, Reads._partial),
    (staticmethod | classmethod | property | functools.cached_property | functools.partialmethod, Reads._inside),
    (types.ModuleType, Reads._module),
    (type, Reads._class),
    (np.ndarray, Reads._array),
    (pa.Array | pa.ChunkedArray | pa.Table | pa.RecordBatch | pa.Scalar, Reads._arrow),
    (pa.DataType | pa.Schema | pa.Field, Reads._arrow),
]


def _exactly(kind: type, read: Callable[..., Iterator[str]]) -> Callable[..., Iterator[str]]:
    """A reader of a builtin container, which leaves classes made of it to be read as objects."""

    def reader(reads: Reads, value: Any, label: str) -> Iterator[str]:
        yield from read(reads, value, label) if type(value) is kind else reads._object(value, label)

    return reader


_READERS += [
    (list, _exactly(list, Reads._sequence)),
    (tuple, _exactly(tuple, Reads._sequence)),
    (dict, _exactly(dict, Reads._dict)),
    (set, _exactly(set, Reads._set)),
    (frozenset, _exactly(frozenset, Reads._set)),
]
