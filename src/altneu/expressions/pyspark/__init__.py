"""Columns of PySpark as trees: what a Connect plan, or Catalyst, says of an expression."""
