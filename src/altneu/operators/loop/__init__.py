"""Loops: updates on their way in, round and out."""
