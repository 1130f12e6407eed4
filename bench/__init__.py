"""Benchmarks: ratios between ways of getting the same answer, measured in one run (``python -m bench --help``)."""
