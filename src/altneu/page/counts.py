"""Numbers that only grow, counted step by step, for Prometheus."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram

if TYPE_CHECKING:
    from altneu.engine.history import Step

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)  # seconds


class Counts:
    """Counters of steps and of the rows that they took and gave."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.steps = Counter("altneu_steps", "Steps that ended, by where they ran.", ["placement"], registry=registry)
        self.seconds = Histogram(
            "altneu_step_seconds", "Wall time of a step, its commit included.", buckets=BUCKETS, registry=registry
        )
        self.rows_in = Counter("altneu_rows_in", "Updates that steps took up.", registry=registry)
        self.rows_out = Counter("altneu_view_changes", "Changes of a view.", ["view"], registry=registry)

    def step(self, step: Step) -> None:
        """Count a step."""
        self.steps.labels(step.placement or "none").inc()
        self.seconds.observe(step.seconds)
        self.rows_in.inc(step.changes_in)
        for view, rows in step.changes_out.items():
            self.rows_out.labels(view).inc(rows)
