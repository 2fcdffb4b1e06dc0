"""The filter of messages, for backends that look at them one by one."""

from __future__ import annotations

from collections.abc import Callable

from offpath.model.message import MessageFilter
from offpath.store.rows.messages import MemoryMessage

Test = Callable[[MemoryMessage], bool]


def tests_of(where: MessageFilter) -> list[Test]:
    """Only the conditions that were given."""
    after, before = where.created_after, where.created_before
    given: list[tuple[object, Test]] = [
        (where.box, lambda row: row.box == where.box),
        (where.streams, lambda row: row.stream in where.streams),
        (where.topics, lambda row: row.new.topic in where.topics),
        (where.states, lambda row: row.state in where.states),
        (where.keys, lambda row: row.key in where.keys),
        (where.reasons, lambda row: row.reason in where.reasons),
        (where.not_reasons, lambda row: row.reason not in where.not_reasons),
        (after, lambda row: after is not None and row.created_at >= after),
        (before, lambda row: before is not None and row.created_at < before),
    ]
    return [test for condition, test in given if condition]
