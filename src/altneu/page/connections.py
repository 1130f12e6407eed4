"""Connections to the page: a bounded number of them, each with a time by which it must have asked for something.

The page shares a process, and so its file descriptors, with a session whose steps need some to write and to map files.
Whoever reaches the port can open connections, with or without a token, so what they may hold is bounded here, before
any request is read.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
from functools import partial
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 64
"""Connections at once, unless the process may open so few files that a quarter of them is less."""
HEAD_SECONDS = 10.0
"""Within which the head of a request must have come whole, from the connection's beginning or the answer before."""
BODY_SECONDS = 30.0
"""Within which the body must have followed."""
READING_SECONDS = 30.0
"""For which a client may leave an answer unread while more of it waits to be sent."""
_BACKOFF = 0.2  # seconds until the next attempt when the process has no file descriptor left

_logger = logging.getLogger("altneu.page")
_logger.addHandler(logging.NullHandler())
_logger.setLevel(logging.ERROR)  # what strangers send is no reason for a line each


def most_connections() -> int:
    """How many connections a page may hold: ``MOST``, and at most a quarter of the files the process may open."""
    return max(4, min(MOST, _files_allowed() // 4))


def _files_allowed() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


class Connection(H11Protocol):
    """An HTTP connection that is closed when its client keeps it waiting."""

    def __init__(self, admission: Admission, server: uvicorn.Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(server.config, server.server_state, {}, loop)
        self.logger = _logger
        self._admission = admission
        self._deadline: asyncio.TimerHandle | None = None
        self._state: Any = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The client has connected: the head of its first request must follow."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """A part of a request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """An answer has gone out: the next request may follow, for a while."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """The client does not read what is sent."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(READING_SECONDS, self.drop)

    def resume_writing(self) -> None:
        """It does again."""
        super().resume_writing()
        _cancel(self._unread)
        self._unread = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over: its place is free."""
        _cancel(self._deadline)
        _cancel(self._unread)
        super().connection_lost(exc)
        self._admission.left(self)

    def drop(self) -> None:
        """Close it at once, whatever was to be sent."""
        self.transport.abort()

    def _watch(self) -> None:
        """Set the time by which the part of the request that is due must have come, once for each part."""
        state = self.conn.their_state
        if self.transport.is_closing() or state is self._state:
            return
        self._state = state
        _cancel(self._deadline)
        self._admission.note(self, silent=state is h11.IDLE)
        seconds = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS}.get(state)
        if seconds is not None:
            self._deadline = self.loop.call_later(seconds, self.drop)


class Admission:
    """Accepts connections while there is room; until then they wait in the kernel, where they cost no descriptor.

    Room is made by closing the connection that has been silent for longest: who asks at once is answered, however
    many half-open connections somebody else holds.
    """

    def __init__(self, server: uvicorn.Server, most: int) -> None:
        self._server, self._most = server, most
        self._open: set[Connection] = set()
        self._silent: dict[Connection, None] = {}  # those without the head of a request, the oldest first
        self._room = asyncio.Event()

    async def run(self, sock: socket.socket) -> None:
        """Accept connections until cancelled; a process without free descriptors is tried again, quietly."""
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        reserve = min(128, _files_allowed() // 4)
        while True:
            await self._make_room()
            try:
                await _readable(sock)
                connected, _ = sock.accept()
            except BlockingIOError:
                continue
            except OSError:  # no descriptor is free, or the client has gone again
                await asyncio.sleep(_BACKOFF)
                continue
            connected.setblocking(False)
            if connected.fileno() >= _files_allowed() - reserve:  # numbers are given out from the least one on
                connected.close()
                await asyncio.sleep(_BACKOFF)
                continue
            connection = Connection(self, self._server, loop)
            self._open.add(connection)
            await loop.connect_accepted_socket(partial(_itself, connection), connected)

    def note(self, connection: Connection, *, silent: bool) -> None:
        """Note whether a connection owes the head of a request."""
        self._silent.pop(connection, None)
        if silent and connection in self._open:
            self._silent[connection] = None

    def left(self, connection: Connection) -> None:
        """Note that a connection is closed."""
        self._open.discard(connection)
        self._silent.pop(connection, None)
        self._room.set()

    async def _make_room(self) -> None:
        while len(self._open) >= self._most:
            self._room.clear()
            if self._silent:
                next(iter(self._silent)).drop()
            await self._room.wait()


async def _readable(sock: socket.socket) -> None:
    """Wait for a client; one that is accepted is accepted at once, so that cancelling leaves no socket behind."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sock, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock)


def _itself(connection: Connection) -> Connection:
    return connection


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
