"""Andersen's points-to analysis, kept up to date while a program is edited.

``analysis`` is the analysis as a loop of two collections, ``programs`` makes programs of any size and has a solver in
plain Python. docs/loops.md shows it on a program of a few lines.
"""
