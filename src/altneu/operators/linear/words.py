"""Logic of whole numbers as a program: one call of a kernel evaluates all of it on a few rows.

Expressions are evaluated node by node, each a few microseconds of Python however few the rows are. Where a logic only
compares and calculates whole numbers, its expressions are therefore translated, once for a logic and a schema, into
lines of a program that a kernel interprets: a line for each node, whose registers are words. The kernel tells no errors
and knows no nulls: where a column has a null, or a row that was not rejected would fail, the logic is evaluated as any
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu import types as T
from altneu.columnar.few import load_word
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.expressions.coercion import INTEGRAL
from altneu.expressions.expr import Call, Column, Expr, Literal
from altneu.expressions.registry import FUNCTIONS
from altneu.linear import BoundLogic, Extend, Filter, Project
from altneu.trace.update import Updates

MOST_ROWS = 1024  # of more, nodes are as quick one by one
_NO_INPUTS = np.empty((0, 2), np.int64)
_WORDS = frozenset(t.id for t in (*INTEGRAL, T.DATE, T.TIMESTAMP))
_LOAD, _CONSTANT, _FILTER, _PLUS, _MINUS, _TIMES, _REMAINDER, _QUOTIENT = range(8)
_EQUAL, _LESS, _AND, _OR, _NOT, _LEAST, _GREATEST = range(8, 15)
_ARITHMETIC = {"+": _PLUS, "-": _MINUS, "*": _TIMES, "%": _REMAINDER, "div": _QUOTIENT}
_COMPARED = {"=": _EQUAL, "<=>": _EQUAL, "<": _LESS}
_TRUTHS = {"and": _AND, "or": _OR}
_EXTREMES = {"least": _LEAST, "greatest": _GREATEST}
_NEGATED = {"!=": "=", "<=": ">", ">=": "<"}


@dataclass(frozen=True)
class Program:
    """What the kernel interprets.

    Shape:  ``code`` (lines, 5): what to do, the register that it fills, two registers or a word, and how many bits the
            result may have. ``inputs`` are the columns that are loaded, with their bytes; ``made`` the registers that
            come out, with ``types``. ``outputs`` are the columns of ``schema``: an input column, or one that is made.
            It holds where the columns ``filled`` have no nulls.
    """

    schema: pa.Schema
    code: Ints
    registers: int
    inputs: tuple[tuple[str, int], ...]
    made: Ints
    types: tuple[npt.DTypeLike, ...]
    outputs: tuple[str | int, ...]
    filled: tuple[str, ...]


def program_of(logic: BoundLogic, schema: pa.Schema) -> Program | None:
    """The program of a logic over the columns of a schema; None where more than whole numbers is computed."""
    known, program = logic.program[0]
    if known is not schema:
        program = _translated(logic, schema)
        logic.program[0] = schema, program
    return program  # type: ignore[return-value]  # which nobody else puts there


def run_program(logic: BoundLogic, updates: Updates) -> Updates | None:
    """What a logic makes of at most ``MOST_ROWS`` updates; None if it has no program, or that does not tell.

    Law:    what ``run_logic`` makes of them otherwise, without errors (tests/operators/test_words.py).
    """
    rows = updates.rows
    program = program_of(logic, rows.schema)
    if program is None:
        return None
    columns: list[pa.Array] = []  # which own the memory
    lines: list[tuple[int, int]] = []
    for name, width in program.inputs:
        column = rows.column(name)
        if column.null_count:
            return None
        columns += (column,)
        lines += ((column.buffers()[1].address + width * column.offset, width),)
    for name in program.filled:
        if rows.column(name).null_count:
            return None
    if not program.code.size:  # where columns have no nulls, it only chooses among them
        some = tuple([rows.column(str(output)) for output in program.outputs])
        return Updates(Rows(program.schema, some, rows.count), updates.times, updates.diffs)
    inputs = np.array(lines, np.int64) if lines else _NO_INPUTS
    found, left = _run(program.code, program.registers, inputs, rows.count, program.made)
    if not found:
        return None
    index, made, count = left[0], left[1:], left.shape[1]
    if not count:
        return Updates.empty(program.schema, updates.times.shape[0])
    if count < rows.count:
        updates = updates.take(index)
        rows = updates.rows
    results = [
        rows.column(output) if isinstance(output, str) else _column(made[output], program.types[output], schema_type)
        for output, schema_type in zip(program.outputs, program.schema.types, strict=True)
    ]
    return Updates(Rows(program.schema, tuple(results), count), updates.times, updates.diffs)


def _column(words: Ints, width: npt.DTypeLike, data_type: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(data_type, words.size, [None, pa.py_buffer(words.astype(width))], 0)


class _NotWords(Exception):  # noqa: N818 -- a signal while a logic is translated, not an error
    """An expression computes something other than whole numbers."""


@dataclass
class _Translation:
    """Lines as they are written; ``inputs`` by column of the input."""

    schema: pa.Schema
    lines: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    registers: int = 0
    inputs: dict[str, tuple[int, int]] = field(default_factory=dict)  # the number of the input, its bytes
    loaded: dict[str, int] = field(default_factory=dict)
    filled: dict[str, None] = field(default_factory=dict)

    def put(self, what: int, first: int, second: int = 0, bits: int = 64) -> int:
        """Write a line; the register that it fills."""
        self.lines.append((what, self.registers, first, second, bits))
        self.registers += 1
        return self.registers - 1

    def load(self, name: str) -> int:
        """The register of a column of the input."""
        if name not in self.loaded:
            place = self.schema.get_field_index(name)
            if place < 0 or self.schema.types[place].id not in _WORDS:
                raise _NotWords
            self.inputs[name] = len(self.inputs), self.schema.types[place].bit_width // 8
            self.loaded[name] = self.put(_LOAD, self.inputs[name][0])
        return self.loaded[name]

    def where_filled(self, expression: Expr, columns: dict[str, str | int]) -> Expr:
        """What is left of an expression where columns of the input have no nulls, which are ``filled`` from then on."""
        if isinstance(expression, Call) and expression.name == "case" and len(expression.args) == 2:
            condition, value = expression.args
            if isinstance(condition, Call) and condition.name == "isnotnull" and condition.args[0].is_column:
                name = columns[condition.args[0].column_name]
                if isinstance(name, str):
                    self.filled[name] = None
                    return self.where_filled(value, columns)
        return expression

    def computed(self, expression: Expr, columns: dict[str, str | int]) -> int:
        """The register of an expression's values; ``columns`` are of the input, or registers, and may be read."""
        if isinstance(expression, Column):
            found = columns.get(expression.name)
            if found is None:
                raise _NotWords
            return self.load(found) if isinstance(found, str) else found
        if isinstance(expression, Literal):
            value = expression.value
            if value is None or not (expression.type.id in _WORDS or expression.type == T.BOOLEAN):
                raise _NotWords
            return self.put(_CONSTANT, int(value))
        if not isinstance(expression, Call):
            raise _NotWords
        return self._called(expression, columns)

    def _called(self, call: Call, columns: dict[str, str | int]) -> int:
        name, args = call.name, call.args
        if FUNCTIONS.get(name) is not call.function:  # but one of a user's, of whatever name
            raise _NotWords
        if call.type in INTEGRAL and all(a.type in INTEGRAL for a in args):
            if name in _ARITHMETIC:
                return self._of_two(_ARITHMETIC[name], args, columns, call.type.bit_width)
            if name == "negative":
                return self.put(_MINUS, self.put(_CONSTANT, 0), self.computed(args[0], columns), call.type.bit_width)
            if name == "cast" and len(args) == 1 and args[0].type.bit_width <= call.type.bit_width:
                return self.computed(args[0], columns)
        if name in _EXTREMES and all(a.type == call.type and a.type.id in _WORDS for a in args):
            first, *others = [self.computed(a, columns) for a in args]
            for other in others:
                first = self.put(_EXTREMES[name], first, other)
            return first
        if name in ("isnull", "isnotnull") and args[0].type.id in _WORDS:
            self.computed(args[0], columns)  # a column that has a null is not evaluated so
            return self.put(_CONSTANT, int(name == "isnotnull"))
        if call.type == T.BOOLEAN and all(a.type.id in _WORDS for a in args):
            if name in _NEGATED:
                return self.put(_NOT, self._compared(_NEGATED[name], args, columns))
            return self._compared(name, args, columns)
        if call.type == T.BOOLEAN and all(a.type == T.BOOLEAN and not a.is_column for a in args):
            if name in _TRUTHS:
                return self._of_two(_TRUTHS[name], args, columns)
            if name == "not":
                return self.put(_NOT, self.computed(args[0], columns))
        raise _NotWords

    def _compared(self, name: str, args: Sequence[Expr], columns: dict[str, str | int]) -> int:
        if name == ">":
            name, args = "<", args[::-1]
        if name not in _COMPARED or args[0].type != args[1].type:
            raise _NotWords
        return self._of_two(_COMPARED[name], args, columns)

    def _of_two(self, what: int, args: Sequence[Expr], columns: dict[str, str | int], bits: int = 64) -> int:
        first, second = (self.computed(a, columns) for a in args)
        return self.put(what, first, second, bits)


def _translated(logic: BoundLogic, schema: pa.Schema) -> Program | None:
    work, columns = _Translation(schema), {name: name for name in schema.names}
    known: dict[str, str | int] = dict(columns)
    try:
        for step in logic.steps:
            if isinstance(step, Filter):
                work.lines.append((_FILTER, 0, work.computed(step.predicate, known), 0, 64))
                continue
            assert isinstance(step, Extend | Project)
            made: dict[str, str | int] = {}
            for name, written in step.outputs:
                expression = work.where_filled(written, known)
                if expression.is_column:
                    made[name] = known[expression.column_name]
                elif expression.type.id in _WORDS:
                    made[name] = work.computed(expression, known)
                else:
                    return None
            known = {**known, **made} if isinstance(step, Extend) else made
    except (_NotWords, KeyError):
        return None
    if not work.lines and not work.filled:
        return None  # columns are chosen, which takes no program
    output = logic.output(schema)
    registers: list[int] = []
    outputs: list[str | int] = []
    for name in output.names:
        found = known[name]
        if isinstance(found, int):
            registers.append(found)
            found = len(registers) - 1
        outputs.append(found)
    types = [np.dtype(f"i{f.type.bit_width // 8}") for f in output if not isinstance(known[f.name], str)]
    return Program(
        output,
        np.array(work.lines, np.int64),
        max(work.registers, 1),
        tuple((name, width) for name, (_, width) in work.inputs.items()),
        np.array(registers, np.int64),
        tuple(types),
        tuple(outputs),
        tuple(work.filled),
    )


@compiled(nogil=True)
def _run(code: Ints, registers: int, inputs: Ints, count: int, made: Ints) -> tuple[bool, Ints]:
    """Whether no row failed that was not rejected; lines: which rows are left, and of these the registers made."""
    words, alive = np.empty((registers, count), np.int64), np.ones(count, np.bool_)
    for line in range(len(code)):
        what, to, a, b, bits = code[line]
        for i in range(count):
            if what == _FILTER:
                alive[i] &= words[a, i] != 0
            elif what == _LOAD:
                words[to, i] = load_word(inputs[a, 0], inputs[a, 1], i)
            elif what == _CONSTANT:
                words[to, i] = a
            elif what <= _QUOTIENT:
                words[to, i], fits = _calculated(what, words[a, i], words[b, i])
                if alive[i] and not (fits and (bits == 64 or words[to, i] >> (bits - 1) in (0, -1))):
                    return False, words[:0].copy()
            else:
                words[to, i] = _combined(what, words[a, i], words[b, i])
    result = np.empty((1 + len(made), np.count_nonzero(alive)), np.int64)
    k = 0
    for i in range(count):
        if alive[i]:
            result[0, k] = i
            for m in range(len(made)):
                result[1 + m, k] = words[made[m], i]
            k += 1
    return True, result


@compiled(inline="always")
def _combined(what: int, x: int, y: int) -> int:
    """A comparison, what truths come to, or the lesser or greater of two: what every row has."""
    if what == _EQUAL:
        return x == y
    if what == _LESS:
        return x < y
    if what == _NOT:
        return 1 - x
    return min(x, y) if what in (_AND, _LEAST) else max(x, y)


@compiled()
def _calculated(what: int, x: int, y: int) -> tuple[int, bool]:
    """A sum, a difference, a product, a remainder or a quotient, as SQL has them; whether there is one in 64 bits."""
    if what == _PLUS:
        result = x + y
        return result, ((x ^ result) & (y ^ result)) >= 0
    if what == _MINUS:
        result = x - y
        return result, ((x ^ y) & (x ^ result)) >= 0
    if what == _TIMES:
        result = x * y
        return result, abs(float(x) * float(y)) < 2.0**62
    if y == 0:
        return 0, False
    if y == -1:
        return (0, True) if what == _REMAINDER else (-x, x != np.iinfo(np.int64).min)
    quotient, remainder = x // y, x % y
    if remainder != 0 and (x ^ y) < 0:  # they are rounded towards zero
        quotient, remainder = quotient + 1, remainder - y
    return (remainder if what == _REMAINDER else quotient), True
