"""Pipelines need PySpark 4.3, and ``make spark-matrix`` has older ones."""

import pyspark

collect_ignore = ["shop"]  # the files of a project: only a pipeline can run them
if tuple(map(int, pyspark.__version__.split(".")[:2])) < (4, 3):
    collect_ignore_glob = ["test_*.py"]
