"""Sums of collections, and what leaves a collection as it is."""
