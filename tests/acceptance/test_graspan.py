"""Graspan's pointer analysis on files in its format, beside the rules applied by hand until they find nothing new."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from click.testing import CliRunner

import altneu as an
from examples.points_to.graspan import aliases, main, read


def edges(rng, count, nodes=9):
    return [(rng.randrange(nodes), rng.randrange(nodes), rng.choice("aaad")) for _ in range(count)]


def solved(rows):
    """Value flows, memory aliases and value aliases of edges."""
    assign, pointers = ({(s, t) for s, t, kind in rows if kind == label} for label in "ad")
    same = {(n, n) for edge in assign for n in edge}
    flow, memory, value = set(), set(), set()
    while True:
        new = (
            assign
            | same
            | {(a, d) for a, b in assign for c, d in memory if b == c}
            | {(a, d) for a, b in flow for c, d in flow if b == c},
            same | {(x, w) for y, x in pointers for b, z in value if b == y for c, w in pointers if c == z},
            {(x, y) for z, x in flow for c, y in flow if c == z}
            | {(x, y) for z, x in flow for c, w in memory if c == z for d, y in flow if d == w},
        )
        if new == (flow, memory, value):
            return new
        flow, memory, value = new


def written(path, rows):
    lines = [f"{s}\t{t}\t{kind}" for s, t, kind in rows] + [f"{t}\t{s}\t-{kind}" for s, t, kind in rows]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("seed", range(4))
def test_a_file_is_analysed_and_edited(seed, tmp_path):
    rng = random.Random(seed)
    rows = edges(rng, 14)
    tables = read(written(tmp_path / "program", rows))
    with an.Session(shards=1 + seed % 2) as session:
        views = [session.maintain(f"v{i}", c) for i, c in enumerate(aliases())]
        for source, table in tables.items():
            session.insert(source, table)
        session.advance()
        for _ in range(6):
            assert [Counter(v.to_pylist()) for v in views] == [Counter(s) for s in solved(rows)]
            gone, new = rng.choice(rows), edges(rng, 1)[0]
            rows.remove(gone)
            rows.append(new)
            for (source, target, kind), diff in ((gone, -1), (new, 1)):
                session.insert("assign" if kind == "a" else "dereference", [(source, target)], diff=diff)
            session.advance()


def test_the_program_says_what_there_is(tmp_path):
    rows = edges(random.Random(9), 20)
    done = CliRunner().invoke(main, [str(written(tmp_path / "program", rows)), "--edits", "2"])
    assert done.exit_code == 0, done.output
    said = dict(line.split(": ") for line in done.output.splitlines()[1:])
    assert [int(said[n]) for n in ("value flow", "memory alias", "value alias")] == [len(s) for s in solved(rows)]
    assert said["an edit"].startswith("median")
    (tmp_path / "odd").write_text("1\t2\tx\n")
    with pytest.raises(ValueError, match="a label must be a, d, -a or -d, got 'x'"):
        read(tmp_path / "odd")
