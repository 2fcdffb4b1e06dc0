"""The doors that are in a caller's own transaction: the same for each SQL database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpath.model.effects import Effects
    from offpath.model.job import Enqueued, JobRecord
    from offpath.model.route import Decisions
    from offpath.store.events import Decide
    from offpath.store.programs.dialect import Queries
    from offpath.store.within import Dialect


class WithinDoors:
    """A part of a store: it has a database's steps run on whatever connection a caller has."""

    _kind: ClassVar[Dialect]
    """The database that the caller's connection must be of."""

    async def commit_within(self, connection: Any, effects: Effects) -> list[Enqueued]:  # noqa: ANN401 - of whichever library
        """Write all effects on the caller's connection, in its transaction."""
        from offpath.store.within import run_within

        answers = await run_within(connection, self._commit_steps(effects), dialect=self._kind)
        self._wrote_within(connection, effects)
        return answers

    def commit_within_blocking(self, connection: Any, effects: Effects) -> list[Enqueued]:  # noqa: ANN401 - as above
        """Commit as :meth:`commit_within` does, for a blocking connection."""
        from offpath.store.within import run_within_blocking

        steps = self._commit_steps(effects)
        answers = run_within_blocking(connection, steps, dialect=self._kind)
        self._wrote_within(connection, effects)
        return answers

    async def get_within(self, connection: Any, ids: Sequence[str]) -> list[JobRecord]:  # noqa: ANN401 - as above
        """The jobs of these ids that the caller's transaction sees."""
        from offpath.store.within import run_within

        return await run_within(connection, self._get_steps(ids), dialect=self._kind)

    def get_within_blocking(self, connection: Any, ids: Sequence[str]) -> list[JobRecord]:  # noqa: ANN401 - as above
        """Read as :meth:`get_within` does, for a blocking connection."""
        from offpath.store.within import run_within_blocking

        return run_within_blocking(connection, self._get_steps(ids), dialect=self._kind)

    async def route_within(
        self,
        connection: Any,  # noqa: ANN401 - as above
        router: str,
        partition: int,
        *,
        limit: int,
        decide: Decide,
    ) -> Decisions | None:
        """One step of a router in the caller's transaction."""
        from offpath.store.within import run_within

        steps = self._route_steps(router, partition, limit, decide)
        return await run_within(connection, steps, dialect=self._kind)

    def route_within_blocking(
        self,
        connection: Any,  # noqa: ANN401 - as above
        router: str,
        partition: int,
        *,
        limit: int,
        decide: Decide,
    ) -> Decisions | None:
        """Route as :meth:`route_within` does, for a blocking connection."""
        from offpath.store.within import run_within_blocking

        steps = self._route_steps(router, partition, limit, decide)
        return run_within_blocking(connection, steps, dialect=self._kind)

    # -- what a database says ----------------------------------------------------------------

    def _commit_steps(self, effects: Effects) -> Queries[list[Enqueued]]:
        """The steps of a commit, of which nothing stays where they raise."""
        raise NotImplementedError

    def _get_steps(self, ids: Sequence[str]) -> Queries[list[JobRecord]]:
        """The reading of jobs."""
        raise NotImplementedError

    def _route_steps(
        self, router: str, partition: int, limit: int, decide: Decide
    ) -> Queries[Decisions | None]:
        """One step of a router."""
        raise NotImplementedError

    def _wrote_within(self, connection: Any, effects: Effects) -> None:  # noqa: ANN401 - as above
        """Note that effects were written that the caller may still roll back."""
