"""The probe over a real socket."""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import socket
from http.server import ThreadingHTTPServer
from typing import Any

import pytest

from offpath.config import Settings
from offpath.errors import ConfigurationError, MissingExtra
from offpath.health.probe import CALLS, SLOWEST, Probe, _Patience, is_loopback
from offpath.model.health import AgeGauge, Condition, LoopReport, WorkerReport
from offpath.runtime import prometheus
from offpath.runtime.clock import ManualClock
from offpath.runtime.metrics import Metrics

WELL = LoopReport(
    name="claim", condition=Condition.HEALTHY, state="resting", last_success_age=0.5, iterations=3
)
ILL = LoopReport(
    name="prune",
    condition=Condition.UNHEALTHY,
    state="working",
    last_success_age=200.0,
    consecutive_failures=7,
    reason="no success for 200 s",
)


class Place:
    """A probe whose worker says what the test wants."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.metrics = Metrics()
        self.said = WorkerReport(loops=(WELL,))
        self.probe = Probe(lambda: self.said, Settings(**settings), self.clock, self.metrics)

    def ask_blocking(
        self, path: str, method: str = "GET", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        host, port = self.probe.url.removeprefix("http://").rsplit(":", 1)
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=10)
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    async def ask(self, path: str, method: str = "GET", **headers: str) -> Any:
        return await asyncio.to_thread(self.ask_blocking, path, method, **headers)


async def test_ready_names_each_loop_with_its_state_and_reason() -> None:
    place = Place()
    async with place.probe:
        status, headers, body = await place.ask("/readyz")
        assert (status, headers["Content-Type"]) == (200, "application/json")
        assert json.loads(body)["ready"] is True
        place.said = WorkerReport(
            loops=(WELL, ILL),
            gauges=(AgeGauge(name="the oldest due job of queue mail", age=400.0, limit=300.0),),
        )
        status, _, body = await place.ask("/readyz?verbose")
    assert status == 503
    told = json.loads(body)
    assert told["reasons"] == ["loop prune: no success for 200 s"]
    late = "the oldest due job of queue mail has waited for 400 s, more than 300 s"
    assert told["warnings"] == [late]
    assert told["loops"][1] == {
        "name": "prune",
        "condition": "unhealthy",
        "state": "working",
        "critical": True,
        "last_success_age": 200.0,
        "consecutive_failures": 7,
        "iterations": 0,
        "restarts": 0,
        "fresh": True,
        "working_for": None,
        "reason": "no success for 200 s",
        "next_in": None,
        "skipped": None,
    }


async def test_it_answers_while_the_event_loop_is_blocked_and_says_so() -> None:
    place = Place()
    async with place.probe:
        # this thread is the event loop's: it is blocked while it waits for these answers
        assert place.ask_blocking("/livez")[0] == 200
        place.clock.advance(31)
        status, _, body = place.ask_blocking("/livez")
        assert (status, b"has not turned for 31 s" in body) == (503, True)
        status, _, body = place.ask_blocking("/readyz")
        assert (status, b"has not turned for 31 s" in body) == (503, True)
        place.probe.supervisor.pulse()
        assert place.ask_blocking("/livez")[::2] == (200, b"live\n")
        assert place.ask_blocking("/readyz")[0] == 200


async def test_the_event_loop_leaves_its_mark_by_itself() -> None:
    place = Place()
    place.probe.supervisor.start()
    timer = place.probe.supervisor._timer
    assert timer is not None
    place.clock.advance(31)
    assert place.probe.supervisor.stall() is not None
    timer._run()  # as the loop does when its time has come
    assert place.probe.supervisor.stall() is None
    place.probe.supervisor.stop()


async def test_other_paths_and_methods_are_refused() -> None:
    place = Place()
    async with place.probe:
        assert (await place.ask("/"))[0] == 404
        assert (await place.ask("/readyz/../etc"))[0] == 404
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"):
            status, headers, _ = await place.ask("/readyz", method)
            assert (status, headers["Allow"]) == (405, "GET, HEAD")
        status, headers, body = await place.ask("/livez", "HEAD")
        assert (status, headers["Content-Length"], body) == (200, "5", b"")
        assert "Python" not in headers["Server"]


async def test_metrics_are_told_or_what_is_missing_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingExtra("pip install 'offpath[metrics]'")

    place = Place()
    place.metrics.gauge("offpath_worker_up").set(1)
    async with place.probe:
        status, headers, body = await place.ask("/metrics")
        assert (status, headers["Content-Type"]) == (200, prometheus.CONTENT_TYPE)
        assert b"offpath_worker_up 1.0" in body
        monkeypatch.setattr(prometheus, "_require_library", missing)
        status, _, body = await place.ask("/metrics")
    assert (status, body) == (501, b"pip install 'offpath[metrics]'\n")


async def test_a_token_is_asked_for_and_never_told() -> None:
    place = Place(health_token="s3cret-marker")
    async with place.probe:
        for given in ({}, {"Authorization": "Bearer no"}, {"Authorization": "Basic s3cret-marker"}):
            status, headers, body = await place.ask("/readyz", **given)
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
            assert b"s3cret" not in body
        answers = [
            await place.ask(path, Authorization="Bearer s3cret-marker")
            for path in ("/livez", "/readyz", "/metrics")
        ]
    assert [answer[0] for answer in answers] == [200, 200, 200]
    assert "s3cret" not in repr(answers)
    assert "s3cret" not in repr(Settings(health_token="s3cret-marker"))


@pytest.mark.parametrize("token", ["s3cret\n", "s3c ret\u20ac", " s3cret", "s3c\x00ret"])
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigurationError, match="printable ASCII") as caught:
        Place(health_token=token)
    assert "s3c" not in str(caught.value)


@pytest.mark.parametrize("host", ["0.0.0.0", "", "10.1.2.3", "worker.example"])
def test_others_reach_it_only_with_a_token_or_when_that_is_meant(host: str) -> None:
    with pytest.raises(ConfigurationError, match="health_token"):
        Place(health_host=host)
    assert Place(health_host=host, health_token="t").probe.url.startswith("http://")
    assert Place(health_host=host, health_open=True).probe.url.startswith("http://")


def test_what_is_this_machine_alone() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")] == [
        True
    ] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "")] == [False] * 4


async def test_a_taken_port_is_a_clear_error_and_a_free_one_is_told() -> None:
    place = Place(health_port=0)
    async with place.probe:
        port = int(place.probe.url.rsplit(":", 1)[1])
        assert port > 0
        with pytest.raises(ConfigurationError, match=f"port {port}"):
            async with Place(health_port=port).probe:
                pass
    async with Place(health_port=port).probe as again:  # it is free at once
        assert again.url.endswith(f":{port}")


async def test_what_cannot_be_judged_is_not_well() -> None:
    place = Place()

    def broken() -> WorkerReport:
        raise RuntimeError("s3cret")

    place.probe.supervisor._report = broken
    async with place.probe:
        status, _, body = await place.ask("/readyz")
    assert (status, b"s3cret" in body) == (500, False)


async def test_clients_that_say_nothing_keep_nobody_out() -> None:
    """The oldest of them is hung up on, for each that comes."""
    place = Place()
    async with place.probe:
        port = int(place.probe.url.rsplit(":", 1)[1])
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(CALLS)]
        assert [(await place.ask("/livez"))[0] for _ in range(3)] == [200] * 3
        assert await asyncio.to_thread(idle[0].recv, 1) == b"", "the oldest was hung up on"
        for each in idle:
            each.close()
        server = place.probe._server
        assert server is not None
        assert await asyncio.to_thread(server._free.acquire, timeout=10)
        server._free.release()
        assert (await place.ask("/livez"))[0] == 200


def test_a_client_that_sends_a_byte_now_and_then_has_no_more_time_than_others() -> None:
    clock = ManualClock()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        request = io.BufferedReader(_Patience(ours, SLOWEST, clock.monotonic))
        theirs.sendall(b"GET ")
        assert request.read1() == b"GET "
        clock.advance(SLOWEST - 0.1)
        theirs.sendall(b"/")
        assert request.read1() == b"/"
        assert 0 < (ours.gettimeout() or 0) < 0.2
        clock.advance(0.2)
        theirs.sendall(b"livez")
        with pytest.raises(TimeoutError):
            request.read1()


async def test_a_request_that_comes_in_pieces_is_answered() -> None:
    place = Place()
    async with place.probe:
        port = int(place.probe.url.rsplit(":", 1)[1])
        answer = await asyncio.to_thread(_answer_to, port, b"GET /li", b"vez HTTP/1.0\r\n", b"\r\n")
    assert answer.startswith(b"HTTP/1.0 200 ")
    assert answer.endswith(b"live\n")


async def test_threads_that_cannot_be_started_use_up_no_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none_left(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    place = Place()
    async with place.probe:
        port = int(place.probe.url.rsplit(":", 1)[1])
        with monkeypatch.context() as patched:
            patched.setattr(ThreadingHTTPServer, "process_request", none_left)
            for _ in range(CALLS + 1):
                assert await asyncio.to_thread(_answer_to, port) == b""
        assert (await place.ask("/livez"))[0] == 200


def _answer_to(port: int, *pieces: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in pieces:
            connection.sendall(piece)
        answer = b""
        while part := connection.recv(4096):
            answer += part
        return answer
