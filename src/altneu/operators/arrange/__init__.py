"""Arrangements: updates sorted by a key and kept in batches."""
