"""``python -m benchmarks.integrations``: what an extension costs a job, in CPU, over memory.

A round enqueues fifty jobs one by one and works them off. Each case is done beside a plain app, in
turns, and the least of all turns is shown: a pair that ran in the same seconds. Beside it stands
the number of calls of functions that a job makes: no neighbour on the machine changes that.
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
        await self._round()
        self.costs.append((time.process_time() - begun) / _JOBS * 1e6)
        gc.enable()

    async def calls(self) -> float:
        """The calls of functions that one job makes, those of C included."""
        counted = 0

        def hear(_frame: object, event: str, _what: object) -> None:
            nonlocal counted
            counted += event in {"call", "c_call"}

        sys.setprofile(hear)
        try:
            await self._round()
        finally:
            sys.setprofile(None)
        return counted / _JOBS

    async def _round(self) -> None:
        for number in range(_JOBS):
            await self._work.enqueue(number)
        await self.app.worker(concurrency=10).run_until_idle()


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


async def _pair(name: str, make: Callable[[], Extension]) -> str:
    """A line with the least cost of a job, and its calls, without and with an extension."""
    plain, with_it = _Side(()), _Side((make(),))
    async with plain.app, with_it.app:
        for turn in range(_TURNS):
            for side in (plain, with_it) if turn % 2 else (with_it, plain):
                await side.turn()
        before, after = await plain.calls(), await with_it.calls()
    cost, now = min(plain.costs), min(with_it.costs)
    return (
        f"{name}: {cost:.1f} us plain, {now:.1f} us with it ({now / cost - 1:+.1%});"
        f" {before:.0f} calls, {after:.0f} with it ({after / before - 1:+.1%})\n"
    )


async def main() -> None:
    """Measure each pair, and print it."""
    for name, make in CASES.items():
        sys.stdout.write(await _pair(name, make))


if __name__ == "__main__":
    asyncio.run(main())
