"""Faults of a session in one process: kills, operations on files that fail, bytes that change."""

from __future__ import annotations

import random
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

from faults import work
from faults.children import Ended, Reader, Server
from faults.injected import FAILING, REASONS
from faults.report import Findings

SIDE_BY_SIDE = 2
_WORTH = 10  # runs for which another forking process is worth its start
_LONGEST = 2.0  # seconds into a run at which a kill by the clock comes at the latest

Run = Callable[[Server, Server, Path, random.Random], None]


def many(count: int, seed: int, folder: Path, one: Run, done: Callable[[], None]) -> None:
    """Make runs, two at a time, each with its own folder and its own random numbers."""
    servers: Queue[tuple[Server, Server]] = Queue()
    pairs = [(Server(), Server()) for _ in range(min(SIDE_BY_SIDE, 1 + count // _WORTH))]
    for pair in pairs:
        servers.put(pair)

    def run(number: int) -> None:
        pair = servers.get()
        place = folder / str(number)
        try:
            one(*pair, place, random.Random(f"{seed} {number}"))
        finally:
            servers.put(pair)
            shutil.rmtree(place, ignore_errors=True)
            done()

    try:
        with ThreadPoolExecutor(len(pairs)) as pool:
            for future in [pool.submit(run, number) for number in range(count)]:
                future.result()
    finally:
        for pair in pairs:
            for server in pair:
                server.__exit__(None, None, None)


def wrong(ended: Ended, what: str) -> list[str]:
    """What a child that was not killed has got wrong."""
    if ended.last("failed"):
        return [f"{what}: {ended.last('failed')}"]
    if ended.code:
        return [f"{what}: ended with {ended.code}"]
    answers, shows = work.expected()[work.STEPS], ended.last("shows")
    return [f"{what}: view {name} differs" for name in answers if shows is None or shows[name] != answers[name]]


def unsteady(ended: Ended, reported: int, what: str) -> list[str]:
    """The difference if a reported step is missing, or more than one step was not reported."""
    begin = ended.last("from")
    return (
        [f"{what}: opened at {begin} after step {reported - 1} was told"]
        if begin not in (None, reported, reported + 1)
        else []
    )


@contextmanager
def reading_meanwhile(readers: Server, folder: Path, findings: Findings) -> Iterator[list[str]]:
    """Have the folder read while things happen; what a reader saw that never was goes into the list."""
    seen: list[str] = []
    reader = Reader(readers, folder)
    try:
        yield seen
    finally:
        ended = reader.stop()
        seen += [f"a reader saw what never was: {value}" for value in ended.all("differs")]
        if ended.last("failed"):
            seen.append(f"a reader failed: {ended.last('failed')}")
        findings.noted.update(reads_beside=ended.last("read") or 0, reads_refused=len(ended.all("unread")))


def kills(count: int, seed: int, folder: Path, done: Callable[[], None]) -> Findings:
    """Kill -9 in front of an operation on a file, in the middle of a write, or by the clock; some more than once."""
    findings = Findings("kill -9 of a local session")
    with Server() as server:
        operations = int(server.run("operations", folder / "all").last("operations"))

    def one(server: Server, readers: Server, place: Path, rng: random.Random) -> None:
        deaths, reported, differences = 0, 0, list[str]()
        with reading_meanwhile(readers, place, findings) as seen:
            for attempt in range(rng.choice([1, 1, 2, 3])):
                ended = _struck(server, place, rng, operations)
                differences += unsteady(ended, reported, f"{place.name}, attempt {attempt}")
                reported = max([reported, *ended.all("from"), *(step + 1 for step in ended.all("step"))])
                deaths += ended.code == -signal.SIGKILL
                differences += wrong(ended, place.name) if ended.code != -signal.SIGKILL else []
            last = server.run("run", place)
            differences += unsteady(last, reported, place.name) + wrong(last, place.name)
        findings.add(struck=deaths > 0, differences=differences + seen, deaths=deaths)

    many(count, seed, folder, one, done)
    return findings


def _struck(server: Server, place: Path, rng: random.Random, operations: int) -> Ended:
    """One run, with a kill somewhere."""
    where = rng.random()
    if where < 0.5:
        return server.run("run", place, kill=rng.randint(1, operations))
    if where < 0.75:
        return server.run("run", place, tear=rng.randint(1, operations // 4), part=rng.random())
    clock = threading.Timer(rng.uniform(0, _LONGEST), server.kill)
    clock.start()
    try:
        return server.run("run", place)
    finally:
        clock.cancel()


def failures(count: int, seed: int, folder: Path, done: Callable[[], None]) -> Findings:
    """The n-th operation of a kind fails: once, or for a while, as on a disk that is full."""
    findings = Findings("operations on files that fail")

    def one(server: Server, readers: Server, place: Path, rng: random.Random) -> None:
        operation = rng.choice(FAILING)
        fault: dict[str, Any] = {
            "operation": operation,
            "reason": rng.choice(REASONS[operation]),
            "first": rng.randint(1, 60),
        }
        with reading_meanwhile(readers, place, findings) as seen:
            ended = server.run("failing", place, many=rng.choice([1, 1, 2, 5]), **fault)
            differences = wrong(ended, f"{place.name} {fault}")
            last = server.run("run", place)
            differences += wrong(last, f"{place.name} {fault}, opened again")
        findings.add(
            struck=bool(ended.last("faults")), differences=differences + seen, errors_raised=len(ended.all("error"))
        )

    many(count, seed, folder, one, done)
    return findings


def flips(count: int, seed: int, folder: Path, done: Callable[[], None]) -> Findings:
    """Bytes of a store that was closed, or killed, are changed, cut off or lost."""
    findings = Findings("bytes that change")

    def one(server: Server, _: Server, place: Path, rng: random.Random) -> None:
        ended = server.run("run", place, steps=rng.randint(3, work.STEPS - 1))
        differences = [ended.last("failed")] if ended.last("failed") else []
        victim, what, before = damage(place, rng)
        ended = server.run("damaged", place, steps=work.STEPS)
        said, unrecovered = ended.last("corrupt"), None
        label = f"{place.name}, {what} {victim.relative_to(place)}"
        if said is None:
            differences += wrong(ended, label)
        else:
            if str(place) not in said:
                differences.append(f"{label}: the error names no file: {said}")
            ended = server.run("recovered", place, steps=work.STEPS)
            if (unrecovered := ended.last("corrupt")) is not None:
                if "put files back from a copy" not in unrecovered:
                    differences.append(f"{label}: the error of the recovery names no remedy: {unrecovered}")
                victim.write_bytes(before)
            else:
                differences += wrong(ended, f"{label}, recovered")
            differences += wrong(server.run("run", place), f"{label}, opened again")
        findings.add(
            struck=True,
            differences=differences,
            harmless=said is None,
            recovered=said is not None and unrecovered is None,
            put_back_from_a_copy=unrecovered is not None,
        )

    many(count, seed, folder, one, done)
    return findings


def damage(folder: Path, rng: random.Random) -> tuple[Path, str, bytes]:
    """Change a file of a store; which one, how, and what it held."""
    files = sorted(p for p in folder.rglob("*") if p.is_file() and p.stat().st_size and p.name != "lock")
    newest = max(p for p in files if p.suffix == ".commit")
    victim = newest if rng.random() < 0.3 else rng.choice(files)
    before = victim.read_bytes()
    data = bytearray(before)
    what = rng.choice(["one bit of", "some bytes of", "the end of", "all of", "zeros in"])
    at = rng.randrange(len(data))
    if what == "one bit of":
        data[at] ^= 1 << rng.randrange(8)
    elif what == "some bytes of":
        data[at : at + 16] = rng.randbytes(len(data[at : at + 16]))
    elif what == "the end of":
        del data[at:]
    elif what == "zeros in":
        data[at : at + 512] = bytes(len(data[at : at + 512]))
    if what == "all of":
        victim.unlink()
    else:
        victim.write_bytes(data)
    return victim, what, before


def total(all_findings: Iterable[Findings]) -> int:
    """How many differences there are in all."""
    return sum(len(findings.differences) for findings in all_findings)
