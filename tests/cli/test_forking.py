"""``altneu swap``: a fork that statements alone can take up is swapped in; of another it is said what is missing."""

from __future__ import annotations

import altneu as an


def with_fork(folder, *, registers):
    """A store with two views, one of which may call a function of the program, and a fork with another definition."""
    with an.Session(path=folder / "blue") as session:
        session.sql("CREATE TABLE t (a STRING); INSERT INTO t VALUES ('A'), ('a')")
        if registers:
            session.udf.register("slug", lambda text: text.lower(), "string")
        session.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {'slug' if registers else 'lower'}(a) AS b FROM t")
        session.sql("CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM t")
        with session.fork(folder / "green") as fork:
            fork.sql("CREATE OR REPLACE MATERIALIZED VIEW w AS SELECT count(DISTINCT lower(a)) AS n FROM t")
    return str(folder / "blue"), str(folder / "green")


def test_a_fork_is_swapped_in(call, tmp_path):
    blue, green = with_fork(tmp_path, registers=False)
    assert call("swap", "--path", blue, "--fork", green).code == 0
    with an.Session(path=blue) as session:  # whose first step has what is different
        session.sql("INSERT INTO t VALUES ('B')")
    assert call("query", "--path", blue, "--json", "SELECT n FROM w").objects == [{"n": 2}]  # of three rows


def test_a_view_that_calls_a_function_of_a_program_is_named_with_the_remedy(call, tmp_path):
    blue, green = with_fork(tmp_path, registers=True)
    done = call("swap", "--path", blue, "--fork", green)
    assert done.code == 1
    for said in ("'slug'", "MATERIALIZED VIEW v of this store could not be restored", "session.swap"):
        assert said in done.err
    assert call("query", "--path", blue, "--json", "SELECT n FROM w").objects == [{"n": 2}]
