"""What a command works on, from its options: a session, or a store that is only read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from altneu.cli.command import nearest
from altneu.errors import StoreError
from altneu.runtime import interrupts
from altneu.session import Session
from altneu.store import Folder, LocalFolder, folder_of
from altneu.views.reader import Reader, StoreReadings

_IDENTITY = "format.json"
_NAMED = 3
_SETTINGS: dict[str, Callable[[str], Any]] = {
    "retain": lambda text: text if text == "all" else int(text),
    "retain_events": int,
    "idle_merge_effort": int,
    "shards": int,
    "memory": lambda text: int(text) if text.isdigit() else text,
    "placement": str,
    "recover": lambda text: {"true": True, "false": False}[text.lower()],
}


def open_session(path: str | None, master: str | None, settings: tuple[str, ...]) -> Session:
    """A session, on Spark where a master is given; settings that begin with ``spark.`` are Spark's.

    Raises:
        click.UsageError: a setting that there is not, or a value that it does not take.
    """
    options: dict[str, Any] = {}
    config: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--set {setting}: the value is missing; write for example --set retain=all")
        if name.startswith("spark."):
            config[name] = value
        elif name in _SETTINGS:
            try:
                options[name] = _SETTINGS[name](value)
            except (ValueError, KeyError):
                raise click.UsageError(f"--set {setting}: {name} does not accept {value!r}") from None
        else:
            known = ", ".join([*_SETTINGS, "spark.…"])
            raise click.UsageError(f"--set {setting}: there is no setting {name!r}; the settings are: {known}")
    if master is None:
        if config:
            raise click.UsageError(
                f"--set {next(iter(config))}=… is a setting of Spark; give --master too, such as local[*]"
            )
        return Session(path=path, **options)
    from altneu.runtime.spark.session import spark_session

    return Session(spark_session(master=master, config=config), path, **options)


@contextmanager
def open_reader(path: str, *, since: int | None = None) -> Iterator[Reader]:
    """A reader of a store, which is closed at the end; a Ctrl-C while it takes its lease waits until it has it.

    Raises:
        StoreError: there is no store at ``path``; the message says what is there instead.
    """
    folder, reader = store_folder(path), None
    try:
        with interrupts.Lock(), interrupts.deferred():
            reader = Reader(StoreReadings(folder, since=since))
        yield reader
    finally:
        if reader is not None:
            reader.close()


def store_folder(path: str) -> Folder:
    """The folder of a store.

    Raises:
        StoreError: there is none; says what is there instead.
    """
    folder = folder_of(path)
    if not folder.has(_IDENTITY):
        raise StoreError(f"there is no store in {folder.where()}{_instead(folder)}")
    return folder


def _instead(folder: Folder) -> str:
    """What is where no store is, as far as it is told cheaply."""
    if not isinstance(folder, LocalFolder):
        return ""
    here = folder.path
    if here.is_dir():
        names = folder.names()
        more = ", …" if len(names) > _NAMED else ""
        return f": it holds {', '.join(names[:_NAMED])}{more}" if names else ": it is empty"
    if here.exists():
        return ": it is a file, but a store is a folder"
    if not here.parent.is_dir():
        return f": there is no folder {here.parent}"
    stores = [p.name for p in here.parent.iterdir() if (p / _IDENTITY).is_file()]
    return nearest(here.name, stores, f"stores in {here.parent} are") if stores else ": no such folder"
