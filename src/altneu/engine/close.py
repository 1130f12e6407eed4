"""Closing sources: that no more rows of a source come, so that views and joins need no longer be ready for them."""

from __future__ import annotations

from altneu.engine.engine import Engine
from altneu.errors import InputError
from altneu.runtime import interrupts


def close_source(engine: Engine, name: str) -> None:
    """Close a source; see ``Session.close_source``."""
    with engine.lock:
        engine.check_open()
        engine.require_stored_views()
        engine.adopt()
        engine.source(name)
        if name in engine.journal.closed:
            return
        _refuse_waiting(engine, name)
        with interrupts.deferred():
            engine.journal.close_source(name)
        engine.release()


def _refuse_waiting(engine: Engine, name: str) -> None:
    """Refuse to close a source to which rows are still to come.

    Raises:
        InputError: some are inserted, a stream feeds it, or its files have not been read.
    """
    if name in engine.pending.sources:
        raise InputError(
            f"source {name!r} cannot be closed yet: rows of it are inserted, and no step has them; advance() first, or "
            f"session.discard({name!r})"
        )
    if name in engine.streams_stored:
        raise InputError(
            f"source {name!r} cannot be closed: it is fed by a stream; session.unfollow({name!r}) ends that"
        )
    definition = engine.definitions.get(name.lower())
    if definition is not None and definition["kind"] == "SOURCE" and name not in engine.sources_filled:
        raise InputError(f"source {name!r} cannot be closed yet: none of its rows has been read; advance() first")


def is_static(engine: Engine, name: str) -> bool:
    """Whether a view never changes again: all sources of it are closed, and no update waits for its time."""
    with engine.lock:
        engine.check_open()
        return engine.frontier(name).is_empty
