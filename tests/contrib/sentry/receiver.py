"""A receiver of Sentry's envelopes on loopback."""

from __future__ import annotations

import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import sentry_sdk


class Envelopes:
    """The items that were posted to a server on loopback."""

    def __init__(self) -> None:
        self.items: list[tuple[str, dict[str, Any]]] = []
        envelopes, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                with lock:
                    envelopes.items += _items(body)
                self.send_response(200)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def dsn(self) -> str:
        """The address that the SDK is given."""
        return f"http://key@127.0.0.1:{self.server.server_address[1]}/1"

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The items of a kind, all that is on its way included."""
        sentry_sdk.flush(timeout=10)
        return [item for found, item in self.items if found == kind]


def _items(body: bytes) -> list[tuple[str, dict[str, Any]]]:
    """The items of an envelope: a header line, then a header and a payload for each."""
    lines = body.split(b"\n")[1:]
    found, at = [], 0
    while at + 1 < len(lines) and lines[at]:
        header = json.loads(lines[at])
        found.append((header["type"], json.loads(lines[at + 1])))
        at += 2
    return found
