"""The output of a benchmark: one measurement a line, for people and for programs."""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Console
from rich.table import Table

_SPEED_STEPS = 2_000_000


class Measurement(msgspec.Struct, kw_only=True):
    """One case. Rates are per second, latencies in milliseconds, CPU in microseconds per job.

    What a case does not measure is None.
    """

    bench: str
    backend: str
    case: str
    per_s: float | None = None
    raw_per_s: float | None = None
    ratio: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    cpu_us_per_job: float | None = None
    server_us_per_job: float | None = None
    """CPU of a Postgres server on this machine."""
    cpu_ratio: float | None = None
    """The CPU of worker and server a job in the beginning, as a share of that in the end."""
    cpu_s_per_min: float | None = None
    """Of an idle worker."""
    core_percent: float | None = None
    """Of a core, what idle workers and a Postgres server on this machine take together."""
    server_percent: float | None = None
    """The server's part of that."""
    megabytes: float | None = None
    """Resident memory in millions of bytes."""
    speed: float | None = None
    """The answer of :func:`machine_speed` at the start of the run."""
    note: str = ""

    def beside(self, raw_rates: Mapping[str, float]) -> Measurement:
        """With the bare database's rate for the same case, if there is one, and the ratio."""
        self.raw_per_s = raw_rates.get(self.case, self.raw_per_s)
        if self.per_s and self.raw_per_s:
            self.ratio = self.per_s / self.raw_per_s
        return self


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of them lie (nearest rank)."""
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))]


def machine_speed() -> float:
    """Steps per second of a fixed Python loop: compare figures only at equal speed."""
    start = time.perf_counter()
    total = 0
    for step in range(_SPEED_STEPS):
        total += step
    return _SPEED_STEPS / (time.perf_counter() - start)


def heading(bench: str, backend: str, settings: str, speed: float) -> str:
    """One line that says where and how the figures came to be."""
    return (
        f"{bench} on {backend}: {settings}; Python {platform.python_version()}, "
        f"loop speed {speed / 1e6:.0f} M steps/s"
    )


def print_json(measurement: Measurement) -> None:
    """One object a line."""
    print(msgspec.json.encode(measurement).decode(), flush=True)


def print_table(measurements: Sequence[Measurement], title: str) -> None:
    """A table to read."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(title, highlight=False, soft_wrap=True)
    table = Table()
    table.add_column("case")
    for name in ("per s", "raw per s", "ratio", "p50 ms", "p99 ms", "CPU µs/job"):
        table.add_column(name, justify="right")
    table.add_column("note")
    for each in measurements:
        table.add_row(
            each.case,
            _number(each.per_s, 0),
            _number(each.raw_per_s, 0),
            _number(each.ratio, 2),
            _number(each.p50_ms, 2),
            _number(each.p99_ms, 2),
            _number(each.cpu_us_per_job, 1),
            each.note,
        )
    console.print(table)


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"
