"""A fork that takes the place of its store, in one commit: histories of views go on, and the difference is a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from altneu.engine.engine import Engine
from altneu.engine.redefine import alike, replan
from altneu.errors import InputError, PlanError, StoreError, StorePlanError
from altneu.operators.lowering import arrangement_id
from altneu.plan import ir
from altneu.plan.rewrite import Choices
from altneu.runtime.described import Described
from altneu.runtime.stored import StoredDefinition, StoredStream, StoredView, arrangements_in, definitions_in, views_in
from altneu.store import (
    FORK,
    DirectoryStore,
    Folder,
    Json,
    Snapshot,
    State,
    StoreReader,
    in_other_names,
    named_blobs,
    renamed,
    root_of,
    share_segments,
)
from altneu.store.commit import RECOVERED
from altneu.trace.batch import Layout

Streams = Callable[[Folder, Folder], Mapping[str, StoredStream]]


@dataclass(frozen=True)
class _Former:
    """What the store has of a view that goes on: its record, and its contents."""

    view: StoredView
    contents: str
    layout: Layout


def swap(engine: Engine, fork: Engine, streams: Streams, check: Callable[[AbstractSet[str]], None]) -> None:
    """Let a fork take the place of the store of which it is one; the engine goes on with the fork's views.

    ``streams`` gives the positions of the fork's streams as the store has them from now on, of both folders;
    ``check`` may refuse what becomes of views, given those that go on.

    Cost:   one link for each segment of the fork; the contents of the views that both have are read once and compared,
            as when they are redefined; then one commit, with the whole state.
    Law:    killed anywhere, the store is as before or has the state of the fork; whoever follows a view gets changes
            that lead from what it had to what the fork has (tests/session/test_swap.py).

    Raises:
        PlanError, StoreError, StorePlanError, InputError: as ``Session.swap``; nothing has changed.
    """
    store, other = swappable(engine), swappable(fork)
    if root_of(store.identity) not in fork.forked_from:
        raise StoreError(f"{other.folder.where()} is no fork of {store.folder.where()}, so it cannot take its place")
    for one in (engine, fork):
        if one.pending.sources:
            raise InputError(
                f"rows of {min(one.pending.sources)!r} wait for a step in {swappable(one).folder.where()}: advance, or "
                "discard them"
            )
    fork.make_ready()
    if engine.shards != fork.shards:
        raise StorePlanError(f"the store has {engine.shards} shards and the fork {fork.shards}: reshard one of them")
    _refuse_sinks(engine, fork)
    check({*_former(engine, fork)})
    _at_one_time(engine, fork)
    since = max(engine.journal.since, fork.journal.since)
    _refuse_leases(engine, store, since)
    former = _former(engine, fork)
    reader = StoreReader(other.folder)
    try:
        with _taking_up(store, reader.snapshot, engine, fork, former, since, streams):
            number = store.number
            with engine.beginning_anew():
                engine.journal.own = fork.journal.own
                for name, collection in fork.catalogue.collections.items():
                    contents = name not in fork.catalogue.changes_only
                    engine.maintain(name, collection, trust_functions=True, contents=contents)
                assert store.number == number, "nothing is committed before all is"
                _commit(engine, former)
    finally:
        reader.close()
    for name in {*engine.subscribers.views} - former.keys():
        engine.subscribers.end(name)


def swappable(engine: Engine) -> DirectoryStore:
    """The store of a session, of which there can be forks.

    Raises:
        StoreError: it has no path.
    """
    if not isinstance(engine.store, DirectoryStore) or not engine.store.durable:
        raise StoreError("this session has no store to fork: open it with path=...")
    return engine.store


def _refuse_sinks(engine: Engine, fork: Engine) -> None:
    """Refuse definitions of both that would be in each other's way."""
    theirs = {name: d for name, d in fork.definitions.items() if d["kind"] == "SINK"}
    if theirs:
        name = next(iter(theirs.values()))["name"]
        raise PlanError(
            f"the fork has the SINK {name}, whose target follows the fork's own history: DROP SINK {name} there, and "
            "CREATE it again afterwards"
        )
    for name, definition in engine.definitions.items():
        if definition["kind"] == "SINK" and name in fork.definitions:
            raise PlanError(f"{definition['name']} is a SINK of the store, and something else in the fork: rename one")


def _at_one_time(engine: Engine, fork: Engine) -> None:
    """Close the times that only one of the two has closed."""
    if any(mine > theirs for mine, theirs in zip(engine.journal.own, fork.journal.own, strict=False)):
        raise InputError(
            f"the store has closed event times before {engine.journal.own}, and the fork those before "
            f"{fork.journal.own}: advance(event=...) the fork to those of the store"
        )
    if fork.lower < engine.lower:
        fork.advance(engine.lower)
    elif engine.lower < fork.lower:
        if waiting := engine.catalogue.waiting():
            raise StorePlanError(
                f"the fork has closed times up to {fork.lower} and the store up to {engine.lower}, so the store has to "
                f"take a step, for which {', '.join(map(repr, waiting))} must be maintained in its session"
            )
        engine.advance(fork.lower)


def _refuse_leases(engine: Engine, store: DirectoryStore, since: int) -> None:
    """Refuse to give up history that a reader, a sink or a subscription still needs."""
    if engine.subscribers.since is not None and engine.subscribers.since < since:
        raise InputError(
            f"a subscription still needs the changes after time {engine.subscribers.since}, and the fork retains those "
            f"after {since}, as its lease has ended: take what it has, or close it"
        )
    for lease in store.leases():
        if lease.since is not None and lease.since < since:
            raise InputError(
                f"{lease.name} still needs the changes after time {lease.since} (a lease until {lease.until}, in "
                f"seconds since 1970), and the fork retains those after {since}: run that sink, refresh that reader, "
                "or swap when its lease has ended; session.fork(lease=...) retains more"
            )


def _former(engine: Engine, fork: Engine) -> dict[str, _Former]:
    """The views that go on: those of both that have contents, the same columns and the same times."""
    former = dict[str, _Former]()
    for name, view in engine.journal.views.items():
        node, kept = fork.catalogue.nodes.get(name), view.get("kept")
        if node is None or kept is None or isinstance(node, ir.ArrangedBy) or name in fork.catalogue.changes_only:
            continue
        known = Described.from_json(kept)
        layout = known.layouts[known.ports.contents]
        same = alike(known.ports.schema, node.schema) and known.coordinates == ir.coordinates(node)
        if same and not layout.order and not known.ports.changes_only:
            former[name] = _Former(view, known.ports.contents, layout)
    return former


@contextmanager
def _taking_up(
    store: DirectoryStore,
    snapshot: Snapshot,
    engine: Engine,
    fork: Engine,
    former: Mapping[str, _Former],
    since: int,
    streams: Streams,
) -> Iterator[None]:
    """A context in which the store has the state of a fork, beside it what its own views had."""
    number = store.next_number
    names = renamed(snapshot, store.checksums, number)
    store.go_on()
    share_segments(snapshot, store.folder, names)
    called = f"f{number}."  # no blob that a step writes begins so
    state = cast(State, in_other_names(dict(snapshot.state), names, lambda blob: called + blob))
    blobs = {called + name: blob for name, blob in snapshot.blobs().items()}
    mine = dict(store.state)
    state = {key: value for key, value in state.items() if key not in (FORK, RECOVERED)}
    state |= {key: mine[key] for key in (FORK, RECOVERED) if key in mine}
    for name, view in views_in(state).items():
        state[f"view/{name}"] = cast(Json, _continued(view, former.get(name), engine, name, number))
    for name, one in former.items():
        moved = _elsewhere(name, one)
        for held, shard, value in arrangements_in(mine):
            if held == one.contents:
                state[f"arrangement/{moved}/{shard}"] = cast(Json, {"batches": value["batches"], "hold": []})
        if f"new/{one.contents}" in mine:
            state[f"new/{moved}"] = mine[f"new/{one.contents}"]
    state |= {f"stream/{name}": cast(Json, stream) for name, stream in streams(store.folder, snapshot.folder).items()}
    state |= _sinks(mine, state)
    began = max(engine.journal.began, fork.journal.began)
    session = cast(dict[str, Json], state.get("session", {}))
    events = max(engine.journal.events, fork.journal.events)
    state["session"] = {**session, "since": since, "events": events, "began": began}
    with store.replacing(state, named_blobs(state, {**store.blobs(), **blobs})):
        yield


def _continued(view: StoredView, former: _Former | None, engine: Engine, name: str, number: int) -> StoredView:
    """The record of a view of the fork in the store: of one that goes on, its history is the store's."""
    if former is None:
        return {**view, "added": number}
    was, mine = former.view, cast(dict[str, Any], {**view})
    mine |= {key: was[key] for key in ("since", "lower", "added") if key in was}
    if "retain" in view:
        start = max(view["retain"]["start"], engine.since_of(name))
        mine["retain"] = {**view["retain"], "start": start}
    return cast(StoredView, mine)


def _elsewhere(name: str, former: _Former) -> str:
    """Where the contents are that a view had in the store."""
    return arrangement_id(f"{name}, in the store", former.layout.key)


def _sinks(mine: Mapping[str, Json], state: Mapping[str, Json]) -> State:
    """The sinks of the store, after all that the fork defines."""
    last = max((one["order"] for one in definitions_in(state).values()), default=-1)
    sinks = [(name, one) for name, one in definitions_in(mine).items() if one["kind"] == "SINK"]
    ordered = sorted(sinks, key=lambda item: item[1]["order"])
    told: list[tuple[str, StoredDefinition]] = [(n, {**d, "order": last + 1 + i}) for i, (n, d) in enumerate(ordered)]
    return {f"sql/{name}": cast(Json, definition) for name, definition in told}


def _commit(engine: Engine, former: Mapping[str, _Former]) -> None:
    """Commit, with the difference between what views had and what they have waiting for the next time."""
    nodes = {name: engine.catalogue.nodes[name] for name in former}
    collections = {name: engine.catalogue.collections[name] for name in former}
    stored = {name: engine.journal.views[name] for name in former}
    choices = {
        name: Choices([*view["delta"]], {**view.get("orders", {})}, {**view.get("turns", {})})
        for name, view in stored.items()
    }
    elsewhere = {name: (_elsewhere(name, one), one.layout) for name, one in former.items()}
    replan(engine, collections, nodes, choices, elsewhere)
