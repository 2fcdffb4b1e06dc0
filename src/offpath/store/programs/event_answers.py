"""The rows that statements answer of messages, endpoints, routers and their logs.

As in :mod:`offpath.store.programs.answers`: times are microseconds since 1970, truths 0 and 1.
"""

from __future__ import annotations

from typing import NamedTuple


class MessageRow(NamedTuple):
    """A message as people see it. Its failure is a JSON document."""

    id: str
    box: str
    stream: str
    topic: str
    payload: str
    state: str
    attempt: int
    deliveries: int
    position: int
    created_at: int
    due_at: int
    held: int
    key: str | None
    headers: str
    finished_at: int | None
    expires_at: int | None
    reason: str | None
    failure: str | None


class HandedRow(NamedTuple):
    """A message that is handed out, and when it was due before that."""

    id: str
    stream: str
    topic: str
    payload: str
    attempt: int
    deliveries: int
    position: int
    created_at: int
    key: str | None
    headers: str
    due_before: int


class DueStreamRow(NamedTuple):
    """The number of a stream's messages that are due on Postgres, and the time since when the first
    is.
    """

    stream: str
    due: int
    oldest: int


class MessageBacklogRow(NamedTuple):
    """The number that waits in one stream."""

    box: str
    stream: str
    due: int
    dead: int
    oldest_due_at: int | None
    oldest_dead_at: int | None


class EndpointRow(NamedTuple):
    """A webhook endpoint. Secrets, topics and streams are JSON lists of texts."""

    name: str
    url: str
    secrets: str
    topics: str
    streams: str
    headers: str
    trace: int
    state: str
    reason: str | None
    failures: int
    failing_since: int | None
    blocked_until: int | None
    created_at: int


class RouterRow(NamedTuple):
    """A router. Its routes and cursors are JSON lists."""

    name: str
    domain: str
    partitions: int
    open: int
    master: int
    created_at: int
    routes: str
    cursors: str


class CursorRow(NamedTuple):
    """A cursor that was taken."""

    position: int
    holder: str | None
    passed: int
    ran_at: int | None
    summary: str | None
    mark: str | None


class FactsRow(NamedTuple):
    """The numbers that the verification of a router compares. The lag is in microseconds."""

    head: int
    events_passed: int
    events_with_attempt: int
    attempts_without_event: int
    attempts_ahead: int
    failed_without_letter: int
    letters_without_failure: int
    open_letters: int
    oldest_lag: int


class EventRow(NamedTuple):
    """An event of the log, and whether the router that asks has decided about it."""

    position: int
    id: str
    domain: str
    type: str
    stream: str
    payload: str
    at: int
    key: str | None
    decided: int
    headers: str | None


class AttemptRow(NamedTuple):
    """An attempt of a router at an event."""

    event: str
    position: int
    status: str
    route: str
    number: int
    detail: str | None
    at: int


class LetterRow(NamedTuple):
    """A dead letter of a router. Its event is a JSON document."""

    id: str
    route: str
    event: str
    reason: str
    detail: str
    number: int
    created_at: int
    resolved_at: int | None
    resolution: str | None
