import asyncio
import builtins
import math
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import pytest

from offpath.errors import InvalidArgument, MissingExtra
from offpath.runtime.catalogue import CATALOGUE, ROWS, Metric, MetricKind
from offpath.runtime.metrics import SERIES_LIMIT, Metrics, SeriesReading, plain_name
from offpath.runtime.prometheus import MetricsCollector, exposition


def test_counters_and_gauges() -> None:
    metrics = Metrics()
    metrics.counter("mail.sent", kind="a").add()
    metrics.counter("mail.sent", kind="a").add(2.5)
    gauge = metrics.gauge("mail.open")
    gauge.set(5)
    gauge.add(-2)
    gauge.peak(2)
    gauge.peak(4)
    read = metrics.get("mail.sent", kind="a")
    assert read is not None
    assert (read.value, read.kind, read.labels) == (3.5, MetricKind.COUNTER, {"kind": "a"})
    assert [one.value for one in metrics.list()] == [3.5, 4]
    assert [one.name for one in metrics.list("mail.open")] == ["mail.open"]
    assert metrics.get("mail.sent", kind="b") is None


def test_a_counter_cannot_go_down() -> None:
    with pytest.raises(InvalidArgument, match=r"mail\.sent cannot go down"):
        Metrics().counter("mail.sent").add(-1)


def test_the_order_of_labels_makes_no_difference() -> None:
    metrics = Metrics()
    assert metrics.counter("x", a="1", b="2") is metrics.counter("x", b="2", a="1")
    assert metrics.counter("x", a="1", b="2") is not metrics.counter("x", a="2", b="1")


def test_an_enum_as_a_label_is_its_text() -> None:
    class State(StrEnum):
        DEAD = "dead"

    metrics = Metrics()
    series = metrics.counter("x", state=State.DEAD)
    assert series is metrics.counter("x", state="dead")
    assert type(series.read().labels["state"]) is str


def test_a_name_has_one_kind() -> None:
    metrics = Metrics()
    metrics.counter("x", a="1")
    for labels in ({"a": "1"}, {"a": "2"}):
        with pytest.raises(InvalidArgument, match="x is a counter, not a gauge"):
            metrics.gauge("x", **labels)
    metrics.counter("a.b")
    with pytest.raises(InvalidArgument, match="is a counter, not a summary"):
        metrics.summary("a_b")


def test_summaries() -> None:
    summary = Metrics().summary("x")
    assert summary.quantile(0.5) == 0
    for value in range(1, 101):
        summary.observe(value)
    read = summary.read()
    assert (read.value, read.total, read.min, read.max, read.avg) == (100, 5050, 1, 100, 50.5)
    assert 40 <= summary.quantile(0.5) <= 60
    assert summary.quantile(0.5) <= summary.quantile(0.95) <= summary.quantile(0.99) <= 100
    assert summary.quantile(0) == 1
    assert summary.quantile(1) == 100
    assert read.buckets[:4] == ((1, 1), (2, 2), (5, 5), (10, 10))
    assert read.buckets[-1] == (math.inf, 100)


def test_the_overflow_of_a_summary_is_its_greatest() -> None:
    summary = Metrics().summary("x")
    summary.observe(70_000)
    summary.observe(80_000, times=3)
    assert summary.quantile(0.5) == 80_000
    assert summary.read().total == 310_000


def test_quantiles_stay_inside_what_was_observed() -> None:
    summary = Metrics().summary("x")
    summary.observe(150, times=10)
    assert {summary.quantile(share / 10) for share in range(11)} == {150}
    below_zero = Metrics().summary("x")
    below_zero.observe(-5)
    assert below_zero.quantile(0.5) == -5


def test_an_empty_summary_reads_as_zeros() -> None:
    read = Metrics().summary("x").read()
    assert (read.value, read.total, read.min, read.max, read.avg) == (0, 0, 0, 0, 0)
    assert set(read.quantiles.values()) == {0}


def test_our_times_are_never_below_zero() -> None:
    summary = Metrics().summary("offpath_job_wait_seconds", task="t")
    summary.observe(-3)
    assert summary.read().min == 0


def test_described_metrics() -> None:
    metrics = Metrics()
    metrics.describe(Metric("size", MetricKind.SUMMARY, (), "Bytes.", (10.0, 100.0)))
    metrics.summary("size").observe(50)
    assert [bound for bound, _ in metrics.summary("size").read().buckets] == [10, 100, math.inf]
    assert metrics.metric("size").help == "Bytes."
    with pytest.raises(InvalidArgument, match="in use already"):
        metrics.describe(Metric("size", MetricKind.COUNTER, (), "Bytes."))
    with pytest.raises(InvalidArgument, match="must rise"):
        metrics.describe(Metric("other", MetricKind.SUMMARY, (), "", (2.0, 1.0)))
    with pytest.raises(InvalidArgument, match="engine's"):
        metrics.describe(Metric("offpath_x", MetricKind.COUNTER, (), ""))
    with pytest.raises(InvalidArgument, match="no metric"):
        metrics.metric("unheard")


def test_the_engines_names_and_labels_are_those_of_the_catalogue() -> None:
    metrics = Metrics()
    metrics.counter("offpath_jobs_queued_total", queue="q", task="t").add()
    with pytest.raises(InvalidArgument, match="not in the catalogue"):
        metrics.counter("offpath_jobs_lost_total")
    with pytest.raises(InvalidArgument, match="labelled by task, queue, not by task"):
        metrics.counter("offpath_jobs_queued_total", task="t")
    with pytest.raises(InvalidArgument, match="is a counter"):
        metrics.gauge("offpath_jobs_queued_total", task="t", queue="q")


def test_the_catalogue_is_well_formed() -> None:
    assert len(CATALOGUE) == len(ROWS)
    for row in ROWS:
        assert plain_name(row.name) == row.name
        assert row.name.startswith("offpath_")
        assert row.help.endswith((".", ")."))
        assert row.name.endswith("_total") == (row.kind is MetricKind.COUNTER)
        assert list(row.bounds) == sorted(set(row.bounds))
        assert bool(row.bounds) == (row.kind is MetricKind.SUMMARY)
        if "Unix time" in row.help or row.name.endswith("_timestamp_seconds"):
            assert row.kind is MetricKind.GAUGE


def test_the_number_of_series_is_bounded() -> None:
    metrics = Metrics()
    for number in range(SERIES_LIMIT + 5):
        metrics.counter("x", id=str(number)).add()
    assert len(metrics.list()) == SERIES_LIMIT + 1
    overflow = metrics.get("x", overflow="true")
    assert overflow is not None
    assert overflow.value == 5


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_subscribers_get_one_batch_for_a_burst() -> None:
    metrics = Metrics()
    batches: list[Sequence[SeriesReading]] = []
    end = metrics.subscribe(batches.append)
    one, other = metrics.counter("one"), metrics.gauge("other")
    one.add()
    one.add()
    other.set(7)
    await settle()
    assert [[(r.name, r.value) for r in batch] for batch in batches] == [[("one", 2), ("other", 7)]]
    one.add()
    await settle()
    assert len(batches) == 2
    one.add()
    end()
    await settle()
    one.add()
    await settle()
    assert len(batches) == 2
    assert metrics.watched is False


async def test_a_subscriber_that_raises_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics()
    told: list[int] = []

    def broken(batch: Sequence[SeriesReading]) -> None:
        raise ZeroDivisionError

    metrics.subscribe(broken)
    metrics.subscribe(lambda batch: told.append(len(batch)))
    for _ in range(2):
        metrics.summary("x").observe(1)
        await settle()
    assert told == [1, 1]
    assert caplog.text.count("a metrics subscriber raised ZeroDivisionError") == 2


def test_prometheus_text() -> None:
    metrics = Metrics()
    metrics.counter("work.succeeded", type="p").add()
    metrics.gauge("9bad.name-here", **{"a-b": 'a"b\\c\nd'}).set(-math.inf)
    metrics.gauge("up").set(math.inf)
    metrics.counter("offpath_jobs_queued_total", task="t", queue="q").add(3)
    summary = metrics.summary("work.total_time", type="p")
    for value in (1, 3, 70_000):
        summary.observe(value)
    lines = exposition(metrics).splitlines()
    for line in (
        "# TYPE work_succeeded_total counter",
        'work_succeeded_total{type="p"} 1.0',
        '_9bad_name_here{a_b="a\\"b\\\\c\\nd"} -Inf',
        "up +Inf",
        "# HELP offpath_jobs_queued_total Jobs enqueued.",
        'offpath_jobs_queued_total{queue="q",task="t"} 3.0',
        "# TYPE work_total_time histogram",
        'work_total_time_bucket{le="1.0",type="p"} 1.0',
        'work_total_time_bucket{le="5.0",type="p"} 2.0',
        'work_total_time_bucket{le="+Inf",type="p"} 3.0',
        'work_total_time_count{type="p"} 3.0',
        'work_total_time_sum{type="p"} 70004.0',
    ):
        assert line in lines
    assert sum(line.startswith("# TYPE") for line in lines) == 5


def test_every_row_of_the_catalogue_can_be_exposed() -> None:
    from prometheus_client.parser import text_string_to_metric_families

    metrics = Metrics()
    for row in ROWS:
        getattr(metrics, row.kind)(row.name, **dict.fromkeys(row.labels, "x"))
    families = {
        family.name: family for family in text_string_to_metric_families(exposition(metrics))
    }
    assert len(families) == len(ROWS)
    for row in ROWS:
        family = families[row.name.removesuffix("_total")]
        assert family.documentation == row.help
        assert family.samples


def test_beside_metrics_of_ones_own() -> None:
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()
    Gauge("mine", "My own.", registry=registry).set(1)
    metrics = Metrics()
    registry.register(MetricsCollector(metrics))
    metrics.gauge("ours").set(2)
    text = generate_latest(registry).decode()
    assert "mine 1.0" in text
    assert "ours 2.0" in text


def test_without_the_library_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("prometheus_client"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "prometheus_client", raising=False)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=r"pip install .*\[metrics\]'"):
        exposition(Metrics())
