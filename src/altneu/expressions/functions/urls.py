"""URLs: taken apart as Java's ``URI`` does, encoded and decoded as forms are.

Source: RFC 2396 with the deviations of java.net.URI, which lets characters beyond ASCII stand.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote_plus, unquote_plus

import pyarrow as pa

from altneu.expressions.each import RowFailure, each
from altneu.expressions.functions.strings import scalar
from altneu.expressions.registry import Out

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

_OTHER = r"[^\x00-\x7f\x80-\x9f\s]"
_UNIT = rf"[A-Za-z0-9_\-!.~'()*]|%[0-9A-Fa-f]{{2}}|{_OTHER}"
_PATH = re.compile(rf"(?:{_UNIT}|[:@&=+$,;/])*")
_URIC = re.compile(rf"(?:{_UNIT}|[;/?:@&=+$,\[\]])*")
_REGISTRY = re.compile(rf"(?:{_UNIT}|[$,;:@&=+])+")
_USER = re.compile(rf"(?:{_UNIT}|[;:&=+$,])*")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.?")
_V4 = re.compile(r"(?:(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|[01]?[0-9]?[0-9])")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")


class _Url(NamedTuple):
    scheme: str | None = None
    authority: str | None = None
    user: str | None = None
    host: str | None = None
    path: str | None = None
    query: str | None = None
    fragment: str | None = None


def _matched(pattern: re.Pattern[str], text: str) -> str:
    if pattern.fullmatch(text) is None:
        raise ValueError(text)
    return text


def _taken_apart(text: str) -> _Url:
    """The parts of a URL.

    Raises:
        ValueError: it is none.
    """
    body, hash_, fragment = text.partition("#")
    url = _Url(fragment=_matched(_URIC, fragment) if hash_ else None)
    first = re.search(r"[:/?]", body)
    if first is not None and first[0] == ":":
        scheme, _, body = body.partition(":")
        url = url._replace(scheme=_matched(_SCHEME, scheme))
        if not body:
            raise ValueError(text)
        if not body.startswith("/"):
            _matched(_URIC, body)
            return url
    if body.startswith("//"):
        end = re.search(r"[/?]", body[2:])
        cut = len(body) if end is None else end.start() + 2
        authority, body = body[2:cut], body[cut:]
        if authority:
            user, host = _server(authority)
            url = url._replace(authority=authority, user=user, host=host)
        elif not body.startswith("/"):
            raise ValueError(text)
    path, mark, query = body.partition("?")
    return url._replace(path=_matched(_PATH, path), query=_matched(_URIC, query) if mark else None)


def _server(authority: str) -> tuple[str | None, str | None]:
    """User and host; none where the authority is a name of another kind."""
    user, at, rest = authority.rpartition("@")
    if rest.startswith("["):
        match = re.fullmatch(r"(\[([^\]%]+)(?:%[A-Za-z0-9_.-]+)?\])(?::[0-9]*)?", rest)
        if match is None:
            raise ValueError(authority)
        ipaddress.IPv6Address(match[2])
        return (_matched(_USER, user) if at else None), match[1]
    host, _, port = rest.partition(":")
    known = (_HOST.fullmatch(host) or _V4.fullmatch(host)) and re.fullmatch(r"[0-9]*", port)
    if known and (not at or _USER.fullmatch(user)):
        return (user if at else None), host
    _matched(_REGISTRY, authority)
    return None, None


def _part(url: _Url, part: str, key: str | None) -> str | None:
    if part == "QUERY" and key is not None:
        found = re.search(rf"(?:&|^){re.escape(key)}=([^&]*)", url.query or "")
        return found[1] if found else None
    if key is not None:
        return None
    if part == "FILE":
        return url.path if url.query is None else f"{url.path}?{url.query}"
    return {
        "HOST": url.host,
        "PATH": url.path,
        "QUERY": url.query,
        "REF": url.fragment,
        "PROTOCOL": url.scheme,
        "AUTHORITY": url.authority,
        "USERINFO": url.user,
    }.get(part)


def _parse(call: Call, url: pa.Array, part: pa.Array, key: pa.Array | None = None) -> Out:
    def parsed(text: str, name: str, sought: str | None = None) -> str | None:
        try:
            return _part(_taken_apart(text), name, sought)
        except ValueError:
            if call.name == "try_parse_url":
                return None
            raise RowFailure("INVALID_URL", f"{text!r} is no URL; try_parse_url gives NULL instead") from None

    return each(call, parsed, url, part, *([] if key is None else [key]))


scalar(
    "parse_url(url string, part string[, key string]) -> string?",
    fails=True,
    doc="A part of a URL: HOST, PATH, QUERY, REF, PROTOCOL, FILE, AUTHORITY or USERINFO; with a key, its value in the "
    "query.",
)(_parse)
scalar(
    "try_parse_url(url string, part string[, key string]) -> string?",
    doc="`parse_url`, but NULL if the text is no URL.",
)(_parse)


@scalar("url_encode(s string) -> string", grows=True)
def url_encode(call: Call, s: pa.Array) -> Out:
    """The text as it stands in the query of a URL, with `+` for blanks."""
    return each(call, lambda text: quote_plus(text, safe="*").replace("~", "%7E"), s)


def _decode(call: Call, s: pa.Array) -> Out:
    def decoded(text: str) -> str | None:
        if re.search(r"%(?![0-9A-Fa-f]{2})", text):
            if call.name == "try_url_decode":
                return None
            raise RowFailure("CANNOT_DECODE_URL", f"{text!r} has a % without two digits in base 16")
        return unquote_plus(text)

    return each(call, decoded, s)


scalar("url_decode(s string) -> string", fails=True, doc="The text that `url_encode` has encoded.")(_decode)
scalar("try_url_decode(s string) -> string?", doc="`url_decode`, but NULL if the text does not fit.")(_decode)
