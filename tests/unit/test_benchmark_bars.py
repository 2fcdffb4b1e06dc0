"""The table of bars: which cases it runs, how it judges what they say, and what it shows."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from benchmarks import __main__ as command
from benchmarks import bars
from benchmarks.bars import Bar
from benchmarks.peers.measure import Figures
from benchmarks.report import Measurement

RATE = Bar("jobs", "sqlite", "process", "per_s", 30_000)
CPU = Bar("jobs", "sqlite", "process", "cpu_us_per_job", 26)
MEMORY = Bar("memory", "sqlite", "handles", "megabytes", 200)


def _line(**figures: float) -> str:
    one = Measurement(bench="jobs", backend="sqlite", case="process", **figures)  # type: ignore[arg-type]
    return msgspec.json.encode(one).decode()


def test_every_bar_is_a_figure_of_a_case_that_there_is() -> None:
    for bar in (*bars.BARS, *bars.LONG_BARS):
        assert bar.case in getattr(command, bar.bench).CASES, bar
        assert bar.figure in Measurement.__struct_fields__, bar
    assert len(set(bars.BARS)) == len(bars.BARS)


def test_a_case_of_two_bars_is_run_once_and_one_of_memory_by_itself() -> None:
    running = MEMORY._replace(case="running")
    made = bars.commands([RATE, CPU, MEMORY, running], "postgresql://there")

    assert made == [
        ("jobs", "--backend", "sqlite", "--json", "--case", "process"),
        ("memory", "--backend", "sqlite", "--json", "--case", "handles"),
        ("memory", "--backend", "sqlite", "--json", "--case", "running"),
    ]


def test_idle_workers_are_measured_before_anything_else() -> None:
    idle = Bar("jobs", "sqlite", "idle", "core_percent", 0.3)

    assert [made[-1] for made in bars.commands([RATE, idle], "")] == ["idle", "process"]


def test_only_a_database_server_is_named_by_its_address() -> None:
    (made,) = bars.commands([RATE._replace(backend="postgres")], "postgresql://there")

    assert made[3:6] == ("--json", "--url", "postgresql://there")


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"benches": ["memory"], "backends": ["sqlite"]}, {"running", "handles"}),
        ({"cases": ["idle_fleet"]}, {"idle_fleet"}),
    ],
)
def test_only_what_was_asked_for_is_chosen(asked: dict[str, Sequence[str]], names: object) -> None:
    nothing: dict[str, Sequence[str]] = {"benches": (), "backends": (), "cases": ()}

    wanted = {**nothing, **asked}
    chosen = bars.chosen(wanted["benches"], wanted["backends"], wanted["cases"], peers=False)

    assert {bar.case for bar in chosen} == names


def test_those_that_take_long_are_chosen_in_place_of_the_others() -> None:
    long = bars.chosen([], ["postgres"], ["process_unvacuumed", "process"], peers=False, long=True)

    assert [bar.case for bar in long] == ["process_unvacuumed"]


def test_a_rate_is_to_be_at_least_its_bar_and_a_cost_at_most() -> None:
    answers = iter([_line(per_s=29_000.0, cpu_us_per_job=20.0)])

    rate, cpu = bars.measure([RATE, CPU], "", 1, lambda _: [next(answers)])

    assert (rate.measured, rate.met) == (29_000, False)
    assert (cpu.measured, cpu.met) == (20, True)


def test_the_median_of_the_runs_is_judged() -> None:
    answers = iter([_line(per_s=rate) for rate in (31_000.0, 10_000.0, 32_000.0)])

    (row,) = bars.measure([RATE], "", 3, lambda _: [next(answers)])

    assert (row.least, row.measured, row.most, row.met) == (10_000, 31_000, 32_000, True)


def test_a_case_that_failed_is_shown_as_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    rows = bars.measure([RATE, MEMORY], "", 1, lambda _: [])
    bars.show([RATE, MEMORY], rows, "title")

    assert [row.met for row in rows] == [None, None]
    assert capsys.readouterr().out.count("not measured") == 2


def test_the_table_says_what_was_met_and_what_was_missed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = bars.measure([RATE, CPU], "", 1, lambda _: [_line(per_s=29_000.0, cpu_us_per_job=20.0)])
    bars.show([RATE, CPU], rows, "how the machine was")
    title, *lines = capsys.readouterr().out.splitlines()
    rate, cpu = (line for line in lines if "process" in line)

    assert title == "how the machine was"
    assert all(word in rate for word in ("≥ 30,000", "29,000", "MISSED"))
    assert all(word in cpu for word in ("≤ 26", "20.0", "met"))


def test_peers_are_measured_where_asked_and_ours_is_told_beside_each() -> None:
    wanted = bars.chosen(["peers"], [], [], peers=True)
    figures = [
        Figures("offpath", process=22.0, enqueue_one=5.0, enqueue_bulk=9.0),
        Figures("pgqueuer", process=10.0, enqueue_one=10.0, enqueue_bulk=9.0),
        Figures("graphile-worker-batched", process=20.0, enqueue_one=1.0, enqueue_bulk=10.0),
    ]
    rows = bars.measure(wanted, "", 1, lambda _: [msgspec.json.encode(f).decode() for f in figures])

    assert bars.chosen(["peers"], [], [], peers=False) == []
    assert [(row.measured, row.met) for row in rows] == [
        (2.2, True),
        (1.1, True),
        (0.5, False),
        (0.9, False),
    ]
