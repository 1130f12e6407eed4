"""The release: the one place that says it; the package's metadata is made from here."""

__version__ = "0.2.0"
"""The release of altneu that is installed, as text."""
