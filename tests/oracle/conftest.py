"""The runners: every operator test runs on each."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from altneu import Session
from altneu.operators.kernels import around, ends, located, quantiles, suffix
from altneu.operators.reduce import best_rows
from altneu.runtime.spark.versions import from_arrow, spark_schema
from tests.lane import EVERY
from tests.oracle.runners import Runner


@pytest.fixture(autouse=True)
def groups_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small a group is, no more of it is read than has to be (but for Spark's tasks, which read it whole)."""
    for name in ("SMALL", "_TIED", "_READ_FOR"):
        monkeypatch.setattr(located, name, 0)
    monkeypatch.setattr(suffix, "_SEARCHED", 0)
    monkeypatch.setattr(best_rows, "_MANY", 4)
    for module, more in ((ends, 2), (around, 2), (quantiles, 0)):
        monkeypatch.setattr(module, "_MORE", more)
    monkeypatch.setattr(ends, "LEAST", 1)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of two tests on Spark that are alike one runs: with all steps there, or every other one, as the name decides.

    ``ALTNEU_EVERY=1`` runs both, as ``make spark-matrix`` does.
    """
    if EVERY:
        return
    here, kept, names = Path(__file__).parent, list[pytest.Item](), {item.nodeid for item in items}
    left_out = list[pytest.Item]()
    for item in items:
        runner = _runner_of(item) if item.path.is_relative_to(here) else ""
        other = OTHER.get(runner)
        if other is not None and item.nodeid.replace(f"[{runner}", f"[{other}", 1) in names:
            chosen = SPARK[zlib.crc32(item.nodeid.replace(f"[{runner}", "[", 1).encode()) % 2]
            (kept if runner == chosen else left_out).append(item)
        else:
            kept.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def _runner_of(item: pytest.Item) -> str:
    call = getattr(item, "callspec", None)
    return "" if call is None else str(call.params.get("runner", ""))


SPARK = ("spark", "mixed")
OTHER = dict(zip(SPARK, reversed(SPARK), strict=True))


@pytest.fixture(
    scope="session",
    params=[
        "memory",
        "shards",
        "durable",
        pytest.param("driver", marks=pytest.mark.spark),
        pytest.param("spark", marks=pytest.mark.spark),
        pytest.param("mixed", marks=pytest.mark.spark),
    ],
)
def runner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    match request.param:
        case "memory":
            yield Runner("memory", lambda _: Session())
        case "shards":
            yield Runner("shards", lambda _: Session(shards=3))
        case "durable":
            folder = lambda: tmp_path_factory.mktemp("store")  # noqa: E731
            yield Runner("durable", lambda path: Session(path=path), folder, reopened=True)
        case "driver":
            spark = request.getfixturevalue("spark")
            yield Runner("driver", lambda _: Session(spark, shards=3, placement="driver"), together=True)
        case "spark":
            spark = request.getfixturevalue("spark")
            yield Runner(
                "spark",
                lambda _: Session(spark, placement="spark"),
                together=True,
                convert=lambda table: from_arrow(spark, table, spark_schema(table.schema)),
            )
        case "mixed":
            spark = request.getfixturevalue("spark")
            yield Runner("mixed", lambda _: Session(spark), together=True, before_step=alternate)


def alternate(session: Session, step: int) -> None:
    """Every other step runs in the driver, on what Spark's tasks wrote before, and the other way round."""
    session._engine.executor.placement = ("spark", "driver")[step % 2]
