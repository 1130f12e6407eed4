"""Makes the store that a release leaves behind, and what it answers: ``python -m tests.store.released.make <version>``.

Run once for each release, by that release, and kept: later versions open what earlier ones wrote. It uses what users
use, but for two limits that are lowered so that so little data has segments and a checkpoint. What follows a hyphen
says what the release was like: ``0.2.0-flat`` is 0.2.0 before its modules were put into folders, with more views.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import altneu as an
from altneu.runtime import state
from altneu.store import DirectoryStore
from altneu.store.identity import software

HERE = Path(__file__).parent
ITEMS = ("tea", "jam", "salt", "rye")
STEPS = 3


def views(release: str) -> dict[str, an.Collection]:
    """The queries: of most kinds of state that a store keeps."""
    return first_views() if release in ("0.1.0", "0.2.0") else {**first_views(), **more_views()}


def more_views() -> dict[str, an.Collection]:
    """Of operators that are newer, or whose state or name may change with the code."""
    orders = an.source("orders", "item string, price long, day long")
    prices = an.source("prices", "item string, factor double")
    edges = an.source("edges", "src long, dst long")
    days = orders.select("item", at="day", then="price")
    wedges = edges.join(edges, on={"dst": "src"}).select(a="src", b="dst", c="`right.dst`")
    return {
        "first": orders.top_k(2, "price desc, day", per="item"),
        "first of all": orders.top_k(3, "price"),
        "days": orders.select("item", "day").distinct(),
        "counted": orders.count(),
        "placed": orders.window(
            place="row_number() OVER (PARTITION BY item ORDER BY price)",
            before="lag(price) OVER (PARTITION BY item ORDER BY day)",
            running="sum(price) OVER (PARTITION BY day ORDER BY price)",
        ),
        "spread": orders.group_by("item").agg(
            middle="median(price)", kinds="count(distinct day)", last="max_by(price, day)", prices="collect_list(price)"
        ),
        "all": orders.group_by().agg(total="sum(price)", least="min(day)", most="max(price)", many="count(*)"),
        "sizes": orders.group_by("day").reduce(lambda _, rows: [len(rows)], "n long"),
        "padded": orders.join(prices, on="item", how="left").select("item", "price", "factor"),
        "unpriced": orders.antijoin(prices, on="item"),
        "known": orders.semijoin(prices, on="item"),
        "nearest": orders.asof_join(days, "item", left_time="day", right_time="at", mode="revising"),
        "locked": orders.asof_join(days, "item", left_time="day", right_time="at", mode="locked"),
        "triangles": wedges.join(edges, on={"a": "src", "c": "dst"}).select("a", "b", "c"),
        "since": orders.select("item", since="update_time()"),
        "by price": orders.arrange_by("price"),
        "delayed": orders.delay(1).select("item", "price"),
    }


def first_views() -> dict[str, an.Collection]:
    """Those of the first releases."""
    orders = an.source("orders", "item string, price long, day long")
    prices = an.source("prices", "item string, factor double")
    edges = an.source("edges", "src long, dst long")
    return {
        "total": orders.group_by("item").agg(total="sum(price)", many="count(*)", least="min(price)"),
        "priced": orders.join(prices, on="item").select("item", paid="price * factor"),
        "reach": edges.iterate(
            lambda r: r.join(edges, on={"dst": "src"}).select("src", dst="right.dst").concat(edges).distinct()
        ),
        "recent": orders.filter("day <= logical_now() and logical_now() < day + 3"),
        "shares": orders.select("item", share="100 div price"),
    }


def step(session: an.Session, n: int) -> None:
    """Insert and retract by a rule, and close a time; rows of later days wait. Every third step is a small one."""
    session.insert("prices", [(ITEMS[n % 4], 0.5 + n)])
    if n % 3 != 2:
        session.insert("orders", [(ITEMS[i % 4], (i * 7 + n) % 11, n + i % 5) for i in range(24)])
        session.insert("edges", [(n * 3 + i, n * 3 + i + 1) for i in range(4)])
    if n % 3 == 1:
        session.retract("orders", [(ITEMS[0], (n - 1) % 11, n - 1)])
        session.retract("edges", [(n * 3 - 1, n * 3)])
    session.advance()


def answers(session: an.Session) -> dict[str, Any]:
    """All that the views say: their rows, their errors and their last changes, in an order of their own."""
    said: dict[str, Any] = {"lower": session.lower}
    for name in session.views:
        view = session.view(name)
        parts = {
            "rows": [list(row) for row in view.to_pylist(errors="ignore")],
            "errors": [list(map(str, row.values())) for row in view.errors().to_pylist()],
            "changes": [list(row.values()) for row in view.changes().to_pylist()],
        }
        said[name] = {what: sorted(rows, key=repr) for what, rows in parts.items()}
    return said


def opened(path: Path, release: str) -> an.Session:
    """A session on the store of a release, with all its views."""
    session = an.Session(path=path)
    for name, plan in views(release).items():
        session.maintain(name, plan)
    return session


def main(version: str) -> None:
    if software() != version.partition("-")[0]:
        raise SystemExit(f"this is altneu {software()}, which makes no store of {version}")
    state.BLOB_BYTES = 2 << 10
    settings: Any = DirectoryStore.create_or_open.__kwdefaults__
    settings["checkpoint_every"] = 7
    folder, scratch = HERE / version, HERE / f"{version}.scratch"
    shutil.rmtree(folder, ignore_errors=True)
    with opened(folder / "store", version) as session:
        for n in range(STEPS - 1):
            step(session, n)
    with DirectoryStore.create_or_open(folder / "store") as store:
        store.vacuum(keep=1)
    with opened(folder / "store", version) as session:
        step(session, STEPS - 1)
        said = {"kept": answers(session)}
    (folder / "store" / "lock").unlink()  # says on which machine it was
    shutil.copytree(folder / "store", scratch)
    with opened(scratch, version) as session:
        for n in range(STEPS, STEPS + 2):
            step(session, n)
        said["later"] = answers(session)
    shutil.rmtree(scratch)
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in said.items()]
    (folder / "answers.json").write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main(sys.argv[1])
