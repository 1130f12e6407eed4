"""Joins of several arrangements at once, without intermediate results."""
