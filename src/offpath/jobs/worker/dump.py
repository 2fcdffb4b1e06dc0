"""A dump: where every thread and task of a process is, and the jobs in its hand.

It names files, lines and functions, and no value: arguments and variables may be secrets. It is
bounded, whatever runs.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from offpath.model.lease import LONGEST_ANSWER
from offpath.model.redact import redact_text

if TYPE_CHECKING:
    from offpath.jobs.worker.terms import Active

DEEPEST: Final = 30
"""Frames of one stack, the innermost ones."""
MOST_OF_A_KIND: Final = 200
"""Jobs, threads and tasks each, that are told."""


def dump(active: Iterable[Active], tasks: Iterable[asyncio.Task[Any]]) -> str:
    """The text of a dump: jobs, then threads, then tasks."""
    lines = [*_jobs(active), *_threads(), *_tasks(tasks)]
    text = redact_text("\n".join(lines))
    if len(text) <= LONGEST_ANSWER:
        return text
    note = "\n… cut: it was longer than an answer may be"
    return text[: LONGEST_ANSWER - len(note)] + note


def _jobs(active: Iterable[Active]) -> Iterator[str]:
    known = list(active)
    yield f"{len(known)} jobs"
    for job in known[:MOST_OF_A_KIND]:
        since = job.since.isoformat(timespec="seconds")
        yield f"  {job.id} {job.task} attempt {job.attempt} {job.stage} since {since}"


def _threads() -> Iterator[str]:
    frames = sys._current_frames()  # noqa: SLF001 - the documented way to other threads' stacks
    names = {one.ident: one.name for one in threading.enumerate()}
    yield f"{len(frames)} threads"
    for ident, frame in sorted(frames.items())[:MOST_OF_A_KIND]:
        yield f"thread {names.get(ident, 'unknown')} ({ident})"
        yield from _stack(frame)


def _tasks(tasks: Iterable[asyncio.Task[Any]]) -> Iterator[str]:
    known = sorted(tasks, key=lambda one: one.get_name())
    yield f"{len(known)} tasks"
    for task in known[:MOST_OF_A_KIND]:
        work = task.get_coro()
        yield f"task {task.get_name()} {getattr(work, '__qualname__', type(work).__name__)}"
        yield from _chain(work)


def _chain(work: object) -> Iterator[str]:
    """The frames of a coroutine and of what it awaits; a task itself tells the first one alone."""
    for _ in range(DEEPEST):
        frame = getattr(work, "cr_frame", None) or getattr(work, "ag_frame", None)
        if frame is None:
            return
        yield _place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        work = getattr(work, "cr_await", None) or getattr(work, "ag_await", None)


def _stack(frame: FrameType) -> Iterator[str]:
    # lines of source are not looked up: a constant in one may be a secret
    stack = list(traceback.walk_stack(frame))[:DEEPEST]
    for each, line in reversed(stack):
        yield _place(each.f_code.co_filename, line, each.f_code.co_name)


def _place(file: str, line: int, function: str) -> str:
    return f"  {file}:{line} in {function}"
