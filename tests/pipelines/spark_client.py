"""Spark's own runs of pipelines, in a process of its own: ``<runs as JSON>``.

Each run has the server's ``url``, the ``spec``, whether it is ``dry``, the lists ``full_refresh`` and ``refresh``,
and the ``tables`` to read; ``second`` is a project whose data changes before it. The last line has for each the rows
of these, or the ``error`` with what was told before.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def run_of(what: dict[str, Any]) -> dict[str, Any]:
    """Run ``spark-pipelines``, in this process."""
    os.environ |= {"SPARK_REMOTE": what["url"], "SPARK_CONNECT_MODE_ENABLED": "1"}
    from pyspark.errors import PySparkException
    from pyspark.pipelines.cli import load_pipeline_spec, run
    from pyspark.sql import SparkSession

    from tests.pipelines.projects import Project, rows_of

    if what.get("second"):
        Project.at(Path(what["second"])).second()
    spec = Path(what["spec"])
    database = load_pipeline_spec(spec).database
    if database is not None:
        SparkSession.builder.getOrCreate().sql(f"CREATE DATABASE IF NOT EXISTS {database}")
    told = io.StringIO()
    try:
        options = {"full_refresh_all": what.get("full_refresh_all", False), "dry": what.get("dry", False)}
        with redirect_stdout(told):
            run(spec, what.get("full_refresh", []), refresh=what.get("refresh", []), **options)
    except PySparkException as error:
        return {"error": f"{told.getvalue()}\n{error}"}
    spark = SparkSession.builder.getOrCreate()
    before = f"{database}." if database else ""
    found = {name: spark.table(before + name).toArrow().to_pylist() for name in what.get("tables", [])}
    return {"tables": {name: rows_of(rows) for name, rows in found.items()}}


if __name__ == "__main__":
    sys.stdout.write(json.dumps([run_of(what) for what in json.loads(sys.argv[1])]) + "\n")
