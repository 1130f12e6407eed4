"""Errors of rows in the words of the query: its expressions in place of the columns that altneu has made of them.

Error rows name steps and columns of the plan, ``#0`` for an aggregate, and cut long texts. Stores contain them, so that
they stay as they are; a message about them is for somebody who has not seen the plan.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias, TypeVar

from altneu.errors.texts import meant
from altneu.expressions import Call, Expr
from altneu.linear.bound import BoundLogic
from altneu.linear.lineage import projections
from altneu.linear.steps import Extend, Filter, Project, Step
from altneu.operators.node import Node, walk
from altneu.operators.reduce.reducers import Aggregates, WindowFunctions
from altneu.plan import ir
from altneu.types import stored_name

_OWN = ("#", "^")
"""How names of columns begin that altneu has made."""

_LONGEST = 300
"""Characters of a column's text; those of a column over columns of its kind would double with each."""

Names: TypeAlias = Mapping[str, str]
K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Told:
    """What an error row says: the operator, the message and the row, which is empty if it has no column to show."""

    operator: str
    message: str
    row: str


class Wording:
    """How a plan's errors are told; ``node`` is the plan that was run, None where nobody knows it."""

    def __init__(self, node: Node | None) -> None:
        self._names: dict[str, Names] = {}  # of each node's columns, by its fingerprint
        self._steps: dict[str, tuple[Step, Names] | None] = {}  # by what error rows call them; None: unlike ones alike
        self._calls: dict[tuple[str, str], str | None] = {}  # the same of functions of reduces, by their signatures too
        self._given: set[str] = set()  # columns of sources, which users see however they are called
        for one in [] if node is None else walk(node):
            if isinstance(one, ir.Source):
                self._given.update(one.schema.names)
            made = {n: text for n in one.schema.names if n not in self._given and (text := meant(n))}
            self._names[one.fingerprint] = made | dict(self._named(one))

    def of(self, error: Told) -> Told:
        """An error with the expressions of the query where columns of altneu's own are named, or a text was cut."""
        found = self._steps.get(error.operator)
        if found is not None:
            step, names = found
            label = error.operator
            if label.endswith("…") or any(_is_own(n) for n in (*_read(step), *_made(step))):
                label = _label(step, names)
            return Told(label, _worded(error.message, names), self._row(error.row, names))
        message = error.message
        for (operator, signature), called in self._calls.items():
            if operator == error.operator and called is not None:
                message = message.replace(signature, called)
        return Told(error.operator, message, self._row(error.row, {}))

    def _row(self, row: str, names: Names) -> str:
        """A row with the texts of altneu's own columns, and without those that have none; empty if nothing is left."""
        if not names_own(row):
            return "" if row == "{}" else row
        try:
            values = json.loads(row)
        except ValueError:  # no row, but a text about one
            return row
        if not isinstance(values, dict):
            return row
        kept = {n: v for n, v in values.items() if n in names or n in self._given or not _is_own(n)}
        return json.dumps({names.get(n, n): v for n, v in kept.items()}, ensure_ascii=False) if kept else ""

    def _named(self, node: Node) -> Iterator[tuple[str, str]]:
        """The texts of a node's own columns, each with its name."""
        if isinstance(node, ir.Linear):
            yield from self._through(node.logic, self._names[node.input.fingerprint]).items()
            return
        for i, below in enumerate(node.inputs):
            names = self._names[below.fingerprint]
            yield from ((mine, names[theirs]) for mine, theirs in node.lineage(i).items() if theirs in names)
        if isinstance(node, ir.Reduce) and isinstance(node.reducer, Aggregates | WindowFunctions):
            names = self._names[node.input.fingerprint]
            begins = "#"
            if isinstance(node.reducer, WindowFunctions):  # every row has its columns, and those of the functions
                begins = "#w"
                yield from names.items()
            signatures = [call.signature for call in node.reducer.calls]
            texts = {signature: _cut(_called(signature, names)) for signature in signatures}
            for signature, text in texts.items():
                _remember(self._calls, (str(node.reducer), signature), text)
            yield from ((f"{begins}{i}", texts[signature]) for i, signature in enumerate(signatures))

    def _through(self, logic: BoundLogic, names: Names) -> Names:
        """The names behind steps; each step is remembered with those before it."""
        for step in logic.steps:
            _remember(self._steps, step.label, (step, names))
            made = {n: _cut(_text(e, names)) for n, e in _outputs(step) if _is_own(n)}
            kept = projections(step)
            names = {**names, **made} if kept is not None and not kept else made if kept else {}
        return names


def names_own(row: str) -> bool:
    """Whether the row of an error may name a column of altneu's own."""
    return any(f'"{begins}' in row for begins in _OWN)


def _remember(known: dict[K, V | None], key: K, value: V) -> None:
    """Keep a value, unless there was another one: nothing tells which of them is meant."""
    known[key] = value if known.get(key, value) == value else None


def _json(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _outputs(step: Step) -> tuple[tuple[str, Expr], ...]:
    return step.outputs if isinstance(step, Project | Extend) else ()


def _made(step: Step) -> list[str]:
    return [name for name, e in _outputs(step) if e.can_fail]


def _read(step: Step) -> list[str]:
    return [name for e in step.expressions if e.can_fail for name in e.columns]


def _is_own(name: str) -> bool:
    return name.startswith(_OWN)


def _text(expression: Expr, names: Names) -> str:
    return _worded(expression.text, names)


def _worded(text: str, names: Names) -> str:
    """A text with what columns stand for in their place."""
    return _replaced(text, {stored_name(n): meant if _is_one(meant) else f"({meant})" for n, meant in names.items()})


def _replaced(text: str, by: Names) -> str:
    """A text with others in place of some, in one pass: names of columns contain those of others."""
    if not by:
        return text
    longest_first = sorted(by, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, longest_first)), lambda found: by[found.group()], text)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _is_one(text: str) -> bool:
    """Whether a text is a name, a constant or one call, which needs no parentheses beside an operator."""
    if " " not in text:
        return True
    depths = list(accumulate((c == "(") - (c == ")") for c in text))
    begins = text.find("(")
    return text[:begins].isidentifier() and 0 not in depths[begins:-1] and text.endswith(")")


def _called(signature: str, names: Names) -> str:
    """A function and what it reads; its arguments are separated, and no column of altneu's own has a comma."""
    signature = _replaced(signature, names)
    return signature if signature.startswith("count(") else signature.replace("(*)", "()")


def _failing(expression: Expr, names: Names) -> list[str]:
    """An expression, or the parts of it that may fail if it reads columns that the query has no words for."""
    if isinstance(expression, Call) and any(_is_own(c) and c not in names for c in expression.columns):
        parts = [text for e in expression.args if e.can_fail for text in _failing(e, names)]
        if parts:
            return parts
    return [_text(expression, names)]


def _label(step: Step, names: Names) -> str:
    """A step by those of its expressions that may fail."""
    texts = dict.fromkeys(text for e in step.expressions if e.can_fail for text in _failing(e, names))
    if not isinstance(step, Filter | Project | Extend) or not texts:
        return _worded(step.label, names)
    return f"{'filter' if isinstance(step, Filter) else 'select'} {', '.join(texts)}"


__all__ = ["Told", "Wording"]
