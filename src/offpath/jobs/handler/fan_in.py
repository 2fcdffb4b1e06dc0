"""Fan-in: the results of the jobs that this one has waited for, read back in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from offpath.errors import JobNotFound
from offpath.model.job import JobState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from offpath.jobs.handler.host import Host
    from offpath.jobs.values.parts import Part, PartOutcome
    from offpath.jobs.values.run import Run
    from offpath.model.job import JobRecord

S = TypeVar("S")

PAGE: Final = 500
"""Jobs that are read at once: results may be large."""


class FanInVerbs:
    """The part of a context that reads what the job has waited for."""

    __slots__ = ()

    _run: Run
    _host: Host

    @property
    def id(self) -> str:
        """The job's id."""
        raise NotImplementedError

    async def results(self, part: Part[S], /) -> list[S]:
        """The values of the jobs of this task that this one waited for, in the order in which they
        were listed, behind ``.next`` or a gate.

        Only of those that have succeeded: :meth:`outcomes` tells of all. Empty when it waited for
        none of them. What a job waits for is kept until it has ended itself, so a retry reads the
        same. A sync handler writes ``ctx.blocking(ctx.results(part))``.

        Raises ``JobNotFound`` when one of them was deleted, and ``InvalidArgument`` when a value
        is not of the declared type.
        """
        return [value async for value in self.each_result(part)]

    async def each_result(self, part: Part[S], /) -> AsyncIterator[S]:
        """Give the values of :meth:`results` one by one, read as they are taken: a few hundred are
        in memory at once, however many there are.

        Raises as that does, when it comes to the one in question.
        """
        async for job in self._waited_for():
            if job.task == part.name and job.state is JobState.SUCCEEDED:
                yield part.results.decode(job.result)

    async def outcomes(self) -> list[PartOutcome]:
        """The end of each job that this one waited for, in the order in which they were listed:
        its value or its failure.

        Raises ``JobNotFound`` when one of them was deleted, and ``InvalidArgument`` when a value
        is not of the declared type.
        """
        return [outcome async for outcome in self.each_outcome()]

    async def each_outcome(self) -> AsyncIterator[PartOutcome]:
        """Give the ends of :meth:`outcomes` one by one, read as they are taken.

        Raises as that does, when it comes to the one in question.
        """
        async for job in self._waited_for():
            yield self._outcome(job)

    def _outcome(self, job: JobRecord) -> PartOutcome:
        from offpath.jobs.values.parts import PartOutcome  # most handlers ask for none

        part = self._host.tasks.get(job.task)
        succeeded = job.state is JobState.SUCCEEDED
        value = part.results.decode(job.result) if succeeded and part is not None else None
        failure = None if succeeded else job.failure
        return PartOutcome(id=job.id, task=job.task, state=job.state, value=value, failure=failure)

    async def _waited_for(self) -> AsyncIterator[JobRecord]:
        store = self._host.store
        # What was named may have attached to the holder of its key: the gate knows who that is.
        named = self._run.job.dependents
        ids = (await store.watched(self.id) or named) if named else ()
        for at in range(0, len(ids), PAGE):
            page = ids[at : at + PAGE]
            found = {job.id: job for job in await store.get(page)}
            for each in page:
                # A job that is taken from the page is free as soon as its reader is done with it.
                if (job := found.pop(each, None)) is None:
                    raise JobNotFound(
                        f"of the {len(ids)} jobs that this one waited for, {each} is not there any "
                        "more: it was deleted"
                    )
                yield job
