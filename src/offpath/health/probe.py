"""The probe of a worker over HTTP: ``/livez``, ``/readyz``, ``/metrics``.

Served from threads of its own, so that it answers, and answers the truth, when the event loop is
blocked. It tells names of loops, tasks and queues, never a job's data or a setting.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import io
import ipaddress
import logging
import os
import socket
import socketserver
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

import msgspec

from offpath.errors import ConfigurationError, MissingExtra
from offpath.health.supervisor import ALONE, Sibling, Supervisor, document
from offpath.runtime import prometheus
from offpath.runtime.log import logger
from offpath.runtime.threads import in_own_thread

if TYPE_CHECKING:
    from offpath.config import Settings
    from offpath.model.health import WorkerReport
    from offpath.runtime.clock import Clock
    from offpath.runtime.metrics import Metrics

_log = logger("probe")

CALLS = 32
"""Clients at once. For one more, the oldest that has sent no request yet is hung up on."""
FIRST_LINE = 1.0
"""Seconds that a client may take to say what it wants."""
SLOWEST = 5.0
"""Seconds that a client may take to send its request."""
ROOM_WAIT = 0.5
"""Seconds for the thread of a client that was hung up on to end."""
_BREATH = 0.05
"""Seconds between two tries to accept a client without a descriptor for it."""
_POLL = 0.25
_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"

Answer = tuple[int, str, bytes]
"""Status, content type, body."""


class Probe:
    """Serves one worker's health: ``async with Probe(worker.report, settings, …) as probe``.

    Listens on ``health_host`` and ``health_port`` of the settings (none is any free port);
    :attr:`url` says where. Raises ``ConfigurationError`` when the address cannot be had, or could
    be reached by others without a token.
    """

    def __init__(
        self,
        report: Callable[[], WorkerReport],
        settings: Settings,
        clock: Clock,
        metrics: Metrics,
        *,
        sibling: Sibling = ALONE,
    ) -> None:
        self._sibling = sibling
        require_token(settings)
        self.supervisor = Supervisor(report, clock)
        """The judge of the worker."""
        self._metrics = metrics
        self._host, self._port = settings.health_host, settings.health_port or 0
        self._token = settings.health_token
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        """The URL of the probe, without a path."""
        port = self._port if self._server is None else self._server.server_address[1]
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        """Begin to serve."""
        try:
            self._server = _Server(self._host, self._port, self.answer)
        except (OSError, OverflowError) as error:
            raise ConfigurationError(
                f"the health probe cannot listen on {self._host} port {self._port}: {error}"
            ) from error
        self.supervisor.start()
        serve = threading.Thread(
            target=self._server.serve_forever, args=(_POLL,), name="offpath probe", daemon=True
        )
        serve.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """End it."""
        self.supervisor.stop()
        if self._server is not None:
            await in_own_thread(self._server.shutdown)
            self._server.server_close()

    def answer(self, path: str, authorization: str | None) -> Answer:
        """The answer to a GET of ``path``. Called in any thread."""
        if not self._allowed(authorization):
            return 401, _TEXT, b"send the token: Authorization: Bearer ...\n"
        match path.partition("?")[0]:
            case "/livez":
                return self._live()
            case "/readyz":
                return self._ready()
            case "/metrics":
                return self._exposition()
            case _:
                return 404, _TEXT, b"there are /livez, /readyz and /metrics\n"

    def _allowed(self, authorization: str | None) -> bool:
        if self._token is None:
            return True
        scheme, _, given = (authorization or "").partition(" ")
        same = hmac.compare_digest(given.strip().encode(), self._token.encode())
        return same and scheme.lower() == "bearer"

    def _live(self) -> Answer:
        stall = self.supervisor.stall()
        return (200, _TEXT, b"live\n") if stall is None else (503, _TEXT, f"{stall}\n".encode())

    def _ready(self) -> Answer:
        report = self.supervisor.judged()
        body = msgspec.json.encode(document(report, self._sibling)) + b"\n"
        return 200 if report.ready else 503, _JSON, body

    def _exposition(self) -> Answer:
        try:
            text = prometheus.exposition(self._metrics)
        except MissingExtra as error:
            return 501, _TEXT, f"{error}\n".encode()
        return 200, prometheus.CONTENT_TYPE, text.encode()


def require_token(settings: Settings) -> None:
    """Raise ``ConfigurationError`` when others could reach the probe, and need no token for it.

    Or one that nobody can send.
    """
    check_token(settings.health_token)
    if settings.health_token or settings.health_open or is_loopback(settings.health_host):
        return
    raise ConfigurationError(
        f"the health probe would be open to everybody who reaches {settings.health_host}: set "
        "health_token (OFFPATH_HEALTH_TOKEN), or health_open if that is meant"
    )


def check_token(token: str | None) -> None:
    """Raise ``ConfigurationError``, without its text, for a token that no header can carry."""
    if token and not (token.isascii() and token.isprintable() and token == token.strip()):
        raise ConfigurationError(
            "health_token (OFFPATH_HEALTH_TOKEN) may have printable ASCII characters only, "
            "and no space at its ends: a line break from a file, perhaps?"
        )


def is_loopback(host: str) -> bool:
    """True if only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Spare:
    """A descriptor kept for the day on which the process has no other left."""

    def __init__(self) -> None:
        self._held: int | None = None
        self.refill()

    def lend(self) -> bool:
        """Give it up, so that one more can be opened; False when it is lent already."""
        if self._held is None:
            return False
        os.close(self._held)
        self._held = None
        return True

    def refill(self) -> None:
        """Take one again, if there is one."""
        if self._held is None:
            with contextlib.suppress(OSError):
                self._held = os.open(os.devnull, os.O_RDONLY)

    def close(self) -> None:
        """Let it go for good."""
        self.lend()


class _Server(ThreadingHTTPServer):
    """Answers in daemon threads, a bounded number of them."""

    allow_reuse_address = True
    request_queue_size = 2 * CALLS

    def __init__(self, host: str, port: int, answer: Callable[[str, str | None], Answer]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.answer = answer
        self._free = threading.BoundedSemaphore(CALLS)
        self._silent: dict[socket.socket, str] = {}
        self._changing = threading.Lock()
        self._spare = _Spare()
        self._stopping = threading.Event()
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        """Bind, without asking a name server who we are as the standard one does."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "offpath", self.server_address[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a client, also when a handler has taken every descriptor: just then it is asked.

        One client at a time then. The kernel keeps the others, and without the short wait this
        thread would ask again at once, for ever.
        """
        try:
            return super().get_request()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
        with self._changing:
            lent = self._spare.lend()
        if not lent:
            self._stopping.wait(_BREATH)
        return super().get_request()

    def close_request(self, request: Any) -> None:  # noqa: ANN401 - stdlib's
        """Hang up, and put its descriptor by if the spare one was lent."""
        super().close_request(request)
        with self._changing:
            self._spare.refill()

    def server_close(self) -> None:
        """Close what is open."""
        super().server_close()
        with self._changing:
            self._spare.close()

    def shutdown(self) -> None:
        """End serving."""
        self._stopping.set()
        super().shutdown()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - stdlib's
        """Answer in a thread, if there is one to be had."""
        if not (self._free.acquire(blocking=False) or self._make_room()):
            self.shutdown_request(request)
            return
        with self._changing:
            self._silent[request] = str(client_address[0])
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started: nobody else would free its place
            self.heard(request)
            self._free.release()
            raise

    def heard(self, request: socket.socket) -> None:
        """Note that a client has said what it wants, or is gone: it is not silent any more."""
        with self._changing:
            self._silent.pop(request, None)

    def _make_room(self) -> bool:
        """Hang up on the oldest silent client of the address that has most of them."""
        with self._changing:
            most = Counter(self._silent.values()).most_common(1)
            address = most[0][0] if most else None
            oldest = next((one for one, at in self._silent.items() if at == address), None)
            if oldest is None:
                return False
            del self._silent[oldest]
            with contextlib.suppress(OSError):  # it has gone by itself
                oldest.shutdown(socket.SHUT_RDWR)
        return self._free.acquire(timeout=ROOM_WAIT)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """Answer, and free the thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.heard(request)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - as above
        """A client that hangs up early is nobody's concern."""
        _log.debug("a request failed", exc_info=True)


class _Patience(io.RawIOBase):
    """The bytes that a client sends, until its time is over: a byte now and then wins it no more of
    it.
    """

    def __init__(
        self,
        connection: socket.socket,
        seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._monotonic = monotonic
        self._end = monotonic() + seconds

    def extend(self, seconds: float) -> None:
        """Give it so many seconds from now on."""
        self._end = self._monotonic() + seconds

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - stdlib's
        """Wait for what comes next; raises ``TimeoutError`` when the time is over."""
        left = self._end - self._monotonic()
        if left <= 0:
            raise TimeoutError("the client takes too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: _Server
    server_version = "offpath"
    sys_version = ""
    timeout = SLOWEST

    def setup(self) -> None:
        """Give the client a second for its first line, and a time for all of the rest."""
        super().setup()
        self.rfile.close()
        self._patience = _Patience(self.connection, FIRST_LINE)
        self.rfile = io.BufferedReader(self._patience)

    def parse_request(self) -> bool:
        """Read the headers; its first line was read before."""
        self._patience.extend(self.timeout)
        parsed = super().parse_request()
        self.server.heard(self.connection)
        return parsed

    def do_GET(self) -> None:
        """Answer."""
        try:
            answer = self.server.answer(self.path, self.headers.get("Authorization"))
        except Exception as error:  # noqa: BLE001 - what cannot be judged is not well
            _log.log(logging.ERROR, "judging failed: %s", type(error).__name__, exc_info=error)
            answer = 500, _TEXT, b"the worker could not be judged\n"
        self._send(*answer)

    do_HEAD = do_GET  # noqa: N815 - stdlib's name

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Refuse every other method."""
        if not name.startswith("do_"):
            raise AttributeError(name)
        return lambda: self._send(405, _TEXT, b"GET and HEAD only\n")

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.connection.settimeout(self.timeout)  # what was left of it was for reading
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        if status == 401:  # noqa: PLR2004 - HTTP's number
            self.send_header("WWW-Authenticate", "Bearer")
        if status == 405:  # noqa: PLR2004 - HTTP's number
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Probes come every few seconds: they are not worth a line."""
