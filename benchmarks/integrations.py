"""``python -m benchmarks.integrations``: what an extension costs a job, in CPU, over memory.

A round enqueues fifty jobs one by one and works them off. Each case is done beside a plain app, in
turns, and the least of all turns is shown: a pair that ran in the same seconds.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Sequence

import offpath
from offpath.extensions import Extension

_JOBS = 50
_TURNS = 60


class _Side:
    """An app with these extensions, open, and its cost in each turn."""

    def __init__(self, extensions: Sequence[Extension]) -> None:
        self.app = offpath.App("memory://", extensions=extensions, auto_start=False)
        self.costs: list[float] = []

        @self.app.task
        async def work(number: int) -> int:
            return number

        self._work = work

    async def turn(self) -> None:
        """Enqueue and work off, and note the microseconds of CPU of one job."""
        gc.collect()
        gc.disable()
        begun = time.process_time()
        for number in range(_JOBS):
            await self._work.enqueue(number)
        await self.app.worker(concurrency=10).run_until_idle()
        self.costs.append((time.process_time() - begun) / _JOBS * 1e6)
        gc.enable()


def _telemetry_alone() -> Extension:
    from offpath.contrib.opentelemetry import OpenTelemetry

    return OpenTelemetry()


def _telemetry() -> Extension:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from offpath.contrib.opentelemetry import OpenTelemetry

    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    return OpenTelemetry(tracers, MeterProvider(metric_readers=[InMemoryMetricReader()]))


def _sentry() -> Extension:
    from offpath.contrib.sentry.integration import SentryExtension

    return SentryExtension()


def _structlog() -> Extension:
    from offpath.contrib.structlog import BindJob

    return BindJob()


CASES: dict[str, Callable[[], Extension]] = {
    "an empty extension": Extension,
    "OpenTelemetry, API alone": _telemetry_alone,
    "OpenTelemetry, SDK and batches": _telemetry,
    "Sentry, no client": _sentry,
    "structlog": _structlog,
}


async def _pair(make: Callable[[], Extension]) -> tuple[float, float]:
    """The least cost of a job without and with an extension."""
    plain, with_it = _Side(()), _Side((make(),))
    async with plain.app, with_it.app:
        for turn in range(_TURNS):
            for side in (plain, with_it) if turn % 2 else (with_it, plain):
                await side.turn()
    return min(plain.costs), min(with_it.costs)


async def main() -> None:
    """Measure each pair, and print it."""
    for name, make in CASES.items():
        plain, cost = await _pair(make)
        share = (cost / plain - 1) * 100
        sys.stdout.write(f"{name}: {plain:.1f} us plain, {cost:.1f} us with it ({share:+.1f} %)\n")


if __name__ == "__main__":
    asyncio.run(main())
