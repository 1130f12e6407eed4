"""A pipeline's spec and files, read by Spark's own loader into elements."""

from __future__ import annotations

import re
import sys
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from traceback import walk_tb
from typing import Any
from urllib.parse import unquote, urlsplit

import yaml  # type: ignore[import-untyped]  # its types are a package of their own
from pyspark.errors import PySparkException
from pyspark.pipelines.cli import PipelineSpec, find_pipeline_spec, load_pipeline_spec, register_definitions
from pyspark.pipelines.flow import Flow
from pyspark.pipelines.graph_element_registry import GraphElementRegistry
from pyspark.pipelines.output import MaterializedView, Output, Sink, StreamingTable, TemporaryView
from pyspark.sql.types import StructType

from altneu.cli.pipelines.described import DescribedSession, active
from altneu.cli.pipelines.elements import Cdc, Dataset, Elements, FlowOf, Kind, Names, Place, PlanQuery
from altneu.cli.pipelines.errors import refused, unsupported
from altneu.cli.pipelines.settings import check_settings, substituted
from altneu.cli.pipelines.statements import register
from altneu.errors import AltneuError, PipelineError
from altneu.expressions.pyspark.connect import Columns, name_parts
from altneu.types import parse_schema, to_ddl

_KINDS: dict[type[Output], Kind] = {
    MaterializedView: "materialized view",
    StreamingTable: "streaming table",
    TemporaryView: "temporary view",
    Sink: "sink",
}


def find_spec(given: str | None) -> Path:
    """The file of the spec: as given, or that of this folder or one above it.

    Raises:
        PipelineError: there is none, or there are two.
    """
    if given is not None:
        path = Path(given)
        if not path.is_file():
            raise refused("PIPELINE_SPEC_FILE_DOES_NOT_EXIST", f"there is no file {given!r}")
        return path
    try:
        return find_pipeline_spec(Path.cwd())
    except PySparkException as error:
        raise PipelineError(str(error)) from None


def load_spec(path: Path) -> PipelineSpec:
    """A spec.

    Raises:
        PipelineError: it is none, or has a field or a setting that is not known.
    """
    try:
        spec = load_pipeline_spec(path)
    except PySparkException as error:
        raise PipelineError(f"{error} ({path})") from None
    except (yaml.YAMLError, TypeError, KeyError, AttributeError) as error:
        raise PipelineError(f"{path} is not the spec of a pipeline: {error}") from None
    check_settings(spec.configuration, "the spec's configuration", path)
    return spec


def storage_of(spec: PipelineSpec) -> Path:
    """The folder of a pipeline's store and tables.

    Raises:
        PipelineError: it is not an absolute address of a local folder.
    """
    parts = urlsplit(spec.storage)
    if not parts.scheme:
        raise refused(
            "PIPELINE_STORAGE_ROOT_INVALID",
            f"storage must be an absolute path with its scheme, such as file:///srv/shop, got {spec.storage!r}",
        )
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise unsupported(
            f"storage {spec.storage!r}", "altneu keeps the tables of a pipeline on a local disk: file:///…"
        )
    return Path(unquote(parts.path))


def load(path: Path, spec: PipelineSpec) -> Elements:
    """The elements that the files of a spec define.

    Raises:
        PipelineError: something that there is not in Spark, or not here, with its place.
    """
    session: Any = DescribedSession(spec.configuration)
    elements = Elements(Names(spec.catalog or Names.catalog, spec.database or Names.database))
    registry = Registry(elements, session, path.parent.resolve())
    try:
        with active(session), redirect_stdout(sys.stderr), warnings.catch_warnings():  # the loader tells what it reads
            warnings.filterwarnings("ignore", "WARN WindowExpression")  # of what such windows cost on Spark
            register_definitions(path, registry, spec, session, "")
    except AltneuError as error:
        where = _place_in(error, path.parent.resolve())
        if where is not None and not re.search(r"line \d+", str(error)):
            error.args = (f"{error} ({where})",)
        raise
    except Exception as error:
        where = _place_in(error, path.parent.resolve())
        if where is None and not isinstance(error, PySparkException | OSError):
            raise  # it is of no file of the pipeline's
        said = str(error) if isinstance(error, PySparkException) else f"{type(error).__name__}: {_said(error)}"
        raise PipelineError(f"{said}{f' ({where})' if where else ''}") from error
    elements.check()
    return elements


def _place_in(error: BaseException, root: Path) -> Place | None:
    """Where in the files of a pipeline an error is: the innermost line of them that was executed, or cannot be read."""
    lines = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename is not None:
        lines.append((error.filename, error.lineno or 1))
    for file, line in reversed(lines):
        if Path(file).is_relative_to(root):
            return Place(str(Path(file).relative_to(root)), line)
    return None


def _said(error: Exception) -> str:
    return error.msg if isinstance(error, SyntaxError) else str(error)


class Registry(GraphElementRegistry):
    """Takes what the decorators of ``pyspark.pipelines`` register."""

    def __init__(self, elements: Elements, session: DescribedSession, root: Path) -> None:
        self._elements, self._session, self._root = elements, session, root
        self._client: Any = session.client

    def _place(self, location: Any) -> Place:
        file = Path(location.filename)
        shown = file.relative_to(self._root) if file.is_relative_to(self._root) else file
        return Place(str(shown), location.line_number)

    def _known(self, name: str) -> str:
        return self._elements.names.known(name_parts(name))

    def register_output(self, output: Output) -> None:
        """Add a dataset."""
        place, kind = self._place(output.source_code_location), _KINDS[type(output)]
        given: dict[str, Any] = {}
        if isinstance(output, (MaterializedView, StreamingTable)):
            refuse_clusters(output.cluster_by, output.name, place)
            given = {"properties": dict(output.table_properties), "format": output.format and output.format.lower()}
            given["partition_by"] = tuple(output.partition_cols or ())
            given["schema"] = ddl_of(output.schema)
        elif isinstance(output, Sink):
            given = {"format": output.format, "options": dict(output.options)}
        name = output.name if kind in ("sink", "temporary view") else self._known(output.name)
        self._elements.add_dataset(Dataset(name, kind, place, output.comment, **given))

    def register_flow(self, flow: Flow) -> None:
        """Call a query function, and add its query."""
        place = self._place(flow.source_code_location)
        check_settings(flow.spark_conf, f"spark_conf of flow {flow.name!r}", place)
        frame: Any = flow.func()
        if not hasattr(frame, "_plan"):
            raise PipelineError(
                f"the query function of flow {flow.name!r} must return a DataFrame, got {type(frame).__name__} "
                f"({place})"
            )
        query = PlanQuery(frame._plan.plan(self._client))
        self._elements.add_flow(FlowOf(flow.name, flow.target, query, place))

    def register_auto_cdc_flow(self, flow: Any) -> None:
        """Add a flow of auto CDC."""
        place = self._place(flow.source_code_location)
        check_settings(flow.spark_conf, f"spark_conf of flow {flow.name!r}", place)

        def text(column: Any) -> str:
            return Columns().tree(column.to_plan(self._client)).sql("spark")

        def names(columns: Any) -> tuple[str, ...] | None:
            return None if not columns else tuple(map(self._column, columns))

        if not flow.keys:
            raise refused("AUTOCDC_EMPTY_KEYS", "auto CDC needs at least one key", place)
        cdc = Cdc(
            flow.source,
            names(flow.keys) or (),
            text(flow.sequence_by),
            None if flow.apply_as_deletes is None else text(flow.apply_as_deletes),
            names(flow.column_list),
            names(flow.except_column_list),
            str(flow.stored_as_scd_type) == "2",
            names(flow.track_history_column_list),
            names(flow.track_history_except_column_list),
        )
        self._elements.add_flow(FlowOf(flow.name or flow.target, flow.target, cdc, place))

    def _column(self, column: Any) -> str:
        message = column.to_plan(self._client)
        if message.WhichOneof("expr_type") != "unresolved_attribute":
            raise refused("AUTOCDC_NON_COLUMN_IDENTIFIER", f"keys and column lists of auto CDC are names, got {column}")
        parts = name_parts(message.unresolved_attribute.unparsed_identifier)
        if len(parts) > 1:
            raise refused(
                "AUTOCDC_MULTIPART_COLUMN_IDENTIFIER", f"columns are without qualifiers, got {'.'.join(parts)}"
            )
        return parts[0]

    def register_sql(self, sql_text: str, file_path: Path) -> None:
        """Add what the statements of a file define."""
        register(self._elements, substituted(sql_text, self._session.settings, str(file_path)), str(file_path))


def ddl_of(schema: StructType | str | None) -> str | None:
    """The columns that a table declares, as DDL."""
    if schema is None:
        return None
    if isinstance(schema, StructType):
        fields = [f"`{f.name}` {f.dataType.simpleString()}{'' if f.nullable else ' NOT NULL'}" for f in schema.fields]
        schema = ", ".join(fields)
    return to_ddl(parse_schema(schema))


def refuse_clusters(columns: Any, name: str, place: Place) -> None:
    """Refuse an order of rows within files, which tables do not have."""
    if columns:
        raise unsupported(
            f"cluster_by={list(columns)} of table {name!r}",
            "altneu does not order the rows in files by columns: leave it out, or use partition_cols",
            place,
        )
