"""systemd's notify protocol, over a real datagram socket."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from offpath.errors import ConfigurationError
from offpath.health.systemd import notifier, signs
from offpath.model.health import AgeGauge, Condition, LoopReport, WorkerReport
from offpath.runtime.clock import ManualClock
from offpath.runtime.notify import Notifier, Signs, Telling, telling


class Manager:
    """The receiving end, as systemd has it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address.replace("@", "\0", 1))
        self._socket.setblocking(False)

    def told(self) -> list[dict[str, str]]:
        """The messages since the last call."""
        messages: list[dict[str, str]] = []
        while True:
            try:
                text = self._socket.recv(4096).decode()
            except BlockingIOError:
                return messages
            messages.append(dict(line.split("=", 1) for line in text.split("\n")))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    path = str(tmp_path / "notify")
    address = path if request.param == "path" else f"@offpath-test-{os.getpid()}-{id(request)}"
    made = Manager(address)
    yield made
    made.close()


def environment(manager: Manager, **more: str) -> dict[str, str]:
    return {"NOTIFY_SOCKET": manager.address, **more}


def made(manager: Manager, **more: str) -> Notifier:
    found = Notifier.from_environment(environment(manager, **more))
    assert found is not None
    return found


def test_a_message_is_lines_of_fields(manager: Manager) -> None:
    assert made(manager).send(READY=1, STATUS="two\nlines  of text")
    assert manager.told() == [{"READY": "1", "STATUS": "two lines of text"}]


@pytest.mark.parametrize("address", ["", "/", "@", "relative", "tcp:1"])
def test_without_an_address_nobody_is_told(address: str) -> None:
    assert Notifier.from_environment({"NOTIFY_SOCKET": address}) is None
    assert Notifier.from_environment({}) is None


def test_nobody_listening_is_logged_once_and_raises_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lonely = Notifier(str(tmp_path / "nobody"))
    assert [lonely.send(READY=1), lonely.send(READY=1)] == [False, False]
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "60000000"}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 60.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_the_watchdog_is_read(
    manager: Manager, given: dict[str, str], expected: float | None
) -> None:
    assert made(manager, **given).watchdog == expected


def test_ready_is_said_once_and_the_watchdog_is_fed_while_there_is_progress(
    manager: Manager,
) -> None:
    now = Signs(ready=False, progressing=True, status="starting")
    told = Telling(made(manager, WATCHDOG_USEC="9000000"), lambda: now, ManualClock())
    told.once()
    now = Signs(ready=True, progressing=True, status="0 jobs in hand")
    told.once()
    told.once()
    now = Signs(ready=False, progressing=False, status="loop lease: hangs")
    told.once()
    told.once()
    now = Signs(ready=True, progressing=True, stopping=True)
    told.once()
    told.once()
    assert manager.told() == [
        {"STATUS": "starting", "WATCHDOG": "1"},
        {"READY": "1", "STATUS": "0 jobs in hand", "WATCHDOG": "1"},
        {"WATCHDOG": "1"},
        {"STATUS": "loop lease: hangs"},
        {"STOPPING": "1"},
    ]


def test_without_a_watchdog_it_is_not_fed(manager: Manager) -> None:
    told = Telling(made(manager), lambda: Signs(ready=True, progressing=True), ManualClock())
    told.once()
    told.once()
    assert manager.told() == [{"READY": "1"}]


@pytest.mark.parametrize(("micros", "interval"), [("60000000", 1.0), ("300000", 0.1)])
def test_it_looks_at_least_three_times_within_the_watchdog(
    manager: Manager, micros: str, interval: float
) -> None:
    notifying = made(manager, WATCHDOG_USEC=micros)
    told = Telling(notifying, lambda: Signs(ready=True, progressing=True), ManualClock())
    assert told.interval == pytest.approx(interval)


async def test_it_goes_on_when_a_look_fails_and_then_feeds_nothing(
    manager: Manager, caplog: pytest.LogCaptureFixture
) -> None:
    clock, broken = ManualClock(), False

    def look() -> Signs:
        if broken:
            raise RuntimeError("cannot look")
        return Signs(ready=True, progressing=True)

    async def second() -> None:
        clock.advance(1)
        for _ in range(3):
            await clock.sleep(0)

    async with telling(made(manager, WATCHDOG_USEC="60000000"), look, clock):
        await clock.sleep(0)
        assert manager.told() == [{"READY": "1", "WATCHDOG": "1"}]
        broken = True
        await second()
        assert (manager.told(), len(caplog.records)) == ([], 1)
        broken = False
        await second()
        assert manager.told() == [{"WATCHDOG": "1"}]
    assert manager.told() == [{"STOPPING": "1"}]


async def test_without_a_manager_nothing_is_looked_at() -> None:
    looks: list[int] = []

    def look() -> Signs:
        looks.append(1)
        return Signs(ready=True, progressing=True)

    async with telling(None, look, ManualClock()):
        await ManualClock().sleep(0)
    assert looks == []


def report(*conditions: Condition, critical: bool = True) -> WorkerReport:
    loops = [
        LoopReport(
            name=f"loop{n}",
            condition=one,
            state="resting",
            critical=critical,
            fresh=one is not Condition.UNHEALTHY,
        )
        for n, one in enumerate(conditions)
    ]
    return WorkerReport(loops=tuple(loops), running={"work": 2})


@pytest.mark.parametrize(
    ("conditions", "ready", "progressing"),
    [
        ([Condition.HEALTHY, Condition.HEALTHY], True, True),
        ([Condition.HEALTHY, Condition.STARTING], False, True),
        ([Condition.HEALTHY, Condition.UNHEALTHY], False, False),
        ([], False, True),
    ],
)
def test_a_worker_is_judged_by_its_critical_loops(
    conditions: list[Condition], *, ready: bool, progressing: bool
) -> None:
    found = signs(report(*conditions))
    assert (found.ready, found.progressing) == (ready, progressing)


def test_what_is_not_critical_or_only_old_does_not_restart_a_worker() -> None:
    found = signs(report(Condition.UNHEALTHY, critical=False))
    assert found.progressing
    assert found.status == "2 jobs in hand"
    late = AgeGauge(name="jobs", age=900.0, limit=300.0)
    old = signs(WorkerReport(loops=report(Condition.HEALTHY).loops, gauges=(late,)))
    assert (old.ready, old.progressing, old.status) == (True, True, "0 jobs in hand")


def test_rows_that_fail_for_good_starve_no_watchdog() -> None:
    """A restart would mend nothing, and come again and again."""
    failing = LoopReport(name="relay", condition=Condition.UNHEALTHY, state="resting", fresh=True)
    found = signs(WorkerReport(loops=(failing,)))
    assert (found.ready, found.progressing) == (False, True)


def test_several_processes_are_refused_under_a_manager(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.address)
    with pytest.raises(ConfigurationError, match="one process"):
        notifier(2, child=False)
    assert notifier(1, child=True) is None
    assert notifier(1, child=False) is not None
