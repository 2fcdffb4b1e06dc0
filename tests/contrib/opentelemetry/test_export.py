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

FORKING = """
import asyncio
import os
import offpath
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from offpath.contrib.opentelemetry import OpenTelemetry

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)
app = offpath.App("memory://", auto_start=False, extensions=[OpenTelemetry()])

@app.task
async def greet(name: str) -> str:
    return f"hello {name}"

async def main(name: str) -> None:
    async with app:
        await greet.options(queue=name).enqueue(name)
        await app.worker().run_until_idle()

asyncio.run(main("parent"))
if (child := os.fork()) == 0:
    asyncio.run(main("child"))
    os._exit(0 if provider.force_flush() else 1)
assert os.waitpid(child, 0)[1] == 0
assert provider.force_flush()
"""


def test_spans_of_a_forks_child_arrive_and_those_of_its_parent_arrive_once(
    tmp_path: Path,
) -> None:
    (tmp_path / "program.py").write_text(FORKING, "utf-8")
    with Receiver() as receiver:
        variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "no_proxy": "127.0.0.1"}
        done = subprocess.run(
            [sys.executable, "program.py"], cwd=tmp_path, env={**os.environ, **variables},
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        ran = receiver.destinations("run greet")
    assert sorted(ran) == ["child", "parent"]


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
