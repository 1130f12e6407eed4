"""Case f: interesting times. Lines and grids of growing size, three coordinates, any lattice, many groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from altneu.order import AltNeu, Epoch, Lattice, Product, interesting_times
from altneu.order.lattice import Mask, Times
from bench.inputs import generator
from bench.measure import MIB, Steps
from bench.scale import Scale
from bench.tables import Aim, Findings, Table

PLANE = Product(Epoch(), Epoch())
SPACE = Product(Epoch(), Epoch(), Epoch())
FLAT_LIMIT = 2.0
GROUPS = 100_000
TIMES = 2_000_000  # found at least, by all runs of one size together
MOST_RUNS = 200

Instance = tuple[Times, Mask]


def lines(size: int) -> Instance:
    """(0, 0) to (0, size - 1), and (1, 0) to (1, size - 1), which are new: as many times as are new."""
    return np.stack([np.repeat([0, 1], size), np.tile(np.arange(size), 2)]), np.arange(2 * size) >= size


def grid(size: int) -> Instance:
    """(0, 0) to (0, side - 1), and (0, 0) to (side - 1, 0), which are new: ``size`` times, the square of the side."""
    up = np.arange(round(size**0.5))
    return np.concatenate([[0 * up, up], [up, 0 * up]], axis=1), np.arange(2 * len(up)) >= len(up)


def with_gaps(instance: Instance) -> Instance:
    """Without a random half of its updates."""
    times, new = instance
    mask = generator(f"gaps-{len(new)}").random(len(new)) < 0.5
    return times[:, mask], new[mask]


def shuffled(instance: Instance) -> Instance:
    """In random order."""
    times, new = instance
    order = generator(f"order-{len(new)}").permutation(len(new))
    return times[:, order], new[order]


def chain(size: int) -> Instance:
    """(i, i, i): a total order within a product of three."""
    return np.tile(np.arange(size), (3, 1)), np.arange(size) % 2 == 0


def cube(size: int) -> Instance:
    """Three axes, all new: ``size`` times, the cube of the side."""
    side = round(size ** (1 / 3))
    axes = np.repeat(np.eye(3, dtype=np.int64), side, axis=1) * np.tile(np.arange(side), 3)
    return axes, np.ones(3 * side, np.bool_)


def moments(instance: Instance) -> Instance:
    """The same times of a plane, as earlier moments of ``AltNeu(plane)``."""
    times, new = instance
    return np.concatenate([times, np.zeros_like(times[:1])]), new


def spread(instance: Instance) -> np.ndarray:
    """Group numbers: ten updates a group."""
    return np.arange(len(instance[1])) // 10


@dataclass
class Measured:
    """What one instance took. ``added`` is the most memory beyond the updates, in bytes."""

    updates: int
    found: int
    wall: float
    cpu: float
    added: int

    @property
    def cpu_ns(self) -> float:
        """CPU time per time found, in nanoseconds."""
        return self.cpu / self.found * 1e9

    @property
    def memory(self) -> str:
        """The memory, and by time found where there are so many that nothing else shows."""
        each = f" ({self.added / self.found:.0f} bytes a time)" if self.found >= 10**6 else ""
        return f"{self.added / MIB:,.0f}{each}"


def resident(name: str) -> int:
    """A line of Linux's account of this process, in bytes: VmRSS now, VmHWM the most since it was reset."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) << 10


def added(find: Callable[[], object]) -> int:
    """The memory that a call added at its peak. It is the kernel's figure: compiled code lets no sampling thread in."""
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    find()
    return resident("VmHWM") - before


def run(lattice: Lattice, instance: Instance, groups: np.ndarray | None = None) -> Measured:
    """The fastest of some runs, more of them where they are short."""
    times, new = instance
    groups = np.zeros(len(new), np.int64) if groups is None else groups
    few = slice(0, 20)
    interesting_times(lattice, groups[few], times[:, few], new[few])  # compiled, or read from disk
    peak = added(lambda: interesting_times(lattice, groups, times, new))
    result = len(interesting_times(lattice, groups, times, new)[0])
    steps = Steps()
    for _ in range(min(MOST_RUNS, max(3, TIMES // max(result, 1)))):
        steps.run(lambda: interesting_times(lattice, groups, times, new))
    return Measured(len(new), result, min(steps.wall), min(steps.cpu), peak)


def growing(name: str, make: Callable[[int], Instance], sizes: list[int], findings: Findings) -> None:
    """One instance at growing sizes: the cost of a time should not grow."""
    shown = Table(f"f. {name}", ["updates", "times found", "seconds", "ns a time", "CPU ns a time", "added MiB"])
    measured = [run(PLANE, make(size)) for size in sizes]
    for m in measured:
        wall = m.wall / m.found * 1e9
        shown.add(f"{m.updates:,}", f"{m.found:,}", f"{m.wall:.4f}", f"{wall:.1f}", f"{m.cpu_ns:.1f}", m.memory)
    shown.notes.append(
        "CPU: the CPU time of this thread, which other processes do not affect. Added: memory beyond that of the "
        "updates."
    )
    findings.tables.append(shown)
    costs = [m.cpu_ns for m in measured]
    ratio = max(costs) / min(costs)
    sizes_shown = f"{measured[0].found:,} to {measured[-1].found:,}"
    text = f"f: {name}, {sizes_shown}: CPU time a time found flat within {FLAT_LIMIT:.0f}x"
    findings.aims.append(Aim(text, f"{ratio:.2f}x", ratio / FLAT_LIMIT))


def others(size: int, findings: Findings) -> None:
    """Other shapes of history, lattices and groups, once each."""
    rng = generator("times-of-groups")
    updates = 10 * GROUPS
    rounds = rng.integers(0, 100, (2, updates)), rng.random(updates) < 0.3
    far = rng.integers(0, 10**15, (2, updates)), rounds[1]
    cases: dict[str, tuple[Lattice, Instance, np.ndarray | None]] = {
        "lines, shuffled": (PLANE, shuffled(lines(size)), None),
        "the chain (i, i, i)": (SPACE, chain(size), None),
        "grid of three coordinates": (SPACE, cube(size), None),
        "lines, AltNeu over a plane": (AltNeu(PLANE), moments(lines(size)), None),
        "grid, AltNeu over a plane": (AltNeu(PLANE), moments(grid(size)), None),
        f"{GROUPS:,} groups": (PLANE, rounds, spread(rounds)),
        f"{GROUPS:,} groups, times far apart": (PLANE, far, spread(far)),
    }
    shown = Table("f. other histories", ["history", "updates", "times found", "seconds", "CPU ns a time", "added MiB"])
    for name, (lattice, instance, groups) in cases.items():
        m = run(lattice, instance, groups)
        shown.add(name, f"{m.updates:,}", f"{m.found:,}", f"{m.wall:.3f}", f"{m.cpu_ns:.0f}", m.memory)
    findings.tables.append(shown)


def measure(scale: Scale) -> Findings:
    """All of it."""
    findings = Findings()
    full = scale.name == "full"
    growing("lines", lines, [10**4, 10**5, 10**6, *([10**7] if full else [])], findings)
    growing("lines, half of them dropped", lambda n: with_gaps(lines(n)), [10**4, 10**5, 10**6], findings)
    growing("grid", grid, [10**4, 10**6, *([9 * 10**6] if full else [])], findings)
    others(10**6 if full else 10**5, findings)
    return findings
