"""The commit protocol as a model of its own, searched through: every order of what two writers and misfortune can do.

The model has the rules of docs/format.md and nothing else. Two writers without a lock take in units of input, each its
own; a commit's state is the units that were taken in. Replies get lost, puts arrive late, writers die, vacuums run, the
newest commit is damaged and recovered from. With all rules nothing goes wrong in any order; and with any one rule left
out the search finds an order in which something does, so each is needed and the search would see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

RULES = {
    "whole": "a commit appears whole or not at all",
    "own": "a writer that is told that its number is taken looks whether it was by itself",
    "same": "a put of which no reply came is put again as it was, until one comes",
    "numbered": "vacuum leaves segments that aim at a number above the log",
    "anew": "a writer that lost names none of its segments again",
    "above": "a writer looks whether anything stands above what it put, and is not built upon it",
    "on top": "a recovery goes on above all numbers that were ever used",
}
UNITS = (2, 1)  # of each writer
FAULTS = 2
EVERY = 2  # commits from one checkpoint to the next


class Commit(NamedTuple):
    transaction: Any
    parent: Any
    units: tuple[Any, ...]
    segment: Any
    checkpoint: bool
    is_good: bool = True


class Writer(NamedTuple):
    """``at`` is where it is in its step, ``base`` what it builds upon, ``taken`` how many units it was told of."""

    at: str = "closed"
    number: int = 0
    base: Commit | None = None
    attempt: int = 0
    segment: Any = None
    taken: int = 0
    in_doubt: bool = False


class State(NamedTuple):
    log: tuple[tuple[int, Commit], ...] = ()
    files: frozenset[Any] = frozenset()
    writers: tuple[Writer, Writer] = (Writer(), Writer())
    late: tuple[tuple[int, Commit], ...] = ()
    told: frozenset[Any] = frozenset()
    faults: int = FAULTS


class BrokenError(Exception):
    """Something that must never be."""


def opened(log: dict[int, Commit]) -> tuple[int, Commit | None]:
    """What an opening finds: the last commit, if it can be replayed."""
    last = max(log, default=0)
    number, commit = last, log.get(last)
    while commit is not None and commit.is_good and not commit.checkpoint and number > 1:
        number, below = number - 1, log.get(number - 1)
        if below is None or commit.parent != below.transaction:
            raise BrokenError("the log does not hang together")
        commit = below
    if commit is not None and not commit.is_good:
        raise BrokenError("a torn commit blocks the log")
    return last, log.get(last)


def check(state: State) -> None:
    """What has to hold in every state."""
    log = dict(state.log)
    damaged = bool(log) and not log[max(log)].is_good and log[max(log)].segment == "damaged"
    if damaged:
        return  # until it is recovered from
    _, last = opened(log)
    units = () if last is None else last.units
    if len(set(units)) < len(units):
        raise BrokenError("a unit is taken in twice")
    if not state.told <= set(units):
        raise BrokenError("a unit that was said to be committed is not there")
    if last is not None and last.segment not in state.files:
        raise BrokenError("a segment is missing")


class Model:
    def __init__(self, rules: set[str]) -> None:
        self.rules = rules

    def search(self) -> int:
        """The number of states; BrokenError if one of them is."""
        first = State()
        came, waiting = {first: first}, [first]
        while waiting:
            state = waiting.pop()
            try:
                check(state)
                for following in self.following(state):
                    if following not in came:
                        came[following] = state
                        waiting.append(following)
            except BrokenError as error:
                while state != came[state]:
                    error.add_note(str(state))
                    state = came[state]
                raise
        return len(came)

    def following(self, state: State) -> Iterator[State]:
        log = dict(state.log)
        if log and log[max(log)].segment == "damaged":
            yield self.recovered(state, log)
            return
        for i, writer in enumerate(state.writers):
            yield from self.acts(state, log, i, writer)
            if state.faults and writer.at != "closed":  # it dies; its user cannot know what came of it
                gone = Writer(attempt=writer.attempt + 1, taken=writer.taken, in_doubt=True)
                yield placed(state, i, gone, faults=state.faults - 1)
        for put in state.late:
            rest = tuple(p for p in state.late if p != put)
            yield state._replace(late=rest, log=state.log if put[0] in log else with_commit(log, *put))
        if state.faults and len(log) > 1:
            yield state._replace(log=damaged(log), faults=state.faults - 1)

    def acts(self, state: State, log: dict[int, Commit], i: int, writer: Writer) -> Iterator[State]:
        if writer.at == "closed":
            number, base = opened(log)
            unit, answer = (i, writer.taken), state.told
            if writer.in_doubt and base is not None and unit in base.units:
                writer, answer = writer._replace(taken=writer.taken + 1, in_doubt=False), answer | {unit}
            yield placed(state, i, writer._replace(at="open", number=number, base=base), told=answer)
        elif writer.at == "open" and writer.taken < UNITS[i]:
            segment = writer.segment or (writer.number + 1, i, writer.taken, writer.attempt)
            files = state.files if writer.segment else state.files | {segment}
            yield placed(state, i, writer._replace(at="wrote", segment=segment), files=files)
        elif writer.at == "wrote":
            yield from self.puts(state, log, i, writer)
        elif writer.at == "asked":
            yield self.asks(state, log, i, writer)
        elif writer.at == "looks":
            yield self.looks(state, log, i, writer)
        if writer.at == "open" and state.faults and writer.base is not None and writer.number == max(log, default=0):
            yield self.vacuumed(state, log, writer)._replace(faults=state.faults - 1)

    def commit_of(self, i: int, writer: Writer) -> tuple[int, Commit]:
        number, base = writer.number + 1, writer.base
        units = (() if base is None else base.units) + ((i, writer.taken),)
        parent = None if base is None else base.transaction
        transaction = (i, writer.taken, writer.attempt, number)
        return number, Commit(transaction, parent, units, writer.segment, number % EVERY == 0)

    def puts(self, state: State, log: dict[int, Commit], i: int, writer: Writer) -> Iterator[State]:
        number, commit = self.commit_of(i, writer)
        asked = writer._replace(at="asked")
        if number in log:
            yield placed(state, i, asked)
            return
        there = with_commit(log, number, commit)
        yield placed(state, i, writer._replace(at="looks"), log=there)
        if state.faults:
            yield placed(state, i, asked, log=there, faults=state.faults - 1)  # the reply is lost
            yield placed(state, i, asked, late=(*state.late, (number, commit)), faults=state.faults - 1)
            if "whole" not in self.rules:
                torn = with_commit(log, number, commit._replace(is_good=False))
                yield placed(state, i, Writer(taken=writer.taken), log=torn, faults=state.faults - 1)

    def asks(self, state: State, log: dict[int, Commit], i: int, writer: Writer) -> State:
        """Told that the number is taken, or nothing at all: it reads what is there."""
        number, commit = self.commit_of(i, writer)
        actual, again = log.get(number), writer.attempt + 1
        if actual is not None and actual.transaction == commit.transaction and "own" in self.rules:
            return placed(state, i, writer._replace(at="looks"))
        if actual is None and "same" in self.rules:
            return placed(state, i, writer._replace(at="wrote"))
        if actual is None:
            return placed(state, i, writer._replace(at="open", attempt=again, segment=None))
        kept = None if "anew" in self.rules else writer.segment
        lost = Writer(attempt=again, segment=kept, taken=writer.taken, in_doubt=writer.in_doubt)
        return placed(state, i, lost)

    def looks(self, state: State, log: dict[int, Commit], i: int, writer: Writer) -> State:
        number, commit = self.commit_of(i, writer)
        above = sorted((n, c) for n, c in log.items() if n > number)
        before = [(number, commit), *above]
        built_upon = all(
            n == m + 1 and c.parent == b.transaction for (m, b), (n, c) in zip(before, above, strict=False)
        )
        if "above" in self.rules and not built_upon:
            gone = Writer(attempt=writer.attempt + 1, taken=writer.taken, in_doubt=True)
            return placed(state, i, gone)
        after = Writer("open", number, commit, taken=writer.taken + 1)
        return placed(state, i, after, told=state.told | {(i, writer.taken)})

    def vacuumed(self, state: State, log: dict[int, Commit], writer: Writer) -> State:
        """As the writer knows the log: keeping its last two commits and what they are replayed from."""
        assert writer.base is not None
        oldest = writer.number - 1 if writer.number - 1 in log else writer.number
        start = max((n for n, c in log.items() if c.checkpoint and n <= oldest), default=0)
        named = {writer.base.segment, *(c.segment for n, c in log.items() if n == oldest)}
        kept = tuple((n, c) for n, c in state.log if n >= start)
        high = writer.number if "numbered" in self.rules else 99
        return state._replace(log=kept, files=frozenset(f for f in state.files if f in named or f[0] > high))

    def recovered(self, state: State, log: dict[int, Commit]) -> State:
        """Back to the last state of which all is there; its users are told to insert again what came after."""
        top = max(log)
        below = {n: c for n, c in log.items() if n < top}
        good = next((c for n, c in sorted(below.items())[::-1] if self.is_whole(below, n, state.files)), None)
        if good is None:
            raise BrokenError("there is nothing to go back to")
        answer = frozenset(unit for unit in state.told if unit in good.units)
        # A user whose unit is gone goes on with it; one who is in the middle of a step finds out by itself.
        writers = tuple(w._replace(taken=sum(1 for u in answer if u[0] == i)) for i, w in enumerate(state.writers))
        if "on top" not in self.rules:
            return state._replace(log=tuple(sorted(below.items())), told=answer, writers=writers)
        one = Commit(("recovery", top), good.transaction, good.units, good.segment, checkpoint=True)
        return state._replace(log=with_commit(below, top + 1, one), told=answer, writers=writers)

    def is_whole(self, log: dict[int, Commit], number: int, files: frozenset[Any]) -> bool:
        try:
            _, commit = opened({n: c for n, c in log.items() if n <= number})
        except BrokenError:
            return False
        return commit is not None and commit.segment in files


def placed(state: State, i: int, writer: Writer, **changes: Any) -> State:
    writers = (writer, state.writers[1]) if i == 0 else (state.writers[0], writer)
    return state._replace(writers=writers, **changes)


def with_commit(log: dict[int, Commit], number: int, commit: Commit) -> tuple[tuple[int, Commit], ...]:
    return tuple(sorted({**log, number: commit}.items()))


def damaged(log: dict[int, Commit]) -> tuple[tuple[int, Commit], ...]:
    top = max(log)
    return with_commit(log, top, log[top]._replace(is_good=False, segment="damaged"))


def test_with_all_rules_nothing_goes_wrong_in_any_order():
    assert Model(set(RULES)).search() > 10_000


@pytest.mark.parametrize("rule", RULES)
def test_without_any_one_rule_something_does(rule):
    with pytest.raises(BrokenError):
        Model(set(RULES) - {rule}).search()
