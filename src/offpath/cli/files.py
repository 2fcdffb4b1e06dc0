"""The files that commands write."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

STDOUT = Path("-")


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file that in the end is there whole, or as it was before; ``-`` is standard output.

    Raises ``click.FileError`` when it cannot be written.
    """
    try:
        if path == STDOUT:
            yield sys.stdout.buffer
        elif path.exists() and not path.is_file():  # a pipe, or a device: nothing takes its place
            with path.open("wb") as file:
                yield file
        else:
            yield from _replacing(path)
    except OSError as error:
        raise click.FileError(str(path), hint=error.strerror) from error


def _replacing(path: Path) -> Iterator[BinaryIO]:
    path = path.resolve()  # what a link leads to, not the link
    with _part_of(path) as file:
        part = Path(file.name)
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())  # else a power cut may leave the new name on nothing
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _part_of(path: Path) -> BinaryIO:
    """A new file beside it, of its own also where two are written at once; as open as it was."""
    mask = os.umask(0)
    os.umask(mask)
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~mask
    number, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    Path(name).chmod(mode)
    return open(name, "wb", opener=lambda *_: number)
