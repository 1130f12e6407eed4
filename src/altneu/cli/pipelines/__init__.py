"""Declarative pipelines of Spark, run incrementally: the files of ``pyspark.pipelines`` as they are.

docs/howto/pipelines.md lists what is supported.
"""
