"""The file of a store: made for its owner alone, and known again by device and inode.

An open handle says nothing about the name that it was opened by: after a folder was moved, or a
copy was put in the file's place, writes through the handle would be acknowledged into a file that
nobody will open again.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Final

from offpath.errors import StoreUnavailable
from offpath.runtime.forks import ProcessLock
from offpath.store.protocol import Finding, Level

_OWNER_ONLY: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO

Identity = tuple[int, int]
"""Device and inode: what a name leads to."""

Written = tuple[int, int]
"""The time of the last write in ns of the file system's clock, and the size in bytes."""


def log_of(path: Path) -> Path:
    """The write-ahead log beside a database file."""
    return path.with_name(path.name + "-wal")


def identity(path: Path) -> Identity | None:
    """The identity of the file that the name leads to at this moment; None for no file."""
    found = _stat(path)
    return None if found is None else (found.st_dev, found.st_ino)


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


class DatabaseFile:
    """One database file by name, and the file that the name led to when it was first opened."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: Identity | None = None
        self._lost: str | None = None

    def make(self) -> None:
        """Make the file, readable and writable by its owner only; one that exists keeps its mode.

        SQLite gives the log and the shared memory beside it the mode of the file. ``O_EXCL`` leaves
        a file alone that another process makes at the same moment; it may be in use already, and to
        close a second handle of it would drop that process's locks.
        """
        # a link to a file that is to be made is followed, as SQLite would
        real = Path(os.path.realpath(self.path))
        # whatever else hinders it is told when SQLite opens the file
        with contextlib.suppress(OSError):
            os.close(os.open(real, os.O_RDWR | os.O_CREAT | os.O_EXCL, _OWNER_ONLY))

    def remember(self) -> None:
        """Take what the name leads to as the store's file, if it is the first look.

        Raises ``StoreUnavailable`` when it leads to another file than at the first look.
        """
        # Only at the first look: a file that was put in its place since must not become the known
        # one.
        if self._known is None:
            self._known = identity(self.path)
        self.check()

    def forget(self) -> None:
        """Let the next look be the first one: the store is opened anew."""
        self._known = self._lost = None

    def lose(self, why: str) -> None:
        """Let each further look fail with this text: the file is not to be trusted again."""
        self._lost = why

    def check(self) -> None:
        """Raise ``StoreUnavailable`` when the name does not lead to the store's file any more."""
        if self._lost is not None:
            raise StoreUnavailable(self._lost)
        found = identity(self.path)
        if self._known is None or found == self._known:
            return
        if found is None:
            raise StoreUnavailable(
                f"{self.path} is gone: it was moved or deleted while it was open, and what is "
                "written would be lost. Put it back, or restart this process"
            )
        raise StoreUnavailable(
            f"{self.path} is another file than the one that was opened: it was replaced while it "
            "was open. Stop every process that uses it before a copy is put in its place, "
            "then start them again"
        )


class LogWatch:
    """The log that one connection writes to: it stays the same while the connection is open.

    A copy that is put over the file in place keeps the file's inode. If the log beside it was
    removed for that, the connection would go on with a log that nobody finds. If it was left, the
    log of one file would be read with the pages of another.
    """

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._log = log_of(file.path)
        self._known: Identity | None = None
        self._content = ContentWatch(file.path)

    def written_at(self) -> int | None:
        """The time of the last write to the log, in ns of the file system's clock."""
        found = _stat(self._log)
        return None if found is None else found.st_mtime_ns

    def check(self) -> int | None:
        """The time of the last write to the log, as :meth:`written_at` tells it.

        Raises ``StoreUnavailable`` when file or log are not those of the first look. A log that was
        replaced is told for good: to open the file again would go on from whatever lies there now.
        """
        looked = _stat(self._log)
        found = None if looked is None else (looked.st_dev, looked.st_ino)
        if self._known is None:
            self._known = found
        if found != self._known:
            self._file.lose(
                f"{self._log} was removed or replaced while the store was open: its commits "
                "cannot be found any more. Restart every process that uses the file"
            )
        elif self._content.overwritten():
            self._file.lose(
                f"{self._file.path} was written to by something else than SQLite while it was "
                "open, so its log does not belong to it any more. Stop every process that uses it, "
                "put the copy in its place again, without a log beside it, then start them again"
            )
        self._file.check()
        return None if looked is None else looked.st_mtime_ns


class ContentWatch:
    """The content of one file, which changes by a checkpoint and by nothing else.

    SQLite writes commits to the log, and moves them into the file by a checkpoint, whose progress
    it notes in the shared memory beside it: the intention first, then the file, then the end. A
    file that was written to while no such note has changed was written to by a copy.
    """

    __slots__ = ("_memory", "_path", "_seen")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._memory: int | None = None
        self._seen: tuple[Written, bytes] | None = None

    def overwritten(self) -> bool:
        """True if the file was written to by something else than SQLite since the last look."""
        looked = self._look()
        seen, self._seen = self._seen, looked
        if looked is None or seen is None or looked[0] == seen[0]:
            return False
        return looked[1] == seen[1] and not _is_under_way(looked[1])

    def _look(self) -> tuple[Written, bytes] | None:
        """The last write to the file, and the progress of checkpoints at that moment.

        None where there is nothing to compare, or while a checkpoint runs.
        """
        if self._memory is None:
            self._memory = _memory_of(self._path)
        if self._memory is None:
            return None
        # The progress before and after: a look in the midst of a checkpoint would make a pair of
        # the file as it was and the note that it is done.
        before = _progress(self._memory)
        found = _stat(self._path)
        if found is None or before is None or before != _progress(self._memory):
            return None
        return (found.st_mtime_ns, found.st_size), before


_memories: Final[dict[Identity, int]] = {}
_memories_lock: Final = ProcessLock()


def _memory_of(path: Path) -> int | None:
    """A descriptor of the shared memory beside a database file; None if there is none.

    It stays open as long as the memory has a name: to close it would drop the locks that SQLite
    holds on it in this process.
    """
    with _memories_lock:  # two stores of one file share one
        for known, descriptor in list(_memories.items()):
            if os.fstat(descriptor).st_nlink == 0:
                os.close(_memories.pop(known))
        name = path.with_name(path.name + "-shm")
        found = identity(name)
        if found is None or found in _memories:
            return None if found is None else _memories[found]
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        opened = os.fstat(descriptor)
        _memories[opened.st_dev, opened.st_ino] = descriptor
        return descriptor


_SALT: Final = slice(32, 40)
_MOVED: Final = slice(96, 100)
_INTENDED: Final = slice(128, 132)
_NOTES: Final = 132
"""Places in the shared memory (https://sqlite.org/walformat.html#the_wal_index_file_format): which
log it is, how much of it is in the file, how much of it a checkpoint set out to move.
"""


def _progress(memory: int) -> bytes | None:
    try:
        noted = os.pread(memory, _NOTES, 0)
    except OSError:
        return None
    return noted[_SALT] + noted[_MOVED] + noted[_INTENDED] if len(noted) == _NOTES else None


def _is_under_way(progress: bytes) -> bool:
    return progress[8:12] != progress[12:]


def mode_finding(path: Path) -> Finding:
    """The finding of the doctor about who may read the file."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if not mode & _OTHERS:
        return Finding(name="file", level=Level.FINE, message="only its owner may read it")
    message = (
        f"{path} has mode {mode:04o}: others may read arguments, results and secrets; "
        f"run: chmod 600 {path.name}* in its folder"
    )
    return Finding(name="file", level=Level.WARNING, message=message)
