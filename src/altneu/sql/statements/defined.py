"""The definitions of statements: by name, in the order of their creation, with their dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sqlglot.tokens import TokenType

from altneu.collections.collection import Collection
from altneu.collections.functions import Udf, udf
from altneu.engine.engine import Engine
from altneu.errors import StatementError, UnknownColumnError
from altneu.errors.nearest import listed
from altneu.linear.user_function import UserFunction
from altneu.plan import ir
from altneu.plan.rewrite.transform import replaced
from altneu.plan.versions import Versions
from altneu.runtime.spark.functions import registered
from altneu.runtime.stored import StoredDefinition
from altneu.sql.functions import Functions, Parameter, SqlFunction, check_name, in_python
from altneu.sql.scope import DEFAULT, MOST_PARTS, Path, Within, full_name
from altneu.sql.statements.parser import SparkStatements, parse
from altneu.sql.statements.tree import CreateFunction, CreateIndex, Creation, Kind
from altneu.types import parse_type, quote_name

if TYPE_CHECKING:
    from altneu.engine.subscription import Subscription

C = TypeVar("C", bound=Creation)
Indexes = dict[str, list[list[str]]]
"""The columns of the indexes of a name, of each in the order in which they were made."""

TEMPORARY = "#"  # views whose names begin so belong to a statement that has ended
_AS_WRITTEN = (TokenType.STRING, TokenType.RAW_STRING, TokenType.IDENTIFIER, TokenType.NUMBER)
_IF_TAKEN = (["OR", "REPLACE"], ["OR", "REFRESH"], ["IF", "NOT", "EXISTS"])
_HEAD = 8  # words of a statement, at most, in front of the name that it gives


def _named(name: str, names: Iterable[str]) -> str | None:
    """Which of the names is meant, whatever the case."""
    return next((one for one in names if one.lower() == name.lower()), None)


@dataclass
class Defined:
    """One definition.

    ``columns`` are those of a source, ``raw`` those of its rows as they come, as they were found when it was made.
    ``indexes`` are those that there were of what it reads, and ``versions`` the places of the columns that its sources
    had among all that they have had: they are a part of what it means. ``altered`` are the ALTER statements that a
    source has had, of which a script that runs again has repeated ``repeated``. ``collection`` is what the name means
    in a query, ``arranged`` what an index arranges, ``late`` are a stream's late rows; ``view`` is what is maintained
    for it, if anything; ``attached`` the subscription of a sink; ``function`` is what a
    function's name means; ``fed`` says that what a batch source has was
    inserted; ``error`` why it could not be restored. ``defaults`` are those of a table as it was created, by the places
    of the columns, once they have been computed; ``unfilled`` says that the rows of its query are not in it yet.
    ``key`` are the columns of an index, if they have other names now than in its statement.
    ``path`` are the catalog and the schema within which it was written, and ``told`` what COMMENT ON has said since, by
    columns, None where it has taken a comment away.
    """

    name: str
    kind: Kind
    statement: Creation
    order: int
    columns: str = ""
    raw: str = ""
    depends: tuple[str, ...] = ()
    indexes: Indexes | None = None
    versions: dict[str, int] | None = None
    altered: tuple[str, ...] = ()
    repeated: int = 0
    defaults: Mapping[int, Any] | None = None
    unfilled: bool = False
    key: tuple[str, ...] | None = None
    path: Path = DEFAULT
    told: Mapping[str, str | None] = field(default_factory=dict)
    collection: Collection | None = None
    arranged: Collection | None = None
    late: Collection | None = None
    view: str | None = None
    attached: Subscription | None = None
    function: UserFunction | SqlFunction | None = None
    fed: bool = False
    error: Exception | None = None

    def stated(self, kind: type[C]) -> C:
        """The statement, which is of this kind."""
        assert isinstance(self.statement, kind)
        return self.statement

    @property
    def is_stored(self) -> bool:
        """Whether the store has it, and not this session alone."""
        return not getattr(self.statement, "temporary", False)

    @property
    def indexed(self) -> tuple[str, ...]:
        """The columns of an index, as they are named now."""
        return self.key or self.stated(CreateIndex).columns

    @property
    def comments(self) -> dict[str, str]:
        """What is said of its columns, by their names in lower case, and under "" of itself."""
        first = getattr(self.statement, "comments", {})
        now = {**{name.lower(): text for name, text in first.items()}, **self.told}
        return {name: text for name, text in now.items() if text is not None}

    @property
    def text(self) -> str:
        """What defines it, wherever that is written."""
        before = "" if self.path == DEFAULT else f"USE {'.'.join(map(quote_name, self.path))}; "
        return before + self.statement.text

    def to_json(self) -> StoredDefinition:
        """The definition as a commit stores it."""
        text = self.statement.text
        encoded: StoredDefinition = {"kind": self.kind, "name": self.name, "text": text, "order": self.order}
        if self.kind in ("SOURCE", "TABLE"):
            encoded["columns"], encoded["raw"] = self.columns, self.raw
        if self.indexes:
            encoded["indexes"] = self.indexes
        if self.versions:
            encoded["versions"] = self.versions
        if self.altered:
            encoded["altered"] = list(self.altered)
        if self.unfilled:
            encoded["unfilled"] = True
        if self.key is not None:
            encoded["key"] = list(self.key)
        if self.path != DEFAULT:
            encoded["path"] = list(self.path)
        if self.told:
            encoded["told"] = dict(self.told)
        return encoded

    @classmethod
    def from_json(cls, encoded: StoredDefinition) -> Defined:
        """The definition that a commit stores, parsed."""
        path = path_in(encoded)
        statement = stated(encoded)
        columns, raw = encoded.get("columns", ""), encoded.get("raw", "")
        defined = cls(encoded["name"], encoded["kind"], statement, encoded["order"], columns, raw)
        defined.indexes, defined.versions = dict(encoded.get("indexes", {})), dict(encoded.get("versions", {}))
        defined.altered = tuple(encoded.get("altered", ()))
        defined.unfilled = encoded.get("unfilled", False)
        defined.key = tuple(encoded["key"]) if "key" in encoded else None
        defined.path, defined.told = path, dict(encoded.get("told", {}))
        return defined


def schema_of(name: str) -> str:
    """The schema of a definition by its name, with a dot; "" for the default one.

    >>> schema_of("t"), schema_of("db.t"), schema_of("main.db.t")
    ('', 'db.', 'main.db.')
    """
    before, dot, _ = name.rpartition(".")
    return before + dot


def shown_name(name: str) -> str:
    """What a definition is called in messages.

    >>> shown_name("gross()"), shown_name("sales."), shown_name("")
    ('gross', 'sales', 'default')
    """
    return name.removesuffix("()").removesuffix(".") or DEFAULT[1]


def path_in(encoded: StoredDefinition) -> Path:
    """The catalog and the schema within which a stored definition was written."""
    catalog, schema = encoded.get("path", DEFAULT)
    return catalog, schema


def stated(encoded: StoredDefinition) -> Creation:
    """The statement of a stored definition."""
    (statement,) = parse(encoded["text"], Within(path_in(encoded)), stored=True)
    assert isinstance(statement, Creation)
    return statement


class Definitions(Mapping[str, Collection]):
    """All definitions, as the catalog of names for queries; the case of names does not matter.

    It includes what Python maintains: views, and the sources that these read.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.all: dict[str, Defined] = {}
        self.registered: dict[str, Udf] = {}  # functions of the program, by name in lower case
        self.path = DEFAULT  # the catalog and the schema of names that do not say them
        self.version = 0  # another one whenever a definition is added or removed
        self._read: set[str] = set()
        self._indexes: Indexes | None = None  # those that count, if not all
        self.changed: dict[str, Versions] = {}  # the columns of sources that are about to be committed
        self.replacing: dict[str, Collection] = {}  # views of the program that are about to be committed anew
        self._given: Mapping[str, Collection] = {}  # rows that a statement has read, by the names in lower case
        self._past: Mapping[str, Collection] = {}  # views that were redefined after the time that counts
        self._versions: Mapping[str, int] | None = None  # the columns of sources that count, if not the present ones

    def get_defined(self, name: str) -> Defined | None:
        """A definition by name."""
        return self.all.get(name.lower())

    def defined(self, name: str, *kinds: Kind) -> Defined:
        """A definition by name, of one of some kinds.

        Raises:
            StatementError: the store has no definition of that name.
        """
        defined = self.get_defined(name)
        if defined is None or (kinds and defined.kind not in kinds):
            of_python = "" if defined else self._of_python(name)
            problem = f"{defined.name!r} is a {defined.kind}" if defined else of_python or f"there is no {name!r}"
            shown = " or ".join(kinds) or "name"
            article = "an " if shown.startswith("INDEX") else "a "
            known = [d.name for d in self.all.values() if (d.kind in kinds if kinds else d.kind != "SCHEMA")]
            there_are = listed("" if defined or of_python else name, known)
            raise StatementError(f"{problem}; the statement needs {article}{shown}; there are: {there_are}")
        return defined

    def _of_python(self, name: str) -> str:
        """What is said of a name that means a view of Python's; empty if it means none.

        Raises:
            StatementError: it means a source of Python's, whose rows a program changes.
        """
        if source := _named(name, self._engine.sources):
            raise StatementError(
                f"source {source!r} was declared in Python, and statements can only change the rows of a table or "
                f"source that a statement created: use session.insert({source!r}, rows) and "
                f"session.retract({source!r}, rows)"
            )
        view = _named(name, self._engine.views_stored)
        if view is None or view.startswith(TEMPORARY):
            return ""
        node = self._engine.collections[view].node if view in self._engine.views else None
        leaves = ir.walk(node) if node is not None else ()
        read = sorted({n.name for n in leaves if isinstance(n, ir.Source) and self.get_defined(n.name) is None})
        calls = f"; session.insert changes the rows of what it reads: {', '.join(read)}" if read else ""
        return f"{view!r} is a view that was made in Python{calls}"

    def put(self, defined: Defined) -> None:
        """Add a definition."""
        self.version += 1
        self.all[defined.name.lower()] = defined

    def remove(self, defined: Defined) -> None:
        """Remove a definition."""
        self.version += 1
        del self.all[defined.name.lower()]

    def dependants(self, name: str) -> list[Defined]:
        """The definitions that read a definition directly."""
        return [d for d in self.all.values() if name.lower() in d.depends]

    def with_dependants(self, first: Defined) -> list[Defined]:
        """The definitions that read a definition, last first, then itself."""
        reached = {first.name.lower(): first}
        todo = [first]
        while todo:
            for defined in self.dependants(todo.pop().name):
                if defined.name.lower() not in reached:
                    reached[defined.name.lower()] = defined
                    todo.append(defined)
        return sorted(reached.values(), key=lambda d: -d.order)

    def refuse_dependants(self, defined: Defined, what: str) -> None:
        """Refuse what is done to a definition that others read.

        Raises:
            StatementError: naming them.
        """
        dependants = self.dependants(defined.name)
        if dependants:
            raise StatementError(read_by(f"{defined.kind} {defined.name}", what, dependants))

    def below(self, defined: Defined) -> list[Defined]:
        """The definitions that one reads, and those that these read."""
        found: dict[str, Defined] = {}
        todo = [*defined.depends]
        for name in todo:
            below = self.all.get(name)
            if below is not None and name not in found:
                found[name] = below
                todo += below.depends
        return [*found.values()]

    @property
    def next_order(self) -> int:
        """The number of the next definition."""
        return max((d.order for d in self.all.values()), default=-1) + 1

    # what names mean ------------------------------------------------------------------------------------------------

    @property
    def within(self) -> Within:
        """Where statements and queries are written."""
        alone = (name for name, d in self.all.items() if d.kind == "VIEW" and not d.is_stored)
        return Within(self.path, frozenset(alone))

    def use(self, path: Path) -> None:
        """Let names that do not say their catalog and schema be of these.

        Raises:
            StatementError: there is no such schema.
        """
        self.check_schema(full_name((*path, "")))
        self.path = path
        self.version += 1

    def check_schema(self, name: str) -> None:
        """Refuse a schema that does not exist, by its name with a dot.

        Raises:
            StatementError: naming those that do.
        """
        if name.lower() not in (known := self.schemas()):
            shown = shown_name(name)
            there = listed(shown, map(shown_name, known))
            raise StatementError(f"there is no schema {shown!r}: CREATE SCHEMA {shown} first; there are: {there}")

    def schemas(self) -> dict[str, Defined | None]:
        """All schemas, by their names with a dot: the default one, those of CREATE SCHEMA, and those in names."""
        found: dict[str, Defined | None] = {"": None}
        found |= {name: defined for name, defined in self.all.items() if defined.kind == "SCHEMA"}
        for name in (name.lower() for name in self):
            if 0 < name.count(".") < MOST_PARTS:
                found.setdefault(schema_of(name), None)
        return found

    def reading(
        self,
        indexes: Indexes | None = None,
        versions: Mapping[str, int] | None = None,
        then: int | None = None,
        path: Path | None = None,
    ) -> Definitions:
        """The same names, recording what is read from now on: ``names_read``, ``indexes_read``, ``versions_read``.

        With ``indexes`` no others count; with ``versions`` sources have the columns of then, the first unless it says.
        With the time ``then`` views that were redefined after it are those that they were.
        """
        other = Definitions(self._engine)
        other.all, other.registered, other._indexes = self.all, self.registered, indexes
        other._versions, other.changed, other.replacing = versions, self.changed, self.replacing
        other._given, other.path = self._given, self.path if path is None else path
        if then is not None:
            other._past = {
                name.lower(): Collection(ir.Source(found.source, found.layout.schema))
                for name, found in self._engine.catalogue.redefined_after(then).items()
            }
        return other

    @contextmanager
    def given(self, rows: Mapping[str, Collection]) -> Iterator[None]:
        """Inside, names mean these rows, whatever else they mean."""
        self._given = {name.lower(): collection for name, collection in rows.items()}
        try:
            yield
        finally:
            self._given = {}

    @property
    def versions_read(self) -> dict[str, int]:
        """Of the sources that were read since ``reading`` which of their columns, if not the first."""
        known = {**self._engine.catalogue.columns.versions, **self.changed}
        read = {n: self.all[n].name for n in self.names_read if n in self.all}
        places = {n: len(known[name].all) - 1 for n, name in read.items() if name in known}
        return {name: place for name, place in places.items() if place}

    def _as_of_then(self, defined: Defined, collection: Collection) -> Collection:
        """A source with the columns that count."""
        node = collection.node
        known = self.changed.get(defined.name) or self._engine.catalogue.columns.versions.get(defined.name)
        if self._versions is None or known is None or not isinstance(node, ir.Source):
            return collection
        return Collection(known.as_of(known.all[self._versions.get(defined.name.lower(), 0)], node))

    def _over_past(self, defined: Defined, collection: Collection) -> Collection:
        """A view that is only a name, over views as they were."""
        if not self._past or defined.kind != "VIEW":
            return collection
        names = {*defined.depends}.union(*(below.depends for below in self.below(defined) if below.kind == "VIEW"))
        known = {name.lower(): written.node.fingerprint for name, written in self._engine.collections.items()}
        past = {known[name]: self._past[name].node for name in names if name in self._past}
        return Collection(replaced(collection.node, past)) if past else collection

    @property
    def indexes_read(self) -> Indexes:
        """The indexes of the names that were read since ``reading``."""
        indexes = {name: self.indexes_of(name) for name in self.names_read}
        return {name: keys for name, keys in indexes.items() if keys}

    def indexes_of(self, name: str) -> list[list[str]]:
        """The columns of each index of a name."""
        if self._indexes is not None:
            return self._indexes.get(name.lower(), [])
        indexes = [(d, d.stated(CreateIndex)) for d in self.all.values() if d.kind == "INDEX"]
        of_name = [(d, index) for d, index in indexes if index.of.lower() == name.lower() and d.error is None]
        return [list(d.indexed) for d, _ in sorted(of_name, key=lambda pair: pair[0].order)]

    def _indexed(self, name: str, collection: Collection) -> Collection:
        there = {column.lower() for column in collection.columns}
        for columns in self.indexes_of(name):
            if there.issuperset(column.lower() for column in columns):  # or they had another name then
                collection = collection.arrange_by(*columns_named(collection, columns))
        return collection

    @property
    def names_read(self) -> tuple[str, ...]:
        """The names that were read since ``reading``."""
        return tuple(sorted(self._read))

    def refuse_without_contents(self, names: Iterable[str]) -> None:
        """Refuse to answer a query that reads a view which keeps no contents, by these names or what they stand for.

        Raises:
            StatementError: naming it.
        """
        todo, views = [*names], {view.lower(): view for view in self._engine.views}
        for name in todo:
            defined = self.all.get(name)
            if defined is not None and defined.view is None:
                todo += [below for below in defined.depends if below not in todo]
            elif name in views and self._engine.ports(views[name]).changes_only:
                raise StatementError(
                    f"view {views[name]!r} has no contents (CONTENTS = FALSE), so no query can read it; SUBSCRIBE and "
                    "CREATE SINK deliver its changes, and a view made with CREATE VIEW computes its rows on demand"
                )

    def __getitem__(self, name: str) -> Collection:
        """What a name means.

        Raises:
            KeyError: nothing has this name.
            StatementError: it has no rows.
            AltneuError: the reason for which it could not be restored.
        """
        if (given := self._given.get(name.lower())) is not None:
            return given
        defined = self.all.get(name.lower())
        if (past := self._past.get(name.lower())) is not None:
            self._read.add(name.lower())
            return past
        if defined is None and (stream := self._of_late_rows(name)) is not None:
            assert stream.late is not None
            self._read.add(stream.name.lower())
            return stream.late
        if defined is None:
            collection = self._python()[name.lower()]
        elif defined.error is not None:
            raise defined.error
        elif defined.collection is None:
            raise StatementError(f"{defined.name!r} is a {defined.kind}, which has no rows to read")
        else:
            collection = self._over_past(defined, self._as_of_then(defined, defined.collection))
        self._read.add(name.lower())
        return self._indexed(name, collection)

    # functions ------------------------------------------------------------------------------------------------------

    def register(self, name: str, udf: Udf) -> None:
        """Give a function of the program a name.

        Raises:
            StatementError: SQL has a function of that name, or a statement has created one.
        """
        check_name(name)
        if (existing := self.all.get(f"{name}()".lower())) is not None:
            raise StatementError(
                f"{existing.name} is a FUNCTION that a statement created; DROP FUNCTION {name}, or choose another name"
            )
        self.version += 1
        self.registered[name.lower()] = udf

    def take_over(self, registered: Mapping[str, Udf]) -> None:
        """Know functions to which the program has given names in another session."""
        self.version += 1
        self.registered |= registered

    def function(self, name: str) -> UserFunction | SqlFunction | None:
        """The function of a name.

        Raises:
            AltneuError: the reason for which it could not be restored.
        """
        key = f"{name}()".lower()
        defined = self.all.get(key)
        if defined is None:
            known = self.registered.get(name.lower())
            return None if known is None else known.function
        if defined.error is not None:
            raise defined.error
        self._read.add(key)
        return defined.function

    def find(self, name: str) -> bool:
        """Take a function over that the program has registered in Spark."""
        spark = self._engine.spark
        found = None if spark is None else registered(spark, name)
        if found is None:
            return False
        self.register(name, udf(cast(Any, found), name=name))
        return True

    def function_names(self) -> list[str]:
        """The names of all functions of users."""
        defined = [d.name.removesuffix("()") for d in self.all.values() if d.kind == "FUNCTION"]
        return [*defined, *self.registered]

    def _of_late_rows(self, name: str) -> Defined | None:
        """The stream whose late rows a name means: ``<stream>_late``, where it keeps them."""
        stream = self.all.get(name.lower().removesuffix("_late"))
        return stream if stream is not None and stream.late is not None and name.lower() not in self.all else None

    def _python(self) -> dict[str, Collection]:
        known = {**self._engine.collections, **self.replacing}
        return {name.lower(): collection for name, collection in known.items()}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in {known.lower() for known in self}

    def __iter__(self) -> Iterator[str]:
        own = [d.name for d in self.all.values() if (d.collection or d.error) is not None and d.kind != "FUNCTION"]
        own += [f"{d.name}_late" for d in self.all.values() if d.late is not None]
        python = {**self._engine.collections, **self.replacing}
        given = [n for n in self._given if n not in self.all]
        return iter([*own, *(n for n in python if n.lower() not in self.all), *given])

    def __len__(self) -> int:
        return sum(1 for _ in self)


def function_of(statement: CreateFunction, functions: Functions) -> UserFunction | SqlFunction:
    """The function that a statement creates.

    Raises:
        PlanError: its body is no expression of its parameters, or not Python.
    """
    name = statement.name.removesuffix("()")
    parameters = [Parameter(n, parse_type(kind), default) for n, kind, default in statement.parameters]
    returns = None if statement.returns is None else parse_type(statement.returns)
    if not isinstance(statement.body, str):
        return SqlFunction.of(name, parameters, returns, statement.body, functions)
    assert returns is not None
    return in_python(name, parameters, returns, statement.body)


def columns_named(collection: Collection, names: Iterable[str]) -> list[str]:
    """A collection's columns by names in any case.

    Raises:
        UnknownColumnError: there is none of a name.
    """
    known = {column.lower(): column for column in collection.columns}
    for name in names:
        if name.lower() not in known:
            raise UnknownColumnError(name, collection.columns)
    return [known[name.lower()] for name in names]


def same(some: str, other: str) -> bool:
    """Whether two statements say the same, word by word: spaces, comments and the case of words do not count.

    Nor does what is to happen where the name is taken already.

    >>> same("CREATE VIEW v AS SELECT 1 -- one", "create view v  as select 1")
    True
    >>> same("CREATE OR REPLACE VIEW v AS SELECT 1", "CREATE VIEW IF NOT EXISTS v AS SELECT 1")
    True
    >>> same("CREATE VIEW v AS SELECT 'a'", "CREATE VIEW v AS SELECT 'A'")
    False
    """
    return _words(some) == _words(other)


def _words(text: str) -> list[tuple[TokenType, str]]:
    tokens = SparkStatements().tokenize(text)
    words = [(t.token_type, t.text if t.token_type in _AS_WRITTEN else t.text.upper()) for t in tokens]
    for told in _IF_TAKEN:
        texts = [word for _, word in words[:_HEAD]]
        at = next((i for i in range(len(texts)) if texts[i : i + len(told)] == told), None)
        if at is not None:
            del words[at : at + len(told)]
    return words


def read_by(name: str, what: str, readers: list[Defined]) -> str:
    """The message of an error: what is done to this name while these definitions read it."""
    shown = ", ".join(f"{d.kind} {d.name}" for d in readers)
    return f"{name} {what} while it is read by {shown}; drop these first, or DROP {name} CASCADE with all of them"
