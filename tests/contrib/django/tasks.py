"""Tasks of a project: defined at module level, as Django wants them."""

from __future__ import annotations

import threading
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections, transaction
from django.utils import translation

from offpath import Abort, Snooze
from offpath.contrib.django import task
from offpath.contrib.django.names import plain_decorator

SEEN: list[Any] = []
"""Reports of tasks to the test."""


@plain_decorator
def double(n: int) -> int:
    return 2 * n


@plain_decorator(priority=3, queue_name="mail")
def describe(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"args": list(args), "kwargs": kwargs}


@task(unique="report")
def report() -> str:
    return "done"


@task(unique=lambda day, **_: f"day-{day}")
def daily(day: int, *, note: str = "") -> int:
    return day


@plain_decorator
async def double_later(n: int) -> int:
    return 2 * n


@plain_decorator(takes_context=True)
def attempt(context: Any, fail: int = 0) -> int:
    SEEN.append((context.attempt, context.task_result.id, context.task_result.status.value))
    if context.attempt <= fail:
        raise LookupError(f"run {context.attempt} fails")
    return int(context.attempt)


@plain_decorator(takes_context=True)
async def attempt_later(context: Any) -> int:
    return int(context.attempt)


@plain_decorator
def give_up() -> None:
    raise Abort("no use")


@plain_decorator
def unwritable() -> Any:
    return {1, 2}


@plain_decorator
def note(alias: str, text: str, *, fail: bool = False) -> bool:
    with transaction.atomic(using=alias), connections[alias].cursor() as cursor:
        cursor.execute("insert into note (text) values (%s)", [text])
        if fail:
            raise LookupError
    translation.activate("de")
    SEEN.append((threading.current_thread().name, id(connections[alias].connection)))
    return bool(connections[alias].connection)


@plain_decorator
def follow(backend: str, n: int) -> str:
    return str(double.using(backend=backend).enqueue(n).id)


@plain_decorator
def language() -> str | None:
    found: str | None = translation.get_language()
    return found


@task(retry=5, timeout=30, tags=["slow"])
def with_our_options() -> None: ...


@plain_decorator
def snooze_once() -> str:
    SEEN.append("ran")
    if SEEN.count("ran") == 1:
        raise Snooze(0)
    return "done"


@plain_decorator
def again(backend: str) -> None:
    again.using(backend=backend).enqueue(backend)


def _copied(alias: str, text: str) -> int:
    SEEN.append(threading.get_ident())
    with connections[alias].cursor() as cursor:
        cursor.execute("select count(*) from note")
        (found,) = cursor.fetchone()
        cursor.execute("insert into note (text) values (%s)", [text])
    return int(found)


@plain_decorator
def copy_notes(alias: str, text: str) -> int:
    return _copied(alias, text)


@plain_decorator
async def copy_notes_later(alias: str, text: str) -> int:
    return await sync_to_async(_copied)(alias, text)


@plain_decorator
def leave() -> None:
    raise SystemExit("the task leaves")


@plain_decorator
def nested_error() -> None:
    raise ValueError(ValueError("inside"))


@plain_decorator(takes_context=True)
def own_id(context: Any) -> str:
    return str(context.task_result.id)
