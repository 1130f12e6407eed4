"""What an arrangement retains of its input is a value, of which rules, readers and EXPLAIN ask what they need."""

from __future__ import annotations

import altneu as an
from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.arrange.retention import EveryUpdate
from altneu.operators.asof.retention import LockedMatches
from altneu.operators.latest.retention import LatestEvents
from altneu.operators.source.retention import CommandedRows
from altneu.order import Epoch
from altneu.plan.lower import lower

LOG = an.source("log", "k long, at long")
RATES = an.source("rates", "k long, since long, rate long")
PEOPLE = an.source("people", "k long, name string", key="k")


def arrangements(collection):
    plan = lower({"v": collection.node}, Epoch(), 2)
    actual = [node.operation for node in plan.nodes if isinstance(node.operation, ArrangeOp)]
    return {type(operation.retention): operation for operation in actual}, plan


def facts(operation):
    retention = operation.retention
    return operation.transforms, operation.has_collection, retention.needs_history, operation.shard_key


def test_each_way_says_of_itself_what_readers_need():
    latest, _ = arrangements(LOG.latest("k", "at"))
    assert facts(latest[LatestEvents]) == (True, False, False, ("k",))
    assert facts(latest[EveryUpdate])[:3] == (False, True, False)
    keyed, _ = arrangements(PEOPLE)
    assert facts(keyed[CommandedRows]) == (True, True, False, ("k",))
    locked, plan = arrangements(LOG.asof_join(RATES, on="k", left_time="at", right_time="since", mode="locked"))
    assert facts(locked[LockedMatches]) == (True, False, False, ("k",))
    assert plan.shard_key(locked[LockedMatches].arrangement) == ("k",)
    assert locked[LockedMatches].layout.key == ("k", "at"), "by the whole row, in the shard of the right rows"
    timed, _ = arrangements(LOG.select("k", "at", came="update_time()"))
    assert facts(timed[LockedMatches]) == (True, False, True, ("k", "at"))
