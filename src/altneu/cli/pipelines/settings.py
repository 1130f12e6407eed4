"""Settings of Spark's that a pipeline names: which say nothing about answers, and which altneu has for good."""

from __future__ import annotations

import re
from collections.abc import Mapping

from altneu.cli.pipelines.errors import refused, unsupported

_FIXED = {  # what altneu is like, whatever the settings
    "spark.sql.ansi.enabled": ("true",),
    "spark.sql.session.timezone": ("utc", "etc/utc", "gmt", "+00:00", "z"),
    "spark.sql.casesensitive": ("false",),
    "spark.sql.sources.default": ("parquet",),
    "spark.sql.variable.substitute": ("true",),
    "pipelines.incompatibleviewcheck.enabled": ("true",),
}
_WITHOUT_EFFECT = (  # where and how Spark computes, which is not how altneu does
    "spark.app.", "spark.master", "spark.remote", "spark.driver.", "spark.executor.", "spark.cores.",
    "spark.default.parallelism", "spark.dynamicallocation.", "spark.shuffle.", "spark.memory.", "spark.network.",
    "spark.rpc.", "spark.scheduler.", "spark.locality.", "spark.task.", "spark.speculation", "spark.ui.",
    "spark.eventlog.", "spark.history.", "spark.log.", "spark.local.", "spark.kubernetes.", "spark.yarn.",
    "spark.sql.shuffle.", "spark.sql.adaptive.", "spark.sql.autobroadcastjointhreshold", "spark.sql.broadcasttimeout",
    "spark.sql.files.maxpartitionbytes", "spark.sql.files.opencostinbytes", "spark.sql.connect.",
    "spark.sql.execution.arrow.", "spark.sql.inmemorycolumnarstorage.", "spark.sql.codegen.", "spark.sql.cbo.",
    "spark.sql.statistics.", "spark.sql.ui.", "spark.sql.streaming.metricsenabled", "spark.sql.warehouse.dir",
    "spark.sql.catalogimplementation", "spark.jars", "spark.submit.", "spark.plugins", "spark.metrics.",
)  # fmt: skip
_OWN = "spark."
_VARIABLE = re.compile(r"\$\{(?:(\w+?):)?(\S+?)\}", re.ASCII)
_SETTINGS = ("", "spark", "sparkconf", "hiveconf", "hivevar")


def check_settings(settings: Mapping[str, str], of: str, place: object = None) -> None:
    """Refuse settings of Spark's that would change an answer here.

    A name that does not begin with ``spark.`` is a program's own, which it reads by ``spark.conf.get``.

    Raises:
        PipelineError: naming the setting and what altneu has.

    >>> check_settings({"spark.sql.shuffle.partitions": "8", "shop.start": "2026-01-01"}, "the spec")
    """
    for name, value in settings.items():
        lowered = name.lower()
        if lowered in _FIXED:
            if str(value).lower() not in _FIXED[lowered]:
                raise unsupported(
                    f"{name} = {value!r} in {of}",
                    f"altneu has {_FIXED[lowered][0]!r}: leave it out, or set that",
                    place,
                )
        elif lowered.startswith((_OWN, "pipelines.")) and not lowered.startswith(_WITHOUT_EFFECT):
            raise unsupported(
                f"the setting {name} in {of}", "altneu does not know what it changes in an answer: leave it out", place
            )


def substituted(text: str, settings: Mapping[str, str], of: str) -> str:
    """A text of SQL with the values of the settings that it names as ``${name}``, as Spark's parser has it.

    Raises:
        PipelineError: a setting is not defined (Spark takes that for an empty text), or settings name each other in a
            circle.

    >>> substituted(
    ...     "SELECT * FROM json.`${shop.data}/${hivevar:day}`", {"shop.data": "/data", "day": "1"}, "a.sql"
    ... )
    'SELECT * FROM json.`/data/1`'
    """

    def value(text: str, within: tuple[str, ...]) -> str:
        def of_match(match: re.Match[str]) -> str:
            prefix, name = match[1] or "", match[2]
            if prefix not in _SETTINGS:
                raise unsupported(
                    f"{match[0]} in {of}", "a value comes from the spec's configuration: ${name}; put it there"
                )
            if name in within:
                raise refused("CIRCULAR_REFERENCE", f"settings name each other: {' -> '.join([*within, name])} ({of})")
            if name not in settings:
                known = ", ".join(sorted(settings)) or "(nothing)"
                raise refused(
                    "SQL_CONF_NOT_FOUND",
                    f"{match[0]} in {of}: there is no setting {name!r} in the spec's configuration, which has: {known}",
                )
            return value(settings[name], (*within, name))

        return _VARIABLE.sub(of_match, text)

    return value(text, ())
