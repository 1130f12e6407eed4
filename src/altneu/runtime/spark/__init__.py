"""The executor that runs the worker step in tasks of Spark."""
