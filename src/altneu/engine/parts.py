"""What an engine is made of: its journal, catalogue, executor and lock, its times, and the rows that wait for a step.

The parts are opened over a store, and begun anew when another store takes its place. The modules above work on them:
``maintaining`` adds views, ``inserting`` takes rows and ``stepping`` takes steps; ``engine`` is all of it in one class.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from altneu.engine.before import Mark
from altneu.engine.catalogue import Catalogue
from altneu.engine.closing import Closing
from altneu.engine.frontier import Times, checked_retain
from altneu.engine.history import History
from altneu.engine.idle_merging import IdleMerging
from altneu.engine.recomputing import Refreshing
from altneu.engine.subscribers import Subscribers
from altneu.errors import PlanError, ReadError, StorePlanError
from altneu.operators.base import StepMode
from altneu.order import Epoch
from altneu.plan.physical import Plan, ViewPorts
from altneu.runtime import interrupts
from altneu.runtime.execution import Executor
from altneu.runtime.inputs import Inputs, whole_number
from altneu.runtime.inspections import Inspections
from altneu.runtime.journal import Journal
from altneu.runtime.local import LocalExecutor
from altneu.runtime.measured import Measurements
from altneu.runtime.memory import bytes_in
from altneu.runtime.progress import compiling
from altneu.runtime.spark.reach import lacking
from altneu.runtime.spark.versions import check_version, is_stopped, parallelism
from altneu.runtime.state import StateTable
from altneu.store import DirectoryStore, Location, MemoryStore, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Placement = Literal["auto", "spark", "driver"]


class Parts(Closing):
    """What the operations of an engine share; whoever works on it holds the lock."""

    def __init__(  # noqa: PLR0913  # options, each by its name
        self,
        spark: SparkSession | None = None,
        path: Location | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        recover: bool = False,
        shards: int | None = None,
        placement: Placement = "auto",
        retain: int | Literal["all"] | None = None,
        retain_events: int | None = None,
        memory: int | str | None = None,
        check_functions: bool = False,
        idle_merge_effort: int = 0,
    ) -> None:
        if placement not in ("auto", "spark", "driver"):
            raise PlanError(f'placement must be "auto", "spark" or "driver", got {placement!r}')
        if spark is not None and not hasattr(spark, "createDataFrame"):
            raise PlanError(f"Session(spark) needs a SparkSession, got {spark!r}; give a folder as path=...")
        if spark is not None and is_stopped(spark):
            raise PlanError("Session(spark) needs a SparkSession that runs, and this one was stopped; make another one")
        retain = checked_retain(retain)
        if retain_events is not None and whole_number(retain_events, "retain_events") < 0:
            raise PlanError(f"retain_events must be a whole number of at least 0, got {retain_events!r}")
        if shards is not None and whole_number(shards, "shards") < 1:
            raise PlanError(f"shards must be at least 1, got {shards!r}")
        self.lattice = Epoch()
        self.spark, self.placement, self._retain = spark, placement, (retain, retain_events)
        if not isinstance(check_functions, bool):
            raise PlanError(f"check_functions must be True or False, got {check_functions!r}")
        self.check_functions = check_functions
        if whole_number(idle_merge_effort, "idle_merge_effort") < 0:
            raise PlanError(f"idle_merge_effort must be a whole number of at least 0, got {idle_merge_effort!r}")
        self.idle = IdleMerging(idle_merge_effort) if idle_merge_effort else None
        self._memory = None if memory is None else bytes_in(memory)
        self.lock = interrupts.Lock()
        self.takes_back = False  # whether whoever inserted the rows discards them if the step fails
        self.open_joins = set[str]()  # views whose joins are chosen anew when their first rows are here
        compiling.listen()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        store = self._open_store(path, storage_options or {}, recover=recover)
        try:
            self.journal = Journal(store, self.lattice)
            self._open(shards)
        except BaseException:
            store.close()
            raise

    def _open_store(self, path: Location | None, storage_options: Mapping[str, Any], *, recover: bool) -> Store:
        if path is not None:
            return DirectoryStore.create_or_open(path, storage_options=storage_options, recover=recover)
        if self.spark is None:
            return MemoryStore()
        self._scratch = tempfile.TemporaryDirectory(prefix="altneu-")  # Spark's tasks need files to hand state on
        return DirectoryStore.create_or_open(Path(self._scratch.name) / "state", durable=False)

    def _open(self, shards: int | None) -> None:
        stored = self.journal.shards
        if shards is not None and stored and shards % stored:
            raise StorePlanError(
                f"the store has {stored} shards and cannot be opened with {shards}; leave shards out, "
                "or choose a multiple"
            )
        if self.spark is not None:
            check_version(self.spark)
        self.shards = stored or shards or (parallelism(self.spark) if self.spark else 1)
        self.requested_shards = shards or self.shards
        self.journal.shards = self.shards
        if self.spark is None:
            self.executor: Executor = LocalExecutor(self._memory)
        else:
            from altneu.runtime.spark.executor import SparkExecutor

            self._choose_placement()
            self.executor = SparkExecutor(self.spark, self.shards, self.placement, self._memory)
        self.subscribers = Subscribers()
        self._begin()
        self.mark: Mark | None = None  # while a step is computed
        self._closed = False

    def _begin(self) -> None:
        """Begin with what the journal knows: no view is maintained yet."""
        self.catalogue = Catalogue(self.journal, self.lattice, check_functions=self.check_functions)
        self.table.layouts = self.plan.arranged
        self.pending = Inputs()
        self.inserted = dict[str, int]()  # by source the number of the last step that counted rows of it
        self.times = Times(self.journal, self.catalogue, self.subscribers, self.lattice, *self._retain)
        self._ordinary = StepMode(self.shards)
        self.adopted = False
        self.call = 0  # the number of the last call with commands
        self.inspections = Inspections(self.lattice)
        self.measured = Measurements()
        self.refreshing = Refreshing(self.journal)
        self.past = History()

    @contextmanager
    def beginning_anew(self) -> Iterator[None]:
        """A context that begins with what the store has now; if nothing is committed in it, all is as before."""
        before, number = {**self.__dict__}, self.store.number
        try:
            self.journal = Journal(self.store, self.lattice)
            self.open_joins = set()
            self._begin()
            yield
        except BaseException:
            if self.store.number == number:
                self.__dict__.clear()
                self.__dict__.update(before)
            raise

    def _choose_placement(self) -> None:
        """The driver, where a server's workers cannot do the work: other machines may know nothing of this one."""
        if self.placement == "auto" and self.lacking is not None:
            self.placement = "driver"
            warnings.warn(
                f'altneu: placement="driver" is chosen, so every step runs in this process: {self.lacking}. '
                "docs/running.md says what Spark's workers need",
                stacklevel=2,
            )

    @cached_property
    def lacking(self) -> str | None:
        """What the workers of a server lack for this session; None if nothing, and of a Spark that this process runs.

        Cost:   the first time, one job.
        """
        folder = self.journal.store.segment_directory
        return None if self.spark is None or folder is None else lacking(self.spark, folder)

    def close(self) -> None:
        """Close the store and delete scratch files."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
            self.subscribers.end()
            self.executor.close()
            self.journal.store.close()
            self.table.release()
            self.pending = Inputs()
            if self._scratch is not None:
                self._scratch.cleanup()

    def check_open(self) -> None:
        """Check that the session is open.

        Raises:
            ReadError: it is closed.
        """
        if self._closed:
            raise ReadError("this session is closed; open a new one (on the same path to continue where it ended)")

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments with which another session computes and retains as this one does."""
        return {
            **{name: getattr(self, name) for name in ("spark", "placement", "check_functions")},
            **{name: getattr(self.times, name) for name in ("retain", "retain_events")},
            "memory": self._memory,
            "idle_merge_effort": self.idle.effort if self.idle else 0,
        }

    @property
    def store(self) -> Store:
        """Where commits go."""
        return self.journal.store

    @property
    def table(self) -> StateTable:
        """The state of every arrangement."""
        return self.journal.table

    @property
    def lower(self) -> int:
        """The frontier: times before it are closed; by default, rows are inserted at this time."""
        return self.journal.lower

    @property
    def plan(self) -> Plan:
        """The one plan of all views."""
        return self.catalogue.plan

    def ports(self, name: str) -> ViewPorts:
        """The arrangements of a view's contents and errors."""
        return self.catalogue.ports(name)

    @property
    def mode(self) -> StepMode:
        """The mode of an ordinary step, the same one each time."""
        if self._ordinary.shards != self.shards:
            self._ordinary = StepMode(self.shards)
        return self._ordinary
