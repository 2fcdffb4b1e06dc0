"""The seat of user code: how what others wrote is called, and how it is known that it ran.

A function that raises nothing has not therefore run: a plain function around an async one gives
back a coroutine, and one with a left-over ``yield`` a generator, of which not a line was executed.
And what ends a process (``SystemExit`` out of a library) is a failed call here, no end of the
worker.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar

from offpath.errors import TaskError

F = TypeVar("F")

PATIENCE: Final = 30.0
"""Seconds in which a function that is asked for a decision must answer: a worker, or a caller of a
service, waits for it."""


EVERYWHERE: Final[list[Any]] = []
"""Extensions of every app of this process; see ``offpath.extensions.extend``."""


class Escaped(Exception):
    """User code raised what ends a process: ``SystemExit``, ``KeyboardInterrupt`` and such."""


class ProcessEnd(BaseException):
    """The end of the process, as tests play it: a killed process runs no error boundary."""


async def seated(function: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401 - the function's
    """Call a function of one of the two colours and return what it made, once it has run.

    Raises ``TaskError`` where it was not run to its end, ``Escaped`` where it tried to end the
    process, and else what it raises.
    """
    try:
        return await finished(function(*args))
    except Exception:
        raise
    except BaseException as error:
        raise contained(error) from error


async def threaded(run: Callable[[Callable[[], Any]], Any], call: Callable[[], Any]) -> Any:  # noqa: ANN401 - the function's
    """The answer of :func:`seated` to a blocking function, which ``run`` calls in a thread.

    Raises as that does. What it raised there is raised here, so it is caught here too.
    """

    async def within() -> object:
        return await finished(await run(call))

    return await seated(within)


async def asked(function: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401 - the function's
    """The answer of :func:`seated` to a decision that somebody waits for, within ``PATIENCE``
    seconds.

    A cancellation that nobody asked for is a failure of the function.
    """
    task, limit = asyncio.current_task(), asyncio.timeout(PATIENCE)
    try:
        async with limit:
            return await seated(function, *args)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise TaskError(f"it gave no answer within {PATIENCE:g} s") from error
    except asyncio.CancelledError as error:
        if task is not None and task.cancelling():
            raise
        raise escaped(error) from error


def called(function: Callable[..., Any], *args: object, **kwargs: object) -> Any:  # noqa: ANN401 - as above
    """The answer of a plain function. Raises as :func:`seated` does.

    Nothing is awaited within it, so a cancellation that it raises is its own.
    """
    try:
        answer = function(*args, **kwargs)
    except (Exception, ProcessEnd):
        raise
    except BaseException as error:
        raise escaped(error) from error
    refuse_unrun(answer)
    return answer


async def finished(answer: object) -> Any:  # noqa: ANN401 - the function's
    """The result of a call: an awaitable is awaited, and what then is not run is refused."""
    made: object = await answer if inspect.isawaitable(answer) else answer
    refuse_unrun(made)
    return made


def refuse_unrun(made: object) -> None:
    """Raise ``TaskError`` for an answer that says that its function has not run."""
    if inspect.iscoroutine(made):
        made.close()  # else it warns of itself when it is collected
    elif inspect.isgenerator(made) or inspect.isasyncgen(made):
        raise TaskError("it is a generator: nothing of it ran; it must not hold a yield")
    elif not inspect.isawaitable(made):
        return
    raise TaskError("it returned a coroutine nobody awaited: nothing of it ran; await it within")


def contained(error: BaseException) -> BaseException:
    """The error of a call as the engine takes it: one that would end the process is a failure like
    others.

    A cancellation stays what it is: whose it is, only who cancels can tell.
    """
    if isinstance(error, Exception | asyncio.CancelledError | ProcessEnd):
        return error
    return escaped(error)


def escaped(error: BaseException) -> Escaped:
    """The failure that such an error is here."""
    return Escaped(f"it raised {type(error).__name__}({error}), which ends no worker")


def checked_seat(function: F, where: str, *, plain: bool = False) -> F:
    """The function, or None, as it was given. Raises ``TaskError`` as :func:`check_seat` does, and
    for what is not a function.
    """
    if function is not None:
        if not callable(function):
            raise TaskError(f"{where} must be a function, not {type(function).__name__}")
        check_seat(function, where, plain=plain)
    return function


def check_seat(function: object, where: str, *, plain: bool = False) -> None:
    """Refuse, where it is defined, a function that would never run. Raises ``TaskError``.

    ``plain``: its answer is not awaited, so an async one would never run either.
    """
    seen = _functions(function)
    if any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in seen):
        raise TaskError(f"{where}: it is a generator, of which nothing would run: drop the yield")
    if plain and any(inspect.iscoroutinefunction(one) for one in seen):
        raise TaskError(f"{where}: it is async, but nothing awaits it: make it a plain function")


def _functions(function: object) -> tuple[object, object]:
    """The function below partials and wrappers, and what calls it where it is an object."""
    plain = function
    while isinstance(plain, functools.partial):
        plain = plain.func
    if callable(plain):
        plain = inspect.unwrap(plain)
    return plain, getattr(plain, "__call__", None)  # noqa: B004 - objects with such a __call__
