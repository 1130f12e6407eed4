"""What tests of reshard share with other tests."""

from __future__ import annotations

import numpy as np

from altneu import Session
from altneu.columnar.hashing import hash_rows


def check_places(session: Session) -> None:
    """Every row of an arrangement that is looked up lies in the shard of its key."""
    for name, shard in {*session._engine.table.live, *session._engine.table.stored}:
        state, key = session._engine.table.get(name, shard), session._engine.plan.shard_key(name)
        label = session._engine.plan.nodes[session._engine.plan.arrangements[name]].label
        parts = [*(batch.updates() for batch in state.spine.batches), state.future.updates()]
        for part in parts if label != "errors" else []:
            assert (hash_rows(part.rows, key) % np.uint64(session.shards) == shard).all()
