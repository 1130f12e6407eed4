"""The DataFrames of one session: those that stand for its sources and views, and what others over them describe."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from altneu.collections.collection import Collection
from altneu.collections.sources import is_spark_frame
from altneu.errors import PlanError, UnknownTableError
from altneu.errors.nearest import did_you_mean
from altneu.plan import ir
from altneu.runtime.spark.frames import few_rows
from altneu.runtime.spark.versions import is_connect
from altneu.sql.frames.binder import Frames
from altneu.sql.frames.catalyst import Analysed
from altneu.sql.frames.connect import Plans
from altneu.sql.frames.functions import Called
from altneu.sql.frames.handles import handle
from altneu.sql.functions import Functions
from altneu.sql.queries import collection_of, tables_of, unarranged

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


class Described:
    """Reads DataFrames over the names of a session, ``known``, and over sources that were given by themselves."""

    def __init__(self, spark: SparkSession | None, known: Mapping[str, Collection]) -> None:
        self._spark = spark
        self._functions = known if isinstance(known, Functions) else None
        self._known, self._given = known, dict[str, Collection]()
        self._temporary: dict[str, Collection] = {}
        self._catalog = ChainMap(self._given, self._temporary, known)  # type: ignore[arg-type]  # the last only read

    def frame(self, source: str | Collection) -> DataFrame:
        """A DataFrame without rows that stands for a source or a view.

        Raises:
            PlanError: there is none of this name, or a view as well as a source that was given; a collection is no
                source.
            MissingExtraError: there is no SparkSession, and Spark Connect's client is not installed.
        """
        if isinstance(source, Collection):
            if not isinstance(source.node, ir.Source):
                raise PlanError(
                    "session.frame needs a source or a name; maintain the collection, and give the name of the view"
                )
            name = source.node.name
            self._given[name] = source
        else:
            name = next((n for n in self._catalog if n.lower() == source.lower()), source)
            if name not in self._catalog:
                known = ", ".join(self._catalog) or "(none)"
                known += did_you_mean(source, self._catalog) or "."
                raise PlanError(
                    f"session.frame: no source or view {source!r}; there are: {known} A source that no view reads yet "
                    "is given as it is: session.frame(an.source(...))"
                )
            view = self._known.get(name) if name in self._given else None
            if view is not None and not isinstance(view.node, ir.Source):
                raise PlanError(
                    f"session.frame: {name!r} is a source, which DataFrames of this session read, and a view; give the "
                    "view another name"
                )
        return handle(name, self._catalog[name], self._spark, self._read, self._note)

    def _read(self, plan: Any) -> Collection:
        return from_connect(plan, self._catalog, self._functions)

    def _note(self, name: str, plan: Any, replace: bool) -> None:
        """Keep what a DataFrame describes as a temporary view.

        Raises:
            PlanError: there is one, or a source or a view of this name, which others read.
        """
        found, same = self._read(plan), next((n for n in self._catalog if n.lower() == name.lower()), None)
        if same is not None and self._catalog[same].node == found.node:
            return
        if same is not None and (same not in self._temporary or not replace):
            what = "temporary view" if same in self._temporary else "source or view"
            raise PlanError(f"there is a {what} {same!r}: give the temporary view another name")
        self._temporary.pop(same or name, None)
        self._temporary[name] = found

    def collection(self, value: Any) -> Any:
        """The collection that a DataFrame describes; anything else as it is.

        Raises:
            PlanError: a part that is not supported, by name and with its place in the DataFrame.
            UnknownColumnError: a name that is not a column.
        """
        if not is_spark_frame(value):
            return value
        if is_connect(value):
            try:
                return unarranged(from_connect(value._plan.plan(value._session.client), self._catalog, self._functions))
            except UnknownTableError as error:
                if self._spark is not None:
                    what = "what Spark's server has under a name is not read here"
                    error.args = (f"{error} ({what}: give the DataFrame of a temporary view in its place)",)
                raise
        return unarranged(from_classic(value, self._catalog, self._functions))


def from_connect(plan: Any, catalog: Mapping[str, Collection], functions: Functions | None = None) -> Collection:
    """The collection that a plan of Spark Connect describes (a ``Relation`` message), over named collections."""
    try:
        return collection_of(Plans(Frames(tables_of(catalog)), Called(functions)).relation(plan))
    except RecursionError:
        raise PlanError("an expression of a DataFrame is nested too deeply; name a part of it by withColumn") from None


def from_classic(frame: DataFrame, catalog: Mapping[str, Collection], functions: Functions | None = None) -> Collection:
    """The collection that a DataFrame of a classic session describes, over named collections."""
    made: Any = frame
    execution = made._jdf.queryExecution()
    jvm = made.sparkSession._jvm

    def fetch(plan: Any, most: int) -> pa.Table | None:
        from pyspark.sql import DataFrame

        name = made._jdf.getClass().getName()
        dataset = getattr(jvm, name).ofRows(execution.sparkSession(), plan)
        return few_rows(DataFrame(dataset, made.sparkSession), most)

    frames = Frames(tables_of(catalog))
    try:
        return collection_of(Analysed(frames, jvm, [*catalog], fetch, Called(functions)).relation(execution.analyzed()))
    except RecursionError:
        raise PlanError("an expression of a DataFrame is nested too deeply; name a part of it by withColumn") from None
