"""The store's part for groups, gates, steps and signals, and the second look at unseen jobs.

A transaction that makes a gate over a job, or adds the first member of a group, does not see a job
that is not yet committed; the one that adds the job does not see the gate or the group. Both leave
the job in ``unseen``, for a later look.
"""

from __future__ import annotations

from datetime import datetime

from offpath.model.changes import ChangedJob
from offpath.store.postgres import groups
from offpath.store.postgres.announcements import PostgresPart
from offpath.store.postgres.steps import ids_json, moment, to_json
from offpath.store.programs import waits
from offpath.store.programs.dialect import WRITES, Runner, Send, Steps, ask, one
from offpath.store.programs.group_work import GroupWork
from offpath.store.sql import Catalogue


class WorkflowTables(PostgresPart):
    """The repair of waits, which on Postgres has a second transaction."""

    runner: Runner

    async def expire_blocked(self, *, limit: int, keep: float | None = None) -> list[ChangedJob]:
        """Give up waits whose time is over, and repair what was skipped."""
        now = self._now()
        # Most passes find nothing: they are one look, not two transactions of nine statements.
        look = self._sql["anything_over"](now=moment(now))
        if not await self._database.write(lambda: one(look)):
            return []
        changes = await self.runner.run(lambda d: waits.expire(d, limit=limit, keep=keep), WRITES)
        await self._database.write(lambda: look_again_steps(max(limit, 0), now, sql=self._sql))
        return changes


def look_again_steps(limit: int, now: datetime | None, *, sql: Catalogue) -> Steps[None]:
    """Look for them again, and join with their gates and groups those that are there.

    Jobs that somebody holds are left for the next time. One look when there is nothing to do.
    """
    looked = yield from ask(sql["look_again"](limit=limit))
    if not looked:
        return
    rows = yield from ask(sql["found_again"](ids=ids_json(job for _, job in looked)))
    found = ids_json(job for (job,) in rows)
    places = to_json([place for place, _ in looked])
    _, roots, gone = yield Send(
        (
            sql["watch_found"](ids=found),
            sql["found_roots"](ids=found),
            sql["forget_unseen"](places=places, found=found),
        )
    )
    work = GroupWork()
    if roots:
        joined = yield from ask(sql["join_roots"](ids=ids_json(job for (job,) in roots)))
        for row in joined:
            work.join_root(row, frozenset())
    if gone:
        # a root that came, was not counted, and is removed again did not take its group with it
        ids = sorted(group for (group,) in gone)
        held = to_json(sorted({*ids, *work.groups()}))
        yield Send((sql["lock_groups"](ids=held), sql["drop_groups"](ids=to_json(ids))))
    yield from groups.lasting(work, now, sql=sql)
