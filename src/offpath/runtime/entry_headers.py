"""New jobs, messages and log events as extensions see them, and the headers that those add."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from offpath.model.headers import decoded_headers, is_header, with_headers
from offpath.runtime.baggage import message_headers, message_with
from offpath.runtime.extension import NewEntry

if TYPE_CHECKING:
    from offpath.model.effects import Effects
    from offpath.model.job import NewJob
    from offpath.model.new import NewLogEvent, NewMessage

LeftOut = Callable[[NewEntry, object], None]
"""Told of a header that cannot be one."""


def entries_of(effects: Effects) -> tuple[NewEntry, ...]:
    """The jobs, messages and events of these, in this order."""
    return (
        *map(_of_job, effects.jobs),
        *map(_of_message, effects.messages),
        *map(_of_event, effects.log),
    )


def with_entries(effects: Effects, entries: Sequence[NewEntry], left_out: LeftOut) -> Effects:
    """The effects with what was added to the headers of their entries."""
    added = [_good(entry, left_out) for entry in entries]
    first, last = len(effects.jobs), len(effects.jobs) + len(effects.messages)
    return replace(
        effects,
        jobs=tuple(
            replace(job, headers=with_headers(job.headers, more))
            for job, more in zip(effects.jobs, added[:first], strict=True)
        ),
        messages=tuple(
            message_with(message, more)
            for message, more in zip(effects.messages, added[first:last], strict=True)
        ),
        log=tuple(
            replace(event, headers=with_headers(event.headers, more))
            for event, more in zip(effects.log, added[last:], strict=True)
        ),
    )


def _of_job(job: NewJob) -> NewEntry:
    headers = dict(decoded_headers(job.headers))
    return NewEntry("job", job.id, job.task, job.queue, headers, job.input, job.group_id)


def _of_message(one: NewMessage) -> NewEntry:
    return NewEntry("message", one.id, one.topic, one.stream, message_headers(one), one.payload)


def _of_event(one: NewLogEvent) -> NewEntry:
    headers = dict(decoded_headers(one.headers))
    return NewEntry("event", one.id, one.type, one.stream, headers, one.payload)


def _good(entry: NewEntry, left_out: LeftOut) -> Mapping[str, str]:
    """The headers of an entry without those that cannot be any."""
    bad = [name for name, value in entry.headers.items() if not is_header(name, value)]
    for name in bad:
        del entry.headers[name]
        left_out(entry, name)
    return entry.headers
