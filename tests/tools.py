"""The tools that a run of the gates starts: their output, their silence, their end.

Like :mod:`tests.servers` it needs nothing but the standard library, for ``check.py``.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent

SILENCE_LIMIT = 300.0
"""Seconds without a word after which a step is killed: a hang must end as a failure, not as a stuck
run. How long a step takes in all says nothing: a busy machine only makes it slow."""
MUTE_LIMIT = 1_200.0
"""The same for tools that say nothing before their end: on a slow machine beside two suites, a
check of all types without a cache has taken more than five minutes."""


class Output:
    """The way of a step's text: to the terminal, or held until another step has ended."""

    def __init__(self, *, held: bool = False) -> None:
        self._holds = held
        self._held: list[bytes] = []
        # the thread that writes and the one that releases are two: a chunk must not fall between
        self._lock = threading.Lock()

    def write(self, chunk: bytes) -> None:
        """Pass on what a tool wrote, unbuffered."""
        with self._lock:
            if self._holds:
                self._held.append(chunk)
                return
            sys.stdout.buffer.write(chunk)
            sys.stdout.flush()

    def say(self, text: str) -> None:
        """Write a line of our own."""
        self.write(f"{text}\n".encode())

    def release(self) -> None:
        """Show what was held, and hold nothing from now on."""
        with self._lock:
            self._holds = False
            sys.stdout.buffer.write(b"".join(self._held))
            self._held.clear()
            sys.stdout.flush()


TERMINAL = Output()


def say(text: str) -> None:
    """Print at once: tools write to the same terminal."""
    print(text, flush=True)


RUNNING: set[int] = set()
"""The process groups of the tools that run."""


def stream(
    command: Sequence[str | Path], output: Output = TERMINAL, patience: float | None = None
) -> tuple[int, str]:
    """Run a tool, show its output as it comes; returns exit code and output.

    ``patience`` is the seconds of silence after which it is killed; None: :data:`SILENCE_LIMIT`.
    """
    patience = SILENCE_LIMIT if patience is None else patience
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    RUNNING.add(process.pid)
    heard: list[bytes] = []
    reader = threading.Thread(target=relay, args=(process, heard, output), daemon=True)
    reader.start()
    try:
        code = patiently(process, heard, patience)
    except subprocess.TimeoutExpired:
        output.say(f"== killed after {patience:.0f} s of silence: {' '.join(map(str, command))}")
        # an abort makes Python say where each thread hangs
        os.killpg(process.pid, signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        code = 1
    finally:
        # also ends what the tool left behind, which would hold the pipe open
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        RUNNING.discard(process.pid)
        reader.join(5)
    return code, b"".join(heard).decode(errors="replace")


def patiently(process: subprocess.Popen[bytes], heard: Sequence[bytes], patience: float) -> int:
    """The exit code. Raises ``TimeoutExpired`` when the process says nothing more for too long."""
    while True:
        before = len(heard)
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            if len(heard) == before:
                raise


def end_all() -> None:
    """Kill the tools that run in other threads."""
    for group in tuple(RUNNING):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def relay(process: subprocess.Popen[bytes], heard: list[bytes], output: Output) -> None:
    """Copy the output as it comes, and remember it."""
    assert process.stdout  # opened as a pipe just above
    with process.stdout as pipe:
        while chunk := os.read(pipe.fileno(), 65536):
            heard.append(chunk)
            output.write(chunk)
