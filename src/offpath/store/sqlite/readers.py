"""Threads that only read: a slow report delays neither a write nor the event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from offpath.errors import StoreUnavailable
from offpath.store.sqlite.faults import translated
from offpath.store.sqlite.file import DatabaseFile
from offpath.store.sqlite.forks import GATE
from offpath.store.sqlite.session import Session

T = TypeVar("T")

THREADS: Final = 2
"""One slow report, and one for everything else."""


class Readers:
    """A few threads, each with its own connection, made when first needed."""

    def __init__(self, file: DatabaseFile, connect: Callable[[], Session]) -> None:
        self._file = file
        self._connect = connect
        self._local = threading.local()
        self._lock = threading.Lock()
        self._sessions: set[Session] = set()
        self._closed = False
        self._pid = os.getpid()
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="offpath-sqlite-read")

    async def do(self, work: Callable[[Session], T]) -> T:
        """Run ``work`` on a reading connection. Raises offpath errors only.

        Whoever stops waiting stops the statement too: nobody else's, and the thread is free again.
        """
        running: set[Session] = set()
        try:
            return await self.run(lambda: self._with_session(work, running))
        except asyncio.CancelledError:
            # Under the lock that ends a run, so that nobody else's statement on this session is
            # hit.
            with self._lock:
                for session in running:
                    session.interrupt()
            raise

    async def run(self, work: Callable[[], T]) -> T:
        """Run something that blocks for a moment, off the event loop."""
        if self._closed or os.getpid() != self._pid:
            raise StoreUnavailable(
                "the store is closed, or was opened in the parent process: open a new one"
            )
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def stop(self) -> None:
        """End the threads, aborting reads that still run. Blocks; idempotent."""
        self._closed = True
        if os.getpid() != self._pid:
            return
        with self._lock:
            for session in self._sessions:
                session.interrupt()
        # The threads end first: a connection must not be closed while one of them uses it.
        self._pool.shutdown(wait=True, cancel_futures=True)
        with GATE:
            for session in self._sessions:
                session.close()
        self._sessions.clear()

    def _with_session(self, work: Callable[[Session], T], running: set[Session]) -> T:
        try:
            with GATE:
                answer = self._noted(work, self._session(), running)
            self._file.check()  # an answer from a file that was moved away is out of date
        except Exception as error:
            if isinstance(translated(error), StoreUnavailable):
                self._drop()
            raise
        return answer

    def _noted(self, work: Callable[[Session], T], session: Session, running: set[Session]) -> T:
        """Run it, and let it be known meanwhile on which connection."""
        with self._lock:
            running.add(session)
        try:
            return work(session)
        finally:
            # Before the thread takes up anything else: an interruption is of this work alone.
            with self._lock:
                running.clear()

    def _session(self) -> Session:
        session: Session | None = getattr(self._local, "session", None)
        if session is None or session.closed:
            known, session = session, self._connect()
            self._local.session = session
            with self._lock:
                self._sessions.discard(known)
                self._sessions.add(session)
        return session

    def _drop(self) -> None:
        """Give up this thread's connection after an error of the file."""
        session: Session | None = getattr(self._local, "session", None)
        self._local.session = None
        if session is not None:
            with self._lock:
                self._sessions.discard(session)
            session.close()
