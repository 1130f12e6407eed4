"""Sessions: inputs, steps, commits and views."""

from __future__ import annotations

import tempfile
import threading
import time as clock
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from altneu import ir
from altneu.collection import Collection
from altneu.errors import (
    AltneuError,
    BeforeFrontierError,
    HistoryGoneError,
    InputError,
    NotYetKnownError,
    PlanError,
    ReadError,
    StepFailedError,
    StorePlanError,
    UnknownSourceError,
)
from altneu.executor.base import Region, StepMode
from altneu.executor.inputs import Inputs, Stamp, whole_number
from altneu.executor.local import LocalExecutor, Outcome
from altneu.executor.state import StateTable, batch_from_json, blob_names
from altneu.explain import explain, refuse_unbounded
from altneu.hydrate import hydration_plan, missing
from altneu.lower import lower
from altneu.order import Antichain, Epoch
from altneu.physical import Plan, TapOp, ViewPorts
from altneu.progress import watch
from altneu.rewrite import optimise
from altneu.rows import record_type
from altneu.sources import check_frame, is_spark_frame, to_table
from altneu.store import DirectoryStore, MemoryStore, Store
from altneu.update import Updates
from altneu.view import OnErrors, View, updates_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VACUUM_EVERY = 200  # commits between two looks for segments that nothing names; at a checkpoint it need replay nothing
Placement = Literal["auto", "spark", "driver"]


@dataclass(frozen=True)
class Step:
    """What an advance did.

    Units:  ``lower`` and ``upper`` bound the times it closed; ``seconds`` is wall time, commit included; the changes
            are consolidated updates; ``state_rows`` counts updates kept in all arrangements.
    """

    lower: int
    upper: int
    seconds: float
    changes_in: int
    changes_out: Mapping[str, int]
    placement: str
    state_rows: int


class Session:
    """Maintains views as their sources change.

    ``Session()`` is local and in memory; ``Session(path="state/")`` local and durable; ``Session(spark, path=...)``
    runs large steps on Spark and small ones in the driver, on the same state. Times are whole numbers from 0; a
    session has one clock, ``lower``, before which everything is closed.

    ``retain`` keeps that many times before the last closed one readable (``at=``), ``"all"`` all of them. ``shards``
    is the number of parts of all state on Spark (default: its cores) and fixed for a store. Safe to share between
    threads.

    >>> import altneu as an
    >>> orders = an.source("orders", "item string, price long")
    >>> with an.Session() as session:
    ...     total = session.maintain("total", orders.group_by("item").agg(total="sum(price)"))
    ...     session.insert("orders", [("tea", 3), ("tea", 4), ("jam", 5)])
    ...     _ = session.advance()
    ...     session.retract("orders", [("tea", 3)])
    ...     _ = session.advance()
    ...     sorted(total.to_pylist()), sorted(total.changes().to_pylist(), key=str)[0]
    ([('jam', 5), ('tea', 4)], {'item': 'tea', 'total': 4, 'time': 1, 'diff': 1})
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        path: str | Path | None = None,
        *,
        shards: int | None = None,
        placement: Placement = "auto",
        retain: int | Literal["all"] | None = None,
    ) -> None:
        if placement not in ("auto", "spark", "driver"):
            raise PlanError(f'placement={placement!r} is none of "auto", "spark", "driver"')
        if spark is not None and not hasattr(spark, "createDataFrame"):
            raise PlanError(f"Session(spark) takes a SparkSession, not {spark!r}; a folder is given as path=...")
        if retain is not None and retain != "all" and whole_number(retain, "retain") < 0:
            raise PlanError(f'retain={retain!r} is neither a number of times from 0 on nor "all"')
        if shards is not None and whole_number(shards, "shards") < 1:
            raise PlanError(f"shards={shards!r}: there is at least one")
        self.lattice = Epoch()
        self.spark, self.placement, self.retain = spark, placement, retain
        self.lock = threading.RLock()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._store = self._open_store(path)
        try:
            self._open(shards)
        except BaseException:
            self._store.close()
            raise

    def _open_store(self, path: str | Path | None) -> Store:
        if path is not None:
            return DirectoryStore.create_or_open(Path(path))
        if self.spark is None:
            return MemoryStore()
        self._scratch = tempfile.TemporaryDirectory(prefix="altneu-")  # Spark's tasks need files to hand state on
        return DirectoryStore.create_or_open(Path(self._scratch.name) / "state", durable=False)

    def _open(self, shards: int | None) -> None:
        known: Any = self._store.state.get("session", {})
        count = (
            int(known.get("shards", 0)) or shards or (self.spark.sparkContext.defaultParallelism if self.spark else 1)
        )
        if shards is not None and count != shards:
            raise StorePlanError(f"the store has {count} shards and cannot be opened with {shards}; leave shards out")
        self.shards = count
        if self.spark is None:
            self._executor: Any = LocalExecutor()
        else:
            from altneu.executor.spark import SparkExecutor

            self._executor = SparkExecutor(self.spark, count, self.placement)
        frontier: Any = self._store.frontier
        self._lower = int(frontier[0][0]) if frontier else 0
        self._since = int(known.get("since", 0))
        self._filled: set[str] = set(known.get("filled", []))
        self.table = StateTable(self._store, self.lattice, durable=not isinstance(self._store, MemoryStore))
        for key, value in self._store.state.items():
            if key.startswith("arrangement/"):
                _, name, shard = key.split("/")
                self.table.put_stored(name, int(shard), value)  # type: ignore[arg-type]
        self.table.committed()
        self._stored_views: dict[str, Any] = {k[5:]: v for k, v in self._store.state.items() if k.startswith("view/")}
        self._new: dict[str, list[Any]] = {}
        self._nodes: dict[str, ir.Node] = {}
        self._view_since: dict[str, int] = {}
        self._plan = Plan(self.lattice, ())
        self._sources: dict[str, ir.Source] = {}
        self._pending = Inputs()
        self._closed = False

    # life -----------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store and of scratch files; what was committed stays, what was only inserted does not."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
            self._executor.close()
            self._store.close()
            if self._scratch is not None:
                self._scratch.cleanup()

    @property
    def lower(self) -> int:
        """The frontier: times before it are closed; the next insert happens at it unless told otherwise."""
        return self._lower

    @property
    def views(self) -> list[str]:
        """Names of the maintained views."""
        return list(self._nodes)

    # views ----------------------------------------------------------------------------------------------------------

    def maintain(self, name: str, collection: Collection, *, strict: bool = False) -> View:
        """Keep a collection right from now on, under a name.

        A view added late is computed from what other views keep, without re-reading sources. In a store that has the
        view already, its state is taken up where it was left.

        ``strict`` refuses a plan in which some operator's cost per step is bounded only by everything.

        Raises:
            PlanError: the name is taken by another collection.
            UnboundedCostError: ``strict``, and an operator re-reads everything on every change.
            StorePlanError: the store holds another plan under this name.
            HydrationError: rows are needed that nothing keeps.
        """
        with self.lock:
            self._check_open()
            _check_maintained(name, collection)
            node = optimise(collection.node)
            if name in self._nodes:
                if self._nodes[name].fingerprint != node.fingerprint:
                    raise PlanError(
                        f"this session maintains another collection as {name!r}; choose another name, or drop it first"
                    )
                return View(self, name)
            stored = self._stored_views.get(name)
            if stored is not None and stored["fingerprint"] != node.fingerprint:
                raise StorePlanError(
                    f"the store holds another plan for view {name!r} (its query, a function or a schema has changed); "
                    f"session.drop({name!r}) forgets its state, or open another path"
                )
            sources = self._with_sources(node)
            nodes = {**self._nodes, name: node}
            plan = lower(nodes, self.lattice)
            if strict:
                refuse_unbounded(plan, name)
            before = self.table.layouts
            self.table.layouts = {n: plan.nodes[i].operation.layout for n, i in plan.arrangements.items()}  # type: ignore[union-attr]
            try:
                with watch(f"altneu: computing view {name}"):
                    self._hydrate(plan, name, node, fresh=stored is None)
            except BaseException:
                self.table.layouts = before
                raise
            self._nodes, self._plan, self._sources = nodes, plan, sources
            return View(self, name)

    def _with_sources(self, node: ir.Node) -> dict[str, ir.Source]:
        sources = dict(self._sources)
        for found in ir.walk(node):
            if isinstance(found, ir.Source):
                known = sources.setdefault(found.name, found)
                if known.fingerprint != found.fingerprint:
                    raise PlanError(
                        f"source {found.name!r} is declared twice with different columns; declare it once and use that"
                    )
        return sources

    def _hydrate(self, plan: Plan, name: str, node: ir.Node, *, fresh: bool) -> None:
        """Fill the arrangements that a view needs and that nothing has filled yet, and commit that it is there."""
        existing = {n for n, _ in (*self.table.live, *self.table.stored)} | self._known_empty()
        if not fresh:
            self._view_since[name] = int(self._stored_views[name]["since"])
            return
        self._view_since[name] = self._since
        mark = self.table.mark()
        try:
            outcome = None
            if missing(plan, existing):
                part, given = hydration_plan(plan, name, existing, self._filled)
                region = Region(self._frontier(self._since), self._frontier(self._lower), self._frontier(self._since))
                outcome = self._executor.step(
                    part, self.table, Inputs(), region, StepMode(self.shards, given, hydrating=True)
                )
                self._take(outcome)
            view = {
                "fingerprint": node.fingerprint,
                "since": self._since,
                "versions": _versions(),
                "arrangements": plan.arrangements_of(name),
            }
            self._commit(self._lower, self._since, {f"view/{name}": view}, {"view": name})
        except BaseException:
            self.table.restore(mark)
            raise
        self._stored_views[name] = view

    def _known_empty(self) -> set[str]:
        """Arrangements of maintained views in which nothing has been kept so far: they exist, and are empty."""
        return {n for v in self._stored_views.values() for n in v.get("arrangements", [])}

    def drop(self, name: str) -> None:
        """Forget a view and the state that only it needs.

        Raises:
            PlanError: there is no such view.
        """
        with self.lock:
            self._check_open()
            if name not in self._nodes and name not in self._stored_views:
                raise PlanError(
                    f"no view {name!r}; the views are: {', '.join({*self._nodes, *self._stored_views}) or '(none)'}"
                )
            nodes = {n: node for n, node in self._nodes.items() if n != name}
            plan = lower(nodes, self.lattice)
            others = {a for n, v in self._stored_views.items() if n != name for a in v["arrangements"]} | set(
                plan.arrangements
            )
            mine = set(self._stored_views.get(name, {}).get("arrangements", ()))
            gone = [f"arrangement/{n}/{s}" for a in mine - others for n, s in self.table.remove(a)]
            self._nodes, self._plan = nodes, plan
            stored = self._stored_views.pop(name, None)
            if self.table.durable:
                keys = [
                    k for k in (*gone, *([f"view/{name}"] if stored else []), f"new/{name}") if k in self._store.state
                ]
                self._store.commit(self._store.frontier, delete=keys, info={"dropped": name})

    def view(self, name: str) -> View:
        """A maintained view by name."""
        self.ports(name)
        return View(self, name)

    def ports(self, name: str) -> ViewPorts:
        """Where a view's contents and errors are kept."""
        if name not in self._nodes:
            raise PlanError(f"no view {name!r}; the views are: {', '.join(self._nodes) or '(none)'}")
        return self._plan.views[name]

    def explain(self, name: str) -> str:
        """What a view's operators cost: keys, exchanges, state kept, and what bounds a step's cost."""
        with self.lock:
            self.ports(name)
            return explain(self._plan, name, self.table.rows)

    # inputs ---------------------------------------------------------------------------------------------------------

    def insert(self, source: str, data: Any, *, time: int | str | None = None, diff: int | str = 1) -> None:
        """Add rows to a source; they count from the next ``advance`` that passes their time on, and are durable then.

        ``data``: a Spark DataFrame (of any size; it is read by the step, not through the driver), an Arrow table, a
        pandas or Polars frame, or a list of tuples or dictionaries. ``time`` is a time or the name of a column
        (default: the session's ``lower``); ``diff`` a count or the name of a column, negative counts retract.

        Raises:
            UnknownSourceError, SchemaError, BeforeFrontierError: nothing of the insert is kept.
        """
        self._insert(source, data, time, diff, 1)

    def retract(self, source: str, data: Any, *, time: int | str | None = None, diff: int | str = 1) -> None:
        """Take rows away from a source: ``insert`` with the signs turned."""
        self._insert(source, data, time, diff, -1)

    def _insert(self, source: str, data: Any, time: int | str | None, diff: int | str, sign: int) -> None:
        with self.lock:
            self._check_open()
            if source not in self._sources:
                raise UnknownSourceError(
                    f"no maintained view reads a source {source!r}; the sources are: "
                    f"{', '.join(self._sources) or '(none: maintain a view first)'}"
                )
            schema = self._sources[source].schema
            if isinstance(time, int) and time < self._lower:
                raise BeforeFrontierError(
                    f"time {time} is closed: the session's lower is {self._lower}; insert at {self._lower} or later"
                )
            frontier = self._frontier(self._lower)
            stamp = Stamp(source, schema, self.lattice, frontier, self._lower if time is None else time, diff, sign)
            if is_spark_frame(data) and self.spark is not None:
                check_frame(data, stamp)
                self._pending.frames.setdefault(source, []).append((data, stamp))
            else:
                updates = stamp.updates(to_table(data, stamp.columns, schema, source))
                if len(updates):
                    self._pending.updates.setdefault(source, []).append(updates)

    def discard(self, source: str | None = None) -> None:
        """Forget what was inserted into a source (or into all) since the last advance."""
        with self.lock:
            for table in (self._pending.updates, self._pending.frames):
                for name in list(table) if source is None else [source]:
                    table.pop(name, None)

    # steps ----------------------------------------------------------------------------------------------------------

    def advance(self, to: int | None = None) -> Step:
        """Close every time before ``to`` (default: one tick), bring all views up to date, and commit.

        All the times in between are computed in one step. Cost: follows the change and what it touches.

        Raises:
            InputError: ``to`` does not lie after ``lower``.
            SourceFailedError, StepFailedError, DiffOverflowError, StoreFullError: nothing is committed; what was
            inserted
                is still there, and ``discard`` forgets it.
        """
        with self.lock:
            self._check_open()
            started = clock.perf_counter()
            upper = self._lower + 1 if to is None else whole_number(to, "to")
            if upper <= self._lower:
                raise InputError(f"advance(to={upper}) would go back: the session's lower is {self._lower}")
            self._require_stored_views()
            since = self._since_after(upper)
            region = Region(self._frontier(self._lower), self._frontier(upper), self._frontier(since))
            with watch(f"altneu: closing times {self._lower} to {upper}"):
                outcome, new = self._step(region, upper, since)
            lower, self._lower, self._since = self._lower, upper, since
            self._filled |= {*self._pending.updates, *self._pending.frames}
            self._pending = Inputs()
            self._new = new
            self._run_taps(outcome)
            changes = {name: sum(map(_size, new.get(self._plan.views[name].contents, []))) for name in self._nodes}
            rows = sum(self.table.rows(n) for n in self.table.layouts)
            received = sum(outcome.received.values())
            return Step(lower, upper, clock.perf_counter() - started, received, changes, outcome.placement, rows)

    def _step(self, region: Region, upper: int, since: int) -> tuple[Outcome, dict[str, list[Any]]]:
        """Compute and commit, or leave everything as it was."""
        mark = self.table.mark()
        try:
            outcome: Outcome = self._executor.step(self._plan, self.table, self._pending, region, StepMode(self.shards))
            self._take(outcome)
            kept = {p.contents for p in self._plan.views.values()}
            new = {n: [b for b in batches if _size(b)] for n, batches in outcome.new.items() if n in kept}
            self._commit(upper, since, {}, {"placement": outcome.placement}, new)
        except AltneuError:
            self.table.restore(mark)
            raise
        except Exception as error:
            self.table.restore(mark)
            raise StepFailedError(
                f"the step from {self._lower} to {upper} failed and nothing of it is committed: "
                f"{type(error).__name__}: {error}. What was inserted is still there: "
                "advance again, or session.discard() it."
            ) from error
        except BaseException:
            self.table.restore(mark)
            raise
        return outcome, new

    def _take(self, outcome: Outcome) -> None:
        for (name, shard), state in outcome.states.items():
            self.table.put(name, shard, state)
        for (name, shard), value in outcome.stored.items():
            self.table.put_stored(name, shard, value)

    def _commit(
        self,
        lower: int,
        since: int,
        extra: dict[str, Any],
        info: dict[str, Any],
        new: Mapping[str, list[Any]] | None = None,
    ) -> None:
        if not self.table.durable:
            return
        self.table.settle()
        changed = self.table.uncommitted()
        values: dict[str, Any] = dict(extra)
        values["session"] = {
            "shards": self.shards,
            "since": since,
            "filled": sorted({*self._filled, *self._pending.updates, *self._pending.frames}),
        }
        values.update({f"arrangement/{n}/{s}": v for (n, s), v in changed.items()})
        outputs = self._outputs(new or {}, lower) if new is not None else {}
        values.update(outputs)
        stale = [k for k in self._store.state if k.startswith("new/") and k not in outputs] if new is not None else []
        named = set(blob_names(values))
        blobs = {n: b for n, b in self.table.blobs.items() if n in named}
        number = self._store.commit([[lower]], values, stale, blobs, info)
        if number % VACUUM_EVERY == 0:
            self._store.vacuum(keep=1)
        self.table.committed()

    def _outputs(self, new: Mapping[str, list[Any]], lower: int) -> dict[str, Any]:
        """The views' updates of this step, by name of arrangement."""
        return {
            f"new/{n}": {
                "upper": lower,
                "batches": [b if isinstance(b, dict) else self.table.name_batch(b) for b in batches],
            }
            for n, batches in new.items()
        }

    def _require_stored_views(self) -> None:
        waiting = [n for n in self._stored_views if n not in self._nodes]
        if waiting:
            raise StorePlanError(
                f"the store also maintains {', '.join(map(repr, waiting))}, which would miss this step; "
                "maintain them in this session, or drop them"
            )

    def _run_taps(self, outcome: Outcome) -> None:
        """Show the updates of each inspected collection to its function, in order of time."""
        for node, parts in outcome.taps.items():
            operation = self._plan.nodes[node].operation
            if not isinstance(operation, TapOp):
                continue
            for part in parts:
                record = record_type(part.schema.names)
                order = np.argsort(part.times[0], kind="stable")
                rows = part.rows.to_pylist()
                for i in order.tolist():
                    try:
                        operation.function.call(record(rows[i]), int(part.times[0, i]), int(part.diffs[i]))
                    except Exception as error:
                        error.add_note(
                            f"altneu: raised by a function for inspect; the step is committed, lower is {self._lower}"
                        )
                        raise

    # reading --------------------------------------------------------------------------------------------------------

    def _frontier(self, time: int) -> Antichain:
        return Antichain.of(self.lattice, time)

    def _since_after(self, upper: int) -> int:
        if self.retain == "all":
            return self._since
        return max(self._since, upper - 1 - (self.retain or 0))

    def since_of(self, name: str) -> int:
        """The least time at which a view can be read."""
        return max(self._since, self._view_since.get(name, 0))

    def readable(self, name: str, at: int | None) -> int:
        """The time to read at, checked against what is known and kept.

        Raises:
            HistoryGoneError: before ``since``.
            NotYetKnownError: at or beyond the frontier.
        """
        self._check_open()
        self.ports(name)
        since = self.since_of(name)
        if at is None:
            return max(self._lower - 1, since)
        at = whole_number(at, "at")
        if at >= self._lower:
            raise NotYetKnownError(
                f"at={at} is not closed yet: the last closed time is {self._lower - 1}; advance(to={at + 1}) closes it"
            )
        if at < since:
            raise HistoryGoneError(
                f"at={at} is no longer kept: view {name!r} can be read from {since} to {self._lower - 1}; "
                "Session(retain=...) keeps more"
            )
        return at

    def last_changes(self, name: str) -> Updates:
        """The updates of a view in the last advance."""
        self._check_open()
        ports = self.ports(name)
        layout = self.table.layouts[ports.contents]
        stored: Any = self._store.state.get(f"new/{ports.contents}")
        found = self._new.get(ports.contents)
        if found is None and stored is not None and stored["upper"] == self._lower:
            found = stored["batches"]
        batches = [batch_from_json(layout, b, self.table.open_data) if isinstance(b, dict) else b for b in found or []]
        return updates_of(batches, layout.schema, layout.lattice.width)

    def frame(self, view: View, at: int | None, errors: OnErrors) -> DataFrame:
        """A view's contents as a Spark DataFrame."""
        if self.spark is None:
            raise ReadError(
                "this session has no Spark; read the view with to_arrow() or to_pylist(), or make Session(spark, ...)"
            )
        return self._executor.read(self, view, at, errors)

    def _check_open(self) -> None:
        if self._closed:
            raise ReadError("this session is closed; make a new one (on the same path to go on where it ended)")


def _check_maintained(name: object, collection: object) -> None:
    if not isinstance(collection, Collection):
        raise PlanError(
            f"maintain takes a collection, such as an.source(...) or what its verbs make, not {collection!r}"
        )
    if not isinstance(name, str) or not name:
        raise PlanError(f"a view is named by a text, not {name!r}")


def _size(batch: Any) -> int:
    return int(batch["rows"]) if isinstance(batch, dict) else len(batch)


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("altneu", "pyarrow", "polars", "numpy")}
