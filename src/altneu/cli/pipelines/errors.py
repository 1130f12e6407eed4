"""Errors of pipelines, by the names that Spark has for them."""

from __future__ import annotations

from altneu.errors import PipelineError


def refused(condition: str, message: str, place: object = None) -> PipelineError:
    """An error with the name of Spark's error condition, and where in the files it is.

    >>> refused("RUN_EMPTY_PIPELINE", "there is no dataset")
    PipelineError('[RUN_EMPTY_PIPELINE] there is no dataset')
    """
    where = f" ({place})" if place else ""
    return PipelineError(f"[{condition}] {message}{where}")


def unsupported(what: str, remedy: str, place: object = None) -> PipelineError:
    """An error for what a pipeline of Spark may have and one of altneu may not, and what to do instead."""
    where = f" ({place})" if place else ""
    return PipelineError(f"not supported: {what}; {remedy}{where}")
