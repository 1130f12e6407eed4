"""altneu: differential dataflow for PySpark."""
