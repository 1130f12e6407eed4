"""Who is let in."""

from __future__ import annotations

import socket

import httpx
import pytest

import altneu as an
from altneu.errors import SetupError


def test_names_that_can_only_mean_this_machine_are_answered(client, page):
    port = page.url.rstrip("/").rpartition(":")[2]
    for host in ("127.0.0.1", f"localhost:{port}", f"[::1]:{port}", "10.0.0.7"):
        assert client.get("healthz", headers={"host": host}).status_code == 200, host


def test_a_name_that_was_pointed_here_is_not(client):
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "["):
        for path in ("healthz", "", "api/session", "metrics", "api/updates"):
            answer = client.get(path, headers={"host": host})
            assert answer.status_code == 400, (host, path)
            assert "Host" in answer.json()["error"]["message"]


def test_pages_of_other_sites_post_nothing_and_the_page_itself_does(client, page):
    def post(**headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return client.post("api/sql", json={"text": "SELECT 1"}, headers=named).status_code

    assert post(origin="https://evil.example") == post(origin="null") == 403
    assert post(sec_fetch_site="cross-site") == post(sec_fetch_site="same-site") == 403
    assert post(origin=page.url.rstrip("/"), sec_fetch_site="same-origin") == 200


def test_only_get_and_post_and_each_where_it_belongs(client):
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert client.request(method, "api/session").status_code == 405, method
    assert client.post("api/session", json={}).status_code == 405
    assert client.get("api/sql").status_code == 405


def test_every_answer_tells_the_browser_to_fetch_nothing_from_elsewhere(client):
    for path in ("", "main.js", "api/session", "metrics", "nothing", "api/rows"):
        headers = client.get(path).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_a_host_that_others_reach_wants_a_token_or_a_word():
    with an.Session() as session:
        with pytest.raises(SetupError, match="open_to_all=True"):
            session.serve(host="0.0.0.0")
        with pytest.raises(SetupError, match="empty"):
            session.serve(token="")
        with session.serve(host="0.0.0.0", open_to_all=True) as page:
            assert httpx.get(page.url + "healthz").status_code == 200
            assert httpx.get(page.url + "healthz", headers={"host": "evil.example"}).status_code == 400


def test_with_a_token_nothing_is_answered_without_it():
    with an.Session() as session, session.serve(host="0.0.0.0", token="s3/cr&t") as page:
        base = page.url.partition("?")[0]
        with httpx.Client(base_url=base) as client:
            for path in ("", "api/session", "metrics", "healthz", "main.js"):
                assert client.get(path).status_code == 401
                assert client.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
                assert client.get(path, headers={"authorization": "Bearer s3/cr&t"}).status_code == 200
            assert client.get("?token=wrong").status_code == 401
            first = client.get(page.url)
            assert (first.status_code, first.headers["location"]) == (303, "/")
            kept = first.headers["set-cookie"].lower()
            assert "httponly" in kept
            assert "samesite=strict" in kept
            assert client.get("api/session").status_code == 200  # by the cookie


def test_over_ipv6():
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with an.Session() as session:
        try:
            page = session.serve(host="::1")
        except SetupError:
            pytest.skip("this machine has no IPv6 loopback")
        assert page.url.startswith("http://[::1]:")
        assert httpx.get(page.url + "healthz").status_code == 200
