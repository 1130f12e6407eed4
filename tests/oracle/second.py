"""Random programs against a second oracle, which shares nothing with the first: neither its plans nor its meaning.

A scene is a session: some sources and their history, some programs (views of random plans out of all verbs), and how it
is run: shards, a bound of memory, a store that is closed and opened again, or left by a process that died, steps whose
commit fails, resharding, views that come late and are dropped and made again, sources whose rows are given once more,
rows of the future, several times closed in one step, two times, Spark. After every step each view's contents, changes,
past and errors are compared with what ``second_meaning`` makes of the history.

    python -m tests.oracle.second --programs 20000 --seed 0          # on one core; --spark runs them on Spark
    python -m tests.oracle.second --scene 4711                       # one scene again

A difference is made small (steps, verbs, rows) and printed as a program that can be pasted.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import process_time
from typing import Any

import altneu as an
from altneu import Collection, Session, View
from altneu.errors import AltneuError, InputError, PlanError, ViewHasErrorsError
from tests.oracle.second_meaning import Held, History, Row, Rows, TooLargeError, canon, distinct, held, linear
from tests.oracle.second_verbs import SQL_TYPES, TYPES, VALUES, Columns, Node, Variable, Writer

PROGRAMS = 8  # in a scene
REOPENED = 2  # times at most, in a scene
Point = tuple[int, int | None]  # a time, and an event time where there are two
Update = tuple[Row, Any, int]  # a row, its time or both, its diff
Action = tuple[Any, ...]


@dataclass(frozen=True)
class Scene:
    """Sources with their updates, views, and what is done, in order."""

    seed: int
    shape: Columns
    sources: dict[str, list[Update]]
    times: int
    events: int  # 0: one time
    keep: bool
    views: dict[str, Node]
    joins: dict[str, str]
    actions: tuple[Action, ...]
    options: dict[str, Any]
    durable: bool
    given: bool = False  # what no source keeps is given once more, for views to come

    def points(self) -> list[Point]:
        """The times that are looked at."""
        if not self.events:
            return [(t, None) for t in range(self.times)]
        return [(t, e) for t in range(self.times) for e in range(self.events)]

    def declared(self, name: str) -> str:
        columns = ", ".join(f"{n} {SQL_TYPES[t]}" for n, t in self.shape)
        more = ", keep=True" * self.keep + ', time=("known", "day")' * bool(self.events)
        return f'an.source("{name}", "{columns}"{more})'


# writing --------------------------------------------------------------------------------------------------------------


def scene(seed: int, programs: int = PROGRAMS, spark: bool = False) -> Scene:
    """A random scene; one that would be too large to compute is thrown away, and the next one taken."""
    for attempt in range(100):
        rng = random.Random(f"{seed}/{attempt}")
        result = _scene(rng, seed, programs, spark)
        try:
            Expected(result).all()
        except TooLargeError:
            continue
        return result
    raise AssertionError("every scene is too large")


def _scene(rng: random.Random, seed: int, programs: int, spark: bool) -> Scene:
    shape = tuple((n, TYPES[n]) for n in ("k", "v", *rng.sample("sdmt", rng.choice([0, 0, 1, 2]))))
    events = rng.choice([0, 0, 0, 0, 0, 3])
    times = rng.randint(3, 6 if events else 9)
    keep = rng.random() < 0.7
    sources = {name: _updates(rng, shape, times, events, log=name == "r") for name in "pqr"}
    nodes = {name: Node(name, (), shape) for name in sources}
    views = {f"view{i}": _program(rng, shape, nodes, bool(events)) for i in range(programs)}
    joins = {name: rng.choice(["auto", "auto", "delta", "binary"]) for name in views}
    durable = rng.random() < 0.35
    options: dict[str, Any] = {"shards": rng.choice([1, 1, 2, 3, 4, 5])}
    given = not keep and not events and rng.random() < 0.8
    if rng.random() < 0.4 and not given:
        options["retain"] = rng.choice([1, 3, "all"])
    if rng.random() < 0.3:
        options["memory"] = rng.choice(["1m", "4m"])
    if events and rng.random() < 0.5:
        options["retain_events"] = rng.choice([1, 2])
    if given:  # so that every source is read from the beginning
        views |= {f"keys of {n}": _keys(node, rng.choice(["k", "v"])) for n, node in nodes.items()}
    plain = Scene(seed, shape, sources, times, events, keep, views, joins, (), options, durable, given)
    return replace(plain, actions=tuple(_actions(rng, plain, spark)))


def _updates(rng: random.Random, shape: Columns, times: int, events: int, *, log: bool) -> list[Update]:
    """A history: of few rows, which come several times, and go, and are owed now and then."""
    rows = [tuple(rng.choice(VALUES[n]) for n, _ in shape) for _ in range(rng.randint(1, 6))]
    owed = rng.random() < 0.15
    result: list[Update] = []
    there: Counter[str] = Counter()
    for t in sorted(rng.choices(range(times), k=rng.randint(0, 14))):
        row, diff = rng.choice(rows), rng.choice([1, 1, 1, 2])
        if not log and rng.random() < 0.4 and (owed or there[repr(row)] >= diff):
            diff = -diff
        there[repr(row)] += diff
        time: Any = (t, rng.randrange(events)) if events else t
        result.append((row, time, diff))
    return result


def _program(rng: random.Random, shape: Columns, sources: dict[str, Node], two_times: bool) -> Node:
    writer = Writer(rng, shape, [sources["r"]], two_times)
    writer.pool = [*sources.values()]
    for _ in range(rng.randint(1, 5)):
        writer.one()
    return writer.pool[-1]


def _keys(source: Node, column: str) -> Node:
    texts, place = source.columns, source.place(column)
    chosen = Node(f"{{0}}.select({column!r})", (source,), (texts[place],), linear(lambda row, _: [((row[place],), 1)]))
    return Node("{0}.distinct()", (chosen,), chosen.columns, distinct, keeps=True)


def _actions(rng: random.Random, made: Scene, spark: bool) -> Iterator[Action]:
    able = [v for v, n in made.views.items() if (made.keep or made.given) and not n.by_arrival and v.startswith("view")]
    late = [v for v in able if rng.random() < (0.5 if made.given else 0.3)]
    given, reopened = made.keep, 0
    if made.keep:
        yield from (("maintain", name) for name in made.sources)
    yield from (("maintain", name) for name in made.views if name not in late)
    cuts = sorted({made.times, *rng.sample(range(1, made.times), rng.randint(0, made.times - 1))})
    waiting = {name: [*updates] for name, updates in made.sources.items()}
    shards, dropped = made.options["shards"], list[str]()
    for cut in cuts:
        yield from _inserts(rng, waiting, cut)
        if rng.random() < 0.15:
            yield ("commit",)
        if made.durable and reopened < REOPENED and rng.random() < 0.25:
            reopened += 1
            yield (rng.choice(["reopen", "crash"]),)
        if made.durable and rng.random() < 0.15:
            yield ("fail", cut)
        if spark:
            yield ("place", rng.choice(["spark", "driver", "driver"]))
        yield ("advance", cut)
        if made.given and not given and rng.random() < 0.6:
            given = True
            yield from (("backfill", name, rng.random() < 0.4) for name in made.sources)
        if made.durable and reopened < REOPENED and rng.random() < 0.3:
            reopened += 1
            yield (rng.choice(["reopen", "crash"]),)
        if rng.random() < 0.12 and shards < 8:
            shards *= rng.choice([2, 2, 3])
            yield ("reshard", shards)
        for name in [n for n in late if given and rng.random() < 0.5]:
            late.remove(name)
            yield ("maintain", name)
            if rng.random() < 0.3:
                dropped.append(name)
        if dropped and rng.random() < 0.5:
            name = dropped.pop()
            yield ("drop", name)
            late.append(name)


def _inserts(rng: random.Random, waiting: dict[str, list[Update]], cut: int) -> Iterator[Action]:
    """What is inserted before a step, now and then also what is of the future."""
    for name, updates in waiting.items():
        early = rng.random() < 0.3
        now = [u for u in updates if _time(u) < cut or (early and rng.random() < 0.5)]
        waiting[name] = [u for u in updates if not any(u is other for other in now)]
        rng.shuffle(now)
        if now:
            yield ("insert", name, tuple(now))


def _time(update: Update) -> int:
    return update[1][0] if isinstance(update[1], tuple) else update[1]


# what it means --------------------------------------------------------------------------------------------------------


class Expected:
    """What the views of a scene hold at every time, computed once for each node."""

    def __init__(self, made: Scene) -> None:
        self.scene, self.points = made, made.points()
        self.known: dict[int, History] = {}
        self.kept: list[Node] = []
        self._sources = {name: [self._source(u, p) for p in self.points] for name, u in made.sources.items()}

    def _source(self, updates: list[Update], point: Point) -> Held:
        rows: Rows = Counter()
        for row, time, diff in updates:
            t, e = time if isinstance(time, tuple) else (time, None)
            if t <= point[0] and (e is None or e <= (point[1] or 0)):
                rows[tuple(map(canon, row))] += diff
        return Held(Counter({row: n for row, n in rows.items() if n}))

    def all(self) -> None:
        for node in self.scene.views.values():
            self.of(node)

    def of(self, node: Node) -> History:
        if id(node) not in self.known:
            self.kept.append(node)
            self.known[id(node)] = self._of(node)
        return self.known[id(node)]

    def _of(self, node: Node) -> History:
        if not node.inputs and not isinstance(node, Variable):
            return self._sources[node.text]
        inputs = [self.of(i) for i in node.inputs]
        if node.over is not None:
            return node.over(inputs)
        assert node.at is not None
        result: History = []
        for i, (now, _) in enumerate(self.points):
            here = [h[i] for h in inputs]
            result.append(held(node.at(now, [h.rows for h in here]), here, node.keeps))
        return result


# running --------------------------------------------------------------------------------------------------------------


class DifferentError(AssertionError):
    """What a view shows is not what it ought to show."""


@dataclass
class Run:
    """A scene under way."""

    scene: Scene
    expected: Expected
    spark: Any = None
    folder: Path | None = None
    views: dict[str, View] = field(default_factory=dict)
    sums: dict[str, dict[Point, Rows] | None] = field(default_factory=dict)  # None: not known
    inserted: list[tuple[str, Update]] = field(default_factory=list)  # and in no commit so far
    ahead: dict[str, int] = field(default_factory=dict)  # the greatest time of a row of each source
    unfilled: bool = False  # what was given of some source was refused, as it waits
    filled: int = 0
    exact: int = 0
    unsure: int = 0

    def run(self) -> None:
        self.plans = collections(self.scene)
        self.scratch = Path(tempfile.mkdtemp())
        self.folder = self.scratch / "store" if self.scene.durable else None
        self.session = self._open(**self.scene.options)
        try:
            for action in self.scene.actions:
                getattr(self, f"_{action[0]}")(*action[1:])
        finally:
            self.session.close()
            shutil.rmtree(self.scratch)

    def _open(self, **options: Any) -> Session:
        return Session(self.spark, self.folder, **options)

    def _maintain(self, name: str) -> None:
        if self.unfilled and self.session.lower:
            return
        view = self._maintained(name)
        if name in self.scene.views:
            self.views[name] = view
            self.sums[name] = {}
            if self.session.lower:
                self._check_contents(name)
                last = [p for p in self.expected.points if p[0] == self.session.lower - 1]
                known = {p: self._held(name, p) for p in last}
                unsure = any(h.unsure for h in known.values())
                self.sums[name] = None if unsure else {p: h.rows for p, h in known.items()}

    def _maintained(self, name: str) -> View:
        """A view with the joins that the scene says; a delta join that is refused by name is left to "auto"."""
        joins: Any = self.scene.joins.get(name, "auto")
        try:
            return self.session.maintain(name, self.plans[name], joins=joins)
        except PlanError as error:
            if joins == "delta" and 'joins="delta" is not possible' in str(error):
                return self.session.maintain(name, self.plans[name])
            raise

    def _drop(self, name: str) -> None:
        if name in self.views:
            self.session.drop(name)
            del self.views[name], self.sums[name]

    def _insert(self, name: str, updates: tuple[Update, ...]) -> None:
        if name not in self.session.sources:
            return
        for update in updates:
            self._inserted(name, update)
            self.inserted.append((name, update))
            self.ahead[name] = max(self.ahead.get(name, 0), _time(update))

    def _inserted(self, name: str, update: Update) -> None:
        row, time, diff = update
        self.session.insert(name, [row], time=time, diff=diff)

    def _commit(self) -> None:
        self.session.commit()
        self.inserted.clear()

    def _backfill(self, name: str, wrong: bool) -> None:
        """Give the rows of a source once more, perhaps wrong ones before; what waits for its time is in the way."""
        lower = self.session.lower
        rows = self.expected._sources[name][lower - 1].rows
        if self.ahead.get(name, 0) >= lower:
            self.unfilled = True
            return
        more = Counter(rows)
        more[next(iter(rows), tuple(None for _ in self.scene.shape))] += 1
        for given in (more, rows) if wrong else (rows,):
            before = self.session.store.number, self.session._engine.plan
            try:
                self.session.backfill(name, [(*row, n) for row, n in given.items() if n], diff="#n")
                if given is not rows:
                    raise DifferentError(f"{name}: a row too many was not seen, though its keys are kept")
            except InputError as error:
                assert (self.session.store.number, self.session._engine.plan) == before
                if given is rows:
                    if "future time" not in str(error):
                        raise
                    self.unfilled = True
        self.filled += 1

    def _place(self, where: str) -> None:
        if self.spark is not None:
            self.session._engine.executor.placement = where

    def _reshard(self, shards: int) -> None:
        self.session.reshard(shards)

    def _reopen(self) -> None:
        if self.inserted:
            self._commit()
        self.session.close()
        self._opened_again()

    def _crash(self) -> None:
        """Go on with the store as a process leaves it that dies: what was in no commit is inserted again."""
        assert self.folder is not None
        left, self.folder = self.folder, Path(tempfile.mkdtemp(dir=self.scratch)) / "store"
        shutil.copytree(left, self.folder)
        self.session.close()
        self._opened_again()
        for name, update in self.inserted:
            self._inserted(name, update)

    def _fail(self, to: int) -> None:
        """A step whose commit fails: nothing has happened, and it can be taken again."""
        before = self.session.store.number, self.session.lower, self.session._engine.has_pending

        def fails(*_: Any) -> None:
            raise OSError("no room")

        self.session.store.commit = fails  # type: ignore[method-assign]
        try:
            self.session.advance(to)
        except (AltneuError, OSError):
            pass
        else:
            raise DifferentError("a step was taken whose commit failed")
        finally:
            del self.session.store.commit
        if before != (self.session.store.number, self.session.lower, self.session._engine.has_pending):
            raise DifferentError("a failed step has changed the session")
        if self.session.lower:
            for name in self.views:
                self._check_contents(name)

    def _opened_again(self) -> None:
        self.session = self._open(**{k: v for k, v in self.scene.options.items() if k != "shards"})
        for name in [n for n in self.scene.sources if self.scene.keep]:
            self.session.maintain(name, self.plans[name])
        for name in [*self.views]:
            self.views[name] = self._maintained(name)
            if self.session.lower:
                self._check_contents(name)

    def _advance(self, to: int) -> None:
        lower = self.session.lower
        self.session.advance(to)
        self.inserted.clear()
        for name in self.views:
            self._check_changes(name, lower, to)
            self._check_contents(name)

    def _held(self, name: str, point: Point) -> Held:
        return self.expected.of(self.scene.views[name])[self.expected.points.index(point)]

    def _readable(self, name: str) -> list[Point]:
        since, until = self.views[name].since, self.session.lower
        events = self.session._engine.journal.events  # earlier ones are no longer told apart
        return [p for p in self.expected.points if since <= p[0] < until and (p[1] is None or p[1] >= events)]

    def _read(self, name: str, point: Point) -> Rows:
        at: Any = point[0] if point[1] is None else point
        actual = self.views[name].to_arrow(at, errors="ignore")
        columns = [c.to_pylist() for c in actual.columns]
        return Counter(tuple(map(canon, row)) for row in zip(*columns, strict=True))

    def _check_contents(self, name: str) -> None:
        """Contents and errors now and at all times that are kept."""
        for point in self._readable(name):
            wanted = self._held(name, point)
            if wanted.unsure:
                self.unsure += 1
                continue
            self.exact += 1
            above = Counter({row: n for row, n in wanted.rows.items() if n > 0})
            self._same(name, f"the contents at {point}", self._read(name, point), above)
            at: Any = point[0] if point[1] is None else point
            codes = {error["code"] for error in self.views[name].errors(at).to_pylist()}
            owed = {"NEGATIVE_MULTIPLICITY"} if any(n < 0 for n in wanted.rows.values()) else set[str]()
            if codes != wanted.codes | owed:
                raise DifferentError(
                    f"{name}: the errors at {point} are {codes}, and ought to be {wanted.codes | owed}"
                )
            try:
                self.views[name].to_arrow(at)
                raised = False
            except ViewHasErrorsError:
                raised = True
            if raised != bool(codes):
                raise DifferentError(
                    f"{name}: reading at {point} {'raises' if raised else 'does not raise'}, with {codes}"
                )

    def _check_changes(self, name: str, lower: int, upper: int) -> None:
        """What a view held and its changes make what it holds, at every time in between."""
        table = self.views[name].changes(time_column="#t")
        columns = [c.to_pylist() for c in table.columns]
        ends = 2 if self.scene.events else 1
        updates = [(tuple(map(canon, u[: -ends - 1])), u[-ends - 1 :]) for u in zip(*columns, strict=True)]
        sums = self.sums[name]
        if sums is None:
            return
        before = {event: rows for (_, event), rows in sums.items()}
        after: dict[Point, Rows] = {}
        for point in self.expected.points:
            if not lower <= point[0] < upper:
                continue
            rows = Counter(before.get(point[1], Counter()))
            for row, (t, *event, diff) in updates:
                if t <= point[0] and (not event or event[0] <= point[1]):
                    rows[row] += diff
            wanted = self._held(name, point)
            if not wanted.unsure and (point[1] is None or point[1] >= self.session._engine.journal.events):
                self._same(name, f"the changes up to {point}", rows, wanted.rows)
            if point[0] == upper - 1:
                after[point] = rows
        self.sums[name] = after

    def _same(self, name: str, what: str, found: Rows, wanted: Rows) -> None:
        unlike = {r: (found[r], wanted[r]) for r in found.keys() | wanted.keys() if found[r] != wanted[r]}
        if unlike:
            raise DifferentError(f"{name}: {what} (found, wanted): {unlike}")


def collections(made: Scene) -> dict[str, Collection]:
    """The plans of a scene, from their texts."""
    known: dict[str, Any] = {"an": an}
    for name in made.sources:
        known[name] = eval(made.declared(name), known)  # noqa: S307 -- what this module has written
    views = {name: eval(node.written(), known) for name, node in made.views.items()}  # noqa: S307
    return {**views, **{name: known[name] for name in made.sources}}


def outcome(made: Scene, spark: Any = None, tally: Counter[str] | None = None) -> BaseException | None:
    """What goes wrong in a scene, if anything does."""
    try:
        run = Run(made, Expected(made), spark)
        run.run()
    except TooLargeError:
        return None
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is to be told
        return error
    if tally is not None:
        many = sum(name.startswith("view") for name in made.views)
        tally.update(programs=many, exact=run.exact, unsure=run.unsure, filled=run.filled)
    return None


# making it small ------------------------------------------------------------------------------------------------------


def smaller(made: Scene, spark: Any = None, seconds: float = 60) -> Scene:
    """A scene that goes wrong in the same way, with fewer views, verbs, steps and rows."""
    kind, until = type(outcome(made, spark)), process_time() + seconds
    progress = True
    while progress and process_time() < until:
        progress = False
        for other in _smaller(made):
            if process_time() > until:
                break
            if type(outcome(other, spark)) is kind:
                made, progress = other, True
                break
    return made


def _smaller(made: Scene) -> Iterator[Scene]:
    for name in made.views:
        if len(made.views) > 1:
            views = {n: v for n, v in made.views.items() if n != name}
            actions = tuple(a for a in made.actions if a[1:] != (name,) or a[0] not in ("maintain", "drop"))
            yield replace(made, views=views, actions=actions)
    yield from _plainer(made)
    for i, action in enumerate(made.actions):
        if action[0] in ("commit", "reopen", "crash", "fail", "reshard", "place"):
            yield replace(made, actions=made.actions[:i] + made.actions[i + 1 :])
        if action[0] == "advance" and any(a[0] == "advance" for a in made.actions[i + 1 :]):
            yield replace(made, actions=made.actions[:i] + made.actions[i + 1 :])
    if made.durable and not any(a[0] in ("reopen", "crash", "fail") for a in made.actions):
        yield replace(made, durable=False)
    for name, node in made.views.items():
        for other in _simpler(node):
            yield replace(made, views={**made.views, name: other})
    for i, action in enumerate(made.actions):
        if action[0] == "insert":
            yield from _fewer(made, i, action)


def _plainer(made: Scene) -> Iterator[Scene]:
    for option in made.options:
        if option != "shards":
            yield replace(made, options={k: v for k, v in made.options.items() if k != option})
    if made.options["shards"] > 1 and not any(a[0] == "reshard" for a in made.actions):
        yield replace(made, options={**made.options, "shards": 1})
        if made.options["shards"] > 2:
            yield replace(made, options={**made.options, "shards": 2})


def _fewer(made: Scene, i: int, action: Action) -> Iterator[Scene]:
    for gone in action[2]:
        left = tuple(u for u in action[2] if u is not gone)
        actions = made.actions[:i] + ((action[0], action[1], left),) * bool(left) + made.actions[i + 1 :]
        sources = {**made.sources, action[1]: [u for u in made.sources[action[1]] if u is not gone]}
        yield replace(made, actions=actions, sources=sources)


def _simpler(node: Node) -> Iterator[Node]:
    """The node without one of its verbs, where what is below has the same columns."""
    for below in node.inputs:
        yield below
    for i, below in enumerate(node.inputs):
        for other in _simpler(below):
            if other.columns == below.columns:
                yield replace(node, inputs=(*node.inputs[:i], other, *node.inputs[i + 1 :]))


def program(made: Scene, error: BaseException | None) -> str:
    """A scene as Python that can be pasted."""
    lines = [
        f'"""Scene {made.seed}: {str(error)[:600]}"""',
        "import datetime, decimal, tempfile",
        "from datetime import date",
    ]
    lines += ["from decimal import Decimal", "import altneu as an", "nan, inf = float('nan'), float('inf')"]
    lines += [f"{name} = {made.declared(name)}" for name in made.sources]
    lines += [f"{_variable(name)} = {node.written()}" for name, node in made.views.items()]
    options = ", ".join(f"{k}={v!r}" for k, v in made.options.items())
    lines += [
        f"session = an.Session(path=tempfile.mkdtemp(), {options})"
        if made.durable
        else f"session = an.Session({options})"
    ]
    expected, closed = Expected(made), 0
    for action in made.actions:
        match action:
            case ("maintain", name):
                lines.append(f"session.maintain({name!r}, {_variable(name)}, joins={made.joins.get(name, 'auto')!r})")
            case ("insert", name, updates):
                lines += [
                    f"session.insert({name!r}, [{row!r}], time={time!r}, diff={diff})" for row, time, diff in updates
                ]
            case ("reopen" | "crash" as how,):
                lines.append(f"# {how}: open again and maintain the same views")
            case ("fail", _):
                lines.append("# a step whose commit fails")
            case ("backfill", name, _):
                rows = [(*row, n) for row, n in expected._sources[name][closed - 1].rows.items()]
                lines.append(f"session.backfill({name!r}, {rows!r}, diff='#n')")
            case (verb, *arguments):
                lines.append(f"session.{verb}({', '.join(map(repr, arguments))})")
                if verb == "advance":
                    closed = arguments[0]
                    lines += [f"print({n!r}, session.view({n!r}).to_pylist(errors='ignore'))" for n in made.views]
    return "\n".join(lines)


def _variable(name: str) -> str:
    return name.replace(" ", "_")


def search(
    seeds: Sequence[int], spark: Any = None, *, programs: int = PROGRAMS, shrink: bool = True
) -> tuple[Counter[str], list[str]]:
    """Run scenes; how many programs ran, and the small programs that went wrong."""
    tally: Counter[str] = Counter()
    actual = []
    for seed in seeds:
        result = scene(seed, programs, spark is not None)
        error = outcome(result, spark, tally)
        if error is not None:
            tally["failed"] += 1
            small = smaller(result, spark) if shrink else result
            error = outcome(small, spark) or error
            trace = "".join(traceback.format_exception(error)[-6:])
            actual.append(f"{trace}\n{program(small, error)}\n")
    return tally, actual


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the first scene is this one times a million")
    parser.add_argument("--scene", type=int, help="this one scene only")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--whole", action="store_true", help="do not make differences small")
    given = parser.parse_args()
    spark = an.spark_session() if given.spark else None
    first = given.seed * 1_000_000 if given.scene is None else given.scene
    many = -(-given.programs // PROGRAMS) if given.scene is None else 1
    total, began = Counter[str](), process_time()
    for seed in range(first, first + many):
        tally, actual = search([seed], spark, shrink=not given.whole)
        total += tally
        for one in actual:
            _tell(f"--- scene {seed}\n{one}")
        if (seed - first) % 100 == 99 or seed == first + many - 1:
            _tell(f"scene {seed}: {dict(total)}, {process_time() - began:.0f} s of the processor")


if __name__ == "__main__":
    main()
