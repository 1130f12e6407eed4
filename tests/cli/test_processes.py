"""Commands as processes: closed pipes, Ctrl-C, colours, and a store that opens again."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading

import pytest

import altneu as an
from tests.store.support import CHILD

ALTNEU = [sys.executable, "-W", "ignore", "-m", "altneu.cli"]


def start(*arguments, **rest):
    return subprocess.Popen([*ALTNEU, *map(str, arguments)], text=True, env=CHILD | rest.pop("env", {}), **rest)


@pytest.mark.parametrize(
    "arguments",
    [
        ["query", "--path", "{store}", "--format", "csv", "SELECT x FROM generate_series(1, 300000) g(x)"],
        ["query", "--path", "{store}", "SELECT x FROM generate_series(1, 20000) g(x)"],
    ],
    ids=["csv", "table"],
)
def test_a_reader_that_goes_away(made, arguments):
    """Nothing is said, and the exit code is that of any other program whose pipe closes."""
    child = start(*(a.format(store=made) for a in arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout.readline()
    child.stdout.close()
    assert (child.stderr.read(), child.wait()) == ("", 141)
    child.stderr.close()


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_stopping_a_subscription(orders, stop):
    """It has ended well: its output is whole, its lease is taken back."""
    child = start("subscribe", "--path", orders, "--json", "--progress", "totals", stdout=subprocess.PIPE)
    while "complete" not in child.stdout.readline():
        pass
    child.send_signal(stop)
    assert (child.communicate()[0], child.returncode) == ("", 0)
    assert list((orders / "readers").iterdir()) == []


def test_a_run_that_is_interrupted_leaves_a_store_that_opens_again(orders):
    script = "SELECT 1; INSERT INTO orders SELECT 'x', CAST(n AS INT) FROM generate_series(1, 3000000) g(n);"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = start("run", "-", "--path", orders, "--json", **pipes)
    child.stdin.write(script)
    child.stdin.close()
    assert '"rows": [[1]]' in child.stdout.readline()  # the next statement is on its way
    child.send_signal(signal.SIGINT)
    assert child.stdout.read() == '{"statement": "", "message": "stopped; what was committed stays"}\n'
    child.stdout.close()
    assert child.wait() == 130
    assert child.stderr.read() == ""
    child.stderr.close()
    with an.Session(path=orders) as session:
        (count,) = session.sql("SELECT count(*) FROM orders").to_pylist()
        assert count in [(3,), (3_000_003,)]  # wholly or not at all


def on_terminal(*arguments, **environment):
    """What a command writes where somebody looks on: all of it, in the order in which it comes."""
    ours, theirs = pty.openpty()
    environment = {"TERM": "xterm-256color", "COLUMNS": "80", **environment}
    child = start(*arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    found = bytearray()

    def read():
        try:
            while data := os.read(ours, 1 << 16):
                found.extend(data)
        except OSError:  # which is how a terminal ends
            return

    reading = threading.Thread(target=read)
    reading.start()
    code = child.wait()
    reading.join()
    os.close(ours)
    return code, found.decode()


def test_colours_on_a_terminal_unless_they_are_not_wanted(made):
    code, shown = on_terminal("query", "--path", made, "TABLE totals")
    assert (code, "\x1b[1m" in shown, "(3 rows of time 2)" in shown) == (0, True, True)
    plain = on_terminal("doctor", "--quick", NO_COLOR="1")[1]
    assert "\x1b[3" not in plain
    assert "\x1b[32mok" in on_terminal("doctor", "--quick")[1]


def test_a_terminal_is_given_so_many_rows(made):
    code, shown = on_terminal("query", "--path", made, "SELECT x FROM generate_series(1, 2000) g(x)")
    assert (code, shown.count("\r\n") < 1010) == (0, True)
    assert "(2000 rows of time 2, of which 1000 are shown; --format csv, json or parquet gives" in shown


IMPATIENT = "import altneu.progress, altneu.cli; altneu.progress.PATIENCE = 0.2; altneu.cli.main(prog_name='altneu')"


def test_progress_of_what_takes_long(made, monkeypatch):
    """A line that says what goes on, on a terminal; without one nothing of it."""
    monkeypatch.setattr(sys.modules[__name__], "ALTNEU", [sys.executable, "-W", "ignore", "-c", IMPATIENT])
    slow = ("query", "--path", made, "SELECT count(*) AS n, sum(x) AS s FROM generate_series(1, 3000000) g(x)")
    code, shown = on_terminal(*slow)
    assert (code, "altneu: answering the query, " in shown) == (0, True)
    child = start(*slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "altneu:" not in "".join(child.communicate())
