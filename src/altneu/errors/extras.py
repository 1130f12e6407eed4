"""Packages that only some features need: an extra of altneu's for each, and one error where it is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType

from altneu.errors import MissingExtraError

# What is imported of each extra in pyproject.toml.
EXTRAS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "spark": ("pyspark",),
        "cli": ("click", "rich", "packaging"),
        "page": ("starlette", "uvicorn", "sse_starlette", "prometheus_client"),
        "s3": ("fsspec", "s3fs"),
        "gcs": ("fsspec", "gcsfs"),
        "azure": ("fsspec", "adlfs"),
        "delta": ("deltalake",),
        "iceberg": ("pyiceberg",),
        "collations": ("duckdb",),
        "testing": ("hypothesis",),
        "notebook": ("IPython",),
    }
)


def require(extra: str, feature: str) -> None:
    """Import the packages of an extra, before a feature that needs them does.

    Raises:
        MissingExtraError: one of them cannot be imported; the message names the feature and the command.

    >>> require("cli", "the command line")
    """
    for name in EXTRAS[extra]:
        try:
            import_module(name)
        except ImportError as error:
            raise MissingExtraError(feature, extra, str(error)) from None


def is_installed(extra: str) -> bool:
    """Whether the packages of an extra are there; none of them is imported."""
    try:
        return all(find_spec(name) is not None for name in EXTRAS[extra])
    except ImportError:
        return False
