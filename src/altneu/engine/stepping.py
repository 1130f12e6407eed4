"""The steps of an advance: each computes what the inserted rows and the closed times change, and commits it."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Mapping

from altneu.engine.before import Mark
from altneu.engine.history import Step
from altneu.engine.parts import Parts
from altneu.engine.recomputing import Chosen, recompute
from altneu.engine.sizes import SizesOfInputs
from altneu.errors import AltneuError, StepFailedError
from altneu.order import Antichain
from altneu.runtime import interrupts
from altneu.runtime.base import compact
from altneu.runtime.inputs import Inputs
from altneu.runtime.measured import Ran
from altneu.runtime.outcome import Outcome, batch_rows
from altneu.runtime.step_limit import before_feedback, step_limit
from altneu.runtime.stored import StoredStream


def advance(
    parts: Parts, upper: int, streams: Mapping[str, StoredStream], own: tuple[int, ...], started: float
) -> Step:
    """Take the steps that close every time before ``upper``; what led up to them began at ``started``."""
    before = parts.journal.lower
    received, placements = 0, dict[str, None]()
    recomputed: tuple[str, ...] = ()
    parts.measured.begin()
    steps = parts.journal.steps
    try:
        for outcome in _steps(parts, before, upper, streams, own):
            received += sum(outcome.received.values())
            placements[outcome.placement] = None
            if outcome.recomputed:
                recomputed = (*recomputed, *(view for view in outcome.recomputed if view not in recomputed))
    except BaseException as caught:
        error = interrupts.original(caught)
        parts.past.fail(error)
        if before < parts.lower < upper:
            error.add_note(
                f"altneu: of the times {before} to {upper}, those before {parts.lower} are closed and committed, as "
                f"are the inserted rows; advance(to={upper}) continues from there"
            )
        elif not isinstance(error, Exception):
            error.add_note(f"altneu: {_became_of_step(parts, committed=parts.journal.steps > steps)}")
        if error is caught:
            raise
        raise error from caught
    # The last changes are those of an advance before this, if it closed no time.
    changed = parts.journal.changes() if upper > before else {}
    views = parts.catalogue.plan.views.items()
    changes = {name: changed[c] if (c := ports.contents) in changed else 0 for name, ports in views}
    seconds, total = clock.perf_counter() - started, parts.journal.table.total
    placed = ", ".join(placements)
    return parts.past.add(Step(before, upper, seconds, received, changes, placed, total, recomputed))


def _became_of_step(parts: Parts, *, committed: bool) -> str:
    """The message of an interrupt, about the step that it stopped."""
    if committed:
        return f"the step is committed, lower is {parts.lower}"
    undone = f"nothing of the step is committed, lower is {parts.lower}, and"
    if parts.takes_back:
        return f"{undone} the statement has not happened"
    return (
        f"{undone} the inserted rows are still pending: advance() takes the step again, session.discard() discards "
        "the rows"
    )


def _steps(
    parts: Parts, before: int, upper: int, streams: Mapping[str, StoredStream], own: tuple[int, ...]
) -> Iterator[Outcome]:
    """The steps of an advance, each committed before the next: one, unless more updates are due than one may have.

    The first step processes all inputs, also those at times that a later step closes. The last closes event times.
    """
    started, journal = clock.monotonic(), parts.journal
    end = -1
    while end < upper:
        lower, steps, inserted = journal.lower, journal.steps, parts.pending.sources
        end = step_limit(journal.table, parts.pending, lower, upper, parts.shards)
        feedback = parts.catalogue.plan.feedback
        if feedback is not None and end > lower:
            end = before_feedback(journal.table, parts.pending, lower, end, feedback)
        chosen = None
        if end > lower and parts.refreshing.may_recompute(parts.pending):
            chosen = _chosen(parts, lower, end, streaming=bool(streams))
            end = end if chosen is None else chosen.time + 1
        so_far = "" if lower == before else f", closed up to {lower}"
        try:
            with parts.past.watch(f"closing times {before} to {upper}{so_far}", started):
                closed = own if end == upper else journal.own
                # What an advance retains is the same, however many steps it takes: none compacts more than the last.
                events = parts.times.events_after(end, own)
                if end < upper:
                    events = min(events, parts.times.events_after(end, closed))
                outcome, ran = _step(parts, lower, end, streams, closed, events, chosen, further=lower != before)
        finally:
            if journal.steps != steps:  # committed, even if an interrupt came right after
                for name in inserted:
                    parts.inserted[name] = journal.steps
                parts.pending = Inputs()
        parts.measured.add(*ran)
        if chosen is not None:
            parts.refreshing.took(chosen)
        if journal.table.durable:
            journal.tidy()
        if outcome.inspected or parts.inspections.is_waiting:
            parts.inspections.add(ran[0].plan, outcome.inspected)
            times = [end] if end < upper else []  # the last step also shows updates of times not closed yet
            parts.inspections.show(Antichain.of(parts.lattice, *times), parts.lower)
        interrupts.check()
        streams = {}
        parts.subscribers.deliver(f"the step is committed, lower is {journal.lower}")
        yield outcome


def _chosen(parts: Parts, lower: int, upper: int, *, streaming: bool) -> Chosen | None:
    """What the next step computes anew; the rows of micro-batches are not counted."""
    pending = parts.pending
    sizes = None if streaming or not pending.frames else SizesOfInputs(pending)

    def in_frames(source: str) -> int | None:
        return None if sizes is None else sizes.in_frames(source)

    counted = parts.measured.counted
    return parts.refreshing.chosen(parts.plan, lower, upper, pending, counted, in_frames, parts.times.since_after)


def _step(
    parts: Parts,
    before: int,
    upper: int,
    streams: Mapping[str, StoredStream],
    own: tuple[int, ...],
    events: int,
    chosen: Chosen | None,
    *,
    further: bool,
) -> tuple[Outcome, list[Ran]]:
    """Compute and commit, or leave everything as it was; a ``further`` step is not the first of its advance.

    A step from a time to the same time closes none: it stores the inputs as future updates. What is ``chosen`` is
    computed anew after everything else, from what that has become.
    """
    journal = parts.journal
    plan = parts.catalogue.plan if chosen is None else chosen.what.kept
    since = parts.times.since_after(upper)
    # The rounds of a loop come back to history that earlier ones have written: none of it may be compacted yet.
    inside = min(since, max(before - 1, 0)) if plan.loops else since
    region = parts.times.region(before, upper, inside, events, compacted=since)
    try:
        with journal.undoing(step=True) as states:
            retained, closed = (journal.lower, journal.since, journal.events), (journal.own, journal.closed)
            parts.mark = Mark(states, journal.table.layouts, retained, journal.began, closed)
            try:
                outcome = parts.executor.step(plan, journal.table, parts.pending, region, parts.mode)
                if plan.loops:
                    compact(outcome.states, region.final, histories=inside != since)
                journal.take(outcome)
                ran = [Ran(plan, outcome.measured)]
                if chosen is not None:
                    again = parts.times.region(before, upper, chosen.time, events, compacted=since)
                    ran.append(recompute(chosen, journal, parts.executor, parts.shards, again, outcome))
            finally:
                parts.mark = None
            if plan.changes_only:  # drop the changes that are no longer retained
                journal.table.forget_before(plan.changes_only, region.final)
            if parts.idle is not None and upper > before:
                parts.idle.step(journal.table, region)
            shown = parts.catalogue.plan.contents
            new = {n: [b for b in batches if batch_rows(b)] for n, batches in outcome.new.items() if n in shown}
            filled = {*parts.pending.updates, *parts.pending.frames}
            info: dict[str, object] = {"placement": outcome.placement}
            if chosen is not None:
                info["recomputed"] = [*chosen.what.views]
            announced = new if upper > before else None
            interrupts.check()
            static = parts.catalogue.static
            closes = static.intersection(filled | journal.filled) if static else frozenset[str]()
            with interrupts.deferred():
                journal.commit_step(
                    upper,
                    since,
                    events,
                    filled,
                    announced,
                    info,
                    streams,
                    further=further,
                    closes=closes,
                    own=own,
                )
                parts.pending = Inputs()
    except AltneuError:
        raise
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise error.__cause__ from None  # compiled code wraps it in a SystemError
        raise StepFailedError(
            f"the step from {before} to {upper} failed and nothing of it is committed: "
            f"{type(error).__name__}: {error}. " + ("" if further else _remedy(parts))
        ) from error
    return outcome, ran


def _remedy(parts: Parts) -> str:
    """What became of the inserted rows of a step that failed, and what to do about them."""
    if parts.takes_back:
        return "The statement has not happened."
    return "The inserted rows are still pending: advance again, or discard them with session.discard()."
