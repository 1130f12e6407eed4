"""What a case found, as values that travel between processes, and their two forms: on the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable


@dataclass
class Aim:
    """A figure that was aimed at; ``ratio`` is measured / limit, at most 1 when met, None when it is not judged."""

    text: str
    measured: str
    ratio: float | None

    @property
    def verdict(self) -> str:
        """Met, or missed and by how much."""
        if self.ratio is None:
            return "not judged"
        if self.ratio <= 1:
            return f"met, {1 / max(self.ratio, 1e-9):,.1f}x to spare"
        return f"**missed** by {self.ratio:,.2f}x"


@dataclass
class Table:
    """A table: its columns, and rows of text."""

    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Add a row."""
        self.rows.append([str(c) for c in cells])


@dataclass
class Findings:
    """All that a case found; ``figures`` are altneu's own in memory, by name, for others to be compared with."""

    tables: list[Table] = field(default_factory=list)
    aims: list[Aim] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def extend(self, other: Findings) -> None:
        """Add another case's."""
        self.tables += other.tables
        self.aims += other.aims
        self.figures |= other.figures

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Findings:
        """From plain values."""
        return cls([Table(**t) for t in value["tables"]], [Aim(**a) for a in value["aims"]], value["figures"])


def show(findings: Findings, console: Console) -> None:
    """Print every table, then the aims."""
    for table in (*findings.tables, aims_table(findings.aims)):
        shown = RichTable(title=table.title, title_justify="left", title_style="bold", caption_justify="left")
        for i, column in enumerate(table.columns):
            shown.add_column(column, justify="left" if i == 0 else "right")
        for row in table.rows:
            shown.add_row(*(cell.replace("**", "") for cell in row))
        console.print(shown)
        for note in table.notes:
            console.print(f"  {note}", style="dim")
        console.print()


def aims_table(aims: Iterable[Aim]) -> Table:
    """The aims, each with its verdict."""
    table = Table("Aims", ["aim", "measured", "verdict"])
    for aim in aims:
        table.add(aim.text, aim.measured, aim.verdict)
    return table


def markdown(findings: Findings) -> str:
    """Every table and the aims in Markdown."""
    return "\n".join(_markdown(t) for t in (*findings.tables, aims_table(findings.aims)))


def _markdown(table: Table) -> str:
    lines = [f"### {table.title}", ""]
    lines += ["| " + " | ".join(table.columns) + " |"]
    lines += ["|" + "|".join([" --- "] + [" ---: "] * (len(table.columns) - 1)) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in table.rows]
    for note in table.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"
