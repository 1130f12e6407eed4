"""What Prometheus is told."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families


def metrics_of(client):
    answer = client.get("metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(answer.text)
    return {(s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples}


def test_counts_grow_with_steps_also_with_those_before_the_page(client, session):
    before = metrics_of(client)
    assert before["altneu_steps_total", "driver"] == before["altneu_step_seconds_count",] == 1
    assert (before["altneu_rows_in_total",], before["altneu_view_changes_total", "orders"]) == (4, 4)
    session.insert("orders", [("tea", 4, 1)])
    step = session.advance()
    after = metrics_of(client)
    assert after["altneu_steps_total", "driver"] == after["altneu_step_seconds_bucket", "+Inf"] == 2
    grown = after["altneu_step_seconds_sum",] - before["altneu_step_seconds_sum",]
    assert grown == pytest.approx(step.seconds)
    assert after["altneu_rows_in_total",] == 5
    assert after["altneu_view_changes_total", "total"] - before["altneu_view_changes_total", "total"] == 2


def test_what_is_kept_and_what_failed(client, session):
    actual = metrics_of(client)
    table = session._engine.table
    for name in table.layouts:
        assert actual["altneu_arrangement_updates", name] == table.rows(name)
        assert actual["altneu_arrangement_bytes", name] > 0 or not table.rows(name)
    assert actual["altneu_view_updates", "orders"] == 4
    assert (actual["altneu_view_errors", "each"], actual["altneu_view_errors", "total"]) == (1, 0)
    assert (actual["altneu_lower",], actual["altneu_since",], actual["altneu_step_failed",]) == (1, 0, 0)
    assert actual["process_resident_memory_bytes",] > 10_000_000


def test_two_pages_count_each_for_itself(client, session):
    with session.serve() as other:
        import httpx

        session.advance()
        with httpx.Client(base_url=other.url) as second:
            assert (
                metrics_of(second)["altneu_step_seconds_count",]
                == metrics_of(client)["altneu_step_seconds_count",]
                == 2
            )
