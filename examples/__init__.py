"""Runnable examples; ``python -m examples.flights`` is the main one."""
