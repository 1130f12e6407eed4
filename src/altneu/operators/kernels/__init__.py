"""Kernels that several operators share."""
