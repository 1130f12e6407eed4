"""What connections may hold of a session's process, whoever opens them."""

from __future__ import annotations

import socket
import subprocess
import sys
import time

import httpx
import pytest

from altneu.page import connections, console
from tests.page.flooded import HALF, flood

HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


def opened(page) -> socket.socket:
    host, port = page.url.partition("?")[0].removeprefix("http://").rstrip("/").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def closed_within(client: socket.socket, seconds: float) -> bool:
    """Whether the other side closes; what it sends before that is passed over."""
    client.settimeout(seconds)
    try:
        while client.recv(1 << 16):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


def send_for(client: socket.socket, data: bytes, pause: float) -> None:
    """Send for a minute, if the other side lets us."""
    began = time.monotonic()
    while time.monotonic() - began < 60:
        client.sendall(data)
        time.sleep(pause)


def test_durable_steps_and_honest_requests_go_on_in_a_flood_of_half_open_connections(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.page.flooded", str(tmp_path / "store")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    url = child.stdout.readline().strip()
    sockets = flood(url, 300)
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline().strip() == "[(20,)] 200"
    child.stdin.write("\n")
    _, errors = child.communicate(timeout=60)
    for made in sockets:
        made.close()
    assert child.returncode == 0, errors
    assert errors == ""


def test_a_head_that_does_not_come_whole_closes_the_connection(page, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    for begun in (b"", HALF):
        with opened(page) as client:
            client.sendall(begun)
            assert closed_within(client, 10), begun
    with opened(page) as client, pytest.raises(ConnectionError):  # a letter at a time does not win time
        send_for(client, b"G", 0.02)
    with opened(page) as client:  # nor does an answered request
        client.sendall(HEAD + HALF)
        assert closed_within(client, 10)


def test_a_body_that_does_not_come_closes_the_connection(page, monkeypatch):
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.3)
    with opened(page) as client:
        head = (
            "POST /api/sql HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n{"
        )
        client.sendall(head.encode())
        assert closed_within(client, 10)


def test_an_answer_that_nobody_reads_closes_the_connection(page, monkeypatch):
    monkeypatch.setattr(connections, "READING_SECONDS", 0.3)
    with opened(page) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(60)
        request = b"GET /uPlot.iife.min.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        with pytest.raises(ConnectionError):
            send_for(client, request * 50, 0)


def test_the_connection_that_was_silent_for_longest_makes_room(session, monkeypatch):
    monkeypatch.setattr(connections, "MOST", 4)
    with session.serve() as page:
        silent = [opened(page) for _ in range(3)]
        assert not closed_within(silent[0], 0.2)
        with httpx.Client(base_url=page.url) as client:
            assert client.get("healthz").status_code == 200
        more = [opened(page) for _ in range(2)]
        assert closed_within(silent[0], 10)
        for made in silent + more:
            made.close()


def test_strangers_keep_no_connection(session):
    with session.serve(token="secret") as page, opened(page) as client:
        client.sendall(HEAD)
        assert closed_within(client, 3)  # sooner than an idle connection is


def test_a_query_of_many_tokens_is_refused_before_it_is_parsed(client, monkeypatch):
    def sql(text: str) -> tuple[int, str]:
        answer = client.post("api/sql", json={"text": text})
        return answer.status_code, answer.json().get("error", {}).get("message", "")

    status, message = sql("SELECT " + " + ".join(["1"] * 6000))
    assert status == 413
    assert "at most 10,000 tokens, got 12,000" in message
    status, message = sql(f"SELECT '{'x' * (1 << 18)}'")
    assert status == 413
    assert "at most 262,144 bytes" in message
    monkeypatch.setattr(console, "MOST_TOKENS", 3)
    assert sql("SELECT 1, 2")[0] == 413
    assert sql("SELECT 1")[0] == 200


def test_listeners_are_bounded(session, monkeypatch):
    monkeypatch.setattr(connections, "MOST", 4)
    with (
        session.serve() as page,
        httpx.Client(base_url=page.url, timeout=10) as client,
        client.stream("GET", "api/updates") as first,
        client.stream("GET", "api/updates") as second,
    ):
        listening = [first.iter_lines(), second.iter_lines()]  # while these are read from
        assert all(next(lines) is not None for lines in listening)
        refused = client.get("api/updates")
        assert refused.status_code == 503
        assert "streams are open already" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("said", "size", "status"),
    [
        ("Origin: http://other.example\r\nContent-Type: application/json", 300_000, 403),
        ("Content-Type: text/plain", 300_000, 415),
        ("Content-Type: application/json", 3_000_000, 413),
    ],
)
def test_a_refusal_is_seen_by_a_client_that_sends_its_body_late(page, said, size, status):
    with opened(page) as client:
        host = page.url.partition("?")[0].removeprefix("http://").rstrip("/")
        head = f"POST /api/sql HTTP/1.1\r\nHost: {host}\r\n{said}\r\nContent-Length: {size}\r\n\r\n"
        client.sendall(head.encode())
        for start in range(0, size, 100_000):
            time.sleep(0.02)
            client.sendall(b" " * min(100_000, size - start))
        time.sleep(0.2)
        assert client.recv(1 << 16).startswith(f"HTTP/1.1 {status} ".encode())
