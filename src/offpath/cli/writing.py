"""Files that a command writes."""

from __future__ import annotations

import sys
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
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
