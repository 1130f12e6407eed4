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
from altneu.cli import main
from altneu.runtime.progress import watch
from tests.cli.processes_cases import start


def test_a_reader_that_goes_away(store_path):
    """Nothing is said, and the exit code is that of any other program whose pipe closes."""
    query = "SELECT x FROM generate_series(1, 300000) g(x)"
    child = start(
        "query", "--path", store_path, "--format", "csv", query, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout.readline() == "x\n"
    child.stdout.close()
    assert (child.stderr.read(), child.wait()) == ("", 141)
    child.stderr.close()


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "--path", "{}", "TABLE totals"),
        ("query", "--path", "{}", "--json", "TABLE totals"),
        ("subscribe", "--path", "{}", "totals"),
        ("subscribe", "--path", "{}", "--json", "SELECT 1 FROM totals"),
        ("status", "--path", "{}"),
        ("status", "--path", "{}", "--json"),
        ("vacuum", "--path", "{}", "--dry-run"),
        ("explain", "--path", "{}"),
        ("doctor", "--quick"),
        ("doctor", "--quick", "--json"),
        ("run", "{}/../x.sql"),
    ],
    ids=" ".join,
)
def test_nobody_reads(store_path, monkeypatch, capsys, arguments):
    (store_path.parent / "x.sql").write_text("SELECT 1; SELECT 2")
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "w", buffering=1) as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with pytest.raises(SystemExit) as ended:
            main([a.format(store_path) for a in arguments], prog_name="altneu")
    assert (ended.value.code, capsys.readouterr().err) == (141, "")


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_stopping_a_subscription(orders, stop):
    """It has ended well: its output is whole, its lease is taken back."""
    child = start("subscribe", "--path", orders, "--json", "--progress", "totals", stdout=subprocess.PIPE)
    while "complete" not in child.stdout.readline():
        pass
    child.send_signal(stop)
    assert (child.communicate()[0], child.returncode) == ("", 0)
    assert list((orders / "readers").iterdir()) == []


def test_a_query_that_is_interrupted(orders):
    """It says nothing, and takes its lease back."""
    slow = "SELECT count(DISTINCT x) AS n, max(x % 7919) AS m FROM generate_series(1, 20000000) g(x)"
    child = start("query", "--path", orders, slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not ((orders / "readers").is_dir() and list((orders / "readers").iterdir())):
        assert child.poll() is None
    child.send_signal(signal.SIGINT)
    assert (*child.communicate(), child.returncode) == ("", "", 130)
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


@pytest.fixture
def on_terminal(monkeypatch):
    """Run a command where somebody looks on: its exit code, and all that it writes, in the order in which it comes."""

    def run(*arguments, **environment):
        for name, value in {"TERM": "xterm-256color", "COLUMNS": "120", **environment}.items():
            monkeypatch.setenv(name, value)
        ours, theirs = pty.openpty()
        actual = bytearray()
        reading = threading.Thread(target=_read, args=(ours, actual))
        reading.start()
        with os.fdopen(theirs, "w") as terminal:
            monkeypatch.setattr(sys, "stdout", terminal)
            monkeypatch.setattr(sys, "stderr", terminal)
            monkeypatch.setattr(watch.console, "is_interactive", True)  # as from the start on a terminal
            with pytest.raises(SystemExit) as ended:
                main([str(a) for a in arguments], prog_name="altneu")
        reading.join()
        os.close(ours)
        return ended.value.code, actual.decode()

    return run


def _read(terminal, found):
    try:
        while data := os.read(terminal, 1 << 16):
            found.extend(data)
    except OSError:  # which is how a terminal ends
        return


def test_colours_on_a_terminal_unless_they_are_not_wanted(on_terminal, store_path):
    code, shown = on_terminal("query", "--path", store_path, "TABLE totals")
    assert (code, "\x1b[1m" in shown, "(3 rows of time 2)" in shown) == (0, True, True)
    assert "\x1b[32mok" in on_terminal("doctor", "--quick")[1]
    plain = on_terminal("doctor", "--quick", NO_COLOR="1")[1]
    assert "ok" in plain
    assert "\x1b[3" not in plain


def test_a_terminal_is_given_so_many_rows(on_terminal, store_path):
    code, shown = on_terminal("query", "--path", store_path, "SELECT x FROM generate_series(1, 2000) g(x)")
    assert (code, shown.count("\r\n") < 1010) == (0, True)
    assert "(2000 rows of time 2, of which 1000 are shown; --format csv, json or parquet gives all)" in shown


def test_progress_of_what_takes_long(on_terminal, store_path, monkeypatch):
    """A line that says what goes on, on a terminal; it is gone when something else is written."""
    monkeypatch.setattr("altneu.runtime.progress.PATIENCE", 0.1)
    code, shown = on_terminal(
        "query", "--path", store_path, "SELECT sum(x) AS s FROM generate_series(1, 60000000) g(x)"
    )
    assert code == 0
    said, rows = shown.split("1800000030000000", 1)
    assert "altneu: answering the query, " in said
    assert said.rindex("\x1b[2K") > said.rindex("altneu: ")  # the line is wiped, and the rows have one of their own
    assert "altneu:" not in rows


def test_nothing_of_it_where_nobody_looks_on(call, store_path, monkeypatch):
    monkeypatch.setattr("altneu.runtime.progress.PATIENCE", 0.1)
    done = call("query", "--path", store_path, "SELECT sum(x) AS s FROM generate_series(1, 3000000) g(x)")
    assert (done.code, done.err) == (0, "(1 row of time 2)\n")
