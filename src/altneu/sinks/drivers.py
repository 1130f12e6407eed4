"""Drivers of databases as sinks use them: Python's DB-API, and JDBC in Spark's JVM."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types as pt

from altneu.columnar.python_values import BeyondPython, beyond_python
from altneu.errors import SinkError
from altneu.sinks.database_sink import PARAMETER, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STYLES = {"qmark": "?", "format": "%s", "pyformat": "%s"}
_WIDE = Context(prec=80)  # Python's own context has 28 digits
_JDBC_ROWS = 1000  # rows of a batch that is sent to the database at once


class DbApi:
    """A connection of Python's DB-API: sqlite3, psycopg and others."""

    def __init__(self, connection: Any, style: str) -> None:
        if style not in _STYLES:
            raise SinkError(f"a driver with paramstyle {style!r} is not known; those with {', '.join(_STYLES)} are")
        self._connection, self._mark = connection, _STYLES[style]

    def execute(self, sql: str) -> None:
        """Run a statement without parameters."""
        self._connection.cursor().execute(sql)

    def batch(self, sql: str, rows: Sequence[Row], types: Sequence[pa.DataType]) -> list[int]:
        """Run a statement for each row of parameters."""
        cursor, text = self._connection.cursor(), self._text(sql)
        changed = []
        for row in rows:
            try:
                cursor.execute(text, tuple(map(_plain, row)))
            except Exception as error:
                if type(error).__name__ != "IntegrityError":  # each driver has its own, of this name
                    raise
                raise type(error)(
                    f"{error}, for the row {row}; columns that are unique in the table must be unique in the view: "
                    "GROUP BY them in the view, give the sink a KEY, or remove the constraint from the table"
                ) from error
            changed.append(cursor.rowcount)
        return changed

    def _text(self, sql: str) -> str:
        return (sql if self._mark == "?" else sql.replace("%", "%%")).replace(PARAMETER, self._mark)

    def query(self, sql: str, types: Sequence[pa.DataType]) -> Iterator[Row]:
        """The rows of a query."""
        cursor = self._connection.cursor()
        cursor.execute(sql)
        for row in cursor:
            yield tuple(_of_type(value, data_type) for value, data_type in zip(row, types, strict=True))

    def runs(self, sql: str) -> bool:
        """Whether a query can be run."""
        try:
            self._connection.cursor().execute(sql)
        except Exception:  # noqa: BLE001  # each driver has an error of its own for a table that is missing
            self._connection.rollback()
            return False
        return True

    def commit(self) -> None:
        """Commit everything since the last commit."""
        self._connection.commit()

    def rollback(self) -> None:
        """Roll back everything since the last commit."""
        self._connection.rollback()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _plain(value: Any) -> Any:
    """A value that every driver accepts; SQLite has no decimals, and its adapters for dates are deprecated."""
    if isinstance(value, Decimal | BeyondPython):
        return str(value)
    return (
        value.isoformat(" ")
        if isinstance(value, dt.datetime)
        else value.isoformat()
        if isinstance(value, dt.date)
        else value
    )


def _of_type(value: Any, data_type: pa.DataType) -> Any:
    """A value of this type from a driver's value."""
    if value is None:
        return None
    if pt.is_boolean(data_type):
        return bool(value)
    if pt.is_decimal(data_type):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-data_type.scale), context=_WIDE)
    if pt.is_timestamp(data_type):
        timestamp = _read(dt.datetime, value, data_type) if isinstance(value, str) else value
        if isinstance(timestamp, BeyondPython):
            return timestamp
        return timestamp if (timestamp.tzinfo is None) == (data_type.tz is None) else _zoned(timestamp, data_type)
    if pt.is_date(data_type):
        return _read(dt.date, value, data_type) if isinstance(value, str) else value
    if pt.is_floating(data_type):
        return float(value)
    return bytes(value) if pt.is_binary(data_type) else value


def _read(python: type[dt.date], value: str, data_type: pa.DataType) -> Any:
    """A date or timestamp from its text."""
    try:
        return python.fromisoformat(value)
    except ValueError:
        return beyond_python(value, data_type)


def _in_utc(timestamp: dt.datetime) -> dt.datetime:
    """The digits of a timestamp, in UTC if it has a time zone."""
    return timestamp.astimezone(dt.UTC).replace(tzinfo=None) if timestamp.tzinfo else timestamp


def _zoned(timestamp: dt.datetime, data_type: pa.DataType) -> dt.datetime:
    return timestamp.replace(tzinfo=dt.UTC) if data_type.tz else timestamp.astimezone(dt.UTC).replace(tzinfo=None)


class Jdbc:
    """A connection of ``java.sql`` in the JVM of a Spark session, with the drivers on its class path."""

    def __init__(self, spark: SparkSession, url: str, properties: Mapping[str, str]) -> None:
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            raise SinkError(
                "a JDBC sink needs a classic Spark session, whose JVM has the driver; Spark Connect has none"
            )
        self._jvm = jvm
        settings = jvm.java.util.Properties()
        for name, value in properties.items():
            if name != "driver":
                settings.setProperty(name, value)
        if "driver" in properties:
            jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(properties["driver"])
        self._connection = jvm.java.sql.DriverManager.getConnection(url, settings)
        self._connection.setAutoCommit(False)
        zone = jvm.java.time.ZoneId.systemDefault()
        self._zone, self._zone_name = zone.getRules(), zone.getId()

    def execute(self, sql: str) -> None:
        """Run a statement without parameters."""
        statement = self._connection.createStatement()
        try:
            statement.execute(sql)
        finally:
            statement.close()

    def batch(self, sql: str, rows: Sequence[Row], types: Sequence[pa.DataType]) -> list[int]:
        """Run a statement for each row of parameters, a thousand at a time."""
        statement = self._connection.prepareStatement(sql.replace(PARAMETER, "?"))
        changed: list[int] = []
        setters = [self._setter(statement, i + 1, data_type) for i, data_type in enumerate(types)]
        try:
            for start in range(0, len(rows), _JDBC_ROWS):
                for row in rows[start : start + _JDBC_ROWS]:
                    for setter, value in zip(setters, row, strict=True):
                        setter(value)
                    statement.addBatch()
                changed += list(statement.executeBatch())
        finally:
            statement.close()
        return changed

    def _setter(self, statement: Any, place: int, data_type: pa.DataType) -> Callable[[Any], None]:
        """The setter of parameter ``place`` for values of this type."""
        java = self._jvm.java
        kinds: list[tuple[Callable[[pa.DataType], bool], str, Callable[[Any], Any], Any]] = [
            (pt.is_boolean, "BOOLEAN", bool, statement.setBoolean),
            (pt.is_int64, "BIGINT", int, statement.setLong),
            (pt.is_integer, "INTEGER", int, statement.setInt),
            (pt.is_floating, "DOUBLE", float, statement.setDouble),
            (pt.is_decimal, "DECIMAL", lambda v: java.math.BigDecimal(str(v)), statement.setBigDecimal),
            (pt.is_date, "DATE", self._date, statement.setDate),
            (pt.is_timestamp, "TIMESTAMP", self._timestamp, statement.setTimestamp),
            (pt.is_binary, "VARBINARY", bytearray, statement.setBytes),
        ]
        setting = next(((n, c, s) for test, n, c, s in kinds if test(data_type)), ("VARCHAR", str, statement.setString))
        name, convert, setter = setting
        null = getattr(java.sql.Types, name)

        def put(value: Any) -> None:
            if value is None:
                statement.setNull(place, null)
            elif (skipped := self._skipped(value)) is not None:
                self._put_skipped(statement, place, skipped)
            else:
                setter(place, convert(value))

        return put

    def _date(self, value: dt.date | BeyondPython) -> Any:
        java = self._jvm.java
        if isinstance(value, BeyondPython):
            return java.sql.Date.valueOf(java.time.LocalDate.ofEpochDay(value.since_1970))
        return java.sql.Date.valueOf(value.isoformat())

    def _timestamp(self, value: dt.datetime | BeyondPython) -> Any:
        """The timestamp with its digits in UTC: tables store no time zone, and that of the JVM must not matter."""
        java = self._jvm.java
        if isinstance(value, BeyondPython):
            seconds, micros = divmod(value.since_1970, 1_000_000)
            digits = java.time.LocalDateTime.ofEpochSecond(seconds, micros * 1000, java.time.ZoneOffset.UTC)
            return java.sql.Timestamp.valueOf(digits)
        return java.sql.Timestamp.valueOf(_in_utc(value).isoformat(" "))

    def _skipped(self, value: Any) -> Any:
        """A timestamp, or date, as Java's own where the JVM's time zone skips it; None of all other values.

        ``java.sql.Timestamp`` and ``Date`` cannot have such digits: they would silently take those of an hour, or a
        day, later.
        """
        if not isinstance(value, dt.date) or self._zone.isFixedOffset():
            return None
        text = _in_utc(value).isoformat() if isinstance(value, dt.datetime) else f"{value.isoformat()}T12:00"
        digits = self._jvm.java.time.LocalDateTime.parse(text)
        if not self._zone.getValidOffsets(digits).isEmpty():
            return None
        return digits if isinstance(value, dt.datetime) else digits.toLocalDate()

    def _put_skipped(self, statement: Any, place: int, digits: Any) -> None:
        """Give a driver such a value as JDBC 4.2 does.

        Raises:
            SinkError: it does not take it.
        """
        from py4j.protocol import Py4JJavaError

        try:
            statement.setObject(place, digits)
        except Py4JJavaError as error:
            raise SinkError(
                f"{digits.toString().replace('T', ' ')} cannot be written: the time zone of Spark's JVM, "
                f"{self._zone_name}, skips it, and the driver takes no values without a time zone; start Spark with "
                "spark.driver.extraJavaOptions=-Duser.timezone=UTC"
            ) from error

    def query(self, sql: str, types: Sequence[pa.DataType]) -> Iterator[Row]:
        """The rows of a query."""
        statement = self._connection.createStatement()
        try:
            result = statement.executeQuery(sql)
            while result.next():
                yield tuple(self._get(result, i + 1, data_type) for i, data_type in enumerate(types))
        finally:
            statement.close()

    def _get(self, result: Any, place: int, data_type: pa.DataType) -> Any:
        if pt.is_binary(data_type):
            value = result.getBytes(place)
        elif pt.is_string(data_type) or pt.is_decimal(data_type) or pt.is_temporal(data_type):
            value = result.getString(place)
        elif pt.is_floating(data_type):
            value = result.getDouble(place)
        elif pt.is_boolean(data_type):
            value = result.getBoolean(place)
        else:
            value = result.getLong(place)
        return None if result.wasNull() else _of_type(value, data_type)

    def runs(self, sql: str) -> bool:
        """Whether a query can be run."""
        from py4j.protocol import Py4JJavaError

        try:
            self.execute(sql)
        except Py4JJavaError:
            self.rollback()
            return False
        return True

    def commit(self) -> None:
        """Commit everything since the last commit."""
        self._connection.commit()

    def rollback(self) -> None:
        """Roll back everything since the last commit."""
        self._connection.rollback()

    def close(self) -> None:
        """Close the connection."""
        self._connection.rollback()  # Derby closes none with a transaction open, be it of a query
        self._connection.close()
