"""The latest event of each key of a log."""
