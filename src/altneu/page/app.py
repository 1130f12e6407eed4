"""The page's addresses, and what each answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from functools import partial
from importlib.resources import files
from typing import Any

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from altneu.engine.history import KEPT
from altneu.errors import AltneuError
from altneu.errors.nearest import listed
from altneu.page import metrics, payloads, uplot
from altneu.page.cells import cells_of, columns_of
from altneu.page.connections import most_connections
from altneu.page.console import ask
from altneu.page.graph import explained_of, graph_payload, picture
from altneu.page.monitor import CHANGES_KEPT, STEPS_KEPT, Monitor
from altneu.page.replies import MOST_ROWS, Json, Refused, body, field, number, refusal, text
from altneu.page.rows import RowQuery, errors_of
from altneu.page.snapshot import Snapshot
from altneu.page.why import why

PAUSE = 0.1  # seconds between two updates: what happens in between is sent together
LOOK = 0.5  # seconds after which it is looked whether a step runs
_QUERIES = 4  # that wait or run at once
_KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
Endpoint = Callable[[Request], Any]


class App:
    """The endpoints over a monitor; those that wait for the session do so in threads of their own."""

    def __init__(self, monitor: Monitor, *, allow_writes: bool) -> None:
        self.monitor, self.allow_writes = monitor, allow_writes
        self.closing = False
        self._queries = anyio.CapacityLimiter(_QUERIES)
        self._registry = metrics.registered(monitor)
        self._update: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._notified, self._listeners = False, 0

    def starlette(self) -> Starlette:
        """The application."""
        looks: dict[str, Endpoint] = {
            "/api": self.addresses,
            "/api/session": self.session,
            "/api/steps": self.steps,
            "/api/view": self.view,
            "/api/rows": self.rows,
            "/api/changes": self.changes,
            "/api/errors": self.errors,
            "/api/graph": self.graph,
            "/api/sources": self.sources,
            "/api/streams": self.streams,
            "/api/jobs": self.jobs,
        }
        routes = [Route(path, _answered(partial(_in_thread, look))) for path, look in looks.items()]
        routes += [
            Route("/api/sql", _answered(self.sql), methods=["POST"]),
            Route("/api/why", _answered(self.why), methods=["POST"]),
            Route("/api/updates", self.wait_for_update),
            Route("/metrics", _answered(partial(_in_thread, self.metrics))),
            Route("/healthz", _answered(self.health)),
            Route("/", _answered(self.file)),
            Route("/{name}", _answered(self.file)),
        ]
        handlers: Any = {HTTPException: _not_found, Exception: _not_found}
        return Starlette(routes=routes, exception_handlers=handlers)

    # what is there --------------------------------------------------------------------------------------------------

    def addresses(self, _: Request) -> dict[str, str]:
        """All addresses and their handlers."""
        return ADDRESSES

    def session(self, _: Request) -> dict[str, Any]:
        """The session, and its views in short."""
        return payloads.session_payload(self.monitor, allow_writes=self.allow_writes)

    def steps(self, request: Request) -> dict[str, Any]:
        """The last steps."""
        n, after = number(request, "n", 300, 1, KEPT), number(request, "after", 0)
        return {"steps": [payloads.step_payload(p) for p in self.monitor.engine.past.last(n) if p.number > after]}

    def view(self, request: Request) -> dict[str, Any]:
        """A view."""
        snapshot, name = self._view(request)
        return payloads.view_payload(self.monitor, snapshot, name)

    def rows(self, request: Request) -> dict[str, Any]:
        """Some rows of a view."""
        snapshot, name = self._view(request)
        sort = request.query_params.get("sort")
        descending = number(request, "descending", 0, 0, 1) == 1
        query = RowQuery(request.query_params.get("filter", ""), sort, descending)
        selection = self.monitor.windows.select(snapshot, name, query)
        window = selection.window(number(request, "offset", 0), number(request, "limit", 50, 1, MOST_ROWS))
        return window | {"lower": snapshot.lower}

    def changes(self, request: Request) -> dict[str, Any]:
        """The last changes of a view."""
        snapshot, name = self._view(request)
        after, limit = number(request, "after", 0), number(request, "limit", 20, 1, STEPS_KEPT)
        listed = [c for c in self.monitor.changes(name) if c.past.number > after][:limit]
        times = snapshot.coordinates(name) or ("time",)
        rows = number(request, "rows", CHANGES_KEPT, 0, CHANGES_KEPT)
        shown = [payloads.change_payload(change, rows) for change in listed]
        return {"columns": columns_of(snapshot.ports(name).schema), "times": list(times), "changes": shown}

    def errors(self, request: Request) -> dict[str, Any]:
        """Some errors of a view."""
        snapshot, name = self._view(request)
        failures = self.monitor.windows.remembered((snapshot, name, "errors"), lambda: errors_of(snapshot, name))
        offset, limit = number(request, "offset", 0), number(request, "limit", 50, 1, MOST_ROWS)
        end = min(offset + limit, failures.count)
        rows = cells_of(failures.slice(min(offset, end), end))
        return {"columns": columns_of(failures.schema), "rows": rows, "total": failures.count, "offset": offset}

    def graph(self, request: Request) -> dict[str, Any]:
        """The operators of all views or of one, and the picture of them."""
        snapshot, view = self.monitor.snapshot, None
        if request.query_params.get("view"):
            snapshot, view = self._view(request)
        remembered = self.monitor.windows.remembered
        explained = remembered((snapshot, view, "graph"), lambda: explained_of(snapshot, view, self.monitor.facts()))
        payload: dict[str, Any] = {"plan": str(id(snapshot.plan))} | graph_payload(explained)
        if number(request, "picture", 0, 0, 1):
            payload["picture"] = remembered((id(snapshot.plan), view, "picture"), lambda: picture(explained))
        return payload

    def sources(self, _: Request) -> dict[str, Any]:
        """The sources."""
        snapshot = self.monitor.snapshot
        return {"sources": [payloads.source_payload(self.monitor, snapshot, name) for name in snapshot.sources]}

    def streams(self, _: Request) -> dict[str, Any]:
        """The streams that are followed."""
        return {"streams": payloads.streams_payload(self.monitor.snapshot)}

    def jobs(self, _: Request) -> dict[str, Any]:
        """The Spark jobs of the session."""
        return payloads.jobs_payload(self.monitor)

    def _view(self, request: Request) -> tuple[Snapshot, str]:
        """The view that a request names.

        Raises:
            Refused: there is none.
        """
        snapshot, name = self.monitor.snapshot, text(request, "view")
        if name not in snapshot.views:
            raise Refused(404, f"no view {name!r}; the views are: {listed(name, snapshot.views)}")
        return snapshot, name

    # queries ---------------------------------------------------------------------------------------------------------

    async def sql(self, request: Request) -> dict[str, Any]:
        """What a statement gives."""
        statement = field(await body(request), "text")
        answer = partial(ask, self.monitor, statement, allow_writes=self.allow_writes)
        return await anyio.to_thread.run_sync(answer, limiter=self._queries)

    async def why(self, request: Request) -> dict[str, Any]:
        """Why a row is there."""
        posted = await body(request)
        answer = partial(why, self.monitor, field(posted, "view"), field(posted, "row"))
        return await anyio.to_thread.run_sync(answer, limiter=self._queries)

    # updates --------------------------------------------------------------------------------------------------------

    def tell(self) -> None:
        """There is an update; called by the session's thread."""
        if self._listeners and not self._notified and self._loop is not None:
            self._notified = True
            self._loop.call_soon_threadsafe(self._wake)

    def begin(self) -> None:
        """Receive updates from now on, in the loop that calls this."""
        self._loop, self._update = asyncio.get_running_loop(), asyncio.Event()
        self.monitor.on_change = self.tell

    def end(self) -> None:
        """Have all who listen go; called in the loop."""
        self.closing = True
        self._wake()

    def _wake(self) -> None:
        assert self._update is not None
        heard, self._update, self._notified = self._update, asyncio.Event(), False
        heard.set()

    async def wait_for_update(self, request: Request) -> Response:
        """What happens, as it happens, as server-sent events."""
        most = most_connections() // 2
        if self._listeners >= most:
            return refusal(503, f"{most} event streams are open already, and the page allows no more")
        try:
            last = request.headers.get("last-event-id") or request.query_params.get("after", "0")
            after = int(last) if last.isdecimal() else 0
        except ValueError:
            after = 0
        return EventSourceResponse(self._events(after), ping=15)

    async def _events(self, after: int) -> AsyncIterator[ServerSentEvent]:
        self._listeners += 1
        try:
            async for event in self._events_after(after):
                yield event
        finally:
            self._listeners -= 1

    async def _events_after(self, after: int) -> AsyncIterator[ServerSentEvent]:
        before: dict[str, Any] = {}
        while not self.closing:
            assert self._update is not None
            wait_for_update = self._update
            past = [p for p in self.monitor.engine.past.last() if p.number > after]
            session = await run_in_threadpool(payloads.session_payload, self.monitor, allow_writes=self.allow_writes)
            if past or session != before:
                after, before = past[-1].number if past else after, session
                data = {"steps": [payloads.step_payload(p) for p in past], "session": session}
                yield ServerSentEvent(json.dumps(data, ensure_ascii=False), event="update", id=str(after))
                await asyncio.sleep(PAUSE)
            try:
                await asyncio.wait_for(wait_for_update.wait(), LOOK)
            except TimeoutError:
                continue  # it may be time to say how long a step has run

    # files ----------------------------------------------------------------------------------------------------------

    def metrics(self, _: Request) -> Response:
        """Everything for Prometheus."""
        return Response(metrics.exposed(self._registry), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def health(self, _: Request) -> Response:
        """Whether the page answers."""
        return Response("ok\n", media_type="text/plain")

    async def file(self, request: Request) -> Response:
        """A file of the page."""
        name = request.path_params.get("name", "index.html")
        content = _file(name)
        if content is None:
            raise Refused(404, f"{request.url.path} does not exist; /api lists the paths")
        return Response(content, media_type=_KINDS[name.rpartition(".")[2]], headers={"cache-control": "no-cache"})


def _file(name: str) -> str | None:
    """A file of the page as text, None if there is none of that name."""
    if name in ("uPlot.iife.min.js", "uPlot.min.css"):
        return uplot.asset(name)
    if name == "picture.css":
        return files("altneu.explain").joinpath(name).read_text(encoding="utf-8")
    known = {path.name: path for path in files("altneu.page").joinpath("static").iterdir()}
    return known[name].read_text(encoding="utf-8") if name in known and name.rpartition(".")[2] in _KINDS else None


async def _in_thread(look: Endpoint, request: Request) -> Any:
    return await run_in_threadpool(look, request)


def _answered(endpoint: Endpoint) -> Endpoint:
    """An endpoint that gives JSON, or says why not."""

    async def answer(request: Request) -> Response:
        try:
            payload = await endpoint(request)
        except Refused as refused:
            return refusal(refused.status, refused.message, refused.kind)
        except AltneuError as error:
            return refusal(400, "\n".join([str(error), *getattr(error, "__notes__", ())]), type(error).__name__)
        except RecursionError:
            return refusal(400, "the query is nested too deeply")
        return payload if isinstance(payload, Response) else Json(payload)

    return answer


async def _not_found(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    return refusal(status, f"{request.method} {request.url.path}: {type(error).__name__}: {error}")


ADDRESSES = {
    "/": "the page",
    "/healthz": "ok, while the page answers",
    "/metrics": "for Prometheus",
    "/api/session": "the frontier, the running step, the last failure, the size of the state, and a summary of the "
    "views",
    "/api/steps?n=300&after=0": f"the last steps, at most {KEPT}; after=: only steps after this number",
    "/api/view?view=": "a view: its columns, key, times, definition",
    "/api/rows?view=&offset=0&limit=50&sort=&descending=0&filter=": f"rows of a view, at most {MOST_ROWS}, with counts",
    "/api/changes?view=&after=0&limit=20&rows=500": f"the changes of a view by step, at most {CHANGES_KEPT} rows each",
    "/api/errors?view=&offset=0&limit=50": "errors of a view: operator, code, message, row",
    "/api/graph?view=&picture=0": "the operators of all views or of one, with their state and work; picture=1 adds an "
    "SVG",
    "/api/sources": "the sources, with their columns",
    "/api/streams": "the followed streams: position, lag, and Spark's own progress",
    "/api/jobs": "the Spark jobs of steps: seconds, and rows read by source, as Spark's observable metrics count them",
    "/api/updates?after=0": "server-sent events: steps as they end, and the session as in /api/session",
    "POST /api/sql": '{"text": "SELECT ..."}: what a statement gives; SELECT, EXPLAIN and SHOW',
    "POST /api/why": '{"view": "...", "row": "..."}: why a row is in a view; its id is from /api/rows',
}
