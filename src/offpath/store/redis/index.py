"""The changes of indexes that come of changed jobs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from offpath.model.job import JobRecord, JobState
from offpath.store.redis import keys
from offpath.store.redis.job_rows import (
    IndexEntry,
    StoredJob,
    entries,
    fields_gone,
    waiting_entries,
)


class IndexChanges:
    """The changes of indexes, gathered by key: one command for each."""

    def __init__(self, prefix: str, now: datetime) -> None:
        self.commands: list[list[Any]] = []
        self._prefix = prefix
        self._now = now
        self._added: dict[str, list[Any]] = {}
        self._gone: dict[str, list[Any]] = {}
        self._ready: dict[str, tuple[list[Any], list[Any]]] = {}
        self._queues: dict[str, list[Any]] = {}
        self._counts: dict[str, dict[str, int]] = {keys.COUNTS: {}, keys.RUNNING_OF: {}}

    def move(
        self, job_id: str, stored: StoredJob | None, row: StoredJob | None, fields: list[str]
    ) -> None:
        """A job becomes another row, with these fields of its hash, or is removed."""
        before = set() if stored is None else set(entries(stored, self._now))
        after = set() if row is None else set(entries(row, self._now))
        if stored is not None:
            self._tally(stored.record, -1)
            if stored.record.state is JobState.QUEUED:
                before |= set(waiting_entries(stored.record))
        fresh = after - before
        if row is not None and row.record.state is JobState.QUEUED:
            # Written even if nothing changed: a lease makes due jobs ready by the index alone, so
            # the row does not tell which of the two has it.
            fresh |= {each for each in after if each.key[:2] in (keys.READY, keys.SCHEDULED)}
        self._place(before - after, self._gone, 0)
        self._place(fresh, self._added, 1)
        self._keep(job_id, stored, row, fields)

    def _place(self, changed: set[IndexEntry], others: dict[str, list[Any]], side: int) -> None:
        """Entries that go (0) or come (1): those of ready jobs apart, for their lane may have them
        in other orders too.
        """
        for entry in changed:
            if entry.ready:
                lane = entry.key[len(keys.READY) :]
                self._ready.setdefault(lane, ([], []))[side].append(entry.ready)
            else:
                placed = (entry.score, entry.member) if side else (entry.member,)
                others.setdefault(entry.key, []).extend(placed)

    def _keep(
        self, job_id: str, stored: StoredJob | None, row: StoredJob | None, fields: list[str]
    ) -> None:
        key = self._prefix + keys.JOB + job_id
        if row is None:
            self.commands.append(["DEL", key])
            return
        self._tally(row.record, 1)
        self.commands.append(["HSET", key, *fields])
        if gone := fields_gone(row, stored):
            self.commands.append(["HDEL", key, *gone])
        if row.record.state is JobState.QUEUED and row.crash is None:
            self._queues.setdefault(row.record.task, []).append(row.record.queue)
        elif row.record.state is JobState.RUNNING and row.record.worker is not None:
            self.commands.append(["SADD", self._prefix + keys.HOLDERS, row.record.worker])

    def all(self) -> list[list[Any]]:
        """Every command, what leaves an index before what enters it."""
        return [
            *self.commands,
            *(["@ready", lane, *changes] for lane, changes in self._ready.items()),
            # A member that changes its score is among both: the other way round it would be lost.
            *(["@many", "ZREM", self._prefix + key, gone] for key, gone in self._gone.items()),
            *(["@many", "ZADD", self._prefix + key, new] for key, new in self._added.items()),
            *(
                ["@many", "SADD", self._prefix + keys.QUEUES + task, list(dict.fromkeys(queues))]
                for task, queues in self._queues.items()
            ),
            *(["@count", key, by] for key, by in self._counts.items() if any(by.values())),
        ]

    def _tally(self, job: JobRecord, by: int) -> None:
        self._add(keys.COUNTS, f"{job.state.value}:{keys.pair(job.queue, job.task)}", by)
        if job.state is JobState.RUNNING and job.fair_key is not None:
            self._add(keys.RUNNING_OF, job.fair_key, by)

    def _add(self, key: str, field: str, by: int) -> None:
        counts = self._counts[key]
        counts[field] = counts.get(field, 0) + by
