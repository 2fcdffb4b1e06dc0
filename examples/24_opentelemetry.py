"""Spans of an enqueue and of the attempt that it leads to, which is linked to it.

In a service the exporter is OTLP's; under ``opentelemetry-instrument`` nothing is to be written.
"""

import asyncio

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import offpath
from offpath.contrib.opentelemetry import OpenTelemetry

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
app = offpath.App(extensions=[OpenTelemetry(tracer_provider=provider)], auto_start=False)


@app.task
async def send_receipt(order: int) -> None:
    trace.get_current_span().set_attribute("shop.order", order)


async def main() -> None:
    async with app:
        with provider.get_tracer("shop").start_as_current_span("POST /orders"):
            await send_receipt.enqueue(7)
        await app.worker().run_until_idle()


asyncio.run(main())
found = {one.name: one for one in spans.get_finished_spans()}
sent, ran = found["enqueue send_receipt"], found["run send_receipt"]
print("sent within the request:", sent.parent.span_id == found["POST /orders"].context.span_id)
print(
    "linked to the enqueue:", [one.context.span_id for one in ran.links] == [sent.context.span_id]
)
print("a trace of its own:", ran.context.trace_id != sent.context.trace_id)
print("order:", ran.attributes["shop.order"])
