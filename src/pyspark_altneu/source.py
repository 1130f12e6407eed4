"""The data source: it answers Spark's calls from a store that is opened for reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from altneu.errors import ReadError
from altneu.runtime.spark.versions import check_streams, spark_schema
from altneu.views.reader import StoreReadings
from altneu.views.view import View
from pyspark_altneu.options import Options
from pyspark_altneu.parts import changed_parts, columns_of, shape_of
from pyspark_altneu.rows import Part, read_part


class DefaultSource(DataSource):
    """``format("altneu")``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "altneu"

    def schema(self) -> StructType:
        """The view's columns; for changes also the columns of times and diff."""
        options = Options.of(self.options)
        with options.open(lease=None) as reader:
            return spark_schema(columns_of(options, reader.view(options.view), changes=options.mode == "changes"))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        return ViewReader(Options.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  # Spark's name
        """For ``spark.readStream``.

        Raises:
            ReadError: Spark is older than 4.2, whose streams do not say where a batch begins.
        """
        check_streams()
        from pyspark_altneu.stream import ChangeReader  # a subclass of what came with 4.2

        return ChangeReader(Options.of(self.options))


class ViewReader(DataSourceReader):
    """The contents of a view at a time, or its changes between two times; one task reads each shard."""

    def __init__(self, options: Options) -> None:
        self.options = options

    def partitions(self) -> Sequence[InputPartition]:
        """A part for each shard; a lease protects the files that they name, as long as the option ``lease`` says."""
        reader = self.options.open(lease=self.options.lease, shared=True)
        try:
            view = reader.view(self.options.view)
            return (_contents if self.options.mode == "contents" else _changes)(self.options, reader, view)
        finally:
            reader.close(keep=True)  # the tasks come later

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of one part; none without a part, which Spark passes if there are no parts."""
        return read_part(partition) if isinstance(partition, Part) else iter(())


def _contents(options: Options, reader: StoreReadings, view: View) -> list[Part]:
    at = reader.known(view.name).readable(options.at)
    strict = options.errors == "raise"
    if strict:
        view.raise_errors(at)
    shape = shape_of(options, view, changes=False)
    return [Part(shape, piece, at, strict=strict) for piece in reader.pieces(view.name, at[0])]


def _changes(options: Options, reader: StoreReadings, view: View) -> list[Part]:
    known = reader.known(view.name)
    if options.since is None and options.until is not None:
        raise ReadError('option "until" needs "since": changes are read after one time up to another')
    start, end = (
        (known.began, known.lower) if options.since is None else known.range_after(options.since, options.until)
    )
    return changed_parts(options, reader, view, start, end)
