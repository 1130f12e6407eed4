"""What a session with a loop keeps of a long history that came in one step."""

import altneu as an

TIMES = 3_000


def test_a_long_history_is_compacted_in_a_session_with_a_loop_too(tmp_path):
    edges = an.source("edges", "src long, dst long")

    def longer(paths):
        more = paths.join(edges, on={"dst": "src"}).select("src", dst="`right.dst`")
        return more.concat(edges).distinct()

    def opened():
        session = an.Session(path=str(tmp_path))
        views = session.maintain("reach", edges.iterate(longer)), session.maintain("all", edges.count())
        return session, views

    session, (reach, every) = opened()
    with session:
        # One edge that comes and goes all the time, and another one that stays.
        rows = [(1, 2, t, 1 if t % 2 == 0 else -1) for t in range(TIMES)] + [(2, 3, 0, 1)]
        session.insert("edges", rows, time="time", diff="diff")
        assert session.advance(to=TIMES).state_rows < 50
        assert (reach.to_pylist(), every.to_pylist()) == ([(2, 3)], [(2, 3, 1)])
    session, (reach, every) = opened()
    with session:
        session.insert("edges", [(1, 2)])
        session.advance()
        assert sorted(reach.to_pylist()) == [(1, 2), (1, 3), (2, 3)]
        assert sorted(every.to_pylist()) == [(1, 2, 1), (2, 3, 1)]
