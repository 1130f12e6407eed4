"""Metrics for Prometheus that are computed on request: state, errors, times, streams, Spark, memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from altneu.page.graph import explained_of
from altneu.page.monitor import Monitor
from altneu.page.payloads import streams_payload
from altneu.page.rows import count_errors
from altneu.page.snapshot import Snapshot

Labels = tuple[str, ...]
Samples = Iterable[tuple[Labels, float]]


class Looked(Collector):
    """Gauges of a session as of its last commit; asking waits for no step."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor

    def collect(self) -> Iterator[Metric]:
        """All of them."""
        snapshot = self._monitor.snapshot
        yield _gauge("altneu_lower", "The frontier: times before it are closed.", [((), snapshot.lower)])
        yield _gauge("altneu_since", "The least time that can be read.", [((), snapshot.since)])
        doing = self._monitor.engine.past.doing
        seconds = 0.0 if doing is None else doing.seconds
        yield _gauge("altneu_step_running_seconds", "Duration of the running step so far.", [((), seconds)])
        failed = float(self._monitor.engine.past.failed is not None)
        yield _gauge("altneu_step_failed", "Whether the last step failed.", [((), failed)])
        yield from _state(snapshot)
        yield from _operators(self._monitor, snapshot)
        yield from _streams(snapshot)
        jobs = self._monitor.engine.jobs
        yield _counter("altneu_spark_jobs", "Spark jobs that steps were.", [((), jobs.count)])
        yield _counter("altneu_spark_job_seconds", "Wall time of them.", [((), jobs.seconds)])
        read = [((source,), float(rows)) for source, rows in jobs.read.items()]
        yield _counter("altneu_spark_rows_read", "Rows of DataFrames, as Spark counts them.", read, ("source",))


def _gauge(name: str, help_: str, samples: Samples, labels: Labels = ()) -> Metric:
    family = GaugeMetricFamily(name, help_, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _counter(name: str, help_: str, samples: Samples, labels: Labels = ()) -> Metric:
    family = CounterMetricFamily(name, help_, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _state(snapshot: Snapshot) -> Iterator[Metric]:
    sizes, arranged, viewed = snapshot.sizes, ("arrangement",), ("view",)
    rows = [((name,), float(updates)) for name, (updates, _) in sizes.items()]
    size = [((name,), float(size)) for name, (_, size) in sizes.items()]
    yield _gauge("altneu_arrangement_updates", "Updates that an arrangement keeps.", rows, arranged)
    yield _gauge("altneu_arrangement_bytes", "Bytes of an arrangement, approximately.", size, arranged)
    sizes_by_view = [((name,), float(sizes.get(snapshot.ports(name).contents, (0, 0))[0])) for name in snapshot.views]
    yield _gauge("altneu_view_updates", "Updates in the stored contents of a view.", sizes_by_view, viewed)
    errors = [((name,), float(count_errors(snapshot, name))) for name in snapshot.views]
    yield _gauge("altneu_view_errors", "Rows and groups that failed below a view.", errors, viewed)


def _operators(monitor: Monitor, snapshot: Snapshot) -> Iterator[Metric]:
    explained = monitor.windows.remembered(
        (snapshot, None, "graph"), lambda: explained_of(snapshot, None, monitor.facts())
    )
    named: Labels = ("operator", "kind", "label")
    did = [((o.id, o.kind, o.label), o.total) for o in explained.operators if o.total is not None]

    def of(key: str) -> Samples:
        return [(labels, float(getattr(total, key))) for labels, total in did]

    yield _counter("altneu_operator_rows_in", "Updates that an operator received.", of("rows_in"), named)
    yield _counter("altneu_operator_rows_out", "Updates that an operator produced.", of("rows_out"), named)
    yield _counter("altneu_operator_errors", "Error rows that an operator produced.", of("errors"), named)
    yield _counter(
        "altneu_operator_seconds", "Seconds that an operator worked, added up over shards.", of("seconds"), named
    )
    yield _counter("altneu_operator_steps", "Steps in which an operator had work.", of("steps"), named)


def _streams(snapshot: Snapshot) -> Iterator[Metric]:
    streams = streams_payload(snapshot)
    named: Labels = ("stream",)

    def of(key: str) -> Samples:
        return [((t["name"],), float(t[key])) for t in streams if t[key] is not None]

    yield _gauge("altneu_stream_active", "Whether a stream is being followed.", of("active"), named)
    yield _gauge("altneu_stream_lag", "How far lower is behind the greatest time received.", of("lag"), named)
    yield _counter("altneu_stream_batches", "Micro-batches taken in this run.", of("batches"), named)
    yield _counter("altneu_stream_rows", "Rows taken, of all runs.", of("rows"), named)
    yield _counter(
        "altneu_stream_late_rows", "Rows that arrived after their time was closed, in all runs.", of("late"), named
    )
    yield _gauge("altneu_stream_batch_seconds", "Seconds of the last micro-batch.", of("last_seconds"), named)
    for key, name, help_ in (
        ("inputRowsPerSecond", "input", "Input rows per second, as Spark reports them (StreamingQueryProgress)."),
        ("processedRowsPerSecond", "processed", "Processed rows per second, as Spark reports them."),
    ):
        rates = [((t["name"],), float(t["spark"][key])) for t in streams if t["spark"] and t["spark"][key] is not None]
        yield _gauge(f"altneu_stream_{name}_rows_per_second", help_, rates, named)


def registered(monitor: Monitor) -> CollectorRegistry:
    """The monitor's registry, with what is looked up in it."""
    monitor.registry.register(Looked(monitor))
    ProcessCollector(registry=monitor.registry)
    return monitor.registry


def exposed(registry: CollectorRegistry) -> bytes:
    """All metrics in Prometheus' text format."""
    return generate_latest(registry)
