"""The result of SUBSCRIBE: a view's changes as rows, in Materialize's forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from altneu.columnar.rows import Rows, record_type
from altneu.engine.closing import Closing
from altneu.engine.subscription import Subscription
from altneu.errors import StatementError, UnknownColumnError
from altneu.sql.statements.tree import Subscribe

TIME, PROGRESSED, DIFF, STATE = "mz_timestamp", "mz_progressed", "mz_diff", "mz_state"


class Subscribed(Closing):
    """The changes of a view, time after time; iterating yields the times closed since the last call, and stops there.

    Each row has ``mz_timestamp`` and, without an envelope, ``mz_diff``, before the view's columns (of a view with two
    times the second follows the first). With PROGRESS there is ``mz_progressed``: where it is true the row says that
    nothing more comes before its time. With an envelope there is one row for each key that changed, and ``mz_state``:
    "upsert", "delete" or "key_violation", and with DEBEZIUM "insert" too.
    """

    def __init__(
        self, statement: Subscribe, subscription: Subscription, times: tuple[str, ...], end: Callable[[], object]
    ) -> None:
        self._statement, self._subscription, self._end = statement, subscription, end
        schema = subscription.view.schema
        for name in statement.key:
            if name not in schema.names:
                raise UnknownColumnError(name, schema.names, "the key of SUBSCRIBE")
        if statement.envelope != "none" and len(times) > 1:
            raise StatementError("a view with two times has no single row for a key: SUBSCRIBE without ENVELOPE")
        self._times, self._names = len(times), list(schema.names)
        self._values = [name for name in schema.names if name not in statement.key]
        controls = [TIME, *times[1:], *([PROGRESSED] if statement.progress else [])]
        self.columns = [*controls, *self._columns()]
        self._reported: int | None = None  # the time up to which progress was reported

    def _columns(self) -> list[str]:
        match self._statement.envelope:
            case "upsert":
                return [STATE, *self._statement.key, *self._values]
            case "debezium":
                before, after = ([f"{image}_{name}" for name in self._values] for image in ("before", "after"))
                return [STATE, *self._statement.key, *before, *after]
            case _:
                return [DIFF, *self._names]

    def __repr__(self) -> str:
        return f"Subscribed({self._subscription.view.name}, {'closed' if self.closed else 'open'})"

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._subscription.closed

    def close(self) -> None:
        """End the subscription; a view that was maintained for it alone is dropped."""
        self._subscription.close()
        self._end()
        self._end = _nothing

    def __iter__(self) -> Iterator[Any]:
        record: Any = record_type(self.columns)
        return (record(row) for row in self._rows())

    def to_pylist(self) -> list[tuple[Any, ...]]:
        """The rows of all times closed since the last call, as tuples."""
        return list(self._rows())

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        if self._reported is None and not self.closed:
            yield from self._progress(
                max(self._subscription.position - (not self._subscription.begins_with_snapshot), 0)
            )
        for table in self._subscription:
            updates = Rows.from_batch(table).to_pylist()
            time: Any = updates[0][len(self._names)]
            yield from self._progress(time)
            yield from self._enveloped(updates, time)
        if self._reported is not None:
            yield from self._progress(self._subscription.position)

    def _progress(self, time: int) -> Iterator[tuple[Any, ...]]:
        """Report once that no more rows come before a time."""
        reported, self._reported = self._reported, time
        if self._statement.progress and (reported is None or reported < time):
            controls = (time, *(None,) * (self._times - 1), True)
            yield (*controls, *(None,) * (len(self.columns) - len(controls)))

    def _enveloped(self, updates: list[tuple[Any, ...]], time: int) -> Iterator[tuple[Any, ...]]:
        n, no_progress = len(self._names), (False,) * self._statement.progress
        if self._statement.envelope == "none":
            for row in updates:
                yield (*row[n : n + self._times], *no_progress, row[-1], *row[:n])
            return
        groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
        key_at = [self._names.index(name) for name in self._statement.key]
        for row in updates:
            groups.setdefault(tuple(map(_hashable, (row[i] for i in key_at))), []).append(row)
        for group in groups.values():
            key = tuple(group[0][i] for i in key_at)
            yield (time, *no_progress, *self._state(group, key))

    def _state(self, updates: list[tuple[Any, ...]], key: tuple[Any, ...]) -> tuple[Any, ...]:
        """The state of a key after its changes: its new row, and perhaps the old one."""
        value_at = [self._names.index(name) for name in self._values]
        removed = [tuple(row[i] for i in value_at) for row in updates if row[-1] < 0]
        added = [tuple(row[i] for i in value_at) for row in updates if row[-1] > 0]
        nothing = (None,) * len(value_at)
        several = len(removed) > 1 or len(added) > 1 or any(abs(row[-1]) > 1 for row in updates)
        state = "key_violation" if several else "upsert" if added else "delete"
        before = removed[0] if removed and not several else nothing
        after = added[0] if added and not several else nothing
        if self._statement.envelope == "upsert":
            return (state, *key, *after)
        return ("insert" if state == "upsert" and not removed else state, *key, *before, *after)


def _hashable(value: Any) -> Any:
    return value if isinstance(value, int | str | bytes | float | None) else repr(value)


def _nothing() -> None:
    """Do nothing: the subscription has ended."""
