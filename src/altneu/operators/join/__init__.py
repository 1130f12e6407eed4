"""Equijoins of two arrangements."""
