"""The benchmarks run and say what they promise to. How fast things are is not asserted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import economy, features, health, jobs, leases, memory, raw, scale
from benchmarks.__main__ import main
from benchmarks.report import Measurement, percentile

FIELDS = {
    "bench",
    "backend",
    "case",
    "per_s",
    "raw_per_s",
    "ratio",
    "p50_ms",
    "p99_ms",
    "cpu_us_per_job",
}
RATES = ("enqueue_one", "enqueue_concurrent", "enqueue_bulk", "process")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"JOBS": 200, "_BULK": 100, "_SINGLES": 5, "_CONCURRENT": 100, "_PROBES": 3}
    sizes |= {"_LANES": 200, "_ROUNDS": 2, "_HELD_ROUNDS": 2}
    for name, size in sizes.items():
        monkeypatch.setattr(jobs, name, size)
    monkeypatch.setattr(jobs, "_IDLE_SECONDS", 0.05)
    monkeypatch.setattr(jobs, "_SETTLING", 0.0)
    monkeypatch.setattr(jobs, "_FLEET", 2)
    monkeypatch.setattr(jobs, "_GAP", 0.0)
    monkeypatch.setattr(jobs, "_STEADY", dict.fromkeys((1, 50, 500), 1))
    monkeypatch.setattr(raw, "_SINGLES", 5)
    monkeypatch.setattr(raw, "_BATCH", 100)


def _run(backend: str, *more: str) -> list[dict[str, Any]]:
    answer = CliRunner().invoke(main, ["jobs", "--backend", backend, "--json", *more])
    assert answer.exit_code == 0, answer.output
    return [json.loads(line) for line in answer.output.splitlines()]


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_every_case_is_one_line_with_the_promised_fields(backend: str) -> None:
    lines = _run(backend)

    assert [line["case"] for line in lines] == list(jobs.CASES)
    for line in lines:
        assert line.keys() >= FIELDS
        assert (line["bench"], line["backend"]) == ("jobs", backend)
    by_case = {line["case"]: line for line in lines}
    assert all(by_case[case]["per_s"] > 0 for case in RATES)
    assert by_case["process"]["ratio"] > 0
    assert 0 < by_case["latency"]["p50_ms"] <= by_case["latency"]["p99_ms"]
    assert by_case["idle"]["cpu_s_per_min"] >= 0


def test_the_bare_statements_process_every_job() -> None:
    rates = raw.sqlite_rates(200)

    assert rates.keys() == {"process", "enqueue_bulk", "enqueue_one"}
    assert all(rate > 0 for rate in rates.values())


def test_only_the_cases_that_were_asked_for_are_run() -> None:
    lines = _run("memory", "--case", "enqueue_bulk")

    assert [line["case"] for line in lines] == ["enqueue_bulk"]


def test_the_table_names_every_case() -> None:
    answer = CliRunner().invoke(main, ["jobs", "--backend", "memory"])

    assert answer.exit_code == 0, answer.output
    assert all(case in answer.output for case in jobs.CASES)


def test_a_ratio_is_given_only_beside_a_rate_of_the_same_case() -> None:
    ours = Measurement(bench="jobs", backend="sqlite", case="process", per_s=50.0)
    other = Measurement(bench="jobs", backend="sqlite", case="latency", p50_ms=1.0)

    assert ours.beside({"process": 100.0}).ratio == 0.5
    assert other.beside({"process": 100.0}).ratio is None


def test_percentiles_are_values_that_were_seen() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_the_cost_of_supervision_is_a_share_of_the_workers_cpu(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in {"JOBS": 200, "_BULK": 100, "TURNS": 100, "CALLS": 3}.items():
        monkeypatch.setattr(health, name, size)
    answer = CliRunner().invoke(main, ["health", "--backend", backend, "--json"])
    assert answer.exit_code == 0, answer.output
    (line,) = (json.loads(one) for one in answer.output.splitlines())
    assert (line["bench"], line["case"], line["backend"]) == ("health", "supervision", backend)
    assert line["ratio"] > 0
    assert line["per_s"] > 0
    assert "of the worker's CPU" in line["note"]


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
def test_every_case_of_the_economy_ends_with_books_that_hold(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"_ALONE": 3, "_TOGETHER": 40, "_WARM": 3, "_ROUNDS": 1, "_ROWS": 70, "_EVENTS": 70}
    for name, size in {**sizes, "_POSTINGS": 40, "_MOVED": 5}.items():
        monkeypatch.setattr(economy, name, size)
    answer = CliRunner().invoke(main, ["economy", "--backend", backend, "--json"])

    assert answer.exit_code == 0, answer.output
    lines = [json.loads(one) for one in answer.output.splitlines()]
    assert [line["case"] for line in lines] == list(economy.CASES)
    for line in lines:
        assert line.keys() >= FIELDS
        assert (line["per_s"] or line["p50_ms"]) > 0
    by_case = {line["case"]: line for line in lines}
    written = ("top_up", "spend_32", "payouts", "renewals", "promos", "inbox")
    assert all((by_case[case]["ratio"] or 0) > 0 for case in written) is (backend == "sqlite")
    assert "published" in by_case["spend_32"]["note"]


def test_leases_are_measured_beside_rows_that_they_may_not_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = dict.fromkeys(("_LANES", "_KEYS", "_QUEUES", "_SCHEDULED", "_FINISHED", "_LIMITED"), 30)
    for name, size in {**sizes, "_ROUNDS": 2, "LEASE": 5, "_BACKLOG": 20}.items():
        monkeypatch.setattr(leases, name, size)
    answer = CliRunner().invoke(main, ["leases", "--backend", "sqlite", "--json"])
    assert answer.exit_code == 0, answer.output
    lines = [json.loads(line) for line in answer.output.splitlines()]
    assert [line["case"] for line in lines] == list(leases.CASES)
    assert all(line["ratio"] > 0 for line in lines)


def _told(*command: str) -> list[dict[str, Any]]:
    answer = CliRunner().invoke(main, [*command, "--backend", "sqlite", "--json"])
    assert answer.exit_code == 0, answer.output
    return [json.loads(line) for line in answer.output.splitlines()]


def test_each_feature_is_measured_beside_plain_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "JOBS", 30)
    monkeypatch.setattr(features, "_ROUNDS", 1)
    lines = _told("features")
    assert [line["case"] for line in lines] == list(features.CASES)
    assert all(line["cpu_us_per_job"] > 0 and "bytes" in line["note"] for line in lines)


def test_memory_is_told_in_mebibytes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {
        "FLAT": 40,
        "_ROUND": 20,
        "_BULK": 10,
        "RUNNING": 5,
        "HANDLES": 20,
        "RECORDS": 2_000,
    }.items():
        monkeypatch.setattr(memory, name, size)
    lines = _told("memory")
    assert [line["case"] for line in lines] == list(memory.CASES)
    assert all("MiB" in line["note"] for line in lines)


def test_worker_processes_share_one_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "JOBS", 40)
    monkeypatch.setattr(scale, "_BULK", 20)
    (line,) = _told("scale", "--case", "processes_2")
    assert line["per_s"] > 0
