"""Sources with a key: commands become changes of the rows that are there.

A command inserts or deletes a row, gives a key one row in the place of all it has, or deletes a key. Those of one key
are obeyed in the order of their times and, at one time, in the order in which they were given. What is kept is the rows
that are there, each once; a command leaves nothing else behind, so that a key that was deleted takes no room.

A key that has several rows is in conflict: each of them is an error until the key has one row or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.errors import ERROR_SCHEMA
from altneu.operators.kernels.grouping import group_rows
from altneu.operators.kernels.groups import no_errors, require_total, show_key, touched
from altneu.operators.kernels.spans import show_row
from altneu.trace.batch import Arranged, Batch, Description, Layout, find_in
from altneu.trace.update import Updates

COMMANDS = ("insert", "delete", "insert_or_update", "delete_key")
INSERT, DELETE, INSERT_OR_UPDATE, DELETE_KEY = range(4)
KIND, CALL, ROW = "#command", "#call", "#row"
DUPLICATE_KEY = "DUPLICATE_KEY"


def command_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of commands: the row, the kind, the call that gave the command, and its place in that call.

    A command that deletes a key has only the key of a row.
    """
    fields = (KIND, pa.int8()), (CALL, pa.int64()), (ROW, pa.int64())
    return pa.schema([*(f.with_nullable(True) for f in schema), *(pa.field(n, t, nullable=False) for n, t in fields)])


def changed(commands: Updates, old: Sequence[Batch], layout: Layout, description: Description) -> Batch:
    """The changes that commands make to the rows that are there.

    Shape:  updates of ``command_schema`` in, their diffs without meaning; ``old`` what this function gave before. At
            each time at which a row comes +1, and -1 where one goes.
    Cost:   one lookup of the keys that have commands; O(d log d + what these keys have) for d commands. No exchange, no
            state beside the arrangement.
    Law:    at every time what is there is what the commands up to then make of a dictionary of sets of rows, however
            they are cut into steps (tests/operators/test_keyed.py).
    """
    if not len(commands):
        return Batch.empty(layout, description)
    rows, times = commands.rows, commands.times[0]
    keys = Rows(layout.key_schema, rows.select(layout.key).columns, rows.count)
    values = Rows(layout.value_schema, rows.select(layout.value_schema.names).columns, rows.count)
    group, first = group_rows(keys, np.zeros((0, rows.count), np.int64))
    distinct = keys.take(first)
    there = [batch for batch in old if len(batch)]
    known, home, diffs = Rows.empty(layout.value_schema), np.empty(0, np.int64), np.empty(0, np.int64)
    if there:
        matches = find_in(there, hash_rows(distinct), distinct)
        known, home, diffs = matches.values, matches.probe, matches.diffs
    order = np.lexsort((_ints(rows, ROW), _ints(rows, CALL), times, group))
    numbered = _Numbered.of(known, home, diffs, values, group)
    (at, which, sign), _ = numbered.swept(group[order], times[order], _ints(rows, KIND)[order], order, len(first))
    moment = order[at]
    result = layout.join(distinct.take(group[moment]), numbered.values.take(numbered.first[which]))
    return Batch.build(Updates(result, times[moment].reshape(1, -1), sign), layout, description)


def conflicts(arranged: Arranged, operator: str) -> Updates:
    """The changes to the errors of keys that have several rows: each of these rows is one.

    Shape:  an arrangement by key in, whose rows are there once or not at all; rows of ``ERROR_SCHEMA`` out.
    Cost:   one lookup of the keys that change. No exchange, no state beside the arrangement.
    Law:    at every time the rows of all keys that have more than one (tests/operators/test_keyed.py).

    Raises:
        PlanError: the times are not totally ordered.
    """
    require_total(arranged, operator)
    if not len(arranged.new):
        return no_errors(1)
    groups = touched(arranged)
    home = np.repeat(np.arange(len(groups)), np.diff(groups.old_start))
    numbered = _Numbered.of(groups.old_values, home, groups.old_diffs, groups.new_values, groups.new_group)
    kind = np.where(groups.new_diffs > 0, INSERT, DELETE)
    order = np.lexsort((-kind, groups.new_times, groups.new_group))  # what goes at a time goes first
    group, times = groups.new_group[order], groups.new_times[order]
    _, (at, which, sign) = numbered.swept(group, times, kind[order], order, len(groups))
    if not len(at):
        return no_errors(1)
    keys = groups.keys.take(group[at])
    rows = groups.layout.join(keys, numbered.values.take(numbered.first[which]))
    names = groups.keys.schema.names
    texts: dict[str, Sequence[object]] = {
        "operator": [operator] * len(at),
        "code": [DUPLICATE_KEY] * len(at),
        "message": [_message(show_key(names, key)) for key in keys.to_pylist()],
        "row": [show_row(rows.schema.names, row) for row in rows.to_pylist()],
    }
    return Updates(Rows.from_pydict(texts, ERROR_SCHEMA), times[at].reshape(1, -1), sign)


def _message(key: str) -> str:
    return (
        f"the key {key} has several rows, and a key has one: delete the others, or insert_or_update the one that "
        "counts, or delete_key it, and this error goes"
    )


@dataclass(frozen=True)
class _Numbered:
    """The distinct values of each group, those that were there and those that commands name.

    Shape:  ``first`` (v,) where in ``values`` each is, ``home`` (v,) its group, ``there`` (v,) whether it was there;
            ``named`` (n,) the value of each command.
    """

    values: Rows
    first: Ints
    home: Ints
    there: npt.NDArray[np.bool_]
    named: Ints

    @classmethod
    def of(cls, old: Rows, old_home: Ints, old_diffs: Ints, new: Rows, new_home: Ints) -> _Numbered:
        """Number the values of old updates, with their diffs, and of new commands."""
        values = Rows.concat([old, new], new.schema)
        home = np.concatenate([old_home, new_home])
        number, first = group_rows(values, home.reshape(1, -1))
        count = np.zeros(len(first), np.int64)
        np.add.at(count, number[: old.count], old_diffs)
        return cls(values, first, home[first], count > 0, number[old.count :])

    def swept(self, group: Ints, times: Ints, kind: Ints, order: Ints, groups: int) -> Any:
        """Obey commands in order: (position, value, sign) of the rows that come and go, and of the errors."""
        return _sweep(group, times, kind.astype(np.int64), self.named[order], self.home, self.there, groups)


@compiled()
def _listed(home: Ints, there: Any, groups: int) -> tuple[Ints, Ints, Ints, Ints]:
    """The values that each group has: they stand in ``listed`` from ``start[group]`` on, each at its ``place``.

    A value that is not there has no place, -1; ``size`` counts those of a group that are.
    """
    start, size = np.zeros(groups + 1, np.int64), np.zeros(groups, np.int64)
    for v in range(len(home)):
        start[home[v] + 1] += 1
    for g in range(groups):
        start[g + 1] += start[g]
    listed, place = np.empty(len(home), np.int64), np.full(len(home), -1, np.int64)
    for v in range(len(home)):
        if there[v]:
            _put(v, home[v], listed, place, size, start)
    return listed, place, size, start


@compiled()
def _put(value: int, group: int, listed: Ints, place: Ints, size: Ints, start: Ints) -> None:
    if place[value] < 0:
        listed[start[group] + size[group]], place[value] = value, size[group]
        size[group] += 1


@compiled()
def _take_out(value: int, group: int, listed: Ints, place: Ints, size: Ints, start: Ints) -> None:
    """Take a value out; the last of its group stands in its place."""
    if place[value] >= 0:
        size[group] -= 1
        last = listed[start[group] + size[group]]
        listed[start[group] + place[value]], place[last] = last, place[value]
        place[value] = -1


@compiled()
def _meet(value: int, moment: int, used: int, place: Ints, met: Any) -> int:
    """Note, the first time that a moment has to do with a value, whether it was there; how many it has met by then."""
    stamp, was, some = met
    if stamp[value] == moment:
        return used
    stamp[value], was[value], some[used] = moment, place[value] >= 0, value
    return used + 1


@compiled()
def _obey(what: int, value: int, group: int, moment: int, used: int, lists: Any, met: Any) -> int:
    """Obey one command about a value of a group; how many values its moment has met by then."""
    listed, place, size, start = lists
    if what in (INSERT_OR_UPDATE, DELETE_KEY):
        while size[group] > 0:
            last = listed[start[group] + size[group] - 1]
            used = _meet(last, moment, used, place, met)
            _take_out(last, group, listed, place, size, start)
    if what != DELETE_KEY:
        used = _meet(value, moment, used, place, met)
        if what == DELETE:
            _take_out(value, group, listed, place, size, start)
        else:
            _put(value, group, listed, place, size, start)
    return used


@compiled()
def _tell(at: int, value: int, sign: int, out: Ints, result: int) -> int:
    out[0, result], out[1, result], out[2, result] = at, value, sign
    return result + 1


@compiled()
def _sweep(group: Ints, times: Ints, kind: Ints, which: Ints, home: Ints, there: Any, groups: int) -> Any:
    """Obey commands that are in order of (group, time, as given): O(commands + values).

    A value comes into its list once for each command, and goes out as often as it came.
    """
    lists = _listed(home, there, groups)
    listed, place, size, start = lists
    values, commands = len(home), len(group)
    stamp, was, some = np.full(values, -1, np.int64), np.zeros(values, np.bool_), np.empty(values, np.int64)
    met = stamp, was, some
    rows, errors = np.empty((3, 2 * commands + values), np.int64), np.empty((3, 3 * commands + values), np.int64)
    result, failed, p = 0, 0, 0
    while p < commands:
        g, time, moment, used, before = group[p], times[p], p, 0, size[group[p]]
        while p < commands and group[p] == g and times[p] == time:
            used = _obey(kind[p], which[p], g, moment, used, lists, met)
            p += 1
        after = size[g]
        for v in some[:used]:
            now = place[v] >= 0
            if now != was[v]:
                result = _tell(p - 1, v, 1 if now else -1, rows, result)
            if (now and after > 1) != (was[v] and before > 1):
                failed = _tell(p - 1, v, 1 if now and after > 1 else -1, errors, failed)
        if (before > 1) != (after > 1):  # one value at most is there now and was there then
            for v in listed[start[g] : start[g] + after]:
                if stamp[v] != moment:
                    failed = _tell(p - 1, v, 1 if after > 1 else -1, errors, failed)
    return _lines(rows, result), _lines(errors, failed)


@compiled()
def _lines(matches: Any, count: int) -> tuple[Ints, Ints, Ints]:
    return matches[0, :count].copy(), matches[1, :count].copy(), matches[2, :count].copy()


def _ints(rows: Rows, name: str) -> Ints:
    return np.asarray(rows.column(name).to_numpy(zero_copy_only=False), np.int64)
