"""A real worker under a service manager's socket."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_worker_says_ready_feeds_the_watchdog_and_says_stopping(
    here: Path, run: Callable[..., Result], migrated: str
) -> None:
    address = here / "notify"
    manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    manager.bind(str(address))
    manager.settimeout(20)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("OFFPATH_")}
    worker = subprocess.Popen(
        [sys.executable, "-m", "offpath", "worker", "service:app", "--url", migrated],
        cwd=here,
        env=environment | {"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "600000"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        told: list[dict[str, str]] = []

        def hear(name: str) -> None:
            while not told or name not in told[-1]:
                text = manager.recv(4096).decode()
                told.append(dict(line.split("=", 1) for line in text.split("\n")))

        hear("READY")
        told.clear()
        hear("WATCHDOG")
        worker.send_signal(signal.SIGTERM)
        hear("STOPPING")
        assert told[-1] == {"STOPPING": "1"}
        assert worker.wait(20) == 0
    finally:
        worker.kill()
        worker.wait()
        manager.close()
