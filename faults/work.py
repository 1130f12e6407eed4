"""The work that is disturbed: views of every kind of state, over input that follows from the number of the step."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import altneu as an
from altneu import Session, View
from altneu.runtime import journal, state
from altneu.store import DirectoryStore

STEPS = 12
NODES = 40

edges = an.source("edges", "src long, dst long, weight long")
texts = an.source("texts", "id long, text string, until long")
accounts = an.source("accounts", "id long, owner long, amount long", key="id")
members = an.source("members", "owner long", distinct=True)

VIEWS = {
    "degrees": edges.group_by("dst").agg(n="count(*)", total="sum(weight)", best="max(src)"),
    "hops": edges.join(edges, on={"dst": "src"}).select("src", far="right.dst"),
    "near": edges.filter("src < 3")
    .select(node="dst")
    .distinct()
    .iterate(lambda near: near.concat(near.join(edges, on={"node": "src"}).select(node="right.dst")).distinct()),
    "alive": texts.filter("logical_now() < until").select("id", "text"),
    "accounts": accounts,
    "owners": accounts.join(members, on="owner").group_by("owner").agg(n="count(*)", total="sum(amount)"),
    "numbers": texts.select("id", number="cast(text as long)"),  # some are none: rows that are errors
}

Digests = dict[str, str]


def small_files() -> None:
    """Make what is rare in a short run frequent: checkpoints, vacuum, segments of their own."""
    defaults: Any = DirectoryStore.create_or_open.__func__.__kwdefaults__  # type: ignore[attr-defined]
    defaults["checkpoint_every"] = 4
    journal.VACUUM_EVERY = 5
    state.BLOB_BYTES = 2048


def insert(session: Session, step: int) -> None:
    """The input of a step: what comes, and what goes of what came two steps before."""
    session.insert("edges", _edges(step))
    session.insert("texts", _texts(step))
    if step >= 2:
        session.retract("edges", _edges(step - 2)[::3])
        session.retract("texts", _texts(step - 2)[::2])
    _commands(session, step)
    session.insert("edges", [(*row, step + 2) for row in _edges(-step - 1)[:3]], time="time") if step % 3 else None


def _edges(step: int) -> list[tuple[int, int, int]]:
    rng = random.Random(f"edges {step}")
    return [(rng.randrange(NODES), rng.randrange(NODES), rng.randrange(9)) for _ in range(30)]


def _texts(step: int) -> list[tuple[int, str, int]]:
    rng = random.Random(f"texts {step}")
    return [(rng.randrange(50), rng.choice(["7", "12", "none"]), step + rng.randrange(1, 6)) for _ in range(12)]


def _commands(session: Session, step: int) -> None:
    """What replaces, repeats and deletes: of a source with a key, some of it at a time to come, and of a set."""
    rng = random.Random(f"accounts {step}")

    def some(count: int) -> list[tuple[int, int, int]]:
        return [(rng.randrange(20), rng.randrange(8), rng.randrange(99)) for _ in range(count)]

    ids = [(row[0],) for row in some(12)]
    session.insert_or_update("accounts", some(10))
    session.insert("accounts", some(2))  # beside a row of the key: errors until the key has one row again
    session.delete_key("accounts", ids[:4])
    session.insert_or_update("accounts", [(*row, step + 2) for row in some(2)], time="time")
    owners = [(row[1],) for row in some(6)]
    session.insert("members", owners[:4] + owners[:2])
    session.retract("members", owners[3:])


def maintain(session: Session) -> dict[str, View]:
    """The views of a session."""
    return {name: session.maintain(name, view) for name, view in VIEWS.items()}


def take(session: Session, steps: int = STEPS) -> Iterator[int]:
    """The steps that the session lacks; the number of each when it is over."""
    while (step := session.lower) < steps:
        insert(session, step)
        session.advance()
        yield step


def digests(views: Mapping[str, Any], read: Callable[[Any], tuple[Any, Any]] | None = None) -> Digests:
    """What views show, in short: rows with their counts, and errors."""
    return {name: _digest(*(read or shown)(view)) for name, view in views.items()}


def shown(view: Any) -> tuple[Any, Any]:
    """The rows and the errors of a view."""
    return view.to_arrow(errors="ignore"), view.errors()


def _digest(*tables: Any) -> str:
    rows = [sorted(Counter(tuple(map(str, r.values())) for r in t.to_pylist()).items()) for t in tables]
    return hashlib.blake2b(repr(rows).encode(), digest_size=12).hexdigest()


@cache
def expected(steps: int = STEPS) -> tuple[Digests, ...]:
    """What an undisturbed session in memory shows after each number of steps, 0 included."""
    with an.Session() as session:
        views = maintain(session)
        return (digests(views), *(digests(views) for _ in take(session, steps)))


def run(folder: Path, tell: Callable[[str, int], None], *, steps: int = STEPS, spark: Any = None) -> Digests:
    """Open the store, take the steps that it lacks and tell each; what the views then show."""
    options: dict[str, Any] = {} if spark is None else {"placement": "spark"}
    with an.Session(spark, path=folder, **options) as session:
        views = maintain(session)
        tell("from", session.lower)
        for step in take(session, steps):
            tell("step", step)
        return digests(views)
