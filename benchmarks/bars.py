"""``python -m benchmarks bars``: what has a bar, measured by its case, in one table."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.peers.measure import Figures
from benchmarks.report import Measurement, machine_speed

_ROOT = Path(__file__).parents[1]
_PEERS: Final = ("pgqueuer", "graphile-worker-batched")
_PEER_SIZES: Final = ("--jobs", "10000", "--singles", "500", "--probes", "50", "--runs", "1")
_AT_LEAST: Final = {"per_s", "ratio", "cpu_ratio"}
_FIGURES: Final = {
    "per_s": ("a second", 0),
    "ratio": ("of raw", 2),
    "cpu_ratio": ("of fresh, by CPU", 2),
    "p50_ms": ("p50, ms", 1),
    "p99_ms": ("p99, ms", 1),
    "cpu_us_per_job": ("CPU µs a job", 1),
    "core_percent": ("with server, % of a core", 2),
    "server_percent": ("server, % of a core", 1),
    "megabytes": ("MB", 0),
}
"""The name of each figure, and how many digits behind the point are shown."""

Ask = Callable[[Sequence[str]], Iterable[str]]
"""Runs ``python -m benchmarks`` with these words, and gives what it prints, line by line."""


class Bar(NamedTuple):
    """A figure of a case, and what it is to be: at least a rate or a ratio, at most all else."""

    bench: str
    backend: str
    case: str
    figure: str
    bar: float
    beside: str = ""
    """The thing that a ratio is to, where that is not raw."""

    @property
    def label(self) -> str:
        """The figure in words."""
        return self.beside or _FIGURES[self.figure][0]

    def met(self, measured: float) -> bool:
        """True if it is as good as the bar."""
        return measured >= self.bar if self.figure in _AT_LEAST else measured <= self.bar


class Row(msgspec.Struct, kw_only=True):
    """A bar with the median of the runs, and the least and most of them. None: not measured."""

    bench: str
    backend: str
    case: str
    figure: str
    bar: float
    measured: float | None = None
    least: float | None = None
    most: float | None = None
    met: bool | None = None
    runs: int = 0


def _pickups(backend: str, p50: float, p99: float) -> Iterator[Bar]:
    for rate in (1, 50, 500):
        yield Bar("jobs", backend, f"pickup_{rate}", "p50_ms", p50)
        yield Bar("jobs", backend, f"pickup_{rate}", "p99_ms", p99)


def _shares(backend: str) -> Iterator[Bar]:
    for case in ("relay", "inbox", "route"):
        yield Bar("events", backend, case, "ratio", 0.6)
    for case in ("fan_out", "fan_in"):
        yield Bar("workflows", backend, case, "ratio", 0.85, "of plain")


BARS: Final = (
    Bar("jobs", "postgres", "process", "cpu_us_per_job", 24),
    Bar("jobs", "postgres", "enqueue_bulk", "ratio", 0.6),
    Bar("jobs", "postgres", "enqueue_concurrent", "per_s", 15_000),
    *_pickups("postgres", 3, 10),
    Bar("jobs", "postgres", "idle", "core_percent", 0.3),
    Bar("jobs", "postgres", "idle_fleet", "server_percent", 10),
    *_shares("postgres"),
    Bar("economy", "postgres", "spend_32", "per_s", 5_000),
    Bar("memory", "postgres", "running", "megabytes", 120),
    Bar("jobs", "sqlite", "process", "per_s", 30_000),
    Bar("jobs", "sqlite", "process", "cpu_us_per_job", 26),
    Bar("jobs", "sqlite", "enqueue_bulk", "per_s", 60_000),
    Bar("jobs", "sqlite", "enqueue_bulk", "ratio", 0.6),
    Bar("jobs", "sqlite", "enqueue_one", "per_s", 2_200),
    *_pickups("sqlite", 5, 15),
    Bar("jobs", "sqlite", "idle", "core_percent", 0.3),
    *_shares("sqlite"),
    Bar("memory", "sqlite", "running", "megabytes", 120),
    Bar("memory", "sqlite", "handles", "megabytes", 200),
    Bar("jobs", "memory", "process", "per_s", 50_000),
)
_BESIDE: Final = (
    "lanes_of_others",
    "fair_keys",
    "queues",
    "scheduled",
    "finished",
    "limit_blocked",
)
LONG_BARS: Final = (
    *(
        Bar("leases", backend, case, "ratio", 0.83, "of plain, by CPU")
        for backend in ("postgres", "sqlite")
        for case in _BESIDE
    ),
    Bar("jobs", "postgres", "process_unvacuumed", "cpu_ratio", 0.85),
    Bar("jobs", "postgres", "process_beside_snapshot", "cpu_ratio", 0.8),
    Bar("jobs", "postgres", "process_beside_snapshot", "p99_ms", 100),
)
"""Figures of CPU for the most part: they need no quiet machine, and take half an hour."""
PEER_BARS: Final = (
    Bar("peers", "postgres", "process_pgqueuer", "ratio", 2.2, "of PgQueuer"),
    Bar("peers", "postgres", "process_graphile-worker-batched", "ratio", 1.0, "of graphile"),
    Bar("peers", "postgres", "enqueue_one_pgqueuer", "ratio", 1.0, "of PgQueuer"),
    Bar("peers", "postgres", "enqueue_bulk_graphile-worker-batched", "ratio", 1.0, "of graphile"),
)


def chosen(
    benches: Sequence[str],
    backends: Sequence[str],
    cases: Sequence[str],
    *,
    peers: bool,
    long: bool = False,
) -> list[Bar]:
    """The bars that were asked for; all where nothing is named."""
    return [
        each
        for each in (*(LONG_BARS if long else BARS), *(PEER_BARS if peers else ()))
        if (not benches or each.bench in benches)
        and (not backends or each.backend in backends)
        and (not cases or each.case in cases)
    ]


def asked(words: Sequence[str]) -> list[str]:
    """The lines that a process of its own prints: what ran before is in no case's memory or CPU."""
    command = [sys.executable, "-m", "benchmarks", *words]
    sys.stderr.write(f"… {' '.join(words)}\n")
    answer = subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=False)
    return answer.stdout.splitlines()


def measure(bars: Sequence[Bar], url: str, runs: int, ask: Ask = asked) -> list[Row]:
    """All bars, the runs in turns; a case that failed has no figure."""
    found: dict[Bar, list[float]] = {each: [] for each in bars}
    for _ in range(runs):
        for words in commands(bars, url):
            measured = {
                (each.bench, each.backend, each.case): each for each in _read(words, ask(words))
            }
            for bar, figures in found.items():
                one = measured.get((bar.bench, bar.backend, bar.case))
                figure = None if one is None else getattr(one, bar.figure)
                if figure is not None:
                    figures.append(figure)
    return [_row(bar, figures) for bar, figures in found.items()]


def commands(bars: Sequence[Bar], url: str) -> list[tuple[str, ...]]:
    """The commands that measure these bars.

    Idle workers come first, and have processes of their own, as cases of memory do: a server still
    tidies up after other cases when they are over.
    """

    def process(bar: Bar) -> tuple[bool, str, str, str]:
        idle = bar.figure in {"core_percent", "server_percent"}
        apart = idle or bar.figure == "megabytes"
        return (not idle, bar.bench, bar.backend, bar.case if apart else "")

    grouped = groupby(sorted(bars, key=process), process)
    return [
        _command(bench, backend, [bar.case for bar in group], url)
        for (_, bench, backend, _), group in grouped
    ]


def _command(bench: str, backend: str, cases: Sequence[str], url: str) -> tuple[str, ...]:
    if bench == "peers":
        return (bench, "--peers", ",".join(_PEERS), "--url", url, *_PEER_SIZES)
    server = ("--url", url) if backend == "postgres" else ()
    named = (word for name in dict.fromkeys(cases) for word in ("--case", name))
    return (bench, "--backend", backend, "--json", *server, *named)


def _read(words: Sequence[str], lines: Iterable[str]) -> list[Measurement]:
    if words[0] == "peers":
        figures = (msgspec.json.decode(line, type=Figures) for line in lines)
        return list(_beside({each.peer: each for each in figures}))
    return [msgspec.json.decode(line, type=Measurement) for line in lines]


def _beside(figures: dict[str, Figures]) -> Iterator[Measurement]:
    """Our rates beside those of each peer in the same run."""
    ours = figures.pop("offpath", None)
    for peer, theirs in figures.items() if ours is not None else ():
        for rate in ("process", "enqueue_one", "enqueue_bulk"):
            one = Measurement(
                bench="peers",
                backend="postgres",
                case=f"{rate}_{peer}",
                per_s=getattr(ours, rate),
            )
            yield one.beside({one.case: getattr(theirs, rate)})


def _row(bar: Bar, figures: Sequence[float]) -> Row:
    row = Row(bench=bar.bench, backend=bar.backend, case=bar.case, figure=bar.label, bar=bar.bar)
    if figures:
        row.measured, row.runs = statistics.median(figures), len(figures)
        row.least, row.most, row.met = min(figures), max(figures), bar.met(row.measured)
    return row


def heading(runs: int) -> str:
    """The state of the machine before the runs."""
    return (
        f"{runs} run(s), {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, "
        f"loop speed {machine_speed() / 1e6:.0f} M steps/s"
    )


def show(bars: Sequence[Bar], rows: Sequence[Row], title: str) -> None:
    """A table to read: what, its bar, the median and the range, met or missed."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(title, highlight=False, soft_wrap=True)
    table = Table("what", "store", "figure")
    for name in ("bar", "measured", "least to most"):
        table.add_column(name, justify="right")
    table.add_column("")
    for bar, row in zip(bars, rows, strict=True):
        table.add_row(*_cells(bar, row))
    console.print(table)


def _cells(bar: Bar, row: Row) -> tuple[str, ...]:
    digits = _FIGURES[bar.figure][1]
    sign = "≥" if bar.figure in _AT_LEAST else "≤"
    what = (f"{bar.bench} {bar.case}", bar.backend, row.figure, f"{sign} {bar.bar:,g}")
    if row.measured is None or row.least is None or row.most is None:
        return (*what, "", "", "not measured")
    spread = f"{row.least:,.{digits}f} to {row.most:,.{digits}f}" if row.runs > 1 else ""
    return (*what, f"{row.measured:,.{digits}f}", spread, "met" if row.met else "MISSED")
