"""Functions of groups: aggregates, top k, windows and Python functions, over chains of times and over any lattice."""
