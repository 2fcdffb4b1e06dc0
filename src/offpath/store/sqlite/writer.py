"""The one thread that writes: group commit.

Whatever the callers of this process asked for while the last transaction was on its way to the
disk goes into the next one, so that a hundred callers pay for one fsync. A caller is answered
after COMMIT, never before.
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

from offpath.errors import StoreUnavailable
from offpath.store.sqlite.contradictions import is_contradiction
from offpath.store.sqlite.faults import is_environment, translated
from offpath.store.sqlite.file import DatabaseFile, LogWatch, log_of
from offpath.store.sqlite.forks import GATE
from offpath.store.sqlite.session import SQL, Session

T = TypeVar("T")

_log = logging.getLogger("offpath.store")

DRAIN: Final = 1_000
"""Requests in one transaction: bounds how long another process waits for the lock."""

POLL: Final = 0.02
"""Seconds between looks for commits of others, while somebody listens."""
POLL_BEHIND_WORD: Final = 0.25
"""The same where the system tells of writes to the log: a look should one of them get lost."""

_SOON: Final = 0.001
_EXPECTED: Final = 0.02
"""Seconds between looks, and for how long, once the log was written to. The commit is seen when it
is on the disk, which the system does not tell."""

CHECKPOINT_BYTES: Final = 8 * 1024 * 1024
"""The log is moved into the file when it is larger than this."""

_CHECKPOINT_PAUSE: Final = 1.0
_PINNED_BYTES: Final = 16 * CHECKPOINT_BYTES
_WARN_EVERY: Final = 60.0

_NUDGE: Final = object()  # wakes the thread and asks for nothing


class Shared(NamedTuple):
    """The way in which a transition is done with its neighbours of the same kind, by fewer
    statements.
    """

    work: Callable[[Session, list[Any]], list[Any]]
    """Does those of these parts; the answers are in their order. Raises when one of them fails:
    then each is done alone."""
    part: Any


class Request:
    """One transition that somebody waits for in an event loop, or in a thread (``loop`` None)."""

    __slots__ = ("done", "error", "future", "loop", "peek", "relaxed", "result", "shared", "work")

    def __init__(
        self,
        work: Callable[[Session], Any],
        peek: Callable[[Session], Any] | None,
        relaxed: bool,
        shared: Shared | None,
        loop: asyncio.AbstractEventLoop | None,
    ) -> None:
        self.work = work
        self.peek = peek
        self.relaxed = relaxed
        self.shared = shared
        self.loop = loop
        self.future: asyncio.Future[Any] | None = None if loop is None else loop.create_future()
        self.done = threading.Event() if loop is None else None
        self.result: Any = None
        self.error: Exception | None = None

    def settle(self) -> None:
        """Answer the caller; in its loop's thread, if it has one."""
        if self.done is not None:
            self.done.set()
            return
        future = cast("asyncio.Future[Any]", self.future)
        if future.done():  # the caller has gone; what it asked for was done all the same
            return
        if self.error is None:
            future.set_result(self.result)
        else:
            future.set_exception(self.error)


class Writer:
    """Runs transitions in transactions on its own thread and connection.

    ``connect`` makes a session; it is called in the thread, and again after an error of the file,
    because a handle whose fsync has failed must not be trusted with a second one.
    ``on_foreign_commit`` is called in the thread when another connection has committed,
    ``set_aside`` when a rule about values refused a transition: True if that may go through now.
    """

    def __init__(
        self,
        file: DatabaseFile,
        connect: Callable[[], Session],
        on_foreign_commit: Callable[[], None],
        set_aside: Callable[[Session], bool],
    ) -> None:
        self._connect = connect
        self._set_aside = set_aside
        self._on_foreign_commit = on_foreign_commit
        self._requests: queue.SimpleQueue[Request | object | None] = queue.SimpleQueue()
        self._session: Session | None = None
        self._version: int | None = None
        self._pid = os.getpid()
        self._closing = False
        self._expected_until = 0.0
        self._own_write: int | None = None
        self._serving = False
        self._file = file
        self._log = LogWatch(file)
        self._checkpoints = Checkpoints(log_of(file.path))
        # A daemon: a process that ends without closing its store must not hang here.
        self._thread = threading.Thread(target=self._run, name="offpath-sqlite", daemon=True)
        self.polling = False
        """True if the store looks for commits of other connections; change it through
        :meth:`listen`.
        """
        self.told = False
        """True if the system tells of writes to the log."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    async def do(
        self,
        work: Callable[[Session], T],
        *,
        peek: Callable[[Session], T | None] | None = None,
        relaxed: bool = False,
        shared: Shared | None = None,
    ) -> T:
        """Run ``work`` in a transaction and return its answer once that is committed.

        ``work`` may be run again after a failure of a neighbour, and must depend on nothing but
        the store. ``peek`` may answer without the write lock: anything but None is the answer.
        ``relaxed`` is for what a power cut may undo without harm, because it is not a promise to
        anybody: it is committed at once and reaches the disk with the next commit that is not.
        ``shared`` may be done instead of ``work``, and means the same.
        """
        self._require_open()
        loop = asyncio.get_running_loop()
        request = Request(work, peek, relaxed, shared, loop)
        # A caller that is cancelled from here on takes nothing back: what it asked for may be on
        # the disk.
        self._requests.put(request)
        answer: T = await cast("asyncio.Future[T]", request.future)
        return answer

    def do_waiting(self, work: Callable[[Session], T], patience: float = 10.0) -> T:
        """Run ``work`` in a relaxed transaction, for a caller in a thread. Blocks."""
        self._require_open()
        request = Request(work, None, True, None, None)
        self._requests.put(request)
        if not cast("threading.Event", request.done).wait(patience):
            raise StoreUnavailable(f"the file's writer did not answer within {patience:.0f} s")
        if request.error is not None:
            raise request.error
        return cast("T", request.result)

    def _require_open(self) -> None:
        if self._closing or os.getpid() != self._pid:
            raise StoreUnavailable(
                "the store is closed"
                if self._closing
                else "the store was opened in the parent process: open a new one after the fork"
            )

    def listen(self, polling: bool) -> None:
        """Start or stop looking for commits of other connections."""
        if self.polling != polling:
            self.polling = polling
            self._requests.put(_NUDGE)

    def expect(self) -> bool:
        """Look soon, for the log was written to; False if this thread writes, or wrote last.

        While it writes nobody else does, and it looks afterwards.
        """
        if self._serving or self._log.written_at() == self._own_write:
            return False
        self._expected_until = time.monotonic() + _EXPECTED
        self._requests.put(_NUDGE)
        return True

    def finish(self) -> None:
        """Take no more requests; those that were made are still carried out."""
        if not self._closing:
            self._closing = True
            # At the end of the line: what was asked for before it is carried out first.
            self._requests.put(None)

    def join(self) -> None:
        """Wait until the thread has ended. Blocks."""
        # A forked child has no such thread, and would wait for ever.
        if self._pid == os.getpid() and self._thread.is_alive():
            self._thread.join()

    # -- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        going = True
        while going:
            drained, going = self._drain()
            # It waits outside of the gate, where a fork need not wait for it, and works inside.
            with GATE:
                if drained:
                    self._serving = True
                    self._serve(drained)
                    self._serving = False
                if self.polling and going:
                    self._look()
        with GATE:
            self._disconnect()

    def _drain(self) -> tuple[list[Request], bool]:
        """The requests that are waiting, and True if it goes on afterwards. Blocks until there is
        something.
        """
        drained: list[Request] = []
        try:
            item = self._requests.get(timeout=self._patience() if self.polling else None)
            while item is not None:
                if isinstance(item, Request):
                    drained.append(item)
                # The rest waits for the next transaction: another process may want the lock between
                # the two.
                if len(drained) >= DRAIN:
                    return drained, True
                item = self._requests.get_nowait()
        except queue.Empty:
            return drained, True
        return drained, False

    def _patience(self) -> float:
        """Seconds until the next look for commits of others."""
        if time.monotonic() < self._expected_until:
            return _SOON
        return POLL_BEHIND_WORD if self.told else POLL

    def _serve(self, requests: list[Request]) -> None:
        try:
            session = self._connected()
            self._log.check()
            # A look spares an idle process the write lock, which others may need.
            if not _peeked(session, requests):
                _transact(session, requests)
                self._once_more(session, requests)
            # again before anybody is answered: a commit into a file that is gone is not a promise
            self._own_write = self._log.check()
        except Exception as error:  # noqa: BLE001 - whatever it is, every caller must be told
            self._fail(requests, error)
        _answer(requests)
        # Behind the answers: no caller waits for the log to be moved.
        self._checkpoints.after_commit(self._session)

    def _once_more(self, session: Session, requests: list[Request]) -> None:
        """Repeat what a rule about values refused, if a row that was in its way is set aside."""
        refused = [one for one in requests if one.error is not None and is_contradiction(one.error)]
        if not refused:
            return
        mended = Request(self._set_aside, None, False, None, None)
        # By itself: a repeat that fails again must not undo what was set aside for the others.
        _transact(session, [mended])
        if mended.result:
            for request in refused:
                request.error = None
            _transact(session, refused)

    def _fail(self, requests: list[Request], error: Exception) -> None:
        outcome = translated(error)
        for request in requests:
            request.result, request.error = None, outcome
        # After an error of the file its handle is not used again: a second fsync may claim what the
        # first one lost.
        if isinstance(outcome, StoreUnavailable):
            self._disconnect()

    def _connected(self) -> Session:
        if self._session is None or self._session.closed:
            self._session = self._connect()
            self._log = LogWatch(self._file)
            # Each connection counts commits of others for itself, so the old number says nothing.
            self._version = None
        return self._session

    def _disconnect(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                session.close()
            except Exception as error:  # noqa: BLE001 - it is given up either way
                _log.warning("closing the SQLite file failed: %s", error)

    def _look(self) -> None:
        try:
            [[version]] = self._connected().once(SQL["data_version"].named)
        except Exception as error:  # noqa: BLE001 - only a hint is lost; the next write reports it
            _log.debug("looking for commits of others failed: %s", error)
            self._disconnect()
            # In this thread and without a clock: a file that is away must not make it spin.
            time.sleep(POLL)
            return
        # Nobody knows what was committed before the first look of a connection: that is told, too.
        if version != self._version:
            self._expected_until = 0.0
            self._on_foreign_commit()
        self._version = version


def _peeked(session: Session, requests: list[Request]) -> bool:
    """Answer a lone request without the write lock, if it can be."""
    if len(requests) > 1 or requests[0].peek is None:
        return False
    requests[0].result = requests[0].peek(session)
    return requests[0].result is not None


def _transact(session: Session, requests: list[Request]) -> None:
    """All requests in one transaction; when one fails, again with each behind a savepoint."""
    try:
        # Without savepoints at first: they cost two statements for each request, and few requests
        # fail.
        _attempt(session, requests, _plainly)
    except Exception as error:
        session.rollback()
        fault = translated(error)
        if fault is error and is_environment(error):
            raise
        if is_environment(fault):
            raise fault from error
        if len(requests) == 1:
            requests[0].result, requests[0].error = None, fault
            return
        _attempt_isolated(session, requests)


def _attempt_isolated(session: Session, requests: list[Request]) -> None:
    try:
        _attempt(session, requests, _apart)
    except Exception:
        session.rollback()
        raise


def _attempt(
    session: Session, requests: list[Request], run: Callable[[Session, list[Request]], None]
) -> None:
    # Before BEGIN: SQLite does not change this inside of a transaction.
    session.sync(durably=not all(request.relaxed for request in requests))
    session.control(SQL["begin"])
    run(session, requests)
    session.control(SQL["commit"])


def _plainly(session: Session, requests: list[Request]) -> None:
    """Neighbours of one kind together, all others one by one."""
    for work, group in groupby(requests, lambda one: one.shared and one.shared.work):
        some = list(group)
        if work is None or len(some) == 1:
            for request in some:
                request.result = request.work(session)
            continue
        results = work(session, [one.shared.part for one in some if one.shared is not None])
        for request, result in zip(some, results, strict=True):
            request.result = result


def _apart(session: Session, requests: list[Request]) -> None:
    for request in requests:
        _behind_a_savepoint(session, request)


def _behind_a_savepoint(session: Session, request: Request) -> None:
    session.control(SQL["savepoint"])
    try:
        request.result, request.error = request.work(session), None
    except Exception as error:
        fault = translated(error)
        # Some errors have rolled the whole transaction back, and then there is no savepoint to go
        # to.
        if is_environment(fault) or not session.in_transaction:
            raise
        session.control(SQL["rollback_to_savepoint"])
        request.result, request.error = None, fault
    session.control(SQL["release_savepoint"])


def _answer(requests: list[Request]) -> None:
    """Answer all callers with one hand-over per event loop, not one per caller."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Request]] = {}
    for request in requests:
        if request.loop is None:
            request.settle()
            continue
        by_loop.setdefault(request.loop, []).append(request)
    # A loop that is gone must not keep the others from their answers.
    for loop, group in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_all, group)
        except RuntimeError:
            _log.debug("an event loop was closed before its %d requests were answered", len(group))


def _settle_all(requests: list[Request]) -> None:
    for request in requests:
        request.settle()


class Checkpoints:
    """Moves the log into the file, by size, from this one place.

    Before 3.51.3 SQLite can damage a file when two connections write and checkpoint at the same
    moment, hence TRUNCATE, which takes the writer lock first. It waits a few milliseconds only:
    a reader that holds an old snapshot must not hold up every writer.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._not_before = 0.0
        self._warned = 0.0

    def after_commit(self, session: Session | None) -> None:
        """Checkpoint if the log has grown enough. Never raises: the commit has been made."""
        if session is None or session.in_transaction:
            return
        try:
            size = self._log.stat().st_size
        except OSError:
            return
        now = time.monotonic()
        if size > CHECKPOINT_BYTES and now >= self._not_before:
            self._checkpoint(session, size, now)

    def _checkpoint(self, session: Session, size: int, now: float) -> None:
        try:
            # A short wait for this one statement. A reader with an old snapshot may be there for
            # minutes.
            session.once(SQL["busy_timeout_checkpoint"].named)
            [[busy, *_]] = session.once(SQL["checkpoint"].named)
            session.once(SQL["busy_timeout"].named)
        except Exception as error:  # noqa: BLE001 - tried again; a real fault shows on a write
            _log.debug("a checkpoint of the SQLite log failed: %s", error)
            busy = 1
        if busy:
            self._not_before = now + _CHECKPOINT_PAUSE
            self._warn(size, now)

    def _warn(self, size: int, now: float) -> None:
        if size > _PINNED_BYTES and now - self._warned >= _WARN_EVERY:
            self._warned = now
            _log.warning(
                "the SQLite log has grown to %d MiB and cannot be shortened: a reader holds an "
                "old snapshot open; end its transaction",
                size // (1024 * 1024),
            )
