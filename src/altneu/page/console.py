"""The box for queries: statements that look are answered, others only where the page may write."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

from altneu.page.cells import table_of
from altneu.page.monitor import Monitor
from altneu.page.replies import Refused
from altneu.sql.statements.parser import count_tokens, parse
from altneu.sql.statements.result import Result
from altneu.sql.statements.run import Looking
from altneu.sql.statements.tree import Explain, Follow, Statement, Subscribe

MOST = 1000  # rows of a result that are shown
MOST_BYTES = 1 << 18  # of a query: what it takes to find its tokens
MOST_TOKENS = 10_000  # of a query: parsing and planning take up to a tenth of a millisecond for each
PATIENCE = 60.0  # seconds that a query waits for a step that runs


def ask(monitor: Monitor, text: str, *, allow_writes: bool) -> dict[str, Any]:
    """What the last of some statements gives, at most ``MOST`` rows of it.

    SELECT, SHOW and EXPLAIN take no step: they are answered with the rows there are.

    Raises:
        Refused: one of them does something, and the page only looks; or the session stays busy.
        AltneuError: as ``session.sql``.
    """
    begin = time.perf_counter()
    with nullcontext() if monitor.engine.before is not None else monitor.locked(PATIENCE):
        known = monitor.statements.asked_again(text, settles=False)
    if known is not None:
        return table_of(known.to_arrow(), MOST) | {"seconds": time.perf_counter() - begin, "plan": False}
    _check_size(text)
    statements = parse(text, monitor.statements.known.within)
    if not statements:
        raise Refused(400, "there is no statement; try SHOW MATERIALIZED VIEWS, or SELECT * FROM a view")
    for statement in statements:
        _check(statement, allow_writes=allow_writes)
    with monitor.locked(PATIENCE):
        begin = time.perf_counter()
        result = _answer(monitor, text, statements)
        seconds = time.perf_counter() - begin
    if not result.has_rows:
        return {"message": result.message, "seconds": seconds}
    return table_of(result.to_arrow(), MOST) | {"seconds": seconds, "plan": isinstance(statements[-1], Explain)}


def _check_size(text: str) -> None:
    size = len(text.encode())
    if size > MOST_BYTES:
        raise Refused(413, f"a query on the page must have at most {MOST_BYTES:,} bytes, got {size:,}; {_ELSEWHERE}")
    tokens = count_tokens(text)
    if tokens > MOST_TOKENS:
        raise Refused(
            413, f"a query on the page must have at most {MOST_TOKENS:,} tokens, got {tokens:,}; {_ELSEWHERE}"
        )


_ELSEWHERE = "session.sql and altneu query take longer ones"


def _check(statement: Statement, *, allow_writes: bool) -> None:
    if isinstance(statement, Subscribe | Follow):
        raise Refused(
            403,
            f"{statement.title}: the page does not run statements without an end; it shows the changes of views by "
            "itself",
        )
    if not allow_writes and not isinstance(statement, Looking):
        raise Refused(
            403,
            f"{statement.title}: this page is read-only, and runs only SELECT, DESCRIBE, EXPLAIN and SHOW; to allow "
            "other statements, use session.serve(allow_writes=True) or altneu serve --allow-writes",
        )


def _answer(monitor: Monitor, text: str, statements: list[Statement]) -> Result:
    if all(isinstance(s, Looking) for s in statements):
        return [monitor.statements.look(statement) for statement in statements][-1]  # type: ignore[arg-type]
    result = monitor.statements.run(text)
    assert isinstance(result, Result)
    return result
