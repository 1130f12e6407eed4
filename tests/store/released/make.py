"""Makes the store that a release leaves behind, and what it answers: ``python -m tests.store.released.make <version>``.

Run once for each release, by that release, and kept: later versions open what earlier ones wrote. It uses what users
use, but for two limits that are lowered so that so little data has segments and a checkpoint.
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


def views() -> dict[str, an.Collection]:
    """The queries: of most kinds of state that a store keeps."""
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


def opened(path: Path) -> an.Session:
    """A session on the store, with all its views."""
    session = an.Session(path=path)
    for name, plan in views().items():
        session.maintain(name, plan)
    return session


def main(version: str) -> None:
    if software() != version:
        raise SystemExit(f"this is altneu {software()}, which makes no store of {version}")
    state.BLOB_BYTES = 2 << 10
    settings: Any = DirectoryStore.create_or_open.__kwdefaults__
    settings["checkpoint_every"] = 7
    folder, scratch = HERE / version, HERE / f"{version}.scratch"
    shutil.rmtree(folder, ignore_errors=True)
    with opened(folder / "store") as session:
        for n in range(STEPS - 1):
            step(session, n)
    with DirectoryStore.create_or_open(folder / "store") as store:
        store.vacuum(keep=1)
    with opened(folder / "store") as session:
        step(session, STEPS - 1)
        said = {"kept": answers(session)}
    (folder / "store" / "lock").unlink()  # says on which machine it was
    shutil.copytree(folder / "store", scratch)
    with opened(scratch) as session:
        for n in range(STEPS, STEPS + 2):
            step(session, n)
        said["later"] = answers(session)
    shutil.rmtree(scratch)
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in said.items()]
    (folder / "answers.json").write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main(sys.argv[1])
