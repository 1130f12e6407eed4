"""The journal of a session: its frontier, its views, their state and last outputs, kept in a store commit by commit."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, Literal, cast

import numpy as np

from altneu.errors import StoreError
from altneu.operators.base import ArrangementState
from altneu.order import Lattice
from altneu.plan.functions import Recorded
from altneu.plan.rewrite import Choices
from altneu.plan.versions import Versions
from altneu.runtime import interrupts
from altneu.runtime.described import Described
from altneu.runtime.outcome import Outcome, batch_rows
from altneu.runtime.source_columns import columns_in, keys_of, told
from altneu.runtime.state import StateTable, batch_from_json, blob_names
from altneu.runtime.stored import (
    StoredBatch,
    StoredChanges,
    StoredDefinition,
    StoredSource,
    StoredStream,
    StoredView,
    arrangements_in,
    changes_of,
    definitions_in,
    lower_in,
    own_in,
    session_in,
    sources_in,
    streams_in,
    views_in,
)
from altneu.store import Json, MemoryStore, Store
from altneu.store.release import __version__
from altneu.trace.batch import Batch, Layout
from altneu.trace.spine import Spine
from altneu.trace.update import Updates

KEPT = 3  # commits that a damaged store can go back to
VACUUM_EVERY = 200  # commits between two looks for segments that nothing names; at a checkpoint it need replay nothing

ERROR_COLUMNS = "read"  # that errors show above a source: views of earlier builds, all that came, and no such word

Outputs = Mapping[str, Sequence[Batch | StoredBatch]]
Own = tuple[int, ...]
Refresh = Literal["auto", "incremental", "full"]
"""How a view is brought up to date: by what costs less, by the change, or by computing it anew."""


class Journal:
    """What a session knows of its past.

    ``lower`` and ``since`` bound the times that can be read, ``events`` the event times; rows' own times that are not
    at or beyond ``own`` are closed; ``filled`` names the sources
    that ever had rows; ``views`` holds, by name, the fingerprint of each view's plan, the least time it can be read at
    and the arrangements it needs; ``kept``, by name, the sources whose rows are kept; ``streams`` how far each stream
    was taken; ``versions`` the columns that a source has and had; ``definitions`` what statements have defined, by
    name. ``steps`` counts the steps committed here,
    ``commits`` what was committed in memory and in the store; ``closed`` names the sources that take no more rows,
    ``released`` the arrangements that are not stored because of that;
    ``began`` is where the last advance began, whose updates of views are kept separately; ``is_open`` says whether a
    commit has stored rows since the last time was closed.
    Whatever changes here changes by a commit, or not at all.
    """

    def __init__(self, store: Store, lattice: Lattice) -> None:
        self.store = store
        self.table = StateTable(store, lattice, durable=not isinstance(store, MemoryStore))
        self.steps = self.commits = 0
        self._recall()
        for name, shard, value in arrangements_in(store.state):
            self.table.put_stored(name, shard, value)
        self.table.committed()

    def _recall(self) -> None:
        """Take the frontier and the views from the last commit."""
        state = self.store.state
        known = session_in(state)
        self.lower, self.own = lower_in(self.store.frontier), own_in(self.store.frontier)
        self.since, self.events = int(known.get("since", 0)), int(known.get("events", 0))
        self.shards = int(known.get("shards", 0))
        self.began = int(known.get("began", self.lower))
        self.is_open = bool(known.get("open", False))
        self.filled: set[str] = set(known.get("filled", []))
        self.closed, self.released = frozenset(known.get("closed", [])), frozenset(known.get("released", []))
        self.views, self.streams = views_in(state), streams_in(state)
        self.definitions, self.kept = definitions_in(state), sources_in(state)
        self._columns_told = columns_in(state)  # by the last commit
        self.versions = dict(self._columns_told)
        self._defining: dict[str, StoredDefinition | None] = {}  # by name, for the next commit
        self._forgotten: set[str] = set()  # sources of which the next commit tells nothing more
        self._new: Outputs | None = None
        self._views_to_describe: set[str] = set()  # views of which the next commit tells more than the last one did
        self._sources_to_describe: set[str] = set()  # and kept sources
        self._columns_to_describe: set[str] = set()  # and the columns of sources

    def undoing(self, *, step: bool = False) -> Undoing:
        """Undo what happens to the state inside, if it raises: a step that failed never happened. Gives the mark."""
        return Undoing(self, step)

    def undo(self, mark: tuple[Any, ...], number: int | None, commits: int, *, step: bool) -> None:
        """Go back to a mark, unless what came after it is committed; ``number`` and ``commits`` are as of then."""
        with interrupts.deferred():
            if self.commits != commits:
                pass  # all of it has happened, and what came after it failed
            elif self.store.number == number:
                self.table.restore(mark)
            else:  # cut between the commit and here: what is on disk has happened
                self._recall()
                self.table.committed()
                self.commits, self.steps = self.commits + 1, self.steps + step

    def existing(self, less: str | None = None) -> set[str]:
        """Arrangements that hold state, or belong to a view or source and have had nothing to hold so far.

        Those that the view ``less`` alone has are left out.
        """
        names = {n for n, _ in (*self.table.live, *self.table.stored)}
        names |= {state for source in self.kept.values() for state in _states_of(source)}
        others = {n for name, v in self.views.items() if name != less for n in v["arrangements"]}
        own = self.views[less]["arrangements"] if less in self.views else ()
        return names.difference(own) | others

    def take(self, outcome: Outcome) -> None:
        """Put the states that a step made in place of the old ones."""
        states, stored = outcome.states, outcome.stored
        for name, shard in states:
            self.table.put(name, shard, states[name, shard])
        for name, shard in stored:
            self.table.put_stored(name, shard, stored[name, shard])

    def commit_step(
        self,
        lower: int,
        since: int,
        events: int,
        filled: AbstractSet[str],
        new: Outputs | None,
        info: Mapping[str, object],
        streams: Mapping[str, StoredStream] = MappingProxyType({}),
        *,
        further: bool = False,
        closes: AbstractSet[str] = frozenset(),
        own: Own = (),
    ) -> None:
        """Commit a step: the new frontier, all states that changed, how far streams are, and the views' updates.

        If it has closed a time, the sources ``closes`` are closed with it; ``own`` is up to where rows' own times are.

        A ``further`` step of an advance adds its updates to those of the steps before it. A step that closes no time
        has none (``new`` is None): those of the last advance stay.
        """
        sources = self.filled if filled <= self.filled else self.filled | filled
        began = self.began if further or new is None else self.lower
        is_open = new is None and (self.is_open or bool(filled))
        closed = self.closed if new is None or closes <= self.closed else self.closed | closes
        values: dict[str, object] = {}
        if self.table.durable:
            values = self._session(
                since=since, events=events, filled=sorted(sources), began=began, open=is_open, closed=sorted(closed)
            )
            values |= {f"stream/{name}": value for name, value in streams.items()}
        stale: list[str] = []
        if new is None:
            new = self._new
        else:
            if further:
                earlier = self._new or {}
                new = {n: [*earlier.get(n, ()), *new.get(n, ())] for n in {**earlier, **new}}
            if self.table.durable:
                named = {name: [self._name(b) for b in batches] for name, batches in new.items()}
                values |= {f"new/{name}": _changes(lower, batches) for name, batches in named.items()}
                stale = [k for k in self.store.state if k.startswith("new/") and k not in values]
                new = named if further else new  # a long advance keeps in memory what its updates are called
        if self.table.durable:
            self._commit(lower, values, stale, info, own)
        self.own = own or self.own
        self.lower, self.since, self.events, self.filled, self._new = lower, since, events, sources, new
        self.began, self.streams, self.steps = began, {**self.streams, **streams}, self.steps + 1
        self.is_open, self.closed, self.commits = is_open, closed, self.commits + 1

    def close_source(self, name: str) -> None:
        """Commit that a source takes no more rows."""
        closed = self.closed | {name}
        if self.table.durable:
            self._commit(self.lower, self._session(closed=sorted(closed)), [], {"closed": name})
        self.closed, self.commits = closed, self.commits + 1

    def release(self, released: Mapping[str, tuple[str, Layout]], views: Mapping[str, StoredView]) -> None:
        """Commit that arrangements are no longer stored; ``views`` is what is known of their views from now on.

        Shape:  for each of them the name and layout of the state that has its future updates from now on.
        Cost:   these updates are renamed; batches are not opened.
        """
        with self.undoing():
            gone: list[str] = []
            for name, (waits, layout) in released.items():
                for shard in [shard for held, shard in self.table.future if held == name]:
                    state = self.table.get(name, shard)
                    assert state is not None
                    self.table.put(waits, shard, ArrangementState(Spine.empty(layout), state.future))
                gone += [f"arrangement/{n}/{shard}" for n, shard in self.table.remove(name)]
            names = self.released | released.keys()
            if self.table.durable:
                values = self._session(released=sorted(names)) | {f"view/{n}": view for n, view in views.items()}
                deleted = [key for key in gone if key in self.store.state]
                self._commit(self.lower, values, deleted, {"released": len(released)})
            self.released, self.commits = names, self.commits + 1
            self.views |= views

    def forget_stream(self, name: str) -> None:
        """Commit that nothing is known of a stream any more."""
        if self.table.durable:
            self._commit(self.lower, {}, [f"stream/{name}"], {"unfollowed": name})
        del self.streams[name]

    def commit_view(  # noqa: PLR0913  # options, each by its name
        self,
        name: str,
        fingerprint: str,
        arrangements: list[str],
        choices: Choices,
        described: Described,
        functions: list[Recorded],
        sources: Mapping[str, StoredSource] = MappingProxyType({}),
        *,
        stored_again: Mapping[str, str] = MappingProxyType({}),
        whole_errors: Sequence[str] = (),
        retain: int | Literal["all"] | None = None,
        refresh: Refresh | None = None,
        since: int = 0,
    ) -> None:
        """Commit that a view is maintained from now on, with the states that were filled for it.

        With it come the sources it is made of whose rows are ``kept`` from now on, as ``kept_sources`` tells them.
        ``stored_again`` are released arrangements that the view needs, each with the state that had its future updates.
        ``whole_errors`` are linear nodes whose errors show all columns, because a view of an earlier build has them.
        It can be read from ``since`` on, and from no time that is not retained.
        """
        since = max(since, self.since)
        removed = [f"arrangement/{n}/{s}" for waits in stored_again.values() for n, s in self.table.remove(waits)]
        released = self.released - stored_again.keys()
        view: StoredView = {
            "fingerprint": fingerprint,
            "since": since,
            "lower": self.lower,
            "versions": _versions(),
            "arrangements": arrangements,
            "delta": choices.delta,
            "kept": described.to_json(),
            "functions": functions,
            "errors": ERROR_COLUMNS,
            "added": self.store.next_number,
        }
        if choices.orders:
            view["orders"] = choices.orders
        if choices.turns:
            view["turns"] = choices.turns
        if whole_errors:
            view["whole_errors"] = [*whole_errors]
        if retain is not None:
            view["retain"] = {"times": retain, "start": since}
        if refresh is not None and refresh != "auto":
            view["refresh"] = refresh
        if self.table.durable:
            values = self._session(released=sorted(released)) | {f"view/{name}": view}
            values |= {f"kept/{source}": value for source, value in sources.items() if source not in self.kept}
            self._commit(self.lower, values, [k for k in removed if k in self.store.state], {"view": name})
        self.views[name], self.released = view, released
        self.kept |= sources
        self.commits += 1

    @contextmanager
    def defining(
        self, definitions: Mapping[str, StoredDefinition | None], forgotten: Collection[str] = ()
    ) -> Iterator[None]:
        """Have the first commit inside tell definitions, by name, None for one that goes; or one of its own at the end.

        Of sources that are ``forgotten`` it tells that they never had rows, and nothing of their streams; what is kept
        of them goes.
        """
        self._defining, self._forgotten = dict(definitions), set(forgotten)
        try:
            yield
            if self._defining:
                if self.table.durable:
                    self._commit(self.lower, {}, [], {"defined": sorted(definitions)})
                else:
                    self._defined()
        finally:
            self._defining, self._forgotten = {}, set()

    def _definition_changes(self) -> tuple[dict[str, object], list[str]]:
        """The values that a commit sets for them, and the keys that it deletes."""
        values: dict[str, object] = {f"sql/{name}": value for name, value in self._defining.items() if value}
        removed = [f"sql/{name}" for name, value in self._defining.items() if value is None]
        if self._forgotten:
            closed = sorted(self.closed - self._forgotten)
            values |= self._session(filled=sorted(self.filled - self._forgotten), closed=closed)
            removed += [f"{kind}/{name}" for name in self._forgotten for kind in ("stream", "kept")]
            known = [(name, self._columns_told[name]) for name in self._forgotten if name in self._columns_told]
            removed += [key for name, versions in known for key in keys_of(name, versions)]
        return values, [key for key in removed if key in self.store.state]

    def _defined(self) -> None:
        for name, value in self._defining.items():
            if value is None:
                self.definitions.pop(name, None)
            else:
                self.definitions[name] = value
        self.filled -= self._forgotten
        self.closed -= self._forgotten
        for table in (self.streams, self.kept, self.versions, self._columns_told):
            for name in self._forgotten:
                table.pop(name, None)
        self._sources_to_describe -= self._forgotten
        self._columns_to_describe -= self._forgotten
        self._defining, self._forgotten = {}, set()

    def describe(
        self, name: str, described: Described, functions: list[Recorded], arrangements: list[str] | None = None
    ) -> None:
        """Have the next commit tell how a view is kept and what its functions read, where that is not told yet.

        Over a source whose columns have changed since, it needs the ``arrangements`` of now.
        """
        view, kept = self.views[name], described.to_json()
        arrangements = view["arrangements"] if arrangements is None else arrangements
        if (view.get("kept"), view.get("functions"), view["arrangements"]) != (kept, functions, arrangements):
            self.views[name] = {**view, "kept": kept, "functions": functions, "arrangements": arrangements}
            self._views_to_describe.add(name)

    def know(self, versions: Mapping[str, Versions]) -> None:
        """Have the next commit tell which columns sources have."""
        self.versions |= versions
        self._columns_to_describe |= versions.keys()

    def commit_versions(
        self,
        name: str,
        versions: Versions,
        kept: StoredSource | None,
        views: Mapping[str, StoredView],
        gone: Collection[str],
        called: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Commit that a source has other columns from now on, with the states that were filled for that.

        ``kept`` is its record if its rows are kept, ``views`` what is known of views from now on; the arrangements
        ``gone`` go, and the contents of views have other names where they are ``called`` so, as in
        ``commit_redefined``.
        """
        renamed = self._outputs_called(called)
        removed = [f"arrangement/{n}/{s}" for a in gone for n, s in self.table.remove(a)]
        removed += [f"new/{a}" for a in gone]
        before = self.versions.get(name)
        self.versions[name] = versions
        try:
            if self.table.durable:
                self._columns_to_describe.add(name)
                values: dict[str, object] = {f"view/{view}": value for view, value in views.items()}
                values |= {} if kept is None else {f"kept/{name}": kept}
                values |= {**renamed, **(self._session(open=True) if called else {})}
                self._commit(self.lower, values, [k for k in removed if k in self.store.state], {"altered": name})
            else:
                self._defined()
        except BaseException:
            if before is not None:
                self.versions[name] = before
            raise
        self.views |= views
        if kept is not None:
            self.kept[name] = kept
        self.is_open, self.commits = self.is_open or bool(called), self.commits + 1

    def commit_redefined(
        self,
        views: Mapping[str, StoredView],
        sources: Mapping[str, StoredSource],
        gone: Collection[str],
        called: Mapping[str, str],
    ) -> None:
        """Commit that views have other plans from now on, with the states that were filled for that.

        What is different waits in them for the next time.

        ``called`` are the names of the arrangements that have the contents of now, by those of before: the changes of
        the last advance are theirs. The arrangements ``gone`` go.
        """
        state, renamed = self.store.state, self._outputs_called(called)
        removed = [f"arrangement/{n}/{s}" for a in gone for n, s in self.table.remove(a)]
        removed += [f"new/{a}" for a in gone]
        if self.table.durable:
            values: dict[str, object] = {f"view/{view}": value for view, value in views.items()}
            values |= {f"kept/{name}": value for name, value in sources.items() if name not in self.kept}
            values |= {**renamed, **self._session(open=True)}
            self._commit(self.lower, values, [k for k in removed if k in state], {"redefined": sorted(views)})
        else:
            self._defined()
        self.views |= views
        self.kept |= sources
        self.is_open, self.commits = True, self.commits + 1

    def _outputs_called(self, called: Mapping[str, str]) -> dict[str, object]:
        """The changes of the last advance under other names of their arrangements, as values of a commit."""
        state = self.store.state
        if self._new is not None:
            self._new = {**self._new, **{now: self._new[was] for was, now in called.items() if was in self._new}}
        return {f"new/{now}": state[f"new/{was}"] for was, now in called.items() if f"new/{was}" in state}

    def retain(self, name: str, retain: int | Literal["all"], start: int) -> None:
        """Commit how much history a view retains from now on; it has that from ``start`` on."""
        known = self.views[name].get("retain")
        if known is not None and known["times"] == retain:
            return
        view: StoredView = {**self.views[name], "retain": {"times": retain, "start": start}}
        if self.table.durable:
            self._commit(self.lower, {f"view/{name}": view}, [], {"retains": name})
        self.views[name] = view
        self.commits += 1

    def refresh(self, name: str, refresh: Refresh) -> None:
        """Commit how a view is refreshed from now on."""
        view = self.views[name].copy()
        if view.pop("refresh", "auto") == refresh:
            return
        if refresh != "auto":
            view["refresh"] = refresh
        if self.table.durable:
            self._commit(self.lower, {f"view/{name}": view}, [], {"refreshes": name})
        self.views[name] = view
        self.commits += 1

    def keep(self, sources: Mapping[str, StoredSource]) -> None:
        """Have the next commit tell which sources are kept, where an earlier altneu did not."""
        for name in sources.keys() - self.kept.keys():
            self.kept[name] = sources[name]
            self._sources_to_describe.add(name)

    def commit_shards(self, shards: int, outcome: Outcome) -> None:
        """Commit that there are so many shards from now on, with the states that they have."""
        before = self.shards
        with self.undoing():
            try:
                self.take(outcome)
                self.shards = shards
                if self.table.durable:
                    values = self._session()
                    self._commit(self.lower, values, [], {"shards": [before, shards]})
                self.commits += 1
            except BaseException:
                self.shards = before
                raise

    def drop(self, name: str, needed: Collection[str]) -> None:
        """Commit that a view is forgotten, and the state that is not needed by others."""
        others = {a for n, v in self.views.items() if n != name for a in v["arrangements"]} | set(needed)
        own = self.views[name]["arrangements"] if name in self.views else ()
        mine = {*own, *self.states_of_sources(self._forgotten)} - others
        self._remove(mine, [f"view/{name}"], {"dropped": name})
        self.views.pop(name, None)

    def commit_source(self, name: str, value: StoredSource) -> None:
        """Commit that the rows of a source are kept from now on, with the state that was filled for it."""
        if self.table.durable:
            self._commit(self.lower, self._session() | {f"kept/{name}": value}, [], {"kept": name})
        self.kept[name] = value
        self.commits += 1

    def keep_no_more(self, name: str, needed: Collection[str]) -> None:
        """Commit that the rows of a source, which views still read, are no longer kept for others to come."""
        others = {a for view in self.views.values() for a in view["arrangements"]} | set(needed)
        self._sources_to_describe.discard(name)
        self._remove({*self.states_of_sources([name])} - others, [f"kept/{name}"], {"no longer kept": name})
        del self.kept[name]

    def drop_source(self, name: str, needed: Collection[str]) -> None:
        """Commit that nothing is known of a source any more: the rows that are kept of it go."""
        self._forgotten = {name}
        try:
            self._remove({*self.states_of_sources([name])} - set(needed), [], {"dropped source": name})
        finally:
            self._forgotten = set()

    def remove(self, arrangements: Collection[str]) -> None:
        """Commit that arrangements are there no more, if there are any."""
        if arrangements:
            self._remove(arrangements, [], {"removed": len(arrangements)})

    def unneeded(self, arrangements: Collection[str], needed: Collection[str]) -> set[str]:
        """Those of some arrangements that hold state and that neither a view nor a plan needs."""
        others = {name for view in self.views.values() for name in view["arrangements"]}
        held = {name for name, _ in (*self.table.live, *self.table.stored)} if arrangements else set[str]()
        return held.intersection(arrangements).difference(others, needed)

    @property
    def forgotten(self) -> Collection[str]:
        """The sources of which the next commit tells nothing more."""
        return self._forgotten

    def states_of_sources(self, sources: Iterable[str]) -> list[str]:
        """The states of those of some sources whose rows are kept."""
        return [state for name in sources if name in self.kept for state in _states_of(self.kept[name])]

    def _remove(self, arrangements: Collection[str], keys: list[str], info: Mapping[str, object]) -> None:
        """Commit that arrangements are there no more, and what else is deleted."""
        with self.undoing():
            removed = [f"arrangement/{n}/{s}" for a in arrangements for n, s in self.table.remove(a)]
            removed += [*keys, *(f"new/{a}" for a in arrangements)]
            if self.table.durable:
                self._commit(self.lower, {}, [k for k in removed if k in self.store.state], info)
            else:
                self._defined()
            self.commits += 1

    def _session(self, **changed: object) -> dict[str, object]:
        """What a commit tells of the session, with what it changes of that."""
        known = {"shards": self.shards, "since": self.since, "events": self.events, "filled": sorted(self.filled)}
        static = {"closed": sorted(self.closed), "released": sorted(self.released)}
        told = {**known, "began": self.began, "open": self.is_open, **static, **changed}
        return {"session": {key: value for key, value in told.items() if value or key not in static}}

    def _name(self, batch: Batch | StoredBatch) -> StoredBatch:
        return self.table.names.of(batch) if isinstance(batch, Batch) else batch

    def _commit(
        self, lower: int, values: dict[str, object], delete: list[str], info: Mapping[str, object], own: Own = ()
    ) -> None:
        self.table.settle()
        changed = {f"arrangement/{n}/{s}": v for (n, s), v in self.table.uncommitted().items()}
        views = {f"view/{n}": self.views[n] for n in self._views_to_describe if f"view/{n}" not in delete}
        sources = {f"kept/{n}": self.kept[n] for n in self._sources_to_describe - self._forgotten}
        described = {n: self.versions[n] for n in self._columns_to_describe - self._forgotten}
        columns, stale = self._columns_of(described)
        values = {**views, **sources, **columns, **values, **changed}
        defined, removed = self._definition_changes()
        values, delete = {**values, **defined}, [*delete, *removed, *stale]
        named = set(blob_names(values))
        blobs = {n: b for n, b in self.table.blobs.items() if n in named}
        frontier = cast(Json, [[lower, *(own or self.own)]])
        self.store.commit(frontier, cast(dict[str, Json], values), delete, blobs, cast(dict[str, Json], info))
        self._views_to_describe.clear()
        self._sources_to_describe.clear()
        self._columns_to_describe.clear()
        self._columns_told |= described
        self._defined()
        self.table.committed()

    def _columns_of(self, versions: Mapping[str, Versions]) -> tuple[dict[str, object], list[str]]:
        """The values that a commit sets so that it tells the columns of sources, and the keys that it deletes."""
        values: dict[str, object] = {}
        stale: list[str] = []
        for name, known in versions.items():
            own, gone = told(name, known, self._columns_told.get(name))
            values |= own
            stale += [key for key in gone if key in self.store.state]
        return values, stale

    def tidy(self) -> None:
        """Now and then, remove files that nothing names any more; if that fails they stay until the next time."""
        if self.store.number % VACUUM_EVERY == 0:
            try:
                self.store.vacuum(keep=KEPT)
            except StoreError as error:
                warnings.warn(f"the step is committed, but unneeded files could not be removed: {error}", stacklevel=2)

    def changes(self) -> dict[str, int]:
        """How many updates the last advance made to the contents of views that it changed."""
        new = self._new or {}
        return {name: sum(map(batch_rows, new[name])) for name in new}

    def first_outputs(self, name: str, layout: Layout, most: int) -> Updates:
        """Updates of a view's contents in the last advance, at most so many; no more than these is copied."""
        parts: list[Updates] = []
        for batch in self._opened(layout, (self._new or {}).get(name, ())):
            for block in batch.blocks:
                room = most - sum(map(len, parts))
                if room > 0:
                    parts.append((block if len(block) <= room else block.take(np.arange(room))).updates())
        return Updates.concat(parts, layout.schema, layout.lattice.width)

    def outputs(self, name: str, layout: Layout) -> Updates:
        """The updates of a view's contents in the last advance, also after the session was opened anew.

        Of an advance that did not come to its end they are those of the steps that were committed.
        """
        new: Sequence[Batch | StoredBatch]
        new = stored_outputs(self.store, name, self.lower) if self._new is None else self._new.get(name, ())
        batches = self._opened(layout, new)
        return Updates.concat([batch.updates() for batch in batches], layout.schema, layout.lattice.width)

    def _opened(self, layout: Layout, batches: Iterable[Batch | StoredBatch]) -> Iterator[Batch]:
        for batch in batches:
            yield batch if isinstance(batch, Batch) else batch_from_json(layout, batch, self.table.open_data)


class Undoing:
    """The context of what happens to the state wholly or not at all."""

    __slots__ = ("_commits", "_is_step", "_journal", "_mark", "_number")

    def __init__(self, journal: Journal, is_step: bool) -> None:
        self._journal, self._is_step = journal, is_step

    def __enter__(self) -> tuple[Any, ...]:
        journal = self._journal
        self._mark, self._number, self._commits = journal.table.mark(), journal.store.number, journal.commits
        return self._mark

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._journal.undo(self._mark, self._number, self._commits, step=self._is_step)


def stored_outputs(store: Store, name: str, lower: int) -> list[StoredBatch]:
    """The updates of a view's contents in the last advance, as the store names them; ``lower`` is its frontier."""
    stored = changes_of(store.state.get(f"new/{name}"))
    return stored["batches"] if stored is not None and stored["upper"] == lower else []


def _changes(upper: int, batches: list[StoredBatch]) -> StoredChanges:
    return {"upper": upper, "batches": batches}


def _states_of(source: StoredSource) -> list[str]:
    """The arrangement of a kept source, and where commands to it wait."""
    return [source["arrangement"], *([source["commands"]] if "commands" in source else ())]


@cache
def _version(name: str) -> str:
    """A library's version, for which its metadata is read once."""
    return version(name)


def _versions() -> dict[str, str]:
    return {"altneu": __version__} | {name: _version(name) for name in ("pyarrow", "polars", "numpy")}
