"""Files of messages: one for each span of times that a writer has closed, with its updates and its progress.

A file is complete from the moment at which it has its name, which says the span. So the last file of a folder is the
position of its writer, and a reader passes over files of times that it has closed.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from altneu.columnar.python_values import python_values
from altneu.columnar.rows import Rows
from altneu.store import Folder

ABOUT = "_altneu.json"  # what begins with an underscore has no messages
MESSAGE_UPDATES = 1000
_NAME = re.compile(r"messages-(\d{19})-(\d{19})\.jsonl", re.ASCII)


@dataclass(frozen=True, order=True)
class MessageFile:
    """A file with all updates at the times in ``[lower, upper)``, and the progress that says so."""

    lower: int
    upper: int

    @property
    def name(self) -> str:
        """Its name in the folder."""
        return f"messages-{self.lower:019d}-{self.upper:019d}.jsonl"


def message_files(folder: Folder) -> list[MessageFile]:
    """The files of messages in a folder, in the order of their times."""
    found = (_NAME.fullmatch(name) for name in folder.names())
    return sorted(MessageFile(int(match[1]), int(match[2])) for match in found if match)


def read_lines(folder: Folder, file: MessageFile) -> list[str]:
    """The messages of a file."""
    return str(folder.read(file.name), "utf-8").rstrip("\n").split("\n")  # strings contain other ends of lines


def written_lines(data: Sequence[str], times: Sequence[int], diffs: Sequence[int], file: MessageFile) -> bytes:
    """A file with the given updates: messages with some of them each, and last the progress of its times.

    >>> print(written_lines(['{"x":1}'], [3], [-1], MessageFile(2, 5)).decode(), end="")
    {"Updates":[[{"x":1},3,-1]]}
    {"Progress":{"lower":[2],"upper":[5],"counts":[[3,1]]}}
    """
    counts: dict[int, int] = {}
    for time in times:
        counts[time] = counts.get(time, 0) + 1
    items = [f"[{text},{time},{diff}]" for text, time, diff in zip(data, times, diffs, strict=True)]
    lines = [
        f'{{"Updates":[{",".join(items[at : at + MESSAGE_UPDATES])}]}}' for at in range(0, len(items), MESSAGE_UPDATES)
    ]
    pairs = ",".join(f"[{time},{n}]" for time, n in sorted(counts.items()))
    lines.append(f'{{"Progress":{{"lower":[{file.lower}],"upper":[{file.upper}],"counts":[{pairs}]}}}}')
    return ("\n".join(lines) + "\n").encode("utf-8")


# rows as JSON ---------------------------------------------------------------------------------------------------------


def row_texts(rows: Rows) -> Iterator[str]:
    """Each row as a JSON object that ``Feed`` reads as the same row, whatever the types of its columns.

    >>> rows = Rows.from_batch(
    ...     pa.record_batch({"x": pa.array([0.5, float("nan")]), "b": pa.array([b"a", None])})
    ... )
    >>> list(row_texts(rows))
    ['{"x":0.5,"b":"YQ=="}', '{"x":"NaN","b":null}']
    """
    names = rows.schema.names
    columns = [list(map(_value_of(c.type), python_values(c))) for c in rows.columns]
    for values in zip(*columns, strict=True) if columns else ((),) * rows.count:
        yield json.dumps(dict(zip(names, values, strict=True)), separators=(",", ":"), ensure_ascii=False)


def _value_of(kind: pa.DataType) -> Callable[[Any], Any]:
    """Values of a type, as Python has them, as JSON has them."""
    if pt.is_list(kind):
        item = _value_of(kind.value_type)
        return lambda value: None if value is None else [item(v) for v in value]
    if pt.is_map(kind):
        item = _value_of(kind.item_type)
        return lambda value: None if value is None else {k: item(v) for k, v in value}
    if pt.is_struct(kind):
        members = {field.name: _value_of(field.type) for field in kind}
        return lambda value: None if value is None else {name: of(value[name]) for name, of in members.items()}
    return _scalar


def _scalar(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return str(value) if isinstance(value, dt.date | dt.time | Decimal) else value
