"""DataFrames that stand for sources and views: without rows, with their columns, to write queries on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from altneu.collections.collection import Collection
from altneu.errors import MissingExtraError, PlanError
from altneu.runtime.spark.versions import spark_schema
from altneu.sql.frames.binder import SOURCE
from altneu.types import parse_schema, quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def handle(
    name: str,
    collection: Collection,
    spark: SparkSession | None,
    described: Callable[[Any], Collection],
    note: Callable[[str, Any, bool], None],
) -> DataFrame:
    """A DataFrame that stands for a collection under a name.

    With a session of Spark it is one of that session's, without rows. Without one it is made of the classes of Spark
    Connect's client, which describe a query and ask no server; ``described`` says what a plan of theirs is here, and
    ``note`` is told the name of a plan that becomes a temporary view, and whether it may replace one.

    Raises:
        MissingExtraError: there is no Spark, and Spark Connect's client is not installed.
    """
    if spark is not None:
        empty = spark.createDataFrame([], spark_schema(collection.schema))
        return empty.alias(f"{SOURCE}{name}").alias(name)
    try:
        from pyspark.sql.connect.plan import Read
    except ImportError as error:
        raise MissingExtraError("session.frame() without a SparkSession", "connect", str(error)) from None
    return of_plan(Read(quote_name(name)), _NoServer(described, note))


def of_plan(plan: Any, session: Any) -> DataFrame:
    """A DataFrame of Spark Connect's client with a plan of that client."""
    from pyspark.sql.connect.dataframe import DataFrame as Described

    before_4: Any = getattr(Described, "withPlan", None)
    made: DataFrame = before_4(plan, session) if before_4 else Described(plan, session)
    return made


class _NoServer:
    """What a DataFrame of Connect's asks of its session, where there is none."""

    is_mock_session = True
    session_id = "altneu"

    def __init__(self, described: Callable[[Any], Collection], note: Callable[[str, Any, bool], None]) -> None:
        self._described, self._note = described, note

    @property
    def client(self) -> _NoServer:
        """What a plan is made with, and asked."""
        return self

    @property
    def _client(self) -> _NoServer:
        """What a DataFrame asks how it is shown."""
        return self

    def get_configs(self, *names: str) -> tuple[str, ...]:
        """What the settings are by which a DataFrame shows its rows: it has none, and shows its columns."""
        return tuple("false" if name.endswith(".enabled") else "0" for name in names)

    def _set_relation_in_plan(self, plan: Any, relation: Any) -> None:
        plan.root.CopyFrom(relation)

    def _parse_ddl(self, ddl: str) -> Any:
        return spark_schema(parse_schema(ddl))

    def schema(self, plan: Any) -> Any:
        """The columns of a plan: these need no server."""
        return spark_schema(self._described(plan.root).schema)

    def table(self, name: str) -> DataFrame:
        """A source, a view or a temporary view by its name."""
        from pyspark.sql.connect.plan import Read

        return of_plan(Read(name), self)

    def sql(self, text: str, args: Any = None, **frames: DataFrame) -> DataFrame:
        """A query, with DataFrames for names in braces.

        Raises:
            PlanError: it has arguments.
        """
        from pyspark.sql.connect.plan import SQL, SubqueryAlias
        from pyspark.sql.connect.sql_formatter import SQLStringFormatter

        if args:
            raise PlanError("not supported: arguments of spark.sql; write the values into the text")
        formatter: Any = SQLStringFormatter(self)  # type: ignore[arg-type]  # it keeps it, and asks nothing
        text = formatter.format(text, **frames)
        views = [SubqueryAlias(frame._plan, name) for frame, name in formatter._temp_views]
        return of_plan(SQL(text, [], {}, views), self)

    def execute_command(self, command: Any, *_: Any) -> tuple[None, dict[str, Any], None]:
        """A temporary view is noted; anything else needs a server."""
        if command.WhichOneof("command_type") != "create_dataframe_view":
            return self.__getattr__("execute_command")
        view = command.create_dataframe_view
        self._note(view.name, view.input, view.replace)
        return None, {}, None

    def _analyze(self, method: str, **_: Any) -> Any:
        """What Spark is asked about a plan: to keep its rows is nothing here, as there are none."""
        return None if method in ("persist", "unpersist") else self.__getattr__(method)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise PlanError(
            f"this DataFrame describes a query and has neither rows nor a server (asked for {name!r}): give it to "
            "session.maintain(name, df), or to session.peek(df) for its present rows"
        )
