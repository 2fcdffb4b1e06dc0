"""The consequences of ends: gates that count them, jobs that die along, groups that are done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from offpath.model.gate import GateState
from offpath.model.job import JobState
from offpath.store.hints import Hint
from offpath.store.programs.aftermath import Aftermath, End, Overdue
from offpath.store.programs.dialect import Announced, Queries
from offpath.store.sqlite import groups
from offpath.store.sqlite.gates import End as Outcome
from offpath.store.sqlite.gates import Following
from offpath.store.sqlite.groups import EndedJob, JoinedGroups
from offpath.store.sqlite.parameters import batch, later
from offpath.store.sqlite.session import SQL


def aftermath_steps(
    following: Following,
    ended: Sequence[EndedJob],
    *,
    watched: Sequence[Outcome],
    joined: JoinedGroups | None = None,
    ensured: Collection[str] = (),
) -> Queries[tuple[Aftermath, Mapping[str, bool]]]:
    """Count ends in gates, then in groups; with the outcome, the groups that have a row and whether
    they are closing. A group whose last jobs died along is ended by one of ``ended``, if that is a
    member of it.
    """
    if watched:
        yield from following.count(watched)
    deaths = [
        EndedJob(each.id, each.group_id, "dead", each.redrives) for each, _ in following.deaths
    ]
    closed = yield from groups.count_steps([*deaths, *ended], joined, ensured)
    along = [
        (each.told(group_done=each.id in closed.done), cause) for each, cause in following.deaths
    ]
    return Aftermath(closed.done, along), closed.rows


def conclude_steps(
    ends: Sequence[End],
    keep: float | None,
    now: int,
    announced: Announced,
    *,
    closing: Sequence[str],
    given_back: Sequence[str],
    overdue: Overdue | None,
) -> Queries[Aftermath]:
    """Count the ends of jobs that did not end by their worker."""
    held: set[str] = set()
    if given_back:
        rows = yield SQL["hold_closed"](keys=batch(sorted(set(given_back))), now=now)
        held = {job for (job,) in rows}
    following = Following(now, None if keep is None else later(now, keep))
    watched = [(end.id, "failed") for end in ends if end.watched]
    if overdue is not None:
        watched += yield from _catch_up(overdue, following)
    there = (yield from groups.there_steps(closing)) if closing else []
    after, _ = yield from aftermath_steps(
        following,
        [EndedJob(end.id, end.group_id, "dead", end.redrives) for end in ends],
        watched=watched,
        ensured=there,
    )
    # Behind the counts, for a group may have got its row only there.
    if there:
        yield SQL["mark_groups"](ids=batch(there))
    announced.hear([following.stirred])
    if following.released:
        announced.tell(Hint.WORK)
    if after.deaths:
        announced.moved.add(JobState.DEAD)
    return after._replace(held=held)


def _catch_up(overdue: Overdue, following: Following) -> Queries[list[Outcome]]:
    """Let go whom a fired gate holds still; the ends that are to be counted with the others."""
    if overdue.fired:
        yield from following.decided([(gate, GateState.FIRED) for gate in overdue.fired])
    if overdue.uncounted:
        yield SQL["note_counted"](ids=batch(list(overdue.uncounted)))
    return [
        (job, "succeeded" if succeeded else "failed")
        for job, succeeded in overdue.uncounted.items()
    ]
