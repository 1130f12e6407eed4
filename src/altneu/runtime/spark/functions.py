"""Python functions that a program has registered with ``spark.udf.register``, read back from Spark by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from altneu.errors import UnsupportedFunctionError
from altneu.runtime.spark.versions import is_connect
from altneu.types import quote_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Registered:
    """A function that Spark knows, with the attributes of what ``pyspark.sql.functions.udf`` returns."""

    func: Callable[..., Any]
    returnType: str  # noqa: N815 -- as PySpark calls it
    evalType: int  # noqa: N815
    deterministic: bool


def registered(spark: SparkSession, name: str) -> Registered | None:
    """The Python function that a classic session of Spark has under a name; None if it has none.

    Over Spark Connect a function is on the server and cannot be read: there is none.

    Cost:   Spark analyses a query that calls the function, and runs nothing.

    Raises:
        UnsupportedFunctionError: it is no function of Python, or one too large to be kept beside its name.
    """
    if is_connect(spark):
        return None
    from pyspark.errors import AnalysisException
    from pyspark.serializers import CloudPickleSerializer

    try:
        plan = spark.sql(f"SELECT {quote_name(name)}()")._jdf.queryExecution().analyzed()
    except AnalysisException:
        return None
    call = plan.expressions().head().children().head()
    if not call.getClass().getName().endswith(".PythonUDF"):
        raise UnsupportedFunctionError(
            f"{name}() is a function of Spark that is not written in Python: altneu does not have it"
        )
    try:
        function, _ = CloudPickleSerializer().loads(_bytes(call.func().command()))  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001 -- unpickling runs what the function's classes say
        raise UnsupportedFunctionError(
            f"{name}() is registered in Spark, and cannot be read from there ({type(error).__name__}: {error}); "
            f"register it with session.udf.register({name!r}, f, returns) as well"
        ) from None
    return Registered(function, call.dataType().sql(), call.evalType(), call.udfDeterministic())


def _bytes(command: Any) -> bytes:
    """A pickled function: bytes, or a sequence of Scala's, which holds an array of them."""
    if isinstance(command, bytes | bytearray):
        return bytes(command)
    kind = command.getClass().getName()
    return bytes(command.array() if "WrappedArray" in kind else command.unsafeArray())
