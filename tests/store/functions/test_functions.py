"""A view is taken up again when its functions read what they read before, and refused when they do not."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest

import altneu as an
from altneu.errors import PlanError, StorePlanError
from altneu.linear import Function
from altneu.linear.reads import MOST_VALUES, Reads
from tests.store.functions import make

CHANGES = {
    "captured variable": ("def make():\n c = {0}\n return lambda r: r.k + c\nf = make()", "captured variable c"),
    "default": ("def f(r, c={0}): return r.k + c", "default of c"),
    "keyword default": ("def f(r, *, c={0}): return r.k + c", "default of c"),
    "constant": ("def f(r): return r.k + {0}", "its code"),
    "nested lambda": ("def f(r): return (lambda x: x + {0})(r.k)", "its code"),
    "global": ("C = {0}\ndef f(r): return r.k + C", "global C"),
    "nested global": ("C = {0}\ndef f(r): return [x + C for x in [r.k]][0]", "global C"),
    "global table": ("D = dict(c={0})\ndef f(r): return r.k + D['c']", "global D"),
    "order of a table": (
        "D = dict(a=1, b=2) if {0} == 1 else dict(b=2, a=1)\ndef f(r): return next(iter(D))",
        "global D",
    ),
    "helper": ("def h(x): return x + {0}\ndef f(r): return h(r.k)", "global h"),
    "helper of a helper": (
        "def g(x): return x + {0}\ndef h(x): return g(x)\ndef f(r): return h(r.k)",
        "global h: global g",
    ),
    "recursive helper": ("def h(x): return x if x > 5 else h(x + {0})\ndef f(r): return h(r.k)", "global h"),
    "partial": ("import functools\ndef g(c, r): return r.k + c\nf = functools.partial(g, {0})", "argument 0"),
    "function of a partial": (
        "import functools\ndef g(c, r): return r.k + {0}\nf = functools.partial(g, 3)",
        "function of the partial",
    ),
    "attribute of an object": (
        "class F:\n def __init__(s, c): s.c = c\n def __call__(s, r): return r.k + s.c\nf = F({0})",
        "attribute c of class F",
    ),
    "slot": (
        "class F:\n __slots__ = 'c'\n def __init__(s, c): s.c = c\n def __call__(s, r): return r.k + s.c\nf = F({0})",
        "attribute c of class F",
    ),
    "code of an object": ("class F:\n def __call__(s, r): return r.k + {0}\nf = F()", "__call__ of class F"),
    "code of a base": (
        "class B:\n def m(s): return {0}\nclass F(B):\n def __call__(s, r): return s.m()\nf = F()",
        "m of class B",
    ),
    "bound method": (
        "class F:\n def __init__(s, c): s.c = c\n def m(s, r): return r.k + s.c\nf = F({0}).m",
        "attribute c of class F",
    ),
    "method of a global": (
        "class F:\n def m(s, x): return x + {0}\nO = F()\ndef f(r): return O.m(r.k)",
        "m of class F",
    ),
    "class attribute": ("class F:\n c = {0}\ndef f(r): return r.k + F.c", "c of class F"),
    "static method": ("class F:\n @staticmethod\n def m(x): return x + {0}\ndef f(r): return F.m(r.k)", "m of class F"),
    "property": ("class F:\n @property\n def c(s): return {0}\nO = F()\ndef f(r): return O.c", "c of class F"),
    "wrapped": (
        "import functools\ndef deco(g): return functools.wraps(g)(lambda r: g(r))\n@deco\ndef f(r): return r.k + {0}",
        "captured variable g",
    ),
    "cached": ("import functools\n@functools.lru_cache\ndef h(x): return x + {0}\ndef f(r): return h(r.k)", "global h"),
    "dispatched": (
        "import functools\nh = functools.singledispatch(len)\nh.register(int, lambda x: {0})\ndef f(r): return h(r.k)",
        "registry",
    ),
    "enum": ("import enum\nclass E(enum.Enum):\n A = {0}\ndef f(r): return r.k + E.A.value", "global E"),
    "enum in a set": (
        "import enum\nclass E(enum.Enum):\n A = 1\n B = 2\nS = {{E.A, E({0})}}\ndef f(r): return len(S)",
        "global S",
    ),
    "dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass D:\n c: int\nO = D({0})\ndef f(r): return r.k + O.c",
        "attribute c of class D",
    ),
    "array": (
        "import numpy as np\nX = np.arange(100_000)\nX[50_000] = {0}\ndef f(r): return int(X[50_000])",
        "global X",
    ),
    "arrow": ("import pyarrow as pa\nX = pa.array([*range(99), {0}])\ndef f(r): return X[99].as_py()", "global X"),
    "pattern": ("import re\nP = re.compile('a' * {0})\ndef f(r): return len(P.pattern)", "global P"),
    "date": ("import datetime\nX = datetime.date(2020, 1, {0})\ndef f(r): return X.day", "global X"),
    "sign of zero": ("import math\nC = 0.0 * (1.5 - {0})\ndef f(r): return int(math.copysign(1, C))", "global C"),
    "one and true": ("C = 1 if {0} == 1 else True\ndef f(r): return len(str(C))", "global C"),
    "one and one point zero": ("C = [1 if {0} == 1 else 1.0]\ndef f(r): return len(str(C))", "global C"),
    "global that was none": ("{1}C = 5\ndef f(r): return r.k + C", "global C"),
}


def function(text: str, value: int):
    """The function f of a program in which a value stands at some place."""
    text = text.replace("{{", "{").replace("}}", "}").replace("{0}", str(value))
    names = {"__name__": "a_job"}
    code = compile(text.replace("{1}", "" if value == 1 else "# "), "job.py", "exec", dont_inherit=True)
    exec(code, names)  # noqa: S102
    return names["f"]


@pytest.fixture(scope="module")
def a():
    return an.source("a", "k long", keep=True)


def stored(path, plan):
    with an.Session(path=path) as session:
        session.maintain("v", plan)
        session.insert("a", [(1,)])
        session.advance()


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_what_a_function_reads_is_reported(change, a, tmp_path):
    text, part = CHANGES[change]
    stored(tmp_path, a.map(function(text, 1), "x long"))
    with an.Session(path=tmp_path) as session:
        before = session.maintain("v", a.map(function(text, 1), "x long")).to_pylist(errors="ignore")
    with an.Session(path=tmp_path) as session:
        with pytest.raises(StorePlanError, match="trust_functions=True") as refused:
            session.maintain("v", a.map(function(text, 2), "x long"))
        assert part in str(refused.value)
        assert session.maintain("v", a.map(function(text, 1), "x long")).to_pylist(errors="ignore") == before


@pytest.mark.parametrize("change", CHANGES)
def test_two_functions_that_read_different_things_share_nothing(change, a):
    text, _ = CHANGES[change]
    with an.Session() as session:
        one, two = (session.maintain(f"v{n}", a.map(function(text, n), "x string")) for n in (1, 2))
        session.insert("a", [(1,)])
        session.advance()
        session.retract("a", [(1,)])
        session.advance()
        assert (one.to_pylist(), two.to_pylist()) == ([], [])
    assert a.map(function(text, 1), "x long").node.fingerprint != a.map(function(text, 2), "x long").node.fingerprint


def test_functions_that_are_trusted_are_taken_up_and_recorded_anew(a, tmp_path):
    text, _ = CHANGES["helper"]
    stored(tmp_path, a.map(function(text, 1), "x long"))
    with an.Session(path=tmp_path) as session:
        view = session.maintain("v", a.map(function(text, 2), "x long"), trust_functions=True)
        session.insert("a", [(5,)])
        session.advance()
        assert sorted(view.to_pylist()) == [(2,), (7,)]
    with an.Session(path=tmp_path) as session:
        with pytest.raises(StorePlanError, match="global h"):
            session.maintain("v", a.map(function(text, 1), "x long"))
        assert sorted(session.maintain("v", a.map(function(text, 2), "x long")).to_pylist()) == [(2,), (7,)]


def test_a_version_stands_for_what_a_function_reads(a, tmp_path):
    text, _ = CHANGES["global"]
    stored(tmp_path, a.map(function(text, 1), "x long", version="1"))
    with an.Session(path=tmp_path) as session:
        session.maintain("v", a.map(function(text, 2), "x long", version="1"))
    with an.Session(path=tmp_path) as session:
        with pytest.raises(StorePlanError, match="f: it had version 1 and has version 2"):
            session.maintain("v", a.map(function(text, 2), "x long", version=2))
        with pytest.raises(StorePlanError, match="f: it had version 1 and has none"):
            session.maintain("v", a.map(function(text, 2), "x long"))


def test_a_function_that_has_not_changed_may_be_given_a_version(a, tmp_path):
    text, _ = CHANGES["global"]
    stored(tmp_path, a.map(function(text, 1), "x long"))
    with an.Session(path=tmp_path) as session:
        with pytest.raises(StorePlanError, match="global C"):
            session.maintain("v", a.map(function(text, 2), "x long", version=1))
        session.maintain("v", a.map(function(text, 1), "x long", version=1))
        session.advance()
    with an.Session(path=tmp_path) as session:  # from now on the version is what counts
        session.maintain("v", a.map(function(text, 2), "x long", version=1))


def test_another_query_is_reported_as_another_query(a, tmp_path):
    text, _ = CHANGES["global"]
    stored(tmp_path, a.map(function(text, 1), "x long"))
    with an.Session(path=tmp_path) as session, pytest.raises(StorePlanError, match="another plan"):
        session.maintain("v", a.map(function(text, 2), "x long").distinct(), trust_functions=True)


def test_another_python_is_reported(a, tmp_path, monkeypatch):
    text, _ = CHANGES["constant"]
    with monkeypatch.context() as earlier:
        earlier.setattr("altneu.plan.functions.running_python", lambda: "3.8")
        stored(tmp_path, a.map(function(text, 1), "x long"))
    with an.Session(path=tmp_path) as session:
        with pytest.raises(StorePlanError, match=r"f was compiled by Python 3\.8"):
            session.maintain("v", a.map(function(text, 2), "x long"))
        session.maintain("v", a.map(function(text, 2), "x long"), trust_functions=True)


def test_every_verb_with_a_function_compares_it(a, tmp_path):
    def plans(n):
        one = function("C = {0}\ndef f(*a): return C", n)
        return {
            "filter": a.filter(one),
            "map": a.map(one, "x long"),
            "flat_map": a.flat_map(one, "x long"),
            "explode": a.explode(one, "x long"),
            "join_function": a.join_function(one, "x long"),
            "delay": a.delay(one),
            "reduce": a.group_by("k").reduce(one, "x long"),
            "threshold": a.threshold(one),
            "inspect": a.inspect(one),
        }

    with an.Session(path=tmp_path) as session:
        for name, plan in plans(1).items():
            session.maintain(name, plan)
    with an.Session(path=tmp_path) as session:
        for name, plan in plans(2).items():
            with pytest.raises(StorePlanError, match=f"view '{name}'.*f: global C"):
                session.maintain(name, plan)
        for name, plan in plans(1).items():
            session.maintain(name, plan)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the store knows functions by the code of Python 3.11")
def test_a_store_of_before_is_taken_up_and_compared_from_then_on(tmp_path, monkeypatch):
    path = tmp_path / "store"
    shutil.copytree(make.HERE, path)
    answers = {}
    for _ in range(2):  # as it was, then as it is recorded now
        with an.Session(path=path) as session:
            for name, plan in make.views().items():
                session.maintain(name, plan)
            session.retract("a", [session.lower])
            session.advance()
            answers = {name: sorted(session.view(name).to_pylist()) for name in session.views}
    mapped = ("nothing", "captured", "standard", "global", "table", "helper", "object", "method", "partial")
    others = {"builtin": [(1,)], "filter": [(3,)], "threshold": [(3,)], "reduce": [(1, 4)], "delay": [(2,), (3,)]}
    assert answers == {name: [(4,)] for name in mapped} | others
    monkeypatch.setattr(make, "ADDED", 2)
    with an.Session(path=path) as session:
        for name, plan in make.views().items():
            if name in ("global", "helper", "filter", "threshold", "reduce", "delay"):
                with pytest.raises(StorePlanError, match="global ADDED"):
                    session.maintain(name, plan)
            else:
                session.maintain(name, plan)


PROGRAM = """
import collections, dataclasses, datetime, decimal, enum, functools, logging, math, re, sys
import numpy as np, pyarrow as pa
from altneu.linear import Function

LOG = logging.getLogger("a.job")

class Colour(enum.Enum):
    RED = 1
    BLUE = "x"
    def table(self):
        return TABLE

@dataclasses.dataclass
class Point:
    x: int = 3
    y: list = dataclasses.field(default_factory=list)

Pair = collections.namedtuple("Pair", "a b")
TABLE = {
    "sets": [1, {3, "a", "b", "c", "d"}, {Colour.RED, Colour.BLUE, Point, Pair}, {("a", frozenset("xyz"))}],
    "array": np.arange(10_000), "arrow": pa.table({"x": [1]}), "pattern": re.compile("a+"), "point": Point(1, [2]),
    "values": [datetime.datetime(2020, 1, 1), decimal.Decimal("1.0"), Pair(1, 2), collections.Counter("aab"), 10**5000],
    "weak": __import__("weakref").WeakValueDictionary(), "lock": __import__("threading").Lock(), "object": object(),
}
TABLE["itself"] = TABLE

class Node:
    def __init__(self, before):
        self.before, self.me = before, self
    @functools.cached_property
    def size(self):
        return len(TABLE)
    def __call__(self, row):
        return self.size

chain = None
for _ in range(500):
    chain = Node(chain)

@functools.lru_cache
def helper(x):
    return x + len(TABLE)

def f(row):
    LOG.info("seen")
    return helper(row.k) + np.abs(row.k) + math.floor(row.k) + Colour.RED.table() + chain.size

def fold(x, f=f, *, g=Node.__call__):
    try:
        return f(x) + g(x)
    except (ValueError, KeyError):
        return {"a", "b", "c"}

print([Function.of(one).digest for one in (f, chain, chain.__call__, functools.partial(f, 3), fold, Colour, str.lower)])
"""


def test_what_is_read_is_the_same_in_every_process_and_ends(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    places = {"PYTHONPATH": str(Path(an.__file__).parents[1])}
    running = [
        subprocess.Popen(
            [sys.executable, program],
            env={**os.environ, **places, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            text=True,
        )
        for seed in ("1", "2")
    ]
    printed = {one.communicate()[0] for one in running}
    assert len(printed) == 1
    assert printed.pop().count("', '") == 6


def looked_at(value) -> int:
    budget = [MOST_VALUES]
    Reads(budget).follow(lambda _: value)
    return MOST_VALUES - budget[0]


def test_every_value_is_looked_at_once():
    def doubled(depth):
        result = [1]
        for _ in range(depth):
            result = [result, result]
        return result

    assert looked_at(doubled(2_000)) < 25 * 2_000 + 100  # and not 2 to the power of that
    assert looked_at([[n] for n in range(3_000)]) < 1.1 * 100 * looked_at([[n] for n in range(30)])
    assert looked_at(np.arange(1_000_000)) < 100


def test_a_function_that_reads_too_much_wants_a_version():
    table = dict.fromkeys(range(MOST_VALUES))
    with pytest.raises(PlanError, match=r"reads more than 2,000,000 values \(captured variable table\).*version="):
        Function.of(lambda row: table[row.k])
    assert Function.of(lambda row: table[row.k], version=1).parts == {"version": "1"}


def test_functions_that_are_used_stay_the_same(a):
    names = {"__name__": "a_job"}
    code = """
import functools
class F:
    @functools.cached_property
    def c(self): return 1
O = F()
@functools.lru_cache
def h(x): return x
def f(r): return h(r) + O.c
"""
    exec(compile(code, "job.py", "exec", dont_inherit=True), names)  # noqa: S102
    before = Function.of(names["f"]).digest
    assert names["f"](3) == 4
    assert Function.of(names["f"]).digest == before


def refusing():
    class Meta(type):
        def __getattr__(cls, name):
            raise RuntimeError(name)

    class Refusing(metaclass=Meta):
        def __getstate__(self):
            raise RuntimeError("no")

        def __call__(self, row):
            return row.k

    return Refusing()


def nested(depth):
    result = frozenset()
    for _ in range(depth):
        result = frozenset([result, "x", object])
    return result


UNREAD = {
    "refusing": refusing,
    "mock": Mock,
    "magic mock": MagicMock,
    "sets": lambda: nested(300),
    "connection": lambda: sqlite3.connect(":memory:"),
    "session": an.Session,
    "iterator": lambda: iter([1]),
}


@pytest.mark.parametrize("name", UNREAD)
def test_objects_that_will_not_be_looked_at_stop_nothing(name):
    value = UNREAD[name]()

    def f(row):
        return value, row

    assert len({Function.of(f).digest for _ in range(2)}) == 1
    assert not callable(value) or len({Function.of(value).digest for _ in range(2)}) == 1


def test_an_object_says_by_getstate_what_of_it_counts():
    class Counting:
        def __init__(self, c):
            self.c, self.calls = c, 0

        def __getstate__(self):
            return self.c

        def __call__(self, row):
            self.calls += 1
            return row.k + self.c

    one = Counting(1)
    before = Function.of(one).digest
    one.calls = 5
    assert Function.of(one).digest == before != Function.of(Counting(2)).digest


@pytest.mark.parametrize("version", ["", True, 1.5, ("a",)])
def test_a_version_is_a_text_or_a_whole_number(a, version):
    with pytest.raises(PlanError, match="version must be a text or a whole number, got"):
        a.map(lambda r: r, "k long", version=version)


def test_a_version_without_a_function_is_refused(a):
    for refused in (
        lambda: a.filter("k > 0", version=1),
        lambda: a.explode("array(k)", version=1),
        lambda: a.join_function([({"y": "k"}, None, 1)], version=1),
        lambda: a.delay(3, version=1),
    ):
        with pytest.raises(PlanError, match="version is for a Python function"):
            refused()
