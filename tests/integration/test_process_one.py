"""The worker as process 1, as in a container: signals reach it, and it drains."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from shutil import which

import pytest

import offpath
from offpath import JobState
from tests.integration import service
from tests.integration.fleet import Fleet
from tests.integration.polling import eventually

_NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
"""Runs a command as process 1 of a namespace of its own."""


def may_unshare() -> bool:
    if which("unshare") is None:
        return False
    tried = subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False)
    return tried.returncode == 0


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def number_within(pid: int) -> int:
    """The process id that it has in its own namespace."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (found,) = [line for line in lines if line.startswith("NSpid:")]
    return int(found.split()[-1])


@pytest.mark.skipif(not may_unshare(), reason="no namespaces of processes may be made here")
@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("processes", [1, 2])
async def test_process_one_drains_and_ends_with_0(
    app: offpath.App, fleet: Fleet, tmp_path: Path, processes: int
) -> None:
    gate = tmp_path / "gate"
    outer = fleet.start("--processes", str(processes), through=_NAMESPACE)
    handle = await app.enqueue(service.held.job(str(gate)))
    await fleet.begun(handle.id)
    (first,) = children(outer.pid)
    assert number_within(first) == 1

    os.kill(first, signal.SIGTERM)
    await eventually(lambda: "draining" in outer.output, within=10)
    gate.touch()
    assert await outer.ended(within=20) == 0
    assert (await handle.status()).state is JobState.SUCCEEDED
    assert (await handle.status()).attempt == 1
