"""A receiver of OTLP over HTTP: it decodes what exporters post, and keeps it."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.proto.trace.v1.trace_pb2 import Span

_KINDS: dict[str, Any] = {
    "/v1/traces": ExportTraceServiceRequest,
    "/v1/metrics": ExportMetricsServiceRequest,
    "/v1/logs": ExportLogsServiceRequest,
}


class Receiver:
    """A server on a free port of loopback."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spans: list[tuple[str, Span]] = []
        self._metrics: set[str] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver.keep(self.path, body)
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """The address that exporters are given."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def keep(self, path: str, body: bytes) -> None:
        """Decode what was posted. Raises for what is not of its kind."""
        request = _KINDS[path].FromString(body)
        with self._lock:
            if isinstance(request, ExportTraceServiceRequest):
                for resource in request.resource_spans:
                    for scope in resource.scope_spans:
                        self._spans += [(scope.scope.name, span) for span in scope.spans]
            elif isinstance(request, ExportMetricsServiceRequest):
                for of in request.resource_metrics:
                    for part in of.scope_metrics:
                        self._metrics |= {metric.name for metric in part.metrics}

    def spans(self, scope: str) -> dict[str, Span]:
        """The spans of a scope by their names."""
        with self._lock:
            return {span.name: span for name, span in self._spans if name == scope}

    def by_message(self, name: str) -> dict[str, Span]:
        """The spans of a name by the id of their message."""
        with self._lock:
            return {
                one.value.string_value: span
                for _, span in self._spans
                if span.name == name
                for one in span.attributes
                if one.key == "messaging.message.id"
            }

    def destinations(self, name: str) -> list[str]:
        """The queues of the spans of a name, one for each span that came."""
        with self._lock:
            return [
                one.value.string_value
                for _, span in self._spans
                if span.name == name
                for one in span.attributes
                if one.key == "messaging.destination.name"
            ]

    def metrics(self) -> set[str]:
        """The names of the metrics that came."""
        with self._lock:
            return set(self._metrics)

    def __enter__(self) -> Self:
        """Serve."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
