"""Canonical SQL text of calls; parsing the text gives the same expression."""

from __future__ import annotations

from collections.abc import Callable

from altneu import types as T
from altneu.expressions.expr import Call, Expr, Literal


def render_call(call: Call, texts: list[str]) -> str:
    """Text of a call, given the texts of its arguments."""
    special = _RENDER.get(call.name)
    if special is not None:
        return special(call, texts)
    if call.function.infix and len(texts) == 2:
        return f"{_inner(call, texts, 0)} {call.name} {_inner(call, texts, 1)}"
    return f"{call.name}({', '.join(texts)})"


def _inner(call: Call, texts: list[str], index: int) -> str:
    """An argument inside an operator: parenthesised when it is an operator itself."""
    shown: Expr = call.args[index]
    while isinstance(shown, Call) and shown.implicit and texts[index] == shown.args[0].text:
        shown = shown.args[0]
    in_parentheses = texts[index].startswith("-") or (isinstance(shown, Call) and shown.function.infix)
    return f"({texts[index]})" if in_parentheses else texts[index]


def _case(call: Call, texts: list[str]) -> str:
    pairs = "".join(f" WHEN {texts[i]} THEN {texts[i + 1]}" for i in range(0, len(texts) - 1, 2))
    return f"CASE{pairs}{f' ELSE {texts[-1]}' if len(texts) % 2 else ''} END"


def _field(call: Call, texts: list[str]) -> str:
    name = call.args[1]
    assert isinstance(name, Literal)
    return f"{_inner(call, texts, 0)}.{T.stored_name(name.value)}"


_RENDER: dict[str, Callable[[Call, list[str]], str]] = {
    "cast": lambda call, texts: f"CAST({texts[0]} AS {T.type_name(call.type)})",
    "try_cast": lambda call, texts: f"TRY_CAST({texts[0]} AS {T.type_name(call.type)})",
    "case": _case,
    "and": lambda call, texts: f"{_inner(call, texts, 0)} AND {_inner(call, texts, 1)}",
    "or": lambda call, texts: f"{_inner(call, texts, 0)} OR {_inner(call, texts, 1)}",
    "not": lambda call, texts: f"NOT {_inner(call, texts, 0)}",
    "negative": lambda call, texts: f"-{_inner(call, texts, 0)}",
    "~": lambda call, texts: f"~{_inner(call, texts, 0)}",
    "isnull": lambda call, texts: f"{_inner(call, texts, 0)} IS NULL",
    "isnotnull": lambda call, texts: f"{_inner(call, texts, 0)} IS NOT NULL",
    "in": lambda call, texts: f"{_inner(call, texts, 0)} IN ({', '.join(texts[1:])})",
    "like": lambda call, texts: (
        f"{_inner(call, texts, 0)} LIKE {texts[1]}" + (f" ESCAPE {texts[2]}" if len(texts) > 2 else "")
    ),
    "ilike": lambda call, texts: (
        f"{_inner(call, texts, 0)} ILIKE {texts[1]}" + (f" ESCAPE {texts[2]}" if len(texts) > 2 else "")
    ),
    "rlike": lambda call, texts: f"{_inner(call, texts, 0)} RLIKE {_inner(call, texts, 1)}",
    "ltrim": lambda call, texts: f"ltrim({', '.join(reversed(texts))})",
    "rtrim": lambda call, texts: f"rtrim({', '.join(reversed(texts))})",
    "[]": lambda call, texts: f"{_inner(call, texts, 0)}[{texts[1]}]",
    ".": _field,
}
