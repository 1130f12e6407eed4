"""Samples by hash."""
