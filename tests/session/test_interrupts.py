"""Ctrl-C at any moment: a KeyboardInterrupt that says what became of the step, and a session that goes on."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest
from py4j.protocol import Py4JError

import altneu as an
from altneu.columnar import sorting
from altneu.runtime import interrupts
from altneu.runtime.interrupts import Lock
from tests.interrupts import interrupted_when

N = an.source("n", "k long, v long")
UNDONE = [
    (
        "altneu: nothing of the step is committed, lower is 0, and the inserted rows are still pending: "
        "advance() takes the step again, session.discard() discards the rows"
    )
]


@pytest.fixture(autouse=True)
def handler():
    """Python's own handler of Ctrl-C, which a Spark session in this process replaces."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(params=["memory", "durable"])
def session(request, tmp_path):
    with an.Session(path=None if request.param == "memory" else tmp_path) as session:
        yield session


def goes_on(session, view, rows):
    assert session.lower == 0
    assert session._engine.has_pending
    session.advance()
    assert view.to_pylist() == rows
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def swallowed(error):
    raise ValueError("it was something else") from error


def forgotten(_):
    return 7


def said_otherwise(error):
    raise SystemError("a kernel returned a result with an exception set") from error


@pytest.mark.parametrize("meets", [forgotten, swallowed, said_otherwise])
def test_what_is_caught_on_the_way_comes_out_all_the_same(session, meets):
    struck = []

    def strike(row):
        if not struck:
            struck.append(row)
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt as error:
                return meets(error)
        return row.k

    view = session.maintain("view", N.map(strike, "k long"))
    session.insert("n", [(1, 1)])
    with pytest.raises(KeyboardInterrupt) as caught:
        session.advance()
    assert caught.value.__notes__ == UNDONE
    goes_on(session, view, [(1,)])


def test_what_a_callback_forgets_within_compiled_code_comes_out(session, monkeypatch):
    """The handler runs in whatever Python function is called next: in a finaliser Python prints it, and goes on."""

    class Finalised:
        def __del__(self):
            signal.raise_signal(signal.SIGINT)

    real = session._engine.executor.step

    def step(*arguments):
        result = real(*arguments)
        Finalised()
        return result

    view, forgotten = session.maintain("view", N), []
    session.insert("n", [(1, 1)])
    monkeypatch.setattr(sys, "unraisablehook", lambda told: forgotten.append(told.exc_type))
    monkeypatch.setattr(session._engine.executor, "step", step)
    with pytest.raises(KeyboardInterrupt):
        session.advance()
    assert forgotten == [KeyboardInterrupt]
    monkeypatch.undo()
    goes_on(session, view, [(1, 1)])


def test_within_a_long_kernel(session, monkeypatch):
    inside, kernel = threading.Event(), sorting._sort

    def slow(*arguments):
        inside.set()
        return kernel(*arguments)

    count = session.maintain("count", N.group_by().agg(n="count(*)"))
    session.maintain("pairs", N.distinct())
    numbers = np.random.default_rng(1).integers(0, 10**9, 400_000)
    session.insert("n", pa.table({"k": numbers, "v": numbers[::-1].copy()}))
    monkeypatch.setattr(sorting, "_sort", slow)
    with pytest.raises(KeyboardInterrupt) as caught, interrupted_when(inside):
        session.advance()
    monkeypatch.undo()
    assert inside.is_set()
    assert caught.value.__notes__ == UNDONE
    goes_on(session, count, [(400_000,)])


def test_while_a_view_is_added_dropped_or_its_state_parted(session, monkeypatch):
    session.maintain("all", N)
    session.insert("n", [(1, 1), (2, 2)])
    session.advance()

    def struck(name):
        real = getattr(session._engine.journal, name)

        def strike(*arguments, **named):
            signal.raise_signal(signal.SIGINT)
            return real(*arguments, **named)

        patch.setattr(session._engine.journal, name, strike)

    with monkeypatch.context() as patch:
        for name in ("commit_view", "commit_shards", "drop"):
            struck(name)
        with pytest.raises(KeyboardInterrupt):
            session.maintain("sum", N.group_by().agg(s="sum(v)"))
        assert session.view("sum").to_pylist() == [(3,)]
        with pytest.raises(KeyboardInterrupt):
            session.reshard(2)
        assert session.shards == 2
        with pytest.raises(KeyboardInterrupt):
            session.drop("sum")
    assert session.views == session.views_stored == ["all"]
    session.insert("n", [(3, 3)])
    session.advance()
    assert len(session.view("all").to_pylist()) == 3


def run(what, path):
    command = [sys.executable, "-W", "ignore", "-m", "tests.session.interrupted", what, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("kind", ["memory", "durable"])
def test_at_random_moments(tmp_path, kind):
    assert "undone" in run(kind, tmp_path)


def test_within_a_commit_it_waits_until_the_commit_is_there(tmp_path):
    said = run("signal in commit", tmp_path)
    assert "committed" in said
    assert "undone" not in said


def test_what_cuts_a_commit_all_the_same_leaves_it_there_or_not(tmp_path):
    said = run("raised in commit", tmp_path)
    assert "committed" in said
    assert "undone" in said


# the lock -------------------------------------------------------------------------------------------------------------


def test_a_lock_is_never_left_behind():
    """A signal at every single operation of taking it and giving it back."""
    lock, at, count = Lock(), 0, 0

    def trace(frame, event, _):
        nonlocal count
        if frame.f_code in interrupts._UNCUT:
            frame.f_trace_opcodes = True
            if event == "opcode":
                count += 1
                if count == at:
                    signal.raise_signal(signal.SIGINT)
            return trace
        return None

    handler, before = signal.getsignal(signal.SIGINT), sys.gettrace()
    with traced(trace, before), lock:
        pass
    operations = count
    assert operations > 50
    for at in range(1, operations + 1):
        count, came = 0, False
        try:
            with traced(trace, before), lock:
                pass
        except KeyboardInterrupt:
            came = True
        assert came, at
        assert not lock.is_mine
        assert signal.getsignal(signal.SIGINT) is handler
        assert (interrupts._state.watches, lock._depth) == ((), 0)


@contextmanager
def traced(trace, before):
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_a_handler_that_raises_nothing_is_obeyed():
    answer = []
    before = signal.signal(signal.SIGINT, lambda *_: answer.append("stop after this"))
    try:
        with Lock():
            signal.raise_signal(signal.SIGINT)
            with interrupts.deferred():
                signal.raise_signal(signal.SIGINT)
                assert len(answer) == 1
            interrupts.check()
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(answer) == 2


def test_a_handler_that_raises_its_own_is_obeyed():
    class StopError(Exception):
        pass

    def stop(*_):
        raise StopError

    def work():
        try:
            signal.raise_signal(signal.SIGINT)
        except StopError as error:
            raise SystemError from error

    before = signal.signal(signal.SIGINT, stop)
    try:
        with pytest.raises(StopError), Lock():
            work()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_that_fails_as_sparks_does_is_an_interrupt():
    """Before 4.2 it calls Java first, in the middle of the call that it cuts."""

    def stop(*_):
        raise Py4JError("An error occurred while calling o47.sc")

    before = signal.signal(signal.SIGINT, stop)
    try:
        with pytest.raises(KeyboardInterrupt), Lock():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_deferred_part_that_hangs_can_be_left(monkeypatch):
    monkeypatch.setattr(interrupts, "PATIENCE", 0.0)
    sent = []

    def work():
        for number in range(3):
            sent.append(number)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), Lock(), interrupts.deferred():
        work()
    assert sent == [0, 1]


def test_other_threads_have_nothing_to_do_with_it():
    lock, done = Lock(), threading.Event()

    def work():
        with lock, interrupts.deferred():
            interrupts.check()
        done.set()

    with lock:
        thread = threading.Thread(target=work)
        thread.start()
        assert not done.wait(0.05)
    assert done.wait(60)
    thread.join()


def test_who_waits_for_the_lock_is_interrupted():
    lock, release, held = Lock(), threading.Event(), threading.Event()

    def hold():
        with lock:
            held.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt), lock:
        pytest.fail("somebody else has it")
    release.set()
    thread.join()
    with lock:
        assert lock.is_mine


def test_what_py4j_logs_of_a_call_that_was_cut_is_not_printed(caplog):
    """PySpark's handler asks for what the cut call still reads, and Py4J logs both, with their tracebacks."""

    def log(place):
        record = logging.makeLogRecord({"pathname": place, "levelno": logging.ERROR, "msg": f"cut in {place}"})
        logging.getLogger().handle(record)

    def of_spark(*_):
        log("/lib/py4j/java_gateway.py")
        raise KeyboardInterrupt

    def cut():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            log("/lib/py4j/java_gateway.py")
            log("/app/main.py")

    signal.signal(signal.SIGINT, of_spark)
    log("/lib/py4j/clientserver.py")
    with pytest.raises(KeyboardInterrupt), Lock():
        cut()
    log("/lib/py4j/java_gateway.py")
    assert caplog.messages == [
        "cut in /lib/py4j/clientserver.py",
        "cut in /app/main.py",
        "cut in /lib/py4j/java_gateway.py",
    ]
