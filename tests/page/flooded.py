"""A durable session with a page, in a process that may open 256 files: prints what its steps came to in a flood."""

from __future__ import annotations

import resource
import socket
import sys

import httpx

import altneu as an

HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-a: "


def main(path: str) -> None:
    """Step before, during and after a flood that the parent process makes when it is told the port."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    rows = an.source("rows", "k long", keep=True)
    with an.Session(path=path) as session, session.serve(token="secret") as page:  # in a test
        view = session.maintain("n", rows.group_by().agg(n="count(*)"))
        base = page.url.partition("?")[0]
        print(base, flush=True)  # noqa: T201  # the parent reads it
        sys.stdin.readline()
        for k in range(20):
            session.insert("rows", [(k,)])
            session.advance()
        answer = httpx.get(base + "healthz", headers={"authorization": "Bearer secret"}, timeout=5)
        print(view.to_pylist(), answer.status_code, flush=True)  # noqa: T201
        sys.stdin.readline()


def flood(url: str, count: int) -> list[socket.socket]:
    """Half-open connections, as many as the port takes without a wait."""
    host, port = url.removeprefix("http://").rstrip("/").split(":")
    sockets = []
    for _ in range(count):
        result = socket.socket()
        result.settimeout(0.5)
        try:
            result.connect((host, int(port)))
            result.sendall(HALF)
        except OSError:
            pass
        sockets.append(result)
    return sockets


if __name__ == "__main__":
    main(sys.argv[1])
