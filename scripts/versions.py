"""Which versions a script runs on, as its arguments say: shared by the scripts that run on several versions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def chosen(arguments: Sequence[str], known: Sequence[str], doc: str | None) -> Sequence[str]:
    """The versions named by the arguments, or all known ones if none is named.

    Raises:
        SystemExit: a version is not known, or --help was asked for.
    """

    def version(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"a version must be one of {', '.join(known)}, got {text!r}")
        return text

    parser = argparse.ArgumentParser(description=(doc or "").split("\n", maxsplit=1)[0])
    of_them = f"one of {', '.join(known)}; all of them if none is given"
    parser.add_argument("versions", nargs="*", type=version, metavar="version", help=of_them)
    named: list[str] = parser.parse_args(arguments).versions
    return named or known
