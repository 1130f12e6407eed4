"""The Python functions of plans: which there are, under which digests a store knows them, and what of them changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypedDict

from altneu.linear import Function
from altneu.linear.checked import Checked
from altneu.linear.function import is_own, running_python
from altneu.plan import ir
from altneu.plan.rewrite.transform import transform

MOST_TOLD = 4
MOST_RECORDED = 200

Change = Callable[[Function], Function]


class Recorded(TypedDict):
    """What a store remembers of a Python function; ``parts`` has a digest of each object that it read, by name."""

    name: str
    digest: str
    parts: dict[str, str]
    python: str


def functions_of(root: ir.Node) -> list[Function]:
    """The functions of a plan, each digest once, in the order of its nodes."""
    by_digest: dict[str, Function] = {}
    for node in ir.walk(root):
        for function in node.functions():
            by_digest.setdefault(function.digest, function)
    return list(by_digest.values())


def with_functions(root: ir.Node, change: Change) -> ir.Node:
    """The plan with every function changed."""
    if not functions_of(root):
        return root
    return transform(root, lambda new, _: new.with_functions(change))


def checked(root: ir.Node) -> ir.Node:
    """The plan, equal to what it was, with functions that are called twice; those that are only shown rows are not."""
    if not functions_of(root):
        return root

    def twice(function: Function) -> Function:
        return function if is_own(function.call) else replace(function, call=Checked(function.call, function.title))

    return transform(root, lambda new, _: new if new.hands_on else new.with_functions(twice))


def titles(records: Sequence[Recorded]) -> list[str]:
    """What the program's functions are called, by what was recorded of them."""
    return [str(r["name"]) for r in records if not str(r["name"]).startswith("altneu.")]


# what a store knows of them -------------------------------------------------------------------------------------------


def recorded(root: ir.Node) -> list[Recorded]:
    """What a store remembers of a plan's functions: what each read when its view was computed, and its digest there."""
    return [
        Recorded(name=f.title, digest=f.digest, parts=_bounded(f.parts), python=running_python())
        for f in functions_of(root)
    ]


def _bounded(parts: Mapping[str, str]) -> dict[str, str]:
    listed = list(parts.items())
    bounded = dict(listed[:MOST_RECORDED])
    if rest := sorted(listed[MOST_RECORDED:]):
        bounded["what else it reads"] = Function.digest_of(str(rest))
    return bounded


def aliases(own: Sequence[Function], records: Sequence[Recorded] | None) -> Iterator[dict[str, str]]:
    """Under which digests a store may know a plan's functions: one mapping from their own digests for each guess.

    ``records`` were stored with a view, in the same order; older stores recorded nothing, and know them by
    what they are called today or by what they were called then.
    """
    if records is not None:
        if len(records) == len(own):
            yield {f.digest: str(r["digest"]) for f, r in zip(own, records, strict=True)}
        return
    yield {}
    yield {f.digest: f.former_digest for f in own}


def changes(own: Sequence[Function], records: Sequence[Recorded]) -> list[str]:
    """What has changed of each function since it was recorded, a sentence each; none for one that has not."""
    return [sentence for f, r in zip(own, records, strict=True) if (sentence := _change(f, r))]


def _change(function: Function, record: Recorded) -> str:
    before, now = dict(record["parts"]), _bounded(function.parts)
    if "version" in now and "version" not in before:  # a version that is new is taken for a function that is not
        now = _bounded(function.read())
    if before == now:
        return ""
    name = function.title
    if "version" in before:
        now_declared = f"version {now['version']}" if "version" in now else "none"
        return f"{name}: it had version {before['version']} and has {now_declared}"
    if record["python"] != running_python():
        return (
            f"{name} was compiled by Python {record['python']}, and this is {running_python()}, whose code cannot be "
            "compared with it"
        )
    labels = [label for label in {**before, **now} if before.get(label) != now.get(label)]
    shown = ", ".join(_shown(label) for label in labels[:MOST_TOLD])
    more = f" and {len(labels) - MOST_TOLD} more" if len(labels) > MOST_TOLD else ""
    renamed = f" (it was {record['name']})" if record["name"] != name else ""
    return f"{name}{renamed}: {shown}{more}"


def _shown(label: str) -> str:
    return "its code" if label == "code" else label
