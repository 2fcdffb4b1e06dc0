"""The conversation on one connection: statements out, rows in, over the driver's protocol layer.

A cursor of the driver is an object for each statement, and the socket is watched anew for each
answer: four fifths of what a short statement costs its client. Here the socket is watched once. The
rare things (to connect, to roll back, to ask a connection that has rested) are left to the driver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

    from offpath.store.programs.dialect import Rows
    from offpath.store.sql import Query

KEPT: Final = 100
"""Statements that a session has ready at most: each keeps a plan in the server's memory."""
_BREAKS_OFF_IN: Final = 5.0
"""Seconds in which a server has to end what nobody waits for any more; it is hung up on then."""
_OTHERS: Final = Transformer()
"""The driver's way to write what is neither text nor a number, as a list."""
_FAILED: Final = frozenset({ExecStatus.FATAL_ERROR, ExecStatus.BAD_RESPONSE})

_Values = list[bytes | None]
Before = Callable[[str], None]
"""Hears the name of a statement before it is sent."""


class Prepared:
    """The statements that a session was asked for, and those that it has ready.

    A statement is made ready when it is asked for a second time. The one that was not used for the
    longest time makes room for the next.
    """

    __slots__ = ("_asked", "_made", "_names", "gone")

    def __init__(self) -> None:
        self.gone: list[bytes] = []
        """The names of those that made room and that the server still has."""
        self._asked: set[bytes] = set()
        self._made = 0
        self._names: dict[bytes, bytes] = {}

    def name_of(self, text: bytes) -> bytes | None:
        """The name of a statement that is ready."""
        name = self._names.pop(text, None)
        if name is not None:
            self._names[text] = name  # behind all others: it was used last
        return name

    def wanted(self, text: bytes) -> bool:
        """True if the statement has been asked for before."""
        if text in self._asked:
            return True
        self._asked.add(text)
        return False

    def add(self, text: bytes) -> bytes:
        """A name for a statement that is about to be ready; another one makes room for it."""
        if len(self._names) >= KEPT:
            self.gone.append(self._names.pop(next(iter(self._names))))
        self._made += 1
        self._names[text] = name = b"offpath_%d" % self._made
        return name

    def forget(self, text: bytes) -> None:
        """Take a statement back that the server did not make ready."""
        self._names.pop(text, None)


class _Sending(NamedTuple):
    """A message to the server that it answers with one result."""

    send: Callable[[], None]
    answers: bool = True
    """True if the result is a statement's."""
    readies: bytes | None = None
    """The statement that is ready afterwards."""
    frees: bytes | None = None
    """The name that the server has no more afterwards."""


class Conversation:
    """The conversation of one connection. One caller talks at a time.

    The event loop watches the socket from the first statement until :meth:`leave`. The driver's own
    conversations call that first, since they watch the same socket, and unwatch it.
    """

    __slots__ = (
        "_error",
        "_landed",
        "_loop",
        "_piped",
        "_results",
        "_rows",
        "_server",
        "_socket",
        "_waiter",
        "prepared",
    )

    def __init__(self, server: PGconn) -> None:
        self._server = server
        self._socket = server.socket
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._results: list[PGresult] = []
        self._piped = False
        self._landed: Callable[[], None] | None = None
        self._error: psycopg.Error | None = None
        # Of no connection: each of the two would keep the other alive.
        self._rows = Transformer()
        self.prepared = Prepared()

    async def ask(
        self,
        connection: psycopg.AsyncConnection[Any],
        queries: Sequence[Query],
        *,
        prepare: bool,
        before: Before | None = None,
    ) -> list[Rows]:
        """Send statements together; the rows of each. Raises the driver's errors.

        With ``prepare`` the session keeps those that come again. ``before`` hears each name when
        those that stand before it are on their way.
        """
        if before is not None:
            before(queries[0].name)
        # All values before the first message: one that cannot be sent must not stop half-way.
        values = [_values_of(query) for query in queries]
        messages: list[_Sending] = []
        for query, given in zip(queries, values, strict=True):
            self._add(messages, query.statement.wire, given, prepare=prepare)
        if self.prepared.gone and len(messages) > 1:
            # Behind the others: in front of a BEGIN it would be the transaction's first statement.
            messages += [self._freed(name) for name in self.prepared.gone]
        waiter = self._listen()
        try:
            self._send(messages if before is None else self._told(messages, queries[1:], before))
            await waiter
        # Of the connection itself: what a statement is refused for comes as a result.
        except psycopg.Error:
            self._hang_up()
            raise
        except BaseException:
            await self._break_off(connection)
            raise
        finally:
            self._waiter = None
            results, self._results = self._results, []
            if self._piped and self._server.status == ConnStatus.OK:
                self._server.exit_pipeline_mode()
            self._learn(messages, results)
        _refuse_errors(results)
        return [
            self._rows_of(result)
            for message, result in zip(messages, results, strict=True)
            if message.answers
        ]

    def launch(self, query: Query, landed: Callable[[], None]) -> bool:
        """Send a statement that is ready; ``landed`` is called when :meth:`rows` has its answer.

        False: it is not ready, and nothing was sent.
        """
        name = self.prepared.name_of(query.statement.wire)
        if name is None:
            return False
        values = _values_of(query)
        self._watch()
        self._piped = False
        try:
            self._server.send_query_prepared(name, values)
            self._write()
        except psycopg.Error:
            self.leave()  # as in _fail
            raise
        self._landed = landed
        return True

    def rows(self) -> Rows:
        """The answer to what was launched. Raises the driver's errors."""
        error, self._error = self._error, None
        results, self._results = self._results, []
        if error is not None:
            self._hang_up()
            raise error
        _refuse_errors(results)
        return self._rows_of(results[0])

    def leave(self) -> None:
        """Watch the socket no more: somebody else is about to, or it is about to be closed."""
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._socket)
            loop.remove_writer(self._socket)

    # -- out -------------------------------------------------------------------------------

    def _add(
        self, messages: list[_Sending], text: bytes, values: _Values, *, prepare: bool
    ) -> None:
        """Add what asks for a statement."""
        server, prepared = self._server, self.prepared
        name = prepared.name_of(text) if prepare else None
        if name is None and prepare and prepared.wanted(text):
            name = prepared.add(text)
            ready = partial(server.send_prepare, name, text)
            messages.append(_Sending(ready, answers=False, readies=text))
        if name is None:
            messages.append(_Sending(partial(server.send_query_params, text, values)))
        else:
            messages.append(_Sending(partial(server.send_query_prepared, name, values)))

    def _freed(self, name: bytes) -> _Sending:
        send = partial(self._server.send_query_params, b"deallocate " + name, None)
        return _Sending(send, answers=False, frees=name)

    def _told(
        self, messages: Sequence[_Sending], rest: Sequence[Query], before: Before
    ) -> list[_Sending]:
        """The messages; each statement behind the first is reported to ``before``."""
        told, left, starts = [], iter(rest), False
        for message in messages:
            if starts and (query := next(left, None)) is not None:
                told.append(message._replace(send=partial(self._say, query.name, message, before)))
            else:
                told.append(message)
            starts = message.answers
        return told

    def _say(self, name: str, message: _Sending, before: Before) -> None:
        self._server.flush()  # those before it are on their way
        before(name)
        message.send()

    def _listen(self) -> asyncio.Future[None]:
        waiter = self._waiter = self._watch().create_future()
        return waiter

    def _watch(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        # A watch is of one loop: one that an earlier loop has would never be told.
        if self._loop is not loop:
            self.leave()
            loop.add_reader(self._socket, self._read)
            self._loop = loop
        return loop

    def _send(self, messages: Sequence[_Sending]) -> None:
        server = self._server
        # One message needs no pipeline, whose end is a message to the server more.
        self._piped = len(messages) > 1
        if not self._piped:
            messages[0].send()
            self._write()
            return
        server.enter_pipeline_mode()
        try:
            for message in messages:
                message.send()
        finally:
            # Also behind an error of ours: the server answers to the end of a pipeline.
            server.pipeline_sync()
            self._write()

    def _write(self) -> None:
        """Send what is left, and go on when the network takes more."""
        loop = self._loop
        if loop is not None and self._server.flush():
            loop.add_writer(self._socket, self._write_on)

    def _write_on(self) -> None:
        try:
            if not self._server.flush() and self._loop is not None:
                self._loop.remove_writer(self._socket)
        except psycopg.Error as error:
            self._fail(error)

    # -- in --------------------------------------------------------------------------------

    def _read(self) -> None:
        if self._waiter is None and self._landed is None:
            # Said unasked, as the end of a session is: the next user of the connection looks.
            self.leave()
            return
        try:
            self._server.consume_input()
            if self._collected():
                self._end(None)
        except psycopg.Error as error:
            # What the server said last is why it hung up.
            said = any(result.status in _FAILED for result in self._results)
            self._fail(None if said else error)

    def _collected(self) -> bool:
        """Take what has come; whether it is all."""
        server, results = self._server, self._results
        ended = False
        while not server.is_busy():
            result = server.get_result()
            if result is None:
                # Behind each answer; twice where the rest has not come.
                if ended or not self._piped:
                    return not self._piped
                ended = True
            elif result.status == ExecStatus.PIPELINE_SYNC:
                return True
            else:
                results.append(result)
                ended = False
        return False

    def _fail(self, error: psycopg.Error | None) -> None:
        """End a conversation whose socket the driver may have closed."""
        # In this turn of the loop: in the next one, the number may be another connection's.
        self.leave()
        self._end(error)

    def _end(self, error: psycopg.Error | None) -> None:
        landed, waiter = self._landed, self._waiter
        if landed is not None:
            self._landed, self._error = None, error
            landed()
            return
        if waiter is None or waiter.done():
            return
        if error is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(error)

    def _learn(self, messages: Sequence[_Sending], results: Sequence[PGresult]) -> None:
        """Take in which statements the server has made ready, and which it has no more."""
        for at, message in enumerate(messages):
            done = at < len(results) and results[at].status == ExecStatus.COMMAND_OK
            if message.readies is not None and not done:
                self.prepared.forget(message.readies)
            elif message.frees is not None and done:
                self.prepared.gone.remove(message.frees)

    def _rows_of(self, result: PGresult) -> Rows:
        if not result.nfields:
            return []
        self._rows.set_pgresult(result)
        return cast("Rows", self._rows.load_rows(0, result.ntuples, tuple))

    # -- ends ------------------------------------------------------------------------------

    def _hang_up(self) -> None:
        self.leave()
        self._server.finish()

    async def _break_off(self, connection: psycopg.AsyncConnection[Any]) -> None:
        """End what is under way, for a caller that does not wait any more, or the connection."""
        waiter = self._waiter
        if waiter is None or (waiter.done() and not waiter.cancelled()):
            return
        if self._server.status != ConnStatus.OK:
            self.leave()
            return
        waiter = self._listen()
        try:
            async with asyncio.timeout(_BREAKS_OFF_IN):
                await connection.cancel_safe(timeout=_BREAKS_OFF_IN)
                await waiter
        except BaseException as error:
            # A session in an unknown state; or told to end again, and then at once.
            self._hang_up()
            if not isinstance(error, Exception):
                raise


def _refuse_errors(results: Sequence[PGresult]) -> None:
    for result in results:
        if result.status in _FAILED:
            raise error_from_result(result)


def _values_of(query: Query) -> _Values:
    """The values of a statement in the order of its marks."""
    params = query.params
    values: _Values = []
    for name in query.statement.parameters:
        value = params[name]
        # Most are plain text or nothing: a call for each would be most of what they cost.
        if value is None:
            values.append(None)
        elif type(value) is str and "\0" not in value:
            values.append(value.encode())
        else:
            values.append(_encoded(value))
    return values


def _encoded(value: Any) -> bytes | None:  # noqa: ANN401 - whatever a statement is given
    """A value as the server reads it, whatever type its place in the statement has."""
    if value is None:
        return None
    if isinstance(value, str):
        if "\0" in value:
            # The server's text ends there, and so would the value.
            raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        return value.encode()
    if isinstance(value, bool):
        return b"t" if value else b"f"
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float):
        return repr(value).encode()
    return cast("bytes", _OTHERS.get_dumper(value, PyFormat.TEXT).dump(value))
