"""The verbs of random programs: each as the Python text that is run, and as what it means."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from math import isnan
from types import SimpleNamespace
from typing import Any

from tests.oracle import second_meaning as M
from tests.oracle.second_meaning import Held, History, Row

Columns = tuple[tuple[str, str], ...]


@dataclass(frozen=True, eq=False)
class Node:
    """A collection of a program: ``text`` with its inputs as {0}, {1}…, its columns, what it means at each time.

    ``at`` means at one time what it is given at that time; ``over`` needs the history. ``keeps``: errors of its inputs
    are errors of it, whatever is read of it.
    """

    text: str
    inputs: tuple[Node, ...]
    columns: Columns
    at: Callable[[int, Sequence[M.Rows]], M.Said] | None = None
    over: Callable[[Sequence[History]], History] | None = None
    keeps: bool = False

    def written(self) -> str:
        """The whole as one expression."""
        return self.text.format(*(i.written() for i in self.inputs))

    def nodes(self) -> Iterable[Node]:
        """Itself and all below."""
        for below in self.inputs:
            yield from below.nodes()
        yield self

    @property
    def by_arrival(self) -> bool:
        """Whether it depends on when rows came, or on times that are past."""
        return any(n.over is not None and "latest" not in n.text for n in self.nodes())

    @property
    def may_be_in_loop(self) -> bool:
        """Whether it can be written inside a loop's body: moments, and what depends on arrival, belong outside."""
        return not self.by_arrival and not any("differentiate" in n.text for n in self.nodes())

    def of_type(self, kind: str) -> list[str]:
        return [name for name, t in self.columns if t == kind]

    def place(self, name: str) -> int:
        return [n for n, _ in self.columns].index(name)


SQL_TYPES = {"long": "long", "string": "string", "double": "double", "decimal": "decimal(6,2)", "date": "date"}
VALUES: dict[str, list[Any]] = {
    "k": [0, 1, 1, 2, None],
    "v": [0, 1, 2, 4, 5, None],
    "s": ["a", "b", "", "ü", None],
    "d": [0.0, -0.0, 1.5, -2.25, float("nan"), float("inf"), None],
    "m": [Decimal("0.00"), Decimal("1.10"), Decimal("-2.05"), Decimal("7.77"), None],
    "t": [date(2024, 2, 28), date(2024, 2, 29), date(1969, 12, 31), None],
}
TYPES = {"k": "long", "v": "long", "s": "string", "d": "double", "m": "decimal", "t": "date"}

Value = Callable[[Row], Any]


def _of(places: Sequence[int], function: Callable[..., Any]) -> Value:
    """A function of some columns that is null where one is."""

    def value(row: Row) -> Any:
        actual = [row[i] for i in places]
        return None if None in actual else function(*actual)

    return value


def _any(places: Sequence[int], function: Callable[..., Any]) -> Value:
    return lambda row: function(*(row[i] for i in places))


EXPRESSIONS: dict[str, list[tuple[str, str, bool, Callable[..., Any]]]] = {
    # text, the types of its columns, whether null of null, meaning
    "long": [
        ("{0}", "l", True, lambda a: a),
        ("{0}", "l", True, lambda a: a),
        ("pmod({0} + 1, 5)", "l", True, lambda a: (a + 1) % 5),
        ("coalesce({0}, 2)", "l", False, lambda a: 2 if a is None else a),
        ("pmod({0} * 3 + {1}, 5)", "ll", True, lambda a, b: (a * 3 + b) % 5),
        ("case when {0} > 1 then {1} else {0} end", "ll", False, lambda a, b: b if a is not None and a > 1 else a),
        ("cast(length({0}) as bigint)", "s", True, len),
        ("cast(day({0}) as bigint)", "t", True, lambda t: t.day),
        ("if({0} is null, 3L, 1L)", "d", False, lambda d: 3 if d is None else 1),
        ("nullif({0}, 1)", "l", True, lambda a: None if a == 1 else a),
        ("1L", "", True, lambda: 1),
    ],
    "string": [
        ("{0}", "s", True, lambda s: s),
        ("upper({0})", "s", True, str.upper),
        ("coalesce({0}, 'n')", "s", False, lambda s: "n" if s is None else s),
        ("cast({0} as string)", "l", True, str),
        ("substr({0}, 1, 1)", "s", True, lambda s: s[:1]),
        ("case when {0} > 0 then 'p' end", "l", False, lambda a: "p" if a is not None and a > 0 else None),
    ],
    "double": [
        ("{0}", "d", True, lambda d: d),
        ("-{0}", "d", True, lambda d: -d),
        ("coalesce({0}, 0.5D)", "d", False, lambda d: 0.5 if d is None else d),
        ("cast({0} as double)", "l", True, float),
        ("nanvl({0}, -1D)", "d", True, lambda d: -1.0 if isnan(d) else d),
    ],
    "decimal": [
        ("{0}", "m", True, lambda m: m),
        ("coalesce({0}, cast(1.5 as decimal(6,2)))", "m", False, lambda m: Decimal("1.50") if m is None else m),
        ("cast(pmod({0}, 9) as decimal(6,2))", "l", True, lambda a: Decimal(a % 9)),
        ("cast(-{0} as decimal(6,2))", "m", True, lambda m: -m),
    ],
    "date": [
        ("{0}", "t", True, lambda t: t),
        ("date_add({0}, 1)", "t", True, lambda t: t + timedelta(1)),
        ("coalesce({0}, date'2024-02-29')", "t", False, lambda t: date(2024, 2, 29) if t is None else t),
        ("date_add(date'2024-02-27', cast(pmod({0}, 3) as int))", "l", True, lambda a: date(2024, 2, 27 + a % 3)),
    ],
}
LETTERS = {"l": "long", "s": "string", "d": "double", "m": "decimal", "t": "date"}
Truth = bool | None


def _not(a: Truth) -> Truth:
    return None if a is None else not a


def _and(a: Truth, b: Truth) -> Truth:
    return False if a is False or b is False else None if None in (a, b) else True


PREDICATES: list[tuple[str, str, bool, Callable[..., Any]]] = [
    ("{0} > 1", "l", True, lambda a: a > 1),
    ("{0} < 3", "l", True, lambda a: a < 3),
    ("{0} <> {1}", "ll", True, lambda a, b: a != b),
    ("{0} <=> {1}", "ll", False, lambda a, b: a == b),
    ("{0} is null", "l", False, lambda a: a is None),
    ("{0} is not null", "l", False, lambda a: a is not None),
    ("{0} in (0, 1)", "l", True, lambda a: a in (0, 1)),
    ("{0} not in (0, 2, null)", "l", True, lambda a: False if a in (0, 2) else None),
    ("{0} between 1 and 4", "l", True, lambda a: 1 <= a <= 4),
    ("{0} = 'a'", "s", True, lambda s: s == "a"),
    ("{0} > 'A'", "s", True, lambda s: s > "A"),
    ("{0} > 0.5D", "d", True, lambda d: isnan(d) or d > 0.5),
    ("{0} = 0D", "d", True, lambda d: d == 0),
    ("{0} >= 0", "m", True, lambda m: m >= 0),
    ("{0} < date'2024-02-29'", "t", True, lambda t: t < date(2024, 2, 29)),
    ("true", "", True, lambda: True),
]


class Writer:
    """Writes random nodes; ``pool`` are the collections that a verb may take, ``shape`` the columns they agree upon."""

    def __init__(self, rng: random.Random, shape: Columns, logs: list[Node], two_times: bool = False) -> None:
        self.rng, self.shape, self.logs, self.two_times = rng, shape, logs, two_times
        self.pool: list[Node] = []
        self.loops = 0

    def pick(self) -> Node:
        return self.rng.choice([self.pool[-1], self.pool[-1], *self.pool])

    def pick_for_loop(self) -> Node:
        """A collection that can be written inside a loop's body."""
        return self.rng.choice([n for n in (self.pool[-1], self.pool[-1], *self.pool) if n.may_be_in_loop])

    def shaped(self, node: Node | None = None) -> Node:
        """A collection of the columns that all agree upon."""
        node = node or self.pick()
        if node.columns == self.shape:
            return node
        outputs = []
        for name, kind in self.shape:
            if (name, kind) in node.columns:
                outputs.append((name, name, _of([node.place(name)], lambda x: x)))
            else:
                outputs.append((name, *self.expression(node, kind)))
        return self.projected(node, outputs, [kind for _, kind in self.shape])

    def projected(self, node: Node, outputs: list[tuple[str, str, Value]], kinds: list[str]) -> Node:
        plain = [name for name, text, _ in outputs if text == name]
        if len(plain) == len(outputs):
            arguments = ", ".join(repr(n) for n in plain)
        else:
            arguments = ", ".join(f"{name}={text!r}" for name, text, _ in outputs)
        functions = [f for _, _, f in outputs]
        columns = tuple((name, kind) for (name, _, _), kind in zip(outputs, kinds, strict=True))
        return self.linear(node, f"select({arguments})", lambda row, _: [([f(row) for f in functions], 1)], columns)

    def linear(self, node: Node, verb: str, logic: Any, columns: Columns | None = None) -> Node:
        return Node(f"{{0}}.{_escaped(verb)}", (node,), columns or node.columns, M.linear(logic))

    def _chosen(self, node: Node, table: list[Any]) -> tuple[str, Value]:
        able = [e for e in table if all(node.of_type(LETTERS[x]) for x in e[1])]
        text, letters, strict, function = self.rng.choice(able)
        names = [self.rng.choice(node.of_type(LETTERS[x])) for x in letters]
        places = [node.place(n) for n in names]
        return text.format(*names), (_of if strict else _any)(places, function)

    def expression(self, node: Node, kind: str) -> tuple[str, Value]:
        able = [e for e in EXPRESSIONS[kind] if all(node.of_type(LETTERS[x]) for x in e[1])]
        if not able:
            constant = {"string": "'z'", "double": "0.25D", "decimal": "cast(2 as decimal(6,2))"}
            value = {"string": "z", "double": 0.25, "decimal": Decimal(2), "date": date(2024, 1, 1)}[kind]
            return constant.get(kind, "date'2024-01-01'"), lambda _: value
        return self._chosen(node, able)

    def predicate(self, node: Node) -> tuple[str, Value]:
        text, one = self._chosen(node, PREDICATES)
        draw = self.rng.random()
        if draw < 0.2:
            return f"not ({text})", lambda row: _not(one(row))
        if draw < 0.4:
            more, other = self._chosen(node, PREDICATES)
            return f"{text} and {more}", lambda row: _and(one(row), other(row))
        if draw < 0.6:
            more, other = self._chosen(node, PREDICATES)
            return f"{text} or {more}", lambda row: _not(_and(_not(one(row)), _not(other(row))))
        return text, one

    def long(self, node: Node) -> str:
        return self.rng.choice(node.of_type("long"))

    def keys(self, node: Node, most: int = 2) -> list[str]:
        names = [n for n, kind in node.columns if kind in LETTERS.values()]
        self.rng.shuffle(names)
        return sorted(names[: self.rng.randint(1, most)])

    def one(self) -> Node:
        """One more collection."""
        names = [
            n for n in VERBS if not (self.loops and n in NOT_IN_LOOPS) and not (self.two_times and n in NOT_IN_TWO)
        ]
        result = VERBS[self.rng.choice(names)](self)
        if self.rng.random() < 0.2:
            result = Node("{0}.consolidate()", (result,), result.columns, M.add, keeps=True)
        self.pool.append(result)
        return result


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _select(w: Writer) -> Node:
    node = w.pick()
    outputs, kinds = [], []
    for name, kind in w.rng.sample(w.shape, w.rng.randint(1, len(w.shape))):
        outputs.append((name, *w.expression(node, kind)))
        kinds.append(kind)
    if not any(kind == "long" for kind in kinds):
        outputs.append(("k", *w.expression(node, "long")))
        kinds.append("long")
    return w.projected(node, outputs, kinds)


def _filter(w: Writer) -> Node:
    node = w.pick()
    text, truth = w.predicate(node)
    return w.linear(node, f"filter({text!r})", lambda row, _: [(row, 1)] if truth(row) else [])


def _now_filter(w: Writer) -> Node:
    node = w.pick()
    a, b = w.long(node), w.long(node)
    i, j = node.place(a), node.place(b)
    options: list[tuple[str, bool, Callable[..., bool]]] = [
        (f"logical_now() >= {a} and logical_now() < {b} + 4", True, lambda x, y, now: x <= now < y + 4),
        (f"logical_now() <= {a} + 1", False, lambda x, _, now: now <= x + 1),
        (f"logical_now() = {a}", False, lambda x, _, now: now == x),
        (f"logical_now() > {a} and {b} > 1", True, lambda x, y, now: now > x and y > 1),
        (f"logical_now() between {a} and {a} + {b}", True, lambda x, y, now: x <= now <= x + y),
    ]
    text, both, holds = w.rng.choice(options)

    def logic(row: Row, now: int) -> Any:
        x, y = row[i], row[j] if both else 0
        return [(row, 1)] if x is not None and y is not None and holds(x, y, now) else []

    return w.linear(node, f"filter({text!r})", logic)


def _temporal(w: Writer) -> Node:
    node = w.pick()
    a, b = w.long(node), w.long(node)
    i, j = node.place(a), node.place(b)
    form = w.rng.randrange(4)
    verb = [f"temporal({a!r})", f"temporal(upper={b!r})", f"temporal({a!r}, '{b} + 3')"]
    verb.append(f"temporal({a!r}, '{b} + 2', null_upper='never')")

    def logic(row: Row, now: int) -> Any:
        low, high = row[i] if form != 1 else 0, None if row[j] is None else row[j] + (0, 0, 3, 2)[form]
        if form == 0:
            there = low is not None and low <= now
        elif form == 3:
            there = low is not None and low <= now and (high is None or now < high)
        else:
            there = None not in (low, high) and low <= now < high
        return [(row, 1)] if there else []

    return w.linear(node, verb[form], logic)


def _windows(w: Writer) -> Node:
    node = w.shaped()
    at = w.rng.choice(["k", "v"])
    i, form = node.place(at), w.rng.randrange(3)
    grace, length = w.rng.randint(0, 1), w.rng.randint(1, 3)
    early, keep, offset = w.rng.random() < 0.5, w.rng.choice([None, 2]), w.rng.randint(0, 1)
    if form == 0:
        text = f"an.windows.sliding({{0}}, {at!r}, {length}, grace={grace})"
        logic = lambda r, now: [(r, 1)] if r[i] is not None and r[i] + grace <= now < r[i] + grace + length else []  # noqa: E731
        return Node(text, (node,), node.columns, M.linear(logic))
    every = length if form == 1 else w.rng.randint(1, 3)

    def placed(row: Row, now: int) -> Any:
        if row[i] is None:
            return
        last = row[i] - (row[i] - offset) % every
        for start in range(last, row[i] - length, -every):
            end = start + length
            begins = row[i] if early else end + grace
            if begins <= now and (keep is None or now < end + grace + keep):
                yield (*row, start, end), 1

    kind = "tumbling" if form == 1 else "hopping"
    size = f"{length}" if form == 1 else f"{length}, {every}"
    text = f"an.windows.{kind}({{0}}, {at!r}, {size}, grace={grace}, keep={keep}, early={early}, offset={offset})"
    return Node(text, (node,), (*node.columns, ("window_start", "long"), ("window_end", "long")), M.linear(placed))


def _sessions(w: Writer) -> Node:
    node = w.shaped()
    gap, grace, early = w.rng.randint(1, 3), w.rng.randint(0, 1), w.rng.random() < 0.5
    keep = w.rng.choice([None, 3])
    k, v = node.place("k"), node.place("v")

    def meaning(now: int, inputs: Sequence[M.Rows]) -> M.Said:
        present = {row: n for row, n in inputs[0].items() if row[v] is not None and (not early or row[v] <= now)}
        merged: M.Rows = M.Counter()
        for row, n in present.items():
            merged[row[k], row[v]] += n
        said = M.Said()
        for (key,), group in M.by_key(M.Counter({r: n for r, n in merged.items() if n}), [0]).items():
            if any(n < 0 for _, n in group):
                said.negative()
                said.unsure = True
                continue
            times = sorted((row[1], n) for row, n in group)
            start, end, count = times[0][0], times[0][0], 0
            spans = []
            for at, n in times:
                if count and at >= end:
                    spans.append((start, end, count))
                    start, count = at, 0
                end, count = at + gap, count + n
            for begin, until, many in [*spans, (start, end, count)]:
                if (begin if early else until + grace) <= now and (keep is None or now < until + grace + keep):
                    said.add((key, begin, until, many), 1)
        return said

    text = f"an.windows.session_windows({{0}}, 'v', {gap}, 'k', grace={grace}, keep={keep}, early={early})"
    names = ("k", "window_start", "window_end", "count")
    return Node(text, (node,), tuple((n, "long") for n in names), meaning)


def _called(node: Node) -> Callable[[Row], Any]:
    names = [n for n, _ in node.columns]
    return lambda row: SimpleNamespace(**dict(zip(names, row, strict=True)))


def _functions(kind: str) -> Callable[[Writer], Node]:
    """A verb with a Python function, which the meaning calls too."""
    written = {
        "map": ["lambda r: (r.k, r.v and r.v - 1)", "lambda r: (r.v, r.k)"],
        "flat_map": ["lambda r: [(r.k, n) for n in range((r.v or 0) % 3)]", "lambda r: [(r.k, r.v), (r.v, r.k)]"],
        "explode": ["lambda r: [((r.k, n), 2 - n) for n in range(3)]", "lambda r: [((r.v, r.k), 2)]"],
        "join_function": [
            "lambda r: [((r.k, r.v), r.v, 1), ((r.k, r.v), (r.v or 0) + 3, -1)]",
            "lambda r: [((r.v, r.k), r.k, 1), ((0, r.v), None, 2)]",
        ],
    }[kind]

    def verb(w: Writer) -> Node:
        node = w.shaped()
        text = w.rng.choice(written)
        function, called = eval(text), _called(node)  # noqa: S307 -- one of those above

        def logic(row: Row, now: int) -> Any:
            result = function(called(row))
            match kind:
                case "map":
                    return [(result, 1)]
                case "flat_map":
                    return [(one, 1) for one in result]
                case "explode":
                    return result
            return [(one, n) for one, time, n in result if time is None or time <= now]

        return w.linear(node, f"{kind}({text}, 'k long, v long')", logic, (("k", "long"), ("v", "long")))

    return verb


def _triples(w: Writer) -> Node:
    node = w.shaped()
    k, v = node.place("k"), node.place("v")
    text = """join_function([({"k": "k", "v": "v"}, "v", 1), ({"k": "v", "v": "k"}, "v + 2", "k - 1")])"""

    def logic(row: Row, now: int) -> Any:
        a, b = row[k], row[v]
        if b is not None and b <= now:
            yield (a, b), 1
        if b is not None and a is not None and b + 2 <= now:
            yield (b, a), a - 1

    return w.linear(node, text, logic, (("k", "long"), ("v", "long")))


def _series(w: Writer) -> Node:
    node = w.shaped()
    v, form = node.place("v"), w.rng.randrange(3)
    verb = [
        "generate_series(0, 'v', as_='n')",
        "generate_series('v', 1, -2, as_='n')",
        "generate_series('v', 'v + 1', as_='n')",
    ]

    def logic(row: Row, _: int) -> Any:
        b = row[v]
        steps: Any = [] if b is None else [range(b + 1), range(b, 0, -2), range(b, b + 2)][form]
        return [((*row, n), 1) for n in steps]

    return w.linear(node, verb[form], logic, (*node.columns, ("n", "long")))


def _unnest(w: Writer) -> Node:
    node = w.shaped()
    k, v, outer = node.place("k"), node.place("v"), w.rng.random() < 0.5
    form = w.rng.randrange(3)
    array = ["array(k, v, 7)", "if(v > 1, array(v, v), null)", "filter(array(k, v), x -> x > 0)"][form]
    ordinality = w.rng.random() < 0.5
    verb = f"unnest({array!r}, as_='n', outer={outer}" + (", ordinality='o')" if ordinality else ")")

    def logic(row: Row, _: int) -> Any:
        a, b = row[k], row[v]
        actual: Any = [a, b, 7]
        if form == 1:
            actual = [b, b] if b is not None and b > 1 else []
        elif form == 2:
            actual = [x for x in (a, b) if x is not None and x > 0]
        for i, x in enumerate(actual):
            yield ((*row, x, i + 1) if ordinality else (*row, x)), 1
        if outer and not actual:
            yield ((*row, None, None) if ordinality else (*row, None)), 1

    added = (("n", "long"), ("o", "long")) if ordinality else (("n", "long"),)
    return w.linear(node, verb, logic, (*node.columns, *added))


def _json(w: Writer) -> Node:
    """Fields of a JSON text, some in an object inside, some absent, some null; a text that is none is an error row."""
    node = w.shaped()
    k, v, form = node.place("k"), node.place("v"), w.rng.randrange(3)
    whole = """concat('{"n":', coalesce(cast(k as string), 'null'), ',"in":{"c":', cast(v as string), '}}')"""
    text = [whole, f"case when v = 1 then '{{}}' else {whole} end", f"case when v = 4 then 'no' else {whole} end"][form]
    names = [n for n, _ in node.columns]
    result = f"{{0}}.select({_escaped(', '.join(map(repr, names)))}, j={_escaped(repr(text))})"
    result += ".json('j', 'n long, o long', paths={{'o': 'in.c'}})"
    result += f".select({', '.join(map(repr, [*names, 'n', 'o']))})"

    def meaning(_: int, inputs: Sequence[M.Rows]) -> M.Said:
        said = M.Said()
        for row, count in inputs[0].items():
            if form == 2 and row[v] == 4:
                said.codes.add("INVALID_JSON")
                said.unsure |= count < 0
            elif row[v] is None or (form == 1 and row[v] == 1):
                said.add((*row, None, None), count)
            else:
                said.add((*row, row[k], row[v]), count)
        return said

    return Node(result, (node,), (*node.columns, ("n", "long"), ("o", "long")), meaning)


def _repeat(w: Writer) -> Node:
    node = w.pick()
    name = w.long(node)
    i, less = node.place(name), w.rng.choice([0, 0, 0, 1])
    count = f"pmod({name}, 3) - {less}" if less else f"pmod({name}, 3)"
    return w.linear(node, f"repeat_row({count!r})", lambda r, _: [] if r[i] is None else [(r, r[i] % 3 - less)])


def _negate(w: Writer) -> Node:
    return w.linear(w.pick(), "negate()", lambda row, _: [(row, -1)])


def _minus(w: Writer) -> Node:
    """What of a collection a predicate does not hold of, as a difference: it makes no count less than zero."""
    node = w.pick()
    text, truth = w.predicate(node)
    less = w.linear(node, f"filter({text!r})", lambda row, _: [(row, 1)] if truth(row) else [])
    less = w.linear(less, w.rng.choice(["negate()", "negate().consolidate()"]), lambda row, _: [(row, -1)])
    return Node("{0}.concat({1})", (node, less), node.columns, M.add)


def _concat(w: Writer) -> Node:
    parts = tuple(w.shaped() for _ in range(w.rng.choice([2, 2, 3])))
    others = ", ".join(f"{{{i}}}" for i in range(1, len(parts)))
    return Node(f"{{0}}.concat({others})", parts, w.shape, M.add, keeps=True)


def _on(w: Writer, left: Node, right: Node) -> dict[str, str]:
    """Keys of a join: columns of one type."""
    pairs = [(a, b) for a, t in left.columns for b, u in right.columns if t == u and t in LETTERS.values()]
    same = [(a, b) for a, b in pairs if a == b]
    result: dict[str, str] = {}
    result.update(w.rng.sample(same or pairs, min(len(same or pairs), w.rng.choice([1, 1, 2]))))
    if w.rng.random() < 0.25:
        a, b = w.rng.choice(pairs)
        result = {a: b}
    return result


def _on_text(on: dict[str, str]) -> str:
    return _escaped(repr([*on] if all(a == b for a, b in on.items()) else on))


def _join(w: Writer) -> Node:
    left, right = w.shaped(), w.shaped()
    on, how = _on(w, left, right), w.rng.choice(["inner", "inner", "left", "right", "full"])
    places = [left.place(a) for a in on], [right.place(b) for b in on.values()]
    shared = [right.place(b) for a, b in on.items() if a == b]
    wide = len(left.columns) + len(right.columns) - len(shared)
    at = M.join(*places, how, (len(left.columns), len(right.columns)), shared)
    mine = [n for n, _ in left.columns]
    more = [(f"`right.{n}`" if n in mine else n, t) for i, (n, t) in enumerate(right.columns) if i not in shared]
    joined = Node(f"{{0}}.join({{1}}, {_on_text(on)}, {how!r})", (left, right), (*left.columns, *more), at)
    assert len(joined.columns) == wide
    outputs, kinds = [], []
    for name, kind in w.shape:
        options = [name, *(n for n, t in more if t == kind)]
        chosen = w.rng.choice(options)
        outputs.append((name, chosen, _of([joined.place(chosen)], lambda x: x)))
        kinds.append(kind)
    return w.projected(joined, outputs, kinds)


def _having(w: Writer) -> Node:
    left, right, wanted = w.pick(), w.pick(), w.rng.random() < 0.5
    on = _on(w, left, right)
    at = M.having([left.place(a) for a in on], [right.place(b) for b in on.values()], wanted)
    verb = "semijoin" if wanted else "antijoin"
    return Node(f"{{0}}.{verb}({{1}}, {_on_text(on)})", (left, right), left.columns, at)


def _pattern(w: Writer) -> Node:
    """A triangle, or a chain of three: what a delta join is for."""
    parts = tuple(w.shaped() for _ in range(3))
    k, v = (parts[0].place(n) for n in "kv")
    closed = w.rng.random() < 0.6

    def meaning(_: int, inputs: Sequence[M.Rows]) -> M.Said:
        said = M.Said()
        for x, n in inputs[0].items():
            for y, m in inputs[1].items():
                if None in (x[v], y[k]) or x[v] != y[k]:
                    continue
                for z, o in inputs[2].items():
                    if closed and z[k] == x[k] is not None and z[v] == y[v] is not None:
                        said.add((x[k], x[v], y[v]), n * m * o)
                    elif not closed and z[k] == y[v] is not None:
                        said.add((x[k], y[v], z[v]), n * m * o)
        return said

    first = "{0}.select(x='k', y='v').join({1}.select(y='k', z='v'), 'y')"
    if closed:
        text = first + ".join({2}.select(x='k', z='v'), ['x', 'z']).select(k='x', v='y', n='z')"
    else:
        text = first + ".join({2}.select(z='k', u='v'), 'z').select(k='x', v='z', n='u')"
    return Node(text, parts, (("k", "long"), ("v", "long"), ("n", "long")), meaning)


def _no_key(verb: str, at: Any, keeps: bool) -> Callable[[Writer], Node]:
    def made(w: Writer) -> Node:
        node = w.pick()
        return Node(f"{{0}}.{verb}", (node,), node.columns, at, keeps=keeps)

    return made


def _arranged(w: Writer) -> Node:
    node = w.pick()
    name = w.rng.choice(w.keys(node))
    return Node(f"{{0}}.arrange_by({name!r})", (node,), node.columns, M.add, keeps=True)


def _count(w: Writer) -> Node:
    node = w.pick()
    if "n" in dict(node.columns):
        node = w.shaped(node)
    return Node("{0}.count('n')", (node,), (*node.columns, ("n", "long")), M.counted, keeps=True)


def _order(w: Writer, node: Node) -> tuple[str, list[tuple[int, bool]]]:
    terms = [(n, w.rng.random() < 0.5) for n in w.keys(node)]
    text = ", ".join(f"{n} desc" if down else n for n, down in terms)
    return text, [(node.place(n), down) for n, down in terms]


def _top(w: Writer) -> Node:
    node = w.pick()
    per = [] if w.rng.random() < 0.5 else w.keys(node)
    text, terms = _order(w, node)
    k = w.rng.choice([1, 2, 5])
    at = M.in_groups([node.place(n) for n in per], M.top(k, terms))
    return Node(f"{{0}}.top_k({k}, {text!r}, per={per!r})", (node,), node.columns, at)


def _all_of(w: Writer, node: Node) -> list[M.Aggregate]:
    """Aggregates to choose from, over the columns of a collection."""
    result: list[M.Aggregate] = []

    def more(text: str, kind: str, of: Value, value: Any, sums: bool = False) -> None:
        result.append(M.Aggregate(text, kind, of, value, sums))

    more("count(*)", "long", lambda _: 1, M.number, True)
    condition, truth = w._chosen(node, PREDICATES)
    more(f"count_if({condition})", "long", lambda r: 1 if truth(r) else None, M.number)
    more(f"bool_or({condition})", "other", truth, M.greatest)
    for name, kind in node.columns:
        i = node.place(name)
        column: Value = lambda r, i=i: r[i]  # type: ignore[misc]  # noqa: E731
        if kind not in LETTERS.values():
            continue
        more(f"count({name})", "long", column, M.number, True)
        more(f"count(distinct {name})", "long", column, lambda v: len(M.merged(v)))
        more(f"min({name})", kind, column, M.least)
        more(f"max({name})", kind, column, M.greatest)
        more(f"mode({name})", kind, column, M.mode)
        more(f"collect_list({name})", "other", column, M.listed)
        more(f"collect_set({name})", "other", column, lambda v: M.listed([(x, 1) for x, _ in M.merged(v)]))
        more(
            f"max({name}) filter (where {condition})", kind, lambda r, c=column: c(r) if truth(r) else None, M.greatest
        )
        if kind in ("long", "double", "decimal"):
            kinds = {"decimal": "other"}
            more(f"sum({name})", kinds.get(kind, kind), column, M.total, True)
            more(
                f"sum(distinct {name})",
                kinds.get(kind, kind),
                column,
                lambda v: M.total([(x, 1) for x, _ in M.merged(v)]),
            )
        if kind in ("long", "decimal"):
            more(f"avg({name})", "double" if kind == "long" else "other", column, M.mean, True)
        if kind == "long":
            more(
                f"sum({name}) filter (where {condition})", kind, lambda r, c=column: c(r) if truth(r) else None, M.total
            )
            more(f"median({name})", "double", column, M.median)
            more(f"count(distinct {name}, {name} + 1)", "long", column, lambda v: len(M.merged(v)))
            _more_of_numbers(w, node, name, more)
        if kind == "string":
            _more_of_texts(w, node, name, more)
    return result


def _more_of_numbers(w: Writer, node: Node, name: str, more: Callable[..., None]) -> None:
    """Spreads, percentiles, bits, and what belongs to the greatest or least of another column."""
    i = node.place(name)
    column: Value = lambda row: row[i]  # noqa: E731
    sample, root = w.rng.random() < 0.5, w.rng.random() < 0.5
    call = f"{'stddev' if root else 'var'}_{'samp' if sample else 'pop'}({name})"
    more(M.ROUNDED.format(call), "other", column, partial(M.spread, sample=sample, root=root))
    quarter = Fraction(w.rng.randint(0, 4), 4)
    more(f"percentile({name}, {float(quarter)}D)", "double", column, M.between(quarter))
    more(f"percentile_approx({name}, {float(quarter)}D)", "long", column, M.reached(quarter))
    text = f"percentile_disc({float(quarter)}D) within group (order by {name} desc)"
    more(text, "double", column, lambda v: None if not v else float(M.reached(quarter, descending=True)(v)))
    more(f"bit_or({name})", "long", column, M.bits)
    other = w.rng.choice([n for n, kind in node.columns if kind in LETTERS.values()])
    place, most = node.place(other), w.rng.random() < 0.5
    both = lambda row: None if row[place] is None else (row[i], row[place])  # noqa: E731
    more(f"{'max' if most else 'min'}_by({name}, {other})", "long", both, partial(M.by_other, greatest=most))
    number = w.long(node)
    there = node.place(number)
    pairs = lambda row: None if None in (row[i], row[there]) else (row[i], row[there])  # noqa: E731
    more(M.ROUNDED.format(f"covar_pop({name}, {number})"), "other", pairs, M.covariance)


def _more_of_texts(w: Writer, node: Node, name: str, more: Callable[..., None]) -> None:
    """Texts joined, in their own order or in that of another column."""
    i = node.place(name)
    own: Value = lambda row: None if row[i] is None else (row[i], 0)  # noqa: E731
    more(f"listagg({name}, '+')", "other", own, partial(M.joined, between_texts="+"))
    number, down = w.long(node), w.rng.random() < 0.5
    place = node.place(number)
    ordered: Value = lambda row: None if row[i] is None else (row[i], row[place])  # noqa: E731
    text = f"listagg({name}, ',') within group (order by {number}{' desc' * down})"
    more(text, "other", ordered, partial(M.joined, between_texts=",", descending=down))


def _agg(w: Writer) -> Node:
    node = w.pick()
    keys = [] if w.rng.random() < 0.3 else w.keys(node)
    wanted = w.rng.sample(_all_of(w, node), w.rng.randint(1, 3))
    free = [n for n in ("v", "n", "o", "p", "q") if n not in keys]
    names = free[: len(wanted)]
    places = [node.place(n) for n in keys]
    columns = tuple((n, dict(node.columns)[n]) for n in keys)
    shown = ", ".join(f"{n}={a.text!r}" for n, a in zip(names, wanted, strict=True))
    result = (*columns, *((n, a.type) for n, a in zip(names, wanted, strict=True)))
    text = f"{{0}}.group_by({', '.join(map(repr, keys))}).agg({_escaped(shown)})"
    grouped = Node(text, (node,), result, M.aggregates(places, wanted))
    return grouped if grouped.of_type("long") else w.shaped(grouped)


def _reduce(w: Writer) -> Node:
    node = w.shaped()
    keys = [] if w.rng.random() < 0.4 else ["k"]
    form = w.rng.randrange(3)
    function = [
        "lambda key, rows: [(len(rows), sum(n for _, n in rows))]",
        "lambda key, rows: [(r.v, n) for r, n in rows][:2]",
        "lambda key, rows: [((max((r.v or 0) for r, _ in rows), 1), len(key) + 1)]",
    ][form]
    v = node.place("v")
    rest = [i for i in range(len(node.columns)) if node.columns[i][0] not in keys]

    def of_group(key: Row, group: list[tuple[Row, int]]) -> Any:
        rows = sorted(((tuple(r[i] for i in rest), r[v], n) for r, n in group), key=lambda x: M.row_order(x[0]))
        if form == 0:
            return [((*key, len(rows), sum(n for *_, n in rows)), 1)]
        if form == 1:
            return [((*key, x, n), 1) for _, x, n in rows[:2]]
        return [((*key, max((x or 0) for _, x, _ in rows), 1), len(key) + 1)]

    diffs = ", with_diffs=True" if form == 2 else ""
    text = f"{{0}}.group_by({', '.join(map(repr, keys))}).reduce({function}, 'n long, o long'{diffs})"
    columns = (*((k, "long") for k in keys), ("n", "long"), ("o", "long"))
    return Node(text, (node,), columns, M.in_groups([node.place(k) for k in keys], of_group))


def _window(w: Writer) -> Node:
    node = w.shaped()
    per = [] if w.rng.random() < 0.4 else w.keys(node)
    text, terms = _order(w, node)
    name = w.long(node)
    i, order = node.place(name), [t for t, _ in terms]

    def peers(rows: list[Row], at: int) -> int:
        key = [M.order(rows[at][t]) for t in order]
        return next(p for p, row in enumerate(rows) if [M.order(row[t]) for t in order] == key)

    def last(rows: list[Row], at: int) -> int:
        key = [M.order(rows[at][t]) for t in order]
        return max(p for p, row in enumerate(rows) if [M.order(row[t]) for t in order] == key)

    def summed(rows: list[Row]) -> Any:
        return M.total([(r[i], 1) for r in rows if r[i] is not None])

    dense = lambda rows, at: len({tuple(M.order(r[t]) for t in order) for r in rows[: peers(rows, at) + 1]})  # noqa: E731
    calls: list[tuple[str, bool, str, Any]] = [
        ("cast(row_number() {} as bigint)", True, "", lambda _, at: at + 1),
        ("cast(rank() {} as bigint)", True, "", lambda rows, at: peers(rows, at) + 1),
        ("cast(dense_rank() {} as bigint)", True, "", dense),
        (f"lag({name}) {{}}", True, "", lambda rows, at: rows[at - 1][i] if at else None),
        (f"lead({name}, 2, 9L) {{}}", True, "", lambda rows, at: rows[at + 2][i] if at + 2 < len(rows) else 9),
        (f"sum({name}) {{}}", True, "", lambda rows, at: summed(rows[: last(rows, at) + 1])),
        (f"sum({name}) {{}}", True, "rows between 1 preceding and 1 following",
         lambda rows, at: summed(rows[max(at - 1, 0) : at + 2])),
        ("count(*) {}", False, "", lambda rows, _: len(rows)),
        (f"max({name}) {{}}", False, "", lambda rows, _: M.greatest([(r[i], 1) for r in rows if r[i] is not None])),
        (f"first_value({name}) {{}}", True, "", lambda rows, _: rows[0][i]),
        (f"count({name}) {{}}", True, "rows between current row and unbounded following",
         lambda rows, at: sum(r[i] is not None for r in rows[at:])),
    ]  # fmt: skip
    call, ordered, frame, function = w.rng.choice(calls)
    inside = [f"partition by {', '.join(per)}" if per else "", f"order by {text}" if ordered else "", frame]
    over = f"over ({' '.join(part for part in inside if part)})"
    at = M.windows([node.place(n) for n in per], terms if ordered else [], function)
    return Node(f"{{0}}.window(n={call.format(over)!r})", (node,), (*node.columns, ("n", "long")), at)


def _latest(w: Writer) -> Node:
    log = w.rng.choice(w.logs)
    if w.rng.random() < 0.5:
        text, truth = w.predicate(log)
        log = w.linear(log, f"filter({text!r})", lambda row, _: [(row, 1)] if truth(row) else [])
    keys, order = [] if w.rng.random() < 0.2 else ["k"], w.rng.choice([["v"], ["v", log.columns[-1][0]]])
    over = M.latest([log.place(n) for n in keys], [log.place(n) for n in order])
    return Node(f"{{0}}.latest({keys!r}, {order!r})", (log,), log.columns, over=over)


def _asof(w: Writer) -> Node:
    left, right = w.shaped(), w.shaped()
    locked = w.rng.random() < 0.4 and not w.loops and not w.two_times
    on, time = ([], "v") if w.rng.random() < 0.3 else (["k"], "v")
    direction = w.rng.choice(["backward", "forward", "nearest"])
    exact, tolerance = w.rng.random() < 0.7, w.rng.choice([None, None, 1])
    how, before = w.rng.choice(["inner", "left"]), w.rng.random() < 0.5
    places, at = [left.place(n) for n in on], left.place(time)
    kept = [i for i in range(len(w.shape)) if i not in places]
    rule = M.AsOf(places, places, (at, at), direction, exact, tolerance, how == "left", kept)
    options = [
        f"time={time!r}",
        f"mode={'locked' if locked else 'revising'!r}",
        f"direction={direction!r}",
        f"how={how!r}",
    ]
    options += [f"allow_exact_matches={exact}"] * (not exact) + [f"tolerance={tolerance}"] * (tolerance is not None)
    options += ["simultaneous=False"] * (locked and before)
    text = f"{{0}}.asof_join({{1}}, {on!r}, {', '.join(options)})"
    columns = (*left.columns, *((f"`right.{w.shape[i][0]}`", w.shape[i][1]) for i in kept))
    meaning: Any = {"over": M.locked(rule, before)} if locked else {"at": rule.revising}
    joined = Node(text, (left, right), columns, **meaning)
    outputs = [(n, n, _of([i], lambda x: x)) for i, (n, _) in enumerate(w.shape)]
    outputs.append(("n", "`right.v`", _of([joined.place("`right.v`")], lambda x: x)))
    return w.projected(joined, outputs, [*(t for _, t in w.shape), "long"])


def _timed(w: Writer) -> Node:
    """When rows came: beside them, in a test of them, and since when a group has any."""
    node, place = w.shaped(), w.rng.choice(range(3))
    if place == 0:
        columns = (*node.columns, ("n", "long"))
        return Node("{0}.select('*', n='update_time()')", (node,), columns, over=M.timed(lambda rows: rows))
    if place == 1:
        odd = M.timed(lambda rows: Counter(row[:-1] for row in rows.elements() if row[-1] % 2))
        return Node("{0}.filter(an.update_time() % 2 == 1)", (node,), node.columns, over=odd)
    at = node.place("k")

    def first(rows: M.Rows) -> M.Rows:
        groups = M.by_key(rows, [at]).items()
        return Counter((*key, min(row[-1] for row, _ in g), sum(n for _, n in g)) for key, g in groups)

    text = "{0}.group_by('k').agg(v='min(update_time())', n='count(*)')"
    return Node(text, (node,), (("k", "long"), ("v", "long"), ("n", "long")), over=M.timed(first))


def _meets(w: Writer) -> Node:
    left, right, before = w.shaped(), w.shaped(), w.rng.random() < 0.5
    place = left.place("k")
    kept = [i for i in range(len(w.shape)) if i != place]
    joined = M.join([place], [place], "inner", (len(w.shape), len(w.shape)), [place])
    other = "{1}.delay_to_neu()" if before else "{1}"
    columns = (*left.columns, *((f"`right.{w.shape[i][0]}`", w.shape[i][1]) for i in kept))
    text = f"{{0}}.differentiate().join({other}, 'k').integrate()"
    if w.rng.random() < 0.3:
        flag = ", simultaneous=False" if before else ""
        text = f"{{0}}.asof_join({{1}}, 'k', mode='logical'{flag})"
    result = Node(text, (left, right), columns, over=M.meeting(joined, before))
    outputs = [(n, n, _of([i], lambda x: x)) for i, (n, _) in enumerate(w.shape)]
    outputs.append(("n", "`right.v`", _of([result.place("`right.v`")], lambda x: x)))
    return w.projected(result, outputs, [*(t for _, t in w.shape), "long"])


def _there_and_back(w: Writer) -> Node:
    node = w.pick()
    return Node("{0}.differentiate().integrate()", (node,), node.columns, M.add)


def _delay(w: Writer) -> Node:
    node = w.pick()
    by, every = w.rng.choice([(1, None), (2, None), (None, 3)])
    text = f"delay({by})" if by else f"delay(every={every})"
    return Node(f"{{0}}.{text}", (node,), node.columns, over=M.delayed(by, every))


class Variable(Node):
    """A variable of a loop that is being written."""


def _body(w: Writer, variables: Sequence[Node], most: int) -> Node:
    """A body of a loop: some verbs from its variables, made distinct and bounded, so that counts stay small."""
    outside = [n for n in w.pool if n.columns == w.shape and n.may_be_in_loop][-3:]
    kept = w.pool
    w.pool = [*outside, *variables]
    w.loops += 1
    try:
        for _ in range(w.rng.randint(1, most)):
            w.one()
        result = w.shaped(w.pool[-1])
        for _ in range(w.rng.choice([0, 1])):
            result = Node("{0}.concat({1})", (result, w.rng.choice([*outside, *variables])), w.shape, M.add, keeps=True)
    finally:
        w.pool, w.loops = kept, w.loops - 1
    return Node("{0}.distinct()", (result,), w.shape, M.distinct, keeps=True)


def value_of(node: Node, now: int, known: dict[int, Held]) -> Held:
    """What a node is at one time, of what is known of others by their identity."""
    if id(node) not in known:
        inputs = [value_of(i, now, known) for i in node.inputs]
        assert node.at is not None, node.text
        known[id(node)] = M.held(node.at(now, [i.rows for i in inputs]), inputs, node.keeps)
    return known[id(node)]


def _loop(w: Writer) -> Node:
    """A loop of one variable or of two, over so many rounds or until it settles."""
    many = w.rng.choice([1, 1, 2])
    first = [w.shaped() for _ in range(many)]
    level = w.loops
    names = [f"x{level}", f"y{level}"][:many]
    variables = [Variable(name, (), w.shape) for name in names]
    bodies = [_body(w, variables, 3) for _ in range(many)]
    rounds, shown = w.rng.randint(1, 4), w.rng.randrange(many)
    outer = _outer(bodies, variables, w.pool)
    inputs = (*first, *outer)

    def meaning(now: int, rows: Sequence[M.Rows]) -> M.Said:
        said = M.Said()
        around = {id(n): Held(r) for n, r in zip(inputs, rows, strict=True)}
        values = [Held(r) for r in rows[:many]]
        for _ in range(rounds):
            known = {**around, **{id(v): x for v, x in zip(variables, values, strict=True)}}
            values = [value_of(body, now, known) for body in bodies]
            said.unsure |= any(v.codes or v.unsure for v in values)
        said.rows = values[shown].rows
        return said

    places = {id(n): f"{{{many + i}}}" for i, n in enumerate(outer)}
    texts = [_inside(body, places) for body in bodies]
    stop = f"max_rounds={rounds}, on_limit='stop'"
    if many == 1:
        text = f"{{0}}.iterate(lambda {names[0]}: {texts[0]}, {stop})"
    else:
        initial = ", ".join(f"{n}={{{i}}}" for i, n in enumerate(names))
        text = f"an.recursive(lambda {', '.join(names)}: ({', '.join(texts)}), {stop}, {initial})[{shown}]"
    return Node(text, inputs, w.shape, meaning)


def _outer(bodies: Sequence[Node], variables: Sequence[Node], pool: Sequence[Node]) -> list[Node]:
    """What the bodies read from outside."""
    actual: dict[int, Node] = {}
    outside = {id(n) for n in pool}

    def walk(node: Node) -> None:
        if id(node) in outside:
            actual[id(node)] = node
        else:
            for below in node.inputs:
                walk(below)

    for body in bodies:
        walk(body)
    return list(actual.values())


def _inside(node: Node, places: dict[int, str]) -> str:
    """The text of a body, in which what it reads from outside are inputs of the loop."""
    if id(node) in places:
        return places[id(node)]
    if isinstance(node, Variable):
        return node.text
    inner = [_inside(i, places) for i in node.inputs]
    return _with_braces(node.text, inner)


def _with_braces(text: str, inner: list[str]) -> str:
    """``format`` that leaves doubled braces doubled, as what it makes is formatted once more."""
    return text.replace("{{", "{{{{").replace("}}", "}}}}").format(*inner)


def _reach(w: Writer) -> Node:
    """The loop that everybody writes: what can be reached, until nothing changes.

    Of distinct rows: an edge that is there less than not at all may send its end to and fro for ever.
    """
    start, edges = w.shaped(w.pick_for_loop()), w.shaped(w.pick_for_loop())
    k, v = edges.place("k"), edges.place("v")

    def meaning(_: int, inputs: Sequence[M.Rows]) -> M.Said:
        said = M.Said()
        said.unsure = any(n < 0 for rows in inputs for n in rows.values())
        seen = {row[k] for row, n in inputs[0].items() if n > 0}
        pairs = {(row[k], row[v]) for row, n in inputs[1].items() if n > 0 and row[k] is not None}
        todo = list(seen)
        while todo:
            at = todo.pop()
            for a, b in pairs:
                if a == at and b not in seen:
                    seen.add(b)
                    todo.append(b)
        for at in seen:
            said.add((at,), 1)
        return said

    step = "x.join({1}.distinct(), {{'n': 'k'}}).select(n='v').concat({0}.distinct().select(n='k')).distinct()"
    text = f"{{0}}.distinct().select(n='k').distinct().iterate(lambda x: {step})"
    return Node(text, (start, edges), (("n", "long"),), meaning)


VERBS: dict[str, Callable[[Writer], Node]] = {
    "select": _select,
    "filter": _filter,
    "now filter": _now_filter,
    "temporal": _temporal,
    "windows": _windows,
    "sessions": _sessions,
    "map": _functions("map"),
    "flat_map": _functions("flat_map"),
    "explode": _functions("explode"),
    "join_function": _functions("join_function"),
    "triples": _triples,
    "series": _series,
    "unnest": _unnest,
    "json": _json,
    "repeat": _repeat,
    "negate": _negate,
    "minus": _minus,
    "concat": _concat,
    "concat again": _concat,
    "join": _join,
    "join again": _join,
    "having": _having,
    "having again": _having,
    "pattern": _pattern,
    "distinct": _no_key("distinct()", M.distinct, True),
    "threshold": _no_key("threshold(lambda n: min(max(n, 0), 2))", M.threshold(lambda n: min(max(n, 0), 2)), True),
    "arranged": _arranged,
    "count": _count,
    "top": _top,
    "top again": _top,
    "agg": _agg,
    "agg again": _agg,
    "reduce": _reduce,
    "window": _window,
    "window again": _window,
    "latest": _latest,
    "asof": _asof,
    "timed": _timed,
    "meets": _meets,
    "there and back": _there_and_back,
    "delay": _delay,
    "loop": _loop,
    "reach": _reach,
}
NOT_IN_LOOPS = {
    "latest",
    "timed",
    "meets",
    "there and back",
    "delay",
    "now filter",
    "temporal",
    "windows",
    "sessions",
    "join_function",
    "triples",
}
NOT_IN_TWO = {"latest", "timed", "meets", "there and back", "delay"}
