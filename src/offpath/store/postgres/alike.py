"""Many plain jobs that differ by id, input and fingerprint alone, as the calls of one task do.

What they share is sent once, and what differs as texts that the server splits: it reads these in a
third of the time that it takes for a document of as many records, and answers once for all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import repeat
from typing import Final, NamedTuple

from offpath.model.job import NewJob
from offpath.store.postgres.lone import fails_fast, is_plain
from offpath.store.postgres.steps import moment
from offpath.store.sql import Catalogue, Query, Row

FEWEST: Final = 16
"""Jobs for which that pays."""
SPLIT: Final = "\x1f"
"""Between two texts. No JSON has it, and texts that do go by the statement for all jobs."""
_REFUSED: Final = "\0"

_Shared = tuple[str, str, int, str, int, str | None, str | None]


class Common(NamedTuple):
    """The fields that all jobs of a statement share, as those of one plan do: they are sent
    once.
    """

    group_id: str | None = None
    parent: str | None = None
    watched: bool = False

    @classmethod
    def of(cls, jobs: Sequence[NewJob], watched: Collection[str]) -> Common:
        """The fields that all these jobs share; gates watch those that are ``watched``."""
        first = jobs[0]
        group, parent = first.group_id, first.parent
        return cls(
            group if all(job.group_id == group for job in jobs) else None,
            parent if all(job.parent == parent for job in jobs) else None,
            bool(watched) and all(job.id in watched for job in jobs),
        )


class Alike(NamedTuple):
    """The texts of jobs that are alike, in their order."""

    shared: _Shared
    ids: str
    inputs: str
    fingerprints: str

    @classmethod
    def of(
        cls, jobs: Sequence[NewJob], ids: Iterable[str], kin: Common, watched: Collection[str] = ()
    ) -> Alike | None:
        """None where they are few, differ, or ask for something of which a plain job has nothing.

        What ``kin`` does not have in common must be absent in all of them.
        """
        if len(jobs) < FEWEST or (watched and not kin.watched):
            return None
        shared = _shared(jobs[0])
        for job in jobs:
            if _shared(job) != shared or not (is_plain(job) and _stands_alone(job, kin)):
                return None
        inputs = SPLIT.join([job.input for job in jobs])
        fingerprints = SPLIT.join([job.fingerprint for job in jobs])
        texts = inputs + fingerprints
        # A separator within a text would split it in two for the server. The count shows that.
        if texts.count(SPLIT) != 2 * len(jobs) - 2 or not _is_stored(texts):
            return None
        return cls(shared, ",".join(ids), inputs, fingerprints)

    def query(self, kin: Common, now: datetime | None, *, alone: bool, sql: Catalogue) -> Query:
        """One statement that adds those that nothing stands in the way of."""
        task, queue, priority, options, announce, fair_key, headers = self.shared
        return sql["enqueue_alike"](
            now=moment(now),
            ids=self.ids,
            inputs=self.inputs,
            fingerprints=self.fingerprints,
            task=task,
            queue=queue,
            # as texts: of numbers, the driver makes another statement for each size
            priority=str(priority),
            options=options,
            announce=str(announce),
            fair_key=fair_key,
            headers=headers,
            alone=alone,
            **kin._asdict(),
        )

    def added(self, rows: Sequence[Row]) -> Iterable[Row]:
        """The answer of the statement as the rows that the one for all jobs has."""
        ((run_at, number, there, roots),) = rows
        ids = self.ids.split(",")
        if there is not None:
            ids = there.split(",") if number else []
        if roots is None:
            return zip(ids, repeat(run_at), repeat(0))
        rooted = frozenset(roots.split(","))
        return [(one, run_at, int(one in rooted)) for one in ids]


def _shared(job: NewJob) -> _Shared:
    return (
        job.task,
        job.queue,
        job.priority,
        job.options,
        job.announce,
        job.fair_key,
        job.headers,
    )


def _stands_alone(job: NewJob, kin: Common) -> bool:
    return (
        job.gate is None
        and job.group_id == kin.group_id
        and job.parent == kin.parent
        and not fails_fast(job)
    )


def can_be_split(texts: str) -> bool:
    """True if texts, joined to one, can be sent with ``SPLIT`` between them."""
    return SPLIT not in texts and _is_stored(texts)


def _is_stored(text: str) -> bool:
    """True if the server takes a text: others are refused by the statement that is not for many at
    once, which knows how to say so.
    """
    try:
        text.encode()
    except UnicodeEncodeError:  # half a letter
        return False
    return _REFUSED not in text
