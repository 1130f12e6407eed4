"""``altneu serve``, and ``altneu run --serve``: the page of a store and of a pipeline."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request

import pytest

import altneu as an
from tests.cli.processes_cases import start

PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def get(url):
    with urllib.request.urlopen(url, timeout=20) as reply:  # noqa: S310  # an address of this machine
        return reply.status, reply.read().decode()


def ended(child):
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    return child.returncode, out, err


def test_a_store_in_the_browser(orders):
    child = start("serve", "--path", orders, **PIPES)
    url = child.stdout.readline().strip()
    assert url.startswith("http://127.0.0.1:")
    status, page = get(url)
    assert (status, "<html" in page) == (200, True)
    assert "altneu_" in get(f"{url}metrics")[1]
    assert ended(child) == (0, "", "")
    with an.Session(path=orders) as session:  # it opens again
        assert session.sql("SELECT count(*) FROM orders").to_pylist() == [(3,)]


@pytest.mark.parametrize("command", [("serve", "-"), ("run", "-", "--serve")], ids=["serve", "run"])
def test_a_pipeline_and_its_page(tmp_path, command):
    child = start(*command, "--path", tmp_path / "s", "--json", **PIPES)
    child.stdin.write("CREATE TABLE t (k INT); INSERT INTO t VALUES (1), (2); SELECT sum(k) AS s FROM t")
    child.stdin.close()
    child.stdin = None
    answer = [json.loads(child.stdout.readline()) for _ in range(4)]
    assert answer[0]["store"] == str(tmp_path / "s")
    assert [t.get("message") for t in answer[1:3]] == ["TABLE t created", "INSERT 2"]
    assert answer[3]["rows"] == [[3]]
    assert get(answer[0]["url"])[0] == 200
    assert ended(child)[0] == 0
    with an.Session(path=tmp_path / "s") as session:
        assert session.sql("SELECT count(*) FROM t").to_pylist() == [(2,)]


def test_views_of_programs_are_not_shown(store):
    child = start("serve", "--path", store, **PIPES)
    assert child.stdout.readline().startswith("http://")
    assert child.stderr.readline().startswith("not shown, as Python programs define them: delays;")
    assert ended(child)[0] == 0


def test_a_store_that_a_session_has_open(call, orders):
    with an.Session(path=orders):
        done = call("serve", "--path", orders)
    assert (done.code, done.out) == (1, "")
    assert f"is open in another session (process {os.getpid()} on" in done.err
    assert "altneu run … --serve" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ([], 2, "name a store with --path, or a FILE.sql"),
        (["--path", "{store}x"], 1, "there is no store in"),
        (["--path", "{store}", "--port", "70000"], 2, "70000 is not in the range"),
        (["--path", "{store}", "--host", "0.0.0.0"], 1, "SetupError: other machines can reach '0.0.0.0'"),  # noqa: S104
        (["nowhere.sql"], 2, "does not exist"),
        (["-"], 1, "StatementError"),
    ],
)
def test_what_fails(call, orders, arguments, code, told):
    done = call("serve", *(a.format(store=orders) for a in arguments), input="SELEKT")
    assert done.code == code
    assert told in done.err
