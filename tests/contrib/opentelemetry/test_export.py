"""The whole way out: a program under ``opentelemetry-instrument``, and a receiver of OTLP."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from offpath.runtime.seats import EVERYWHERE
from tests.contrib.opentelemetry.receiver import Receiver

PROGRAM = """
import asyncio
import offpath

app = offpath.App("memory://", auto_start=False)

@app.task
async def greet(name: str) -> str:
    return f"hello {name}"

async def main() -> None:
    async with app:
        await greet.enqueue("ann")
        await app.worker().run_until_idle()

asyncio.run(main())
"""


def test_a_program_that_names_nothing_of_it_is_instrumented(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, "utf-8")
    command = Path(sys.executable).parent / "opentelemetry-instrument"
    with Receiver() as receiver:
        variables = {
            "OTEL_TRACES_EXPORTER": "otlp_proto_http",
            "OTEL_METRICS_EXPORTER": "otlp_proto_http",
            "OTEL_LOGS_EXPORTER": "none",
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_SERVICE_NAME": "shop",
            "no_proxy": "127.0.0.1",
        }
        done = subprocess.run(
            [command, sys.executable, "program.py"],
            cwd=tmp_path, env={**os.environ, **variables},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        spans, metrics = receiver.spans("offpath"), receiver.metrics()
    assert set(spans) == {"enqueue greet", "run greet"}, done.stderr
    sent, ran = spans["enqueue greet"], spans["run greet"]
    assert (sent.kind, ran.kind) == (Span.SPAN_KIND_PRODUCER, Span.SPAN_KIND_CONSUMER)
    assert [link.span_id for link in ran.links] == [sent.span_id]
    wanted = {"messaging.client.sent.messages", "messaging.process.duration"}
    assert wanted <= metrics


def test_instrumenting_twice_adds_one_extension_and_it_is_taken_away_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from offpath.contrib.opentelemetry import OffpathInstrumentor

    monkeypatch.setattr("offpath.runtime.seats.EVERYWHERE", EVERYWHERE)
    before = len(EVERYWHERE)
    instrumentor = OffpathInstrumentor()
    instrumentor.instrument()
    instrumentor.instrument()
    assert len(EVERYWHERE) == before + 1
    instrumentor.uninstrument()
    assert len(EVERYWHERE) == before
