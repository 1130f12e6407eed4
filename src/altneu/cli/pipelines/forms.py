"""What the tables of a pipeline are stored as: folders of Parquet files, Delta tables, Iceberg tables.

A materialized view follows its view by a sink. A streaming table gets the parts of its log: which ones it has is in the
names of Parquet files, and otherwise in the commit that has the rows.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from altneu import sinks
from altneu.cli.pipelines.errors import unsupported
from altneu.cli.pipelines.logs import Log, Part
from altneu.cli.written import write_file
from altneu.errors import PipelineError, SinkError
from altneu.errors.extras import require
from altneu.session import Session
from altneu.streams.tables.iceberg import catalog_of
from altneu.views.view import View

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table as IcebergTable

    from altneu.cli.pipelines.elements import Dataset

FORMATS = ("parquet", "delta", "iceberg")
_SCHEMA = "schema.parquet"  # no rows: what tells readers of an empty table its columns
_FROM, _TO = "altneu.pipeline.from", "altneu.pipeline.to"


class Form(ABC):
    """A stored table."""

    @abstractmethod
    def clear(self) -> None:
        """Remove the table, so that it is written from the beginning."""

    @abstractmethod
    def follow(self, view: View) -> int:
        """Bring the table to the contents of a view; the number of rows that came and went."""

    @abstractmethod
    def append(self, session: Session, log: Log, parts: Sequence[Part]) -> int:
        """Bring the table to the parts of a log; the number of rows that came and went."""


class _Parquet(Form):
    """A folder of Parquet files, which any program reads as a whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _describe(self, schema: pa.Schema) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        if not (self._folder / _SCHEMA).exists():
            write_file(schema.empty_table(), "parquet", self._folder / _SCHEMA)

    def follow(self, view: View) -> int:
        self._describe(view.schema)
        sink = sinks.parquet(view, self._folder, keep=0)
        changed = sink.run()
        present = {Path(file).name for file in sink.files()}
        for file in self._folder.glob("part-*.parquet"):  # of a run that was stopped between two writes
            if file.name not in present:
                file.unlink()
        return changed

    def append(self, session: Session, log: Log, parts: Sequence[Part]) -> int:
        self._describe(log.schema)
        named = {f"part-{part.number:019d}.parquet": part for part in parts}
        there = {file.name for file in self._folder.glob("part-*.parquet")}
        changed = 0
        for name in there - named.keys():
            changed += pq.read_metadata(self._folder / name).num_rows
            (self._folder / name).unlink()
        for name in sorted(named.keys() - there):
            rows = log.read(session, [named[name].number])
            write_file(rows, "parquet", self._folder / name)
            changed += rows.num_rows
        return changed


class _Delta(Form):
    """A Delta table."""

    def __init__(self, folder: Path, partition_by: Sequence[str], properties: Mapping[str, str]) -> None:
        require("delta", "a table of format delta")
        self._folder, self._partition_by = folder, list(partition_by)
        self._configuration = {n: v for n, v in properties.items() if n.startswith("delta.")}

    def clear(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def follow(self, view: View) -> int:
        sink = sinks.delta(
            view, self._folder, mode="rows", partition_by=self._partition_by, configuration=self._configuration
        )
        return sink.run()

    def append(self, session: Session, log: Log, parts: Sequence[Part]) -> int:
        from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
        from deltalake.exceptions import DeltaError

        first = parts[0].number if parts else 0
        try:
            table = DeltaTable.create(
                str(self._folder),
                log.schema,
                mode="ignore",
                partition_by=self._partition_by or None,
                configuration=self._configuration,
                raise_if_key_not_exists=False,
            )
            done = table.transaction_version(_TO)
            again = done is not None and table.transaction_version(_FROM) != first
            missing = [part.number for part in parts if again or done is None or part.number > done]
            if not missing and not again:
                return 0
            rows = log.read(session, missing)
            last = missing[-1] if missing else 0
            mark = CommitProperties(app_transactions=[Transaction(_FROM, first), Transaction(_TO, last)])
            gone = pa.table(table.get_add_actions())["num_records"].to_pylist() if again else []
            write_deltalake(table, rows, mode="overwrite" if again else "append", commit_properties=mark)
        except DeltaError as error:
            raise SinkError(f"Delta table {self._folder} accepted none of the changes: {error}") from error
        return rows.num_rows + sum(gone)


class _Iceberg(Form):
    """An Iceberg table, in a catalog of pyiceberg's configuration."""

    def __init__(self, name: str, partition_by: Sequence[str], properties: Mapping[str, str], place: object) -> None:
        require("iceberg", "a table of format iceberg")
        self._catalog_name, _, self._name = name.partition(".")
        self._partition_by, self._properties = list(partition_by), dict(properties)
        if self._catalog_name == "spark_catalog":
            raise PipelineError(
                f"table {self._name!r} of format iceberg needs a catalog: say catalog: in the spec, the name of one in "
                f"pyiceberg's configuration (~/.pyiceberg.yaml) ({place})"
            )

    @property
    def _catalog(self) -> Catalog:
        return catalog_of(self._catalog_name)

    def clear(self) -> None:
        catalog = self._catalog
        if catalog.table_exists(self._name):
            catalog.drop_table(self._name)

    def follow(self, view: View) -> int:
        catalog = self._catalog
        catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        sink = sinks.iceberg(
            view,
            self._name,
            catalog=catalog,
            mode="rows",
            partition_by=self._partition_by,
            properties=self._properties,
        )
        return sink.run()

    def _created(self, schema: pa.Schema) -> IcebergTable:
        catalog = self._catalog
        catalog.create_namespace_if_not_exists(self._name.rpartition(".")[0])
        if not catalog.table_exists(self._name):
            with catalog.create_table_transaction(self._name, schema, properties=self._properties) as creating:
                if self._partition_by:
                    with creating.update_spec() as spec:
                        for name in self._partition_by:
                            spec.add_identity(name)
        return catalog.load_table(self._name)

    def append(self, session: Session, log: Log, parts: Sequence[Part]) -> int:
        from pyiceberg.exceptions import CommitFailedException

        table = self._created(log.schema)
        first, done = parts[0].number if parts else 0, table.properties.get(_TO)
        again = done is not None and table.properties.get(_FROM) != str(first)
        missing = [part.number for part in parts if again or done is None or part.number > int(done)]
        if not missing and not again:
            return 0
        rows = log.read(session, missing)
        gone = table.scan().count() if again else 0
        try:
            with table.transaction() as transaction:
                transaction.set_properties({_FROM: str(first), _TO: str(missing[-1] if missing else 0)})
                if again:
                    transaction.overwrite(rows)
                else:
                    transaction.append(rows)
        except CommitFailedException as error:
            raise SinkError(f"Iceberg table {self._name} is changed by another program: {error}; run again") from error
        return rows.num_rows + gone


def form_of(dataset: Dataset, folder: Path, name: str) -> Form:
    """The table of a dataset, in a folder, or of a name with its catalog.

    Raises:
        PipelineError: a format that altneu does not write, or partitions of one that has none.
    """
    form = dataset.format or "parquet"
    if form not in FORMATS:
        raise unsupported(
            f"format {dataset.format!r} of table {dataset.name!r}",
            f"there are: {', '.join(FORMATS)}",
            dataset.place,
        )
    if form == "parquet" and dataset.partition_by:
        raise unsupported(
            f"partitions ({', '.join(dataset.partition_by)}) of table {dataset.name!r}",
            "its folder has Parquet files that are not in folders of values: make it a Delta or an Iceberg table "
            "(format='delta', USING DELTA), or leave them out",
            dataset.place,
        )
    if form == "delta":
        return _Delta(folder, dataset.partition_by, dataset.properties)
    if form == "iceberg":
        return _Iceberg(name, dataset.partition_by, dataset.properties, dataset.place)
    return _Parquet(folder)
