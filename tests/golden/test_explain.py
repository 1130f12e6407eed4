"""What EXPLAIN says of plans that show all there is to say."""

from __future__ import annotations

import altneu as an
from tests.golden.explain_cases import PLANS
from tests.golden.golden import check


def test_explain():
    with an.Session(shards=2) as session:
        for name, plan in PLANS.items():
            session.maintain(name, plan)
        session.insert("flights", [("UA", "JFK", 70), ("UA", "EWR", -3), ("AA", "JFK", 0)])
        session.insert("carriers", [("UA", "United"), ("AA", "American")])
        session.advance()
        check("explain", "\n\n".join(session.explain(name) for name in PLANS) + "\n")
