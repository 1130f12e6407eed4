"""Pipelines need PySpark 4.3, and ``make spark-matrix`` has older ones."""

import pyspark

if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3):
    collect_ignore_glob = ["test_*.py"]
