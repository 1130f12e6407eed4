"""A SparkSession that describes DataFrames and has no server: what ``spark`` is in the files of a pipeline.

It is made of the classes of Spark Connect's client. What a query function may do needs no server; what needs one is an
action, or asks for columns before the pipeline's datasets are known, which Spark refuses in query functions too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from pyspark.sql.connect.session import SparkSession

from altneu.cli.pipelines.errors import refused
from altneu.cli.pipelines.settings import substituted
from altneu.errors import SchemaError
from altneu.runtime.spark.versions import spark_schema
from altneu.types import parse_schema

_REMOTE = "SPARK_CONNECT_MODE_ENABLED"  # with it pyspark.sql's own names are those of Connect
_WHILE_READ = {  # what createDataFrame asks for, with Spark's defaults
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.session.localRelationCacheThreshold": str(1 << 40),  # rows are in the plan: no server caches them
    "spark.sql.session.localRelationSizeLimit": str(1 << 40),
    "spark.sql.session.localRelationChunkSizeRows": "10000",
    "spark.sql.session.localRelationChunkSizeBytes": "16777216",
    "spark.sql.session.localRelationBatchOfChunksSizeBytes": "1073741824",
    "spark.sql.execution.pandas.convertToArrowArraySafely": "false",
    "spark.sql.execution.pandas.inferPandasDictAsMap": "false",
    "spark.sql.pyspark.inferNestedDictAsStruct.enabled": "false",
    "spark.sql.pyspark.legacy.inferArrayTypeFromFirstElement.enabled": "false",
    "spark.sql.pyspark.legacy.inferMapTypeFromFirstPair.enabled": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.execution.pythonUDF.arrow.enabled": "false",  # functions of rows are called row by row here
    "spark.sql.execution.pythonUDTF.arrow.enabled": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
}


class _Client:
    """What the classes of Connect ask of a server, as far as it can be answered without one."""

    is_closed = False
    session_id = _session_id = "altneu"

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = {**_WHILE_READ, **settings}

    def execute_command(self, command: Any, *_: Any, **__: Any) -> tuple[None, dict[str, Any], None]:
        if command.WhichOneof("command_type") != "sql_command":
            raise _action(str(command.WhichOneof("command_type")))
        return None, {}, None

    def get_config_dict(self, *names: str) -> dict[str, str]:
        return {name: self._setting(name) for name in names}

    def get_configs(self, *names: str) -> tuple[str, ...]:
        return tuple(self._setting(name) for name in names)

    def _setting(self, name: str) -> str:
        if name not in self._settings:
            raise refused("SQL_CONF_NOT_FOUND", f"there is no setting {name!r} in the spec's configuration")
        return self._settings[name]

    def config(self, operation: Any) -> Any:
        kind = operation.WhichOneof("op_type")
        pairs: list[tuple[str, str | None]]
        if kind == "get":
            pairs = [(name, self._setting(name)) for name in operation.get.keys]
        elif kind == "get_with_default":
            given = [(p.key, p.value if p.HasField("value") else None) for p in operation.get_with_default.pairs]
            pairs = [(name, self._settings.get(name, value)) for name, value in given]
        elif kind == "get_all":
            pairs = list(self._settings.items())
        else:
            raise _action(f"spark.conf: {kind}")
        return SimpleNamespace(pairs=pairs, warnings=())

    def _analyze(self, method: str, **options: Any) -> Any:
        if method == "ddl_parse":
            return SimpleNamespace(parsed=self._parse_ddl(options["ddl_string"]))
        raise _action(method)

    def _parse_ddl(self, ddl: str) -> Any:
        try:
            return spark_schema(parse_schema(ddl))
        except SchemaError:  # one type, such as a function returns
            return spark_schema(parse_schema(f"value {ddl}")).fields[0].dataType

    def add_threadlocal_user_context_extension(self, _extension: Any) -> str:
        return ""

    def remove_user_context_extension(self, _extension: Any) -> None:
        return None

    def _set_relation_in_plan(self, plan: Any, relation: Any) -> None:
        plan.root.CopyFrom(relation)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise _action(name)


def _action(what: str) -> Exception:
    return refused(
        "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION",
        f"the files of a pipeline describe queries, and nothing is executed or analysed while they are read (asked "
        f"for {what!r}): move the code out of the query function, or write it as a dataset",
    )


class DescribedSession(SparkSession):
    """A session of Spark Connect without a connection."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.settings = settings
        client: Any = _Client(settings)
        self._client = client
        self._session_id = client.session_id
        self.release_session_on_close = False

    @property
    def is_stopped(self) -> bool:
        """It goes on for as long as the files are read."""
        return False

    @property
    def version(self) -> str:
        """The version of PySpark, whose client it is."""
        import pyspark

        return pyspark.__version__

    def sql(self, sqlQuery: str, *arguments: Any, **options: Any) -> Any:  # noqa: N803  # Spark's name
        """A query as text, with the values of settings that it names."""
        return super().sql(substituted(sqlQuery, self.settings, "a text of spark.sql"), *arguments, **options)

    def stop(self) -> None:
        """There is nothing to stop."""


@contextmanager
def active(session: DescribedSession) -> Iterator[None]:
    """Have a session be ``SparkSession.active()``, and Connect's functions those of ``pyspark.sql.functions``."""
    local = SparkSession._active_session
    before = os.environ.get(_REMOTE), getattr(local, "session", None), SparkSession._default_session
    os.environ[_REMOTE] = "1"
    local.session = SparkSession._default_session = session
    try:
        yield
    finally:
        if before[0] is None:
            del os.environ[_REMOTE]
        else:
            os.environ[_REMOTE] = before[0]
        local.session, SparkSession._default_session = before[1], before[2]
