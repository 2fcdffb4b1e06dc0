"""A copy of a SQLite store that is whole, made while others use it.

``VACUUM INTO`` (https://sqlite.org/lang_vacuum.html) reads one snapshot, log included, and holds up
no writer. A copy of the file alone lacks whatever still is in the log beside it.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from offpath.errors import StoreUnavailable
from offpath.store.sqlite.file import DatabaseFile
from offpath.store.sqlite.forks import GATE
from offpath.store.sqlite.session import SQL, connect, file_path

_PATIENCE = 30.0
"""Seconds that the copy waits for a lock of the source."""


def backup(source: str | os.PathLike[str], target: Path) -> int:
    """Copy the store's file to ``target``, readable by its owner only; the bytes that it has.

    The target is there whole or not at all: the copy is made beside it, synced, and given its name
    at the end. A target that exists is replaced. Raises ``StoreUnavailable``.
    """
    path = file_path(source)
    if not path.is_file():
        raise StoreUnavailable(f"there is no file {path}: nothing to back up")
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise StoreUnavailable(f"cannot write {target}: name a file in a folder that exists")
    # The rename at the end would put the copy in the place of the file that others have open.
    if target.exists() and target.samefile(path):
        raise StoreUnavailable(f"{target} is the store itself: name another file")
    try:
        return _copied(path, target)
    except OSError as error:
        raise StoreUnavailable(f"cannot write {target}: {error.strerror}") from error


def _copied(path: Path, target: Path) -> int:
    # a name of its own, made 0600: SQLite writes into a file that is there and empty
    number, name = tempfile.mkstemp(prefix=f"{target.name}.", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        _vacuum(path, part)
        os.fsync(number)  # else a power cut may leave the new name on nothing
        size = os.fstat(number).st_size
        part.replace(target)
    finally:
        os.close(number)
        # After the rename nothing has this name; after an error nothing of the copy is left.
        part.unlink(missing_ok=True)
    # The new name is an entry of the folder, which a power cut may lose until that is synced.
    _sync_folder(target.parent)
    return size


def _vacuum(path: Path, part: Path) -> None:
    # A fork beside an open connection would spoil the child's locks.
    with GATE:
        session = connect(
            DatabaseFile(path), before=_unwatched, patience=_PATIENCE, create=False, reading=False
        )
        try:
            session.run(SQL["copy_into"](file=str(part)))
        finally:
            session.close()


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unwatched(_name: str) -> None:
    """A copy changes nothing: the fault hook does not concern it."""
