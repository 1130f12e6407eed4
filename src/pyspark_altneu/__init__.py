"""The data source ``altneu``. Spark finds it by this name without registration, as ``pyspark_<format>.DefaultSource``.

``spark.read.format("altneu").option("view", "reach").load("state/")`` reads a view of a store, and ``spark.readStream``
its changes; docs/streams_out.md has the options.
"""

from pyspark_altneu.source import DefaultSource

__all__ = ["DefaultSource"]
