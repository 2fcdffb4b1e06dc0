"""The program on a terminal of its own, as a person sees it."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path

COLUMNS = 80


def on_a_terminal(
    folder: Path, *words: str, interrupt_at: str | None = None, **environment: str
) -> tuple[list[str], int]:
    """The lines of a command and its exit code; Ctrl-C is pressed when it says so much."""
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "offpath", *words],
        cwd=folder,
        env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    while piece := _piece(mine):
        said += piece
        if interrupt_at is not None and interrupt_at.encode() in said:
            process.send_signal(signal.SIGINT)
            interrupt_at = None
    os.close(mine)
    return [one for one in said.decode().replace("\r", "").split("\n") if one], process.wait(20)


def _piece(place: int) -> bytes:
    try:
        return os.read(place, 65_536)
    except OSError:  # the other end is closed
        return b""
