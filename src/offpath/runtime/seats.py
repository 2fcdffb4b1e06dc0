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
from typing import Any

from offpath.errors import TaskError


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
    """What a call's error is here: one that would end the process is a failure like others.

    A cancellation stays what it is: whose it is, only who cancels can tell.
    """
    if isinstance(error, Exception | asyncio.CancelledError | ProcessEnd):
        return error
    return Escaped(f"it raised {type(error).__name__}({error}), which ends no worker")


def check_seat(function: object, where: str) -> None:
    """Refuse, where it is defined, a function that would never run. Raises ``TaskError``."""
    plain = function
    while isinstance(plain, functools.partial):
        plain = plain.func
    if callable(plain):
        plain = inspect.unwrap(plain)
    seen = (plain, getattr(plain, "__call__", None))  # noqa: B004 - objects with such a __call__
    if any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in seen):
        raise TaskError(f"{where}: it is a generator, of which nothing would run: drop the yield")
