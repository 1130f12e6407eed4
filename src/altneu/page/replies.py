"""Requests and responses of the page: validated parameters, and errors as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

MOST_ROWS = 1000  # of one answer
_IN_VAIN = 1 << 24
_WHOLE = re.compile(r"-?\d{1,19}", re.ASCII)


class Refused(Exception):  # noqa: N818  # a signal between endpoint and answer, which no user sees
    """What was asked for is not given: the status of the answer, and why."""

    def __init__(self, status: int, message: str, kind: str = "Refused") -> None:
        super().__init__(message)
        self.status, self.message, self.kind = status, message, kind


class Json(Response):
    """An answer as JSON; texts of any language stay readable."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The bytes of it."""
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def refusal(status: int, message: str, kind: str = "Refused") -> Json:
    """An error response with the reason."""
    return Json({"error": {"kind": kind, "message": message}}, status)


def number(request: Request, name: str, default: int, least: int = 0, most: int = 1 << 62) -> int:
    """A whole number among the parameters.

    Raises:
        Refused: it is none, or not between the bounds.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
        raise Refused(400, f"{name} must be a whole number from {least} to {most}, got {text[:40]!r}")
    return int(text)


def text(request: Request, name: str) -> str:
    """A text among the parameters.

    Raises:
        Refused: it is missing.
    """
    value = request.query_params.get(name)
    if value is None:
        raise Refused(400, f"the parameter {name} is missing: {request.url.path}?{name}=...")
    return value


async def posted_bytes(request: Request, most: int) -> bytes | None:
    """The body of a request, or None if it is longer than ``most`` bytes.

    Of a longer one up to ``_IN_VAIN`` further bytes are read and thrown away: a client that still sends when the server
    closes the connection sees that it was reset, and not why it was refused.
    """
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most + _IN_VAIN:
            break
        parts.append(part if size <= most else b"")
    return b"".join(parts) if size <= most else None


async def body(request: Request, most: int = 1 << 20) -> dict[str, Any]:
    """A JSON object that was posted.

    Raises:
        Refused: it is none, has more bytes than ``most``, or is not said to be JSON, which a form of another site
            cannot say.
    """
    content = await posted_bytes(request, most)
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise Refused(415, "post JSON, with Content-Type: application/json")
    if content is None:
        raise Refused(413, f"what is posted must have at most {most:,} bytes")
    try:
        posted = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Refused(400, f"the body must be JSON: {error}") from None
    if not isinstance(posted, dict):
        raise Refused(400, "post a JSON object")
    return posted


def field(posted: dict[str, Any], name: str) -> str:
    """A string of the request's body.

    Raises:
        Refused: it is missing, or no text.
    """
    value = posted.get(name)
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Refused(400, f'"{name}" must be a text')
    return value
