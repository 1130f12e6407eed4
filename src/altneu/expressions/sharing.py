"""Optimising expressions: conditions are split, constants folded, common subexpressions shared.

Everything here keeps the value of every row that does not fail, and lets no row fail that did not fail before.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from altneu import types as T
from altneu.expressions.construct import call, folded
from altneu.expressions.expr import Call, Expr, Literal
from altneu.expressions.lambdas import Lambda
from altneu.expressions.registry import function

_TRUE, _FALSE = Literal(True, T.BOOLEAN), Literal(False, T.BOOLEAN)


def conjuncts(expr: Expr) -> list[Expr]:
    """Conditions that as filters, one after the other, keep the rows on which a condition is true; none for TRUE.

    They stop at the first that is not true, and AND only at one that is false: fewer rows may fail, never more.

    >>> from altneu.expressions.parse import parse
    >>> conjuncts(parse("a > 0 and not (b = 1 or b = 2)", T.parse_schema("a int, b int")))
    [<a > 0: boolean>, <NOT (b = 1): boolean>, <NOT (b = 2): boolean>]
    """
    return list(_conjuncts(expr, False))


def _conjuncts(expr: Expr, negated: bool) -> Iterator[Expr]:
    if isinstance(expr, Call) and expr.name == "not":
        yield from _conjuncts(expr.args[0], not negated)
    elif isinstance(expr, Call) and expr.name == ("or" if negated else "and"):
        for arg in expr.args:
            yield from _conjuncts(arg, negated)
    elif expr != (_FALSE if negated else _TRUE):
        yield call("not", [expr]) if negated else expr


def rebuilt(expr: Call, args: tuple[Expr, ...]) -> Call:
    """A call with other arguments of the same types; itself when they are its own."""
    if all(new is old for new, old in zip(args, expr.args, strict=True)):
        return expr
    nullable = expr.nullable or any(new.nullable > old.nullable for new, old in zip(args, expr.args, strict=True))
    return Call(expr.function, args, expr.type, nullable, expr.implicit)


def replace_subexpressions(expr: Expr, mapping: Mapping[Expr, Expr]) -> Expr:
    """The expression with each part that is a key of ``mapping`` replaced by its value of the same type.

    Of parts within each other the outermost is replaced. Parts inside lambdas are replaced as well.

    >>> from altneu.expressions.parse import parse
    >>> schema = T.parse_schema("a int, b int, c int")
    >>> replace_subexpressions(
    ...     parse("(a + b) * (a + b + 1)", schema), {parse("a + b", schema): parse("c", schema)}
    ... )
    <c * (c + 1): int>
    """
    replacement = mapping.get(expr)
    if replacement is not None:
        return replacement
    if isinstance(expr, Lambda):
        body = replace_subexpressions(expr.body, mapping)
        return expr if body is expr.body else Lambda(expr.parameters, body)
    if isinstance(expr, Call):
        return rebuilt(expr, tuple(replace_subexpressions(a, mapping) for a in expr.args))
    return expr


def shared_subexpressions(expressions: Sequence[Expr], unsure: Container[int] = ()) -> list[Expr]:
    """Calls that occur twice or more in expressions which are evaluated in order, and may be computed before them all.

    Inner ones come first, so that each may be computed from those before it; one that occurs once inside another
    and nowhere else is not listed. Each is sure not to fail, or evaluated on every row where it occurs first: not in
    a branch of CASE, on the right of AND, after an argument that may be null. So no more rows fail if it is computed
    on every row. ``unsure`` are the places of expressions that may not be evaluated on all rows.

    Shape:  columns, constants and implicit casts of columns are not listed.
    Cost:   O(n) for n nodes.
    Law:    computed first and put in with ``replace_subexpressions``, they change no value and let no row fail that did
            not fail (tests/expressions/test_sharing.py).

    >>> from altneu.expressions.parse import parse
    >>> schema = T.parse_schema("a int, b int")
    >>> shared_subexpressions(
    ...     [parse(t, schema) for t in ("a / b", "a / b * 2", "if(a > 0, a % b, a % b + 1)")]
    ... )
    [<CAST(a AS double) / CAST(b AS double): double>]
    """
    search = _Search()
    for place, expr in enumerate(expressions):
        search.visit(expr, place not in unsure)
    return sorted((e for e in search.seen if search.seen[e] > 1 and e in search.sound), key=lambda e: e.depth)


@dataclass
class _Search:
    """Calls in the order in which they are first met: how often, and which may be computed first."""

    seen: dict[Call, int] = field(default_factory=dict)
    sound: set[Call] = field(default_factory=set)

    def visit(self, expr: Expr, always: bool) -> None:
        """Count a call and what is inside it; ``always`` says that it is evaluated on every row."""
        if not isinstance(expr, Call) or not expr.columns:
            return
        times = self.seen[expr] = self.seen.get(expr, 0) + 1
        if times == 1 and (always or not expr.can_fail) and not is_plain(expr):
            self.sound.add(expr)
        if times == 1 or expr not in self.sound:
            for arg, surely in _in_order(expr):
                self.visit(arg, always and surely)


def is_plain(expr: Expr) -> bool:
    """Whether it is a column, a constant, or a cast that coercion put around one."""
    return not isinstance(expr, Call) or (expr.implicit and is_plain(expr.args[0]))


_STRICT = frozenset(("=", "!=", "<", "<=", ">", ">=", "in", "aggregate"))
"""Lazy functions whose second argument is evaluated wherever the first is not null."""


def _in_order(expr: Call) -> Iterator[tuple[Expr, bool]]:
    """Arguments in the order of evaluation, each with whether every row on which the call is evaluated evaluates it."""
    style = expr.function.style
    hidden = False
    for place, arg in enumerate(reversed(expr.args) if expr.function.right_first else expr.args):
        lazy = style == "lazy" and place > (1 if expr.name in _STRICT else 0)
        yield arg, not (hidden or lazy)
        hidden = hidden or (style != "vector" and arg.nullable)


def simplify(expr: Expr) -> Expr:
    """The expression with its constants folded, and without the parts of AND, OR, NOT and choices that change nothing.

    The type stays; what could not be null still cannot.

    Law:    every value stays, and no row fails that did not fail (tests/expressions/test_sharing.py).

    >>> from altneu.expressions.parse import parse
    >>> schema = T.parse_schema("a int, b int")
    >>> expr = parse("a > b and b > 0 and if(b > 0, true, a > b)", schema).substitute(
    ...     {"b": Literal(2, T.INT)}
    ... )
    >>> expr, simplify(expr)
    (<((a > 2) AND (2 > 0)) AND if(2 > 0, true, a > 2): boolean>, <a > 2: boolean>)
    """
    if isinstance(expr, Lambda):
        body = simplify(expr.body)
        return expr if body is expr.body else Lambda(expr.parameters, body)
    if not isinstance(expr, Call):
        return expr
    if expr.name in ("and", "or"):
        return _connected(expr)
    simple = rebuilt(expr, tuple(map(simplify, expr.args)))
    simpler = _SIMPLER.get(simple.name, folded)(simple)
    if isinstance(simpler, Literal) and simple.implicit:
        return Literal(simpler.value, simpler.type, simple.text)
    return simpler


def _connected(expr: Call) -> Expr:
    """AND and OR without what cannot change them: repeated parts, and what follows a part that decides them all."""
    neutral, decided = (_TRUE, _FALSE) if expr.name == "and" else (_FALSE, _TRUE)
    met: dict[Expr, None] = {}

    def pruned(part: Expr) -> Expr | None:
        if isinstance(part, Call) and part.name == expr.name:
            left, right = map(pruned, part.args)
            return rebuilt(part, (left, right)) if left is not None and right is not None else left or right
        if decided in met:
            return None
        simple = simplify(part)
        if isinstance(simple, Call) and simple.name == expr.name:
            return pruned(simple)
        if simple == neutral or simple in met:
            return None
        met[simple] = None
        return simple

    result = pruned(expr)
    if decided in met and not any(part.can_fail for part in met):
        return decided
    return neutral if result is None else result


def _negation(expr: Call) -> Expr:
    inner = expr.args[0]
    return inner.args[0] if isinstance(inner, Call) and inner.name == "not" else folded(expr)


def _case(expr: Call) -> Expr:
    """CASE and IF without branches that are never taken, and without those after one that always is."""
    branches: list[Expr] = []
    last = list(expr.args[len(expr.args) // 2 * 2 :])
    for condition, value in zip(expr.args[0::2], expr.args[1::2], strict=False):
        if not isinstance(condition, Literal):
            branches += [condition, value]
        elif condition.value:
            last = [value]
            break
    if not branches:
        return last[0] if last else Literal(None, expr.type)
    return _fewer("case", expr, [*branches, *last])


def _coalesce(expr: Call) -> Expr:
    """Without nulls, and without what follows a value that is never null."""
    values: list[Expr] = []
    for arg in expr.args:
        if not isinstance(arg, Literal) or arg.value is not None:
            values.append(arg)
        if not arg.nullable:
            break
    if len(values) <= 1:
        return values[0] if values else Literal(None, expr.type)
    return _fewer("coalesce", expr, values)


def _fewer(name: str, expr: Call, args: list[Expr]) -> Expr:
    return expr if len(args) == len(expr.args) else Call(function(name), tuple(args), expr.type, expr.nullable)


def _null_test(expr: Call) -> Expr:
    value = expr.args[0]
    if value.nullable or value.can_fail:
        return folded(expr)
    return Literal(expr.name == "isnotnull", T.BOOLEAN)


_SIMPLER: dict[str, Callable[[Call], Expr]] = {
    "not": _negation,
    "case": _case,
    "if": _case,
    "coalesce": _coalesce,
    "isnull": _null_test,
    "isnotnull": _null_test,
}
"""The functions that simplify a call with simple arguments, where folding constants is not all."""
