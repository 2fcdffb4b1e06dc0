"""What is measured of a peer: enqueues, one by one and in lists; a backlog; pick-up."""

from __future__ import annotations

import math
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from benchmarks.peers.environment import Environment, Remainder, cpu_of_group, fresh
from benchmarks.report import machine_speed, percentile
from benchmarks.server import server_cpu

_LOOK = 0.02
"""Seconds between looks if the backlog is worked off."""
_SOON = 0.002
"""The same if the first handler has begun."""
_UP = 30.0
_DONE = 900.0
_WARM_UP = 20
_REST = 1.0


_HELD = 10
"""Jobs that run when their worker is killed."""


class Sizes(msgspec.Struct, frozen=True):
    """How much is done in a run."""

    jobs: int = 20_000
    singles: int = 1_000
    probes: int = 300
    rate: int = 50
    slots: int = 100
    runs: int = 3
    patience: int = 90
    """Seconds in which the jobs of a killed worker are to begin again."""


class Figures(msgspec.Struct):
    """One run of one peer: rates a second, milliseconds, microseconds of CPU a job."""

    peer: str
    enqueue_one: float = 0.0
    caller_cpu: float = 0.0
    """Of the caller of that."""
    enqueue_bulk: float = 0.0
    process: float = 0.0
    worker_cpu: float = 0.0
    """Of the worker's processes, from the first handler to the last end."""
    server_cpu: float | None = None
    """Of a Postgres server on this machine, in the same time."""
    pickup_p50: float = 0.0
    pickup_p99: float = 0.0
    again: float | None = None
    """Seconds from the kill of a worker until the last of its jobs has begun again in another one,
    which is started at once. Infinite: not in the time that was waited. Only the first run has it.
    """
    speed: float = 0.0
    """Steps a second of a fixed Python loop, just before."""
    load: float = 0.0
    """The machine's load average, just before."""


def measured(
    environment: Environment, server: str, sizes: Sizes, load: float, *, kill: bool = False
) -> Figures:
    """One run of a peer, each part on an empty store. ``kill``: a worker is killed, too."""
    figures = Figures(environment.peer.name, speed=machine_speed(), load=load)
    parts = (_singles, _backlog, _pickup, *((_killed,) if kill else ()))
    for part in parts:
        with (
            tempfile.TemporaryDirectory(prefix="offpath-peers-") as folder,
            fresh(environment.peer, server) as url,
        ):
            seen = Path(folder) / "seen"
            environment.run(url, seen, sizes.slots, "setup")
            part(environment, url, seen, sizes, figures)
    return figures


def _singles(
    environment: Environment, url: str, seen: Path, sizes: Sizes, figures: Figures
) -> None:
    told = environment.run(url, seen, sizes.slots, "one", str(sizes.singles))
    figures.enqueue_one = sizes.singles / told["seconds"]
    figures.caller_cpu = told["cpu"] / sizes.singles * 1e6


def _backlog(
    environment: Environment, url: str, seen: Path, sizes: Sizes, figures: Figures
) -> None:
    told = environment.run(url, seen, sizes.slots, "bulk", str(sizes.jobs))
    figures.enqueue_bulk = sizes.jobs / told["seconds"]
    server = environment.peer.store == "postgres"
    remainder = Remainder(environment.peer, url, sizes.jobs)
    with (
        remainder.asked() as left,
        environment.started(url, seen, sizes.slots, "work", output=subprocess.DEVNULL) as worker,
    ):
        _until(lambda: bool(_lines(seen)), worker, _UP, pause=_SOON)
        cpu = cpu_of_group(worker.pid)
        beside = server_cpu(url) if server else None
        _until(lambda: not left(), worker, _DONE, pause=_LOOK)
        ended = time.monotonic()
        figures.worker_cpu = (cpu_of_group(worker.pid) - cpu) / sizes.jobs * 1e6
        if beside is not None:
            figures.server_cpu = ((server_cpu(url) or beside) - beside) / sizes.jobs * 1e6
        figures.process = sizes.jobs / (ended - _first(seen))


def _pickup(environment: Environment, url: str, seen: Path, sizes: Sizes, figures: Figures) -> None:
    total = _WARM_UP + sizes.probes
    with environment.started(url, seen, sizes.slots, "work", output=subprocess.DEVNULL) as worker:
        environment.run(url, seen, sizes.slots, "paced", str(sizes.rate), "1")
        _until(lambda: len(_lines(seen)) >= 1, worker, _UP, pause=_LOOK)
        time.sleep(_REST)
        environment.run(url, seen, sizes.slots, "paced", str(sizes.rate), str(total))
        _until(lambda: len(_lines(seen)) > total, worker, _UP, pause=_LOOK)
    waits = [int(line) / 1e6 for line in _lines(seen)][1 + _WARM_UP :]
    figures.pickup_p50, figures.pickup_p99 = percentile(waits, 0.5), percentile(waits, 0.99)


def _killed(environment: Environment, url: str, seen: Path, sizes: Sizes, figures: Figures) -> None:
    def held() -> int:
        return sum(line == "held" for line in _lines(seen))

    quiet = subprocess.DEVNULL
    with environment.started(url, seen, sizes.slots, "work", output=quiet, holds=True) as worker:
        environment.run(url, seen, sizes.slots, "held", str(_HELD))
        _until(lambda: held() >= _HELD, worker, _UP, pause=_LOOK)
    killed = time.monotonic()
    with environment.started(url, seen, sizes.slots, "work", output=quiet) as heir:
        try:
            _until(lambda: held() >= 2 * _HELD, heir, sizes.patience, pause=_LOOK)
        except TimeoutError:
            figures.again = math.inf
        else:
            figures.again = time.monotonic() - killed


def _first(seen: Path) -> float:
    """The time of the first handler."""
    (line, *_) = (line for line in _lines(seen) if line.startswith("first"))
    return int(line.split()[1]) / 1e9


def _lines(seen: Path) -> Sequence[str]:
    return seen.read_text(encoding="ascii").splitlines() if seen.exists() else ()


def _until(
    true: Callable[[], bool], worker: subprocess.Popen[bytes], patience: float, *, pause: float
) -> None:
    until = time.monotonic() + patience
    while not true():
        if worker.poll() is not None:
            msg = f"the worker ended with code {worker.returncode}"
            raise RuntimeError(msg)
        if time.monotonic() > until:
            msg = f"not done in {patience:.0f} s"
            raise TimeoutError(msg)
        time.sleep(pause)
