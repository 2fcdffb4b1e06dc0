"""The blocking verbs of ``app.blocking.jobs`` and ``app.blocking.dead``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

if TYPE_CHECKING:
    from datetime import timedelta

    from offpath.jobs.blocking.flow import Runs
    from offpath.jobs.client.dead_letters import DeadLetters
    from offpath.jobs.client.jobs_view import JobsView
    from offpath.jobs.client.selection import Where
    from offpath.model.job import Count, JobRecord, Page
    from offpath.store.changes import Changed

    _Changes = list[Changed]  # inside of the class, `list` is the verb


class BlockingJobs:
    """``app.blocking.jobs``; see :class:`offpath.jobs.client.jobs_view.JobsView`."""

    def __init__(self, client: Runs, jobs: JobsView) -> None:
        self._run = client.run
        self._jobs = jobs

    def get(self, job_id: str, /) -> JobRecord:
        """One job. Raises ``JobNotFound``."""
        return self._run(lambda: self._jobs.get(job_id))

    def find(
        self,
        *,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
        **where: Unpack[Where],
    ) -> Page:
        """One page of jobs."""
        find = self._jobs.find
        return self._run(lambda: find(limit=limit, after=after, newest=newest, **where))

    def count(self, **where: Unpack[Where]) -> int:
        """How many jobs match."""
        return self._run(lambda: self._jobs.count(**where))

    def counts(self, **where: Unpack[Where]) -> list[Count]:
        """How many jobs match, by state, queue and task."""
        return self._run(lambda: self._jobs.counts(**where))

    def cancel(self, *ids: str, **where: Unpack[Where]) -> list[Changed]:
        """Cancel jobs by id or filter."""
        return self._run(lambda: self._jobs.cancel(*ids, **where))

    def retry(
        self, *ids: str, delay: float | timedelta = 0.0, **where: Unpack[Where]
    ) -> list[Changed]:
        """Put dead or cancelled jobs back; make waiting ones due."""
        return self._run(lambda: self._jobs.retry(*ids, delay=delay, **where))

    def delete(self, *ids: str, **where: Unpack[Where]) -> list[Changed]:
        """Remove ended jobs."""
        return self._run(lambda: self._jobs.delete(*ids, **where))


class BlockingDead:
    """``app.blocking.dead``; see :class:`offpath.jobs.client.dead_letters.DeadLetters`."""

    def __init__(self, client: Runs, dead: DeadLetters) -> None:
        self._run = client.run
        self._dead = dead

    def list(
        self,
        *,
        limit: int = 100,
        after: str | None = None,
        newest: bool = True,
        **where: Unpack[Where],
    ) -> Page:
        """One page of dead jobs."""
        letters = self._dead.list
        return self._run(lambda: letters(limit=limit, after=after, newest=newest, **where))

    def show(self, job_id: str, /) -> JobRecord:
        """One dead job with every failure kept."""
        return self._run(lambda: self._dead.show(job_id))

    def redrive(
        self,
        *ids: str,
        per_second: float | None = None,
        delay: float | timedelta = 0.0,
        limit: int | None = None,
        everything: bool = False,
        **where: Unpack[Where],
    ) -> _Changes:
        """Put dead jobs back as fresh."""
        redrive = self._dead.redrive
        return self._run(
            lambda: redrive(
                *ids,
                per_second=per_second,
                delay=delay,
                limit=limit,
                everything=everything,
                **where,
            )
        )

    def discard(
        self,
        *ids: str,
        limit: int | None = None,
        everything: bool = False,
        **where: Unpack[Where],
    ) -> _Changes:
        """Delete dead jobs for good."""
        discard = self._dead.discard
        return self._run(lambda: discard(*ids, limit=limit, everything=everything, **where))
