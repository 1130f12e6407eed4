"""Operators: kernels over column batches, pure functions of updates and of arrangements."""
