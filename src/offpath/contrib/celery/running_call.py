"""The call that a task runs in, as it sees it: ``self.request``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from offpath.contrib.celery.catalogue import Counterpart, Meaning
from offpath.contrib.celery.exceptions import NotInShim, refuse

if TYPE_CHECKING:
    from offpath.jobs.handler.context import Context

HEADER: Final = "celery"
"""The header with what the shim keeps of a job."""


class JobNote(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The facts that the shim keeps of a job, in a header of its own."""

    root: str | None = None
    parent: str | None = None
    take: str | None = None
    """``one``: the first argument is the result of the job that it waited for; ``list``: the
    results of all of them."""
    link: tuple[dict[str, Any], ...] = ()
    """Signatures of what follows its success."""
    expires: datetime | None = None


_read: Final = msgspec.json.Decoder(JobNote).decode


def note_of(headers: Mapping[str, str]) -> JobNote:
    """The note of a job; an empty one where it was enqueued natively."""
    return _read(headers[HEADER]) if HEADER in headers else JobNote()


def noted(note: JobNote, headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with a note."""
    return {**headers, HEADER: msgspec.json.encode(note).decode()}


class TaskRequest(Struct, kw_only=True):
    """A call of a task, as ``self.request`` shows it."""

    id: str | None = None
    task: str = ""
    retries: int = 0
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}
    root_id: str | None = None
    parent_id: str | None = None
    delivery_info: Mapping[str, Any] = {}
    called_directly: bool = True

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - never returned
        """Refuse what Celery's request has beside."""
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotInShim(
            f"self.request.{name}: it has {', '.join(self.__struct_fields__)}; natively ctx, the "
            "handler's context"
        )


_NONE: Final = TaskRequest()
_REQUEST: Final[ContextVar[TaskRequest]] = ContextVar("offpath_celery_request", default=_NONE)


def current_request() -> TaskRequest:
    """The request of the task that runs here; an empty one outside of tasks."""
    return _REQUEST.get()


def in_task() -> bool:
    """True in a task that a worker runs."""
    return not _REQUEST.get().called_directly


def request_of(
    ctx: Context, note: JobNote, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> TaskRequest:
    """The request of an attempt."""
    return TaskRequest(
        id=ctx.id,
        task=ctx.task,
        retries=ctx.attempt - 1,
        args=list(args),
        kwargs=dict(kwargs),
        headers={name: text for name, text in ctx.headers.items() if name != HEADER},
        root_id=note.root or ctx.id,
        parent_id=note.parent or ctx.parent,
        delivery_info={"routing_key": ctx.queue_name, "exchange": "", "redelivered": False},
        called_directly=False,
    )


enter = _REQUEST.set
leave = _REQUEST.reset


def throw_is_absent(value: bool) -> None:
    """Refuse ``self.retry(throw=False)``."""
    if not value:
        refuse(Counterpart(Meaning.ABSENT, "a retry always ends the attempt"), "retry(throw=False)")
