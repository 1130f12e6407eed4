"""The session that a command works on, from its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from altneu.session import Session

_SETTINGS: dict[str, Callable[[str], Any]] = {
    "retain": lambda text: text if text == "all" else int(text),
    "retain_events": int,
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
    given: dict[str, Any] = {}
    config: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f"--set {setting}: a setting has a value, as in --set retain=all")
        if name.startswith("spark."):
            config[name] = value
        elif name in _SETTINGS:
            try:
                given[name] = _SETTINGS[name](value)
            except (ValueError, KeyError):
                raise click.UsageError(f"--set {setting}: {value!r} is no value of {name}") from None
        else:
            known = ", ".join([*_SETTINGS, "spark.…"])
            raise click.UsageError(f"--set {setting}: there is no setting {name!r}; the settings are: {known}")
    if master is None:
        if config:
            raise click.UsageError(f"--set {next(iter(config))}=… is Spark's: give --master too, such as local[*]")
        return Session(path=path, **given)
    from altneu.executor.spark_session import spark_session

    return Session(spark_session(master=master, config=config), path, **given)
