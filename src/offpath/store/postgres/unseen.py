"""Jobs that were looked for in the very moment in which somebody else added them.

Who makes a gate over a job, or adds the first member of a group, does not see a job that is not yet
committed, and who adds the job does not see the gate or the group. Both leave that to this.
"""

from __future__ import annotations

from datetime import datetime

from offpath.store.postgres.groups import GroupWork
from offpath.store.postgres.steps import ids_json, to_json
from offpath.store.programs.dialect import Send, Steps, ask
from offpath.store.sql import Catalogue


def look_again_steps(limit: int, now: datetime | None, *, sql: Catalogue) -> Steps[None]:
    """Look for them again, and join with their gates and groups those that are there by now.

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
    yield from work.lasting(now, sql=sql)
