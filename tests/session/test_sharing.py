"""One session between threads."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial

import altneu as an

N = an.source("n", "k long, v long", keep=True)
BATCHES, SIZE, THREADS = 30, 10, 4


def insert(session, thread):
    for i in range(BATCHES):
        session.insert("n", [(thread, i)] * SIZE)


def advance(session, done):
    while not done.is_set():
        session.advance()


def read(session, done):
    while not done.is_set():
        assert all(n % SIZE == 0 for (n,) in session.view("total").to_pylist())


def maintain(session):
    for i in range(10):
        session.maintain(f"late {i}", N.filter(f"k = {i}"))


def in_threads(*works):
    """Start functions at once; returns the threads, and a list of what they raise."""
    start, failures = threading.Barrier(len(works)), []

    def run(work):
        try:
            start.wait(30)
            work()
        except Exception as error:  # noqa: BLE001 -- the test looks at it
            failures.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    return threads, failures


def test_threads_may_insert_advance_read_and_maintain_at_once():
    """Nothing is lost, nothing counts twice, and readers see whole batches."""
    with an.Session() as session:
        view = session.maintain("all", N)
        total = session.maintain("total", N.group_by().agg(n="count(*)"))
        done = threading.Event()
        writers = [partial(insert, session, thread) for thread in range(THREADS)]
        others = [partial(maintain, session), partial(advance, session, done), partial(read, session, done)]
        threads, failures = in_threads(*writers, *others)
        for thread in threads[: THREADS + 1]:
            thread.join(60)
        done.set()
        for thread in threads:
            thread.join(60)
        session.advance()
        assert failures == []
        assert total.to_pylist() == [(THREADS * BATCHES * SIZE,)]
        assert Counter(view.to_pylist()) == Counter({(t, i): SIZE for t in range(THREADS) for i in range(BATCHES)})
        assert [len(session.view(f"late {t}").to_pylist()) for t in range(THREADS)] == [BATCHES * SIZE] * THREADS
