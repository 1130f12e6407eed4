"""Errors leave processes: of a program that runs in workers, and of Spark's."""

import pickle

import pytest

from altneu import errors

MADE = {
    errors.UnknownColumnError: lambda: errors.UnknownColumnError("dealy", ["delay", "carrier"], "WHERE"),
    errors.MissingExtraError: lambda: errors.MissingExtraError("the page", "page", "no starlette"),
    errors.JavaNotFoundError: lambda: errors.JavaNotFoundError(["PATH: no java"]),
}


def kinds(kind: type[errors.AltneuError] = errors.AltneuError) -> list[type[errors.AltneuError]]:
    return [kind, *(each for below in kind.__subclasses__() for each in kinds(below))]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_an_error_is_the_same_behind_a_pickle(kind):
    takes_text = "__init__" not in vars(kind)
    error = MADE[kind]() if kind in MADE else kind("what is wrong") if takes_text else kind()
    after = pickle.loads(pickle.dumps(error))  # noqa: S301  # this process has made it
    assert type(after) is kind
    assert (str(after), after.args, vars(after)) == (str(error), error.args, vars(error))
