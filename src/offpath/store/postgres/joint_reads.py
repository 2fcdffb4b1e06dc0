"""Joint reads: what several ask at the same moment goes out as one statement.

A page asks for ten things that do not depend on each other. One after another they would be ten
round trips, and at once ten connections. So each question waits until everybody of this moment has
asked, and one statement answers all of them, each as a column of JSON.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from offpath.errors import StoreBusy, StoreError
from offpath.store.postgres.dialect import PostgresRunner
from offpath.store.programs.dialect import Dialect, How, Rows, Send, Steps, one
from offpath.store.sql import Query, Statement, renamed, statement

T = TypeVar("T")

MOST_JOINED: Final = 24
"""Questions in one statement: its plan is made anew each time, and grows with them."""
_APART: Final = frozenset(("stats", "stat_sums"))
"""Statements whose answers are megabytes of text: as JSON within JSON they would be written twice,
which took longer than to read them.
"""
TOGETHER: Final = 0.8
"""Seconds for all of them together. A slow one holds the others back, so they are asked alone then:
one panel of a page takes too long, and the others are there.
"""
_TURNS: Final = 4
"""Turns of the loop for which a question waits: who asks through tasks of tasks comes in them."""
_rows: Final = msgspec.json.Decoder(list[dict[str, Any]]).decode


class _Question:
    """One statement, and those who wait for its rows."""

    __slots__ = ("answer", "call", "query", "waiting")

    def __init__(self, query: Query, answer: asyncio.Future[Rows]) -> None:
        self.query = query
        self.answer = answer
        self.call = True
        self.waiting = 0


class _Round:
    """The questions of one moment."""

    __slots__ = ("left", "questions", "task")

    def __init__(self) -> None:
        self.questions: list[_Question] = []
        self.task: asyncio.Task[None] | None = None
        self.left = False
        """Nobody waits any more, so it is not answered."""

    def leave(self, question: _Question) -> None:
        """Somebody waits no longer. Where nobody does, the server is told to stop."""
        question.waiting -= 1
        if self.task is not None and not any(one.waiting for one in self.questions):
            self.left = True
            self.task.cancel()


class JointRunner(PostgresRunner):
    """Runs programs that read side by side, and all others as usual.

    A program that reads is not one transaction here: each of its statements sees what was committed
    when it began, as in any transaction of ours.
    """

    _round: _Round | None = None

    async def run(
        self,
        program: Callable[[Dialect], Steps[T]],
        how: How,
        peek: Callable[[Dialect], Steps[T | None]] | None = None,
    ) -> T:
        """The answer of ``program``."""
        if not how.reads:
            return await super().run(program, how, peek)
        steps = program(self._dialect())
        answer: list[Rows] | None = None
        try:
            while True:
                send = next(steps) if answer is None else steps.send(answer)
                answer = await self._answers(send, how)
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            steps.close()

    async def _answers(self, send: Send, how: How) -> list[Rows]:
        return await asyncio.gather(*(self._ask(query, how) for query in send.queries))

    async def _ask(self, query: Query, how: How) -> Rows:
        current = self._begun() if query.name in _APART else self._current()
        question = next((one for one in current.questions if one.query == query), None)
        if question is None:
            question = _Question(query, asyncio.get_running_loop().create_future())
            current.questions.append(question)
        # Who may take long keeps that right where somebody in a hurry asks the same.
        question.call &= how.call
        question.waiting += 1
        try:
            # one who leaves takes the answer away from nobody else
            return await asyncio.shield(question.answer)
        finally:
            current.leave(question)

    def _current(self) -> _Round:
        """The round that still takes questions. It is of this loop, as the pool is."""
        current = self._round
        if current is None or current.left or len(current.questions) >= MOST_JOINED:
            current = self._round = self._begun()
        return current

    def _begun(self) -> _Round:
        current = _Round()
        current.task = asyncio.create_task(self._answer(current), name="offpath-reads")
        return current

    async def _answer(self, current: _Round) -> None:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        # Closed before it is sent: who comes later would get rows that are older than the question.
        if self._round is current:
            self._round = None
        questions = current.questions
        try:
            await self._together(questions)
        except Exception as error:  # noqa: BLE001 - it is told to those who asked, none may hang
            for each in questions:
                _fail(each, error)
        # The task is told to end, and those who asked must not wait for ever.
        except BaseException:
            for each in questions:
                each.answer.cancel()
            raise

    async def _together(self, questions: Sequence[_Question]) -> None:
        """Answer all by one statement; where it cannot be, each alone, so that one fails alone."""
        if len(questions) > 1 and await self._joined(questions):
            return
        await asyncio.gather(*(self._alone(each) for each in questions))

    async def _joined(self, questions: Sequence[_Question]) -> bool:
        """Answer all by one statement; False where it took too long, or one of them is refused."""
        try:
            async with asyncio.timeout(TOGETHER):
                (row,) = await self._read(joined([each.query for each in questions]), questions)
        except (TimeoutError, StoreBusy):
            return False
        except StoreError as error:
            if error.retryable:  # an outage is everybody's
                raise
            return False
        for each, text in zip(questions, row, strict=True):
            each.answer.set_result([tuple(found.values()) for found in _rows(text)])
        return True

    async def _alone(self, each: _Question) -> None:
        try:
            each.answer.set_result(await self._read(each.query, (each,)))
        except StoreError as error:
            _fail(each, error)

    async def _read(self, query: Query, questions: Sequence[_Question]) -> Rows:
        call = all(each.call for each in questions)
        return await self._database.write(lambda: one(query), "limit", call=call, harmless=True)


def joined(queries: Sequence[Query]) -> Query:
    """One statement for several that read: a row, with the rows of each as a text of JSON.

    Statements answer texts, numbers and None alone, which JSON keeps.
    """
    params = {
        f"q{place}_{name}": value
        for place, query in enumerate(queries)
        for name, value in query.params.items()
    }
    return _joined(tuple(query.statement for query in queries))(**params)


# A page asks the same each time. Bounded, for the sets of questions differ with their timing.
@lru_cache(maxsize=256)
def _joined(statements: tuple[Statement, ...]) -> Statement:
    parts = (
        # our own text from the package's .sql files; values are only ever bound
        "(select coalesce(json_agg(row_to_json(row(q.*))), '[]')::text "  # noqa: S608
        f"from ({renamed(each, f'q{place}_')}) q)"
        for place, each in enumerate(statements)
    )
    return statement("joined", f"select {', '.join(parts)}")


def _fail(question: _Question, error: Exception) -> None:
    if not question.answer.done():
        question.answer.set_exception(error)
        question.answer.exception()  # nobody may be left who asks for it
