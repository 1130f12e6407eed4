"""Access control: requests for names of this machine, from pages of this server, and with the token if there is one."""

from __future__ import annotations

import ipaddress
import secrets
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from altneu.page.replies import posted_bytes, refusal

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host.

    >>> [is_loopback(h) for h in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "10.0.0.7", "example.org")]
    [True, True, True, False, False, False]
    """
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def names_us(header: str, host: str) -> bool:
    """Whether a Host header can only mean this server.

    A page of another site that had its own name point here (DNS rebinding) says that name. An address cannot be
    pointed elsewhere, and ``localhost`` is always this machine.

    >>> [
    ...     names_us(h, "127.0.0.1")
    ...     for h in ("127.0.0.1:80", "localhost", "[::1]:8", "evil.example:80", "", "a b")
    ... ]
    [True, True, True, False, False, False]
    """
    try:
        name = urlsplit(f"//{header}").hostname
    except ValueError:
        return False
    return name is not None and (name in ("localhost", host.lower()) or _is_address(name))


class Guard:
    """Passes on permitted requests, and adds the headers that restrict the browser to every response."""

    def __init__(self, app: ASGIApp, host: str, port: int, token: str | None) -> None:
        self._app, self._host, self._token, self._cookie = app, host, token, f"altneu_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        request = Request(scope, receive)
        refused = self._refusal(request)
        if refused is None:
            await self._app(scope, receive, with_headers)
            return

        async def and_close(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).setdefault("connection", "close")  # strangers keep no connection
            await with_headers(message)

        try:
            await posted_bytes(request, 0)
        except ClientDisconnect:
            return
        await refused(scope, receive, and_close)

    def _refusal(self, request: Request) -> ASGIApp | None:
        headers = request.headers
        if not names_us(headers.get("host", ""), self._host):
            return refusal(400, "the Host header names another server than this one")
        if request.method not in ("GET", "HEAD", "POST"):
            return refusal(405, f"{request.method} is not answered here")
        if request.method == "POST" and not _is_own(headers):
            return refusal(403, "this was posted by a page of another site")
        return None if self._token is None else self._without_token(request, self._token)

    def _without_token(self, request: Request, token: str) -> ASGIApp | None:
        presented = request.query_params.get("token")
        if presented is not None and request.method == "GET" and _same(presented, token):
            rest = [(n, v) for n, v in parse_qsl(request.url.query, keep_blank_values=True) if n != "token"]
            response = RedirectResponse(request.url.path + (f"?{urlencode(rest)}" if rest else ""), 303)
            response.set_cookie(self._cookie, token, httponly=True, samesite="strict")
            return response
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if _same(bearer, token) or _same(request.cookies.get(self._cookie, ""), token):
            return None
        return refusal(401, "open the page with ?token=..., or send Authorization: Bearer ...")


def _is_own(headers: Headers) -> bool:
    """Whether a browser says that the page that posts is this one, or it is no browser that posts."""
    origin = headers.get("origin")
    try:
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return False
    except ValueError:  # no address at all
        return False
    return headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


def _same(presented: str, token: str) -> bool:
    return secrets.compare_digest(presented.encode(), token.encode())
