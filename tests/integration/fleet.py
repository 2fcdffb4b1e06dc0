"""Worker processes of the service under test: started as users start them, and surely ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.integration.journal import VARIABLE, Entry, Journal
from tests.integration.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import offpath

ROOT = Path(__file__).resolve().parents[2]
START = 20.0
"""Seconds that a process may take to start on a busy machine."""


@dataclass(slots=True)
class WorkerProcess:
    """One ``offpath worker``."""

    popen: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.popen.pid

    @property
    def output(self) -> str:
        """The output to its terminal so far."""
        return self.log.read_text(errors="replace")

    @property
    def cpu(self) -> float:
        """Seconds of processor time it has used."""
        # the name, in brackets, may hold blanks
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.popen.send_signal(number)

    def kill(self) -> None:
        """End it as a crash does. Its children live on."""
        self.popen.kill()
        self.popen.wait()

    async def ended(self, *, within: float) -> int:
        """Its exit code, once it has ended."""
        await eventually(
            lambda: self.popen.poll() is not None,
            within=within,
            what=f"worker {self.pid} ends. It wrote:\n{self.output[-2000:]}",
        )
        return self.popen.returncode


@dataclass(slots=True)
class Fleet:
    """Starts workers of one store, and ends all that are left."""

    folder: Path
    url: str
    workers: list[WorkerProcess] = field(default_factory=list)

    @property
    def journal(self) -> Journal:
        """The acts of their handlers."""
        return Journal(self.folder / "journal")

    def start(
        self, *arguments: str, target: str = "tests.integration.service:app",
        through: Sequence[str] = (), **settings: object,
    ) -> WorkerProcess:  # fmt: skip
        """Start one; settings go through its environment, as ``lease_seconds=2``. ``through`` is a
        command that starts what follows it.
        """
        log = self.folder / f"worker-{len(self.workers)}.log"
        given = {f"OFFPATH_{name.upper()}": str(value) for name, value in settings.items()}
        variables = {"OFFPATH_URL": self.url, VARIABLE: str(self.folder / "journal"), **given}
        with log.open("wb") as output:
            popen = subprocess.Popen(
                [*through, sys.executable, "-m", "offpath", "worker", target, *arguments],
                cwd=ROOT, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        self.workers.append(WorkerProcess(popen, log))
        return self.workers[-1]

    async def up(
        self, app: offpath.App, *arguments: str, target: str = "tests.integration.service:app",
        **settings: object,
    ) -> WorkerProcess:  # fmt: skip
        """Start one, and wait until it is registered."""
        worker = self.start(*arguments, target=target, through=(), **settings)
        await registered(app, worker)
        return worker

    @staticmethod
    def now() -> float:
        """The clock that the journal uses."""
        return time.monotonic()

    async def begun(self, job: str, *, times: int = 1, within: float = START) -> Entry:
        """The journal's entry of a job's n-th run, once it has begun."""
        found: list[Entry] = await eventually(
            lambda: self.journal.all("start", job)[times - 1 :],
            within=within,
            what=f"run {times} of the job begins",
        )
        return found[0]

    async def kill_at_work(
        self,
        members: list[WorkerProcess],
        event: str,
        *,
        kills: int,
        of: int,
        start: Callable[[], WorkerProcess],
        within: float = 60.0,
    ) -> set[int]:
        """Kill so many members while the journal grows to ``of`` entries of an event, at even
        distances: each time the one that wrote the last entry, and another is started in its
        place. Returns their process ids.
        """
        killed: set[int] = set()
        for number in range(1, kills + 1):
            mark = number * of // (kills + 2)
            entries: list[Entry] = await eventually(
                lambda mark=mark: self.journal.all(event)[mark - 1 :],  # type: ignore[misc]
                within=within,
                what=f"{mark} entries of {event!r}",
            )
            last = entries[-1].pid
            place = next((n for n, one in enumerate(members) if one.pid == last), 0)
            members[place].kill()
            killed.add(members[place].pid)
            members[place] = start()
        return killed

    def destroy(self) -> None:
        """Kill every process that is left, and the children that they started."""
        for worker in self.workers:
            _kill_session(worker.pid)
            worker.popen.kill()
            worker.popen.wait()


async def registered(app: offpath.App, worker: WorkerProcess) -> None:
    """Wait until the store knows this process as a worker."""

    async def known() -> bool:
        assert worker.popen.poll() is None, worker.output
        return worker.pid in {one.info.pid for one in await app.workers()}

    await eventually(known, within=START, what=f"worker {worker.pid} registers")


def _kill_session(leader: int) -> None:
    """End everything in a worker's session: what its handlers forked outlives it otherwise."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(ValueError, OSError):
            pid = int(entry.name)
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            # a parent's worker processes have sessions of their own
            if os.getsid(pid) == leader or int(stat[1]) == leader:
                found.append(pid)
    # only then: the children of one that is gone are not told apart any more
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
