"""Which expressions of a C program may be aliases: Graspan's pointer analysis, on files as it publishes them.

    python -m examples.points_to.graspan httpd [--edits 100]

A line of a file is ``source target label``, two numbers and a label: ``a`` for an assignment, ``d`` for a dereference;
``-a`` and ``-d`` are the same edges reversed, which the rules do not need. The inputs (httpd, postgresql, linux) are
published with Graspan and have to be downloaded. The program loads one, prints how many facts there are of each kind,
then removes edges and puts them back, one by one, and prints what an edit takes.

Source: Zheng, Rugina, Demand-driven alias analysis for C, POPL 2008; Wang et al., Graspan: A Single-machine Disk-based
        Graph System for Interprocedural Static Analyses of Large-scale Systems Code, ASPLOS 2017.
"""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path

import click
import pyarrow as pa
from pyarrow import csv

import altneu as an

ASSIGN = an.source("assign", "source long, target long")
DEREFERENCE = an.source("dereference", "source long, target long")
LABELS = {"a": "assign", "d": "dereference"}
_REVERSED = ("-a", "-d")


def aliases(
    assign: an.Collection = ASSIGN, dereference: an.Collection = DEREFERENCE
) -> tuple[an.Collection, an.Collection, an.Collection]:
    """Where values flow, which expressions may name one place in memory, and which may have one value.

    Shape:  three collections of pairs ``a, b``, each pair once.
    Cost:   the pairs that an edit derives or that lose their last derivation, and the edges that they meet.
    """
    edges = assign.select(a="source", b="target")
    nodes = edges.select("a").concat(edges.select(a="b"))
    same = nodes.select("a", b="a")
    pointers = dereference.select(p="source", x="target")

    def rules(
        flow: an.Collection, memory: an.Collection, value: an.Collection
    ) -> tuple[an.Collection, an.Collection, an.Collection]:
        assigned = edges.join(memory, on={"b": "a"}).select("a", b="`right.b`")
        further = flow.join(flow, on={"b": "a"}).select("a", b="`right.b`")
        first = pointers.join(value, on={"p": "a"}).select(a="x", q="b")
        named = first.join(pointers, on={"q": "p"}).select("a", b="x")
        met = flow.join(flow, on="a").select(a="b", b="`right.b`")
        through = flow.join(memory, on="a").select(x="b", w="`right.b`")
        beside = through.join(flow, on={"w": "a"}).select(a="x", b="b")
        return (
            edges.concat(same).concat(assigned).concat(further).distinct(),
            same.concat(named).distinct(),
            met.concat(beside).distinct(),
        )

    nothing = edges.filter("false")
    flow, memory, value = an.recursive(rules, flow=nothing, memory=nothing, value=nothing)
    return flow, memory, value


def read(path: str | Path) -> dict[str, pa.Table]:
    """The edges of a file by the source that they are for.

    Raises:
        ValueError: a line has another label.
    """
    with Path(path).open() as lines:
        options = csv.ParseOptions(delimiter="\t" if "\t" in lines.readline() else " ")
    names = csv.ReadOptions(column_names=["source", "target", "label"])
    kinds = csv.ConvertOptions(column_types={"source": pa.int64(), "target": pa.int64(), "label": pa.string()})
    table = csv.read_csv(path, names, options, kinds)
    wrong = sorted({*table["label"].unique().to_pylist()} - {*LABELS, *_REVERSED}, key=str)
    if wrong:
        raise ValueError(f"{path}: a label must be a, d, -a or -d, got {wrong[0]!r}")
    return {
        source: table.filter(pa.compute.equal(table["label"], label)).drop_columns(["label"])
        for label, source in LABELS.items()
    }


@click.command()
@click.argument("path", type=click.Path(exists=True, dir_okay=False))
@click.option("--edits", default=100, show_default=True, help="Edges that are removed and put back, one by one.")
def main(path: str, edits: int) -> None:
    """Analyse a file of edges as Graspan publishes them, then edit it."""
    edges = read(path)
    with an.Session() as session:
        names = ("value flow", "memory alias", "value alias")
        views = [session.maintain(name, c) for name, c in zip(names, aliases(), strict=True)]
        for source, table in edges.items():
            session.insert(source, table)
        began = time.perf_counter()
        session.advance()
        click.echo(f"{sum(map(len, edges.values())):,} edges in {time.perf_counter() - began:.2f} s")
        for name, view in zip(names, views, strict=True):
            click.echo(f"{name}: {view.to_arrow().num_rows:,}")
        rng, took = random.Random(1), list[float]()  # noqa: S311  # edits that are the same each time
        for _ in range(min(edits, len(edges["assign"]))):
            edge = edges["assign"].slice(rng.randrange(len(edges["assign"])), 1)
            for change in (session.retract, session.insert):
                change("assign", edge)
                began = time.perf_counter()
                session.advance()
                took.append(time.perf_counter() - began)
        if took:
            click.echo(f"an edit: median {statistics.median(took) * 1000:.1f} ms, longest {max(took) * 1000:.1f} ms")


if __name__ == "__main__":
    main()
