"""Serving a session: a server in a thread of its process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from urllib.parse import quote

import uvicorn

from altneu.engine.closing import Closing
from altneu.errors import SetupError
from altneu.page.app import App
from altneu.page.connections import Admission, most_connections
from altneu.page.guard import Guard, is_loopback
from altneu.page.monitor import Monitor

_GRACE = 2  # seconds that answers under way have when the page is closed


class Page(Closing):
    """A session's page, served until it is closed; made by ``session.serve``.

    ``url`` is where to open it; where there is a token, with the token.
    """

    def __init__(
        self,
        monitor: Monitor,
        sock: socket.socket,
        host: str,
        *,
        allow_writes: bool,
        token: str | None,
        closed: Callable[[Page], object],
    ) -> None:
        port = int(sock.getsockname()[1])
        shown = "127.0.0.1" if host in ("0.0.0.0", "") else "::1" if host == "::" else host  # noqa: S104
        self.url = f"http://{f'[{shown}]' if ':' in shown else shown}:{port}/"
        self.url += "" if token is None else f"?token={quote(token)}"
        self._monitor, self._sock, self._on_close = monitor, sock, closed
        self._app = App(self._monitor, allow_writes=allow_writes)
        app = Guard(self._app.starlette(), host, port, token)
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", server_header=False, ws="none",
            timeout_graceful_shutdown=_GRACE,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ready = threading.Event()
        self._closing = threading.Lock()
        self._closed = False
        self._accepting: asyncio.Task[None]
        self._thread = threading.Thread(target=self._run, name=f"altneu page {port}", daemon=True)
        self._thread.start()
        self._ready.wait()

    def __repr__(self) -> str:
        return f"Page({self.url.partition('?')[0]}{', closed' if self._closed else ''})"

    @property
    def closed(self) -> bool:
        """Whether it is served no more."""
        return self._closed

    def close(self) -> None:
        """Serve it no more; twice is once."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._monitor.close()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._on_close(self)

    def wait(self) -> None:
        """Wait until it is closed, as by another thread, or by Ctrl+C in this one."""
        while self._thread.is_alive():
            self._thread.join(1)

    def _run(self) -> None:
        with self._sock:
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._app.begin()
        self._server.config.load()
        admission = Admission(self._server, most_connections())
        self._accepting = asyncio.create_task(admission.run(self._sock))
        self._ready.set()
        await self._server.serve(sockets=[])

    def _stop(self) -> None:
        self._accepting.cancel()
        self._app.end()
        self._server.should_exit = True


def serve(
    monitor: Monitor,
    host: str,
    port: int,
    *,
    allow_writes: bool,
    token: str | None,
    open_to_all: bool,
    closed: Callable[[Page], object],
) -> Page:
    """Serve a session's page: ``session.serve``; ``closed`` is called when it has been closed.

    Raises:
        SetupError: the port is taken, or others could reach the host and nothing was said of that.
    """
    if token == "":
        raise SetupError(
            "the token must not be empty, since anybody could use it; leave it out, or use secrets.token_urlsafe()"
        )
    if not is_loopback(host) and token is None and not open_to_all:
        raise SetupError(
            f"other machines can reach {host!r}, and would see all rows: give a token "
            "(session.serve(host, token=secrets.token_urlsafe())), or pass open_to_all=True"
        )
    if not 0 <= port < 1 << 16:
        raise SetupError(f"port must be from 1 to 65535, or 0 for a free one, got {port}")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        sock = socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        raise SetupError(f"the page cannot be served at {host}:{port}: {error}; port=0 chooses a free one") from error
    return Page(monitor, sock, host, allow_writes=allow_writes, token=token, closed=closed)
