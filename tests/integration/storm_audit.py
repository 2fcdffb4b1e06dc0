"""Rules that must hold in the tables behind a storm."""

from __future__ import annotations

AUDIT = {
    "groups whose counts are not those of their jobs": """
        select g.id, g.open, g.failed, c.open, c.failed, c.n, g.closing, g.policy
        from offpath.job_group g
        cross join lateral (
            select count(*) filter (where j.finished_at is null) as open,
                count(*) filter (where j.state in ('dead', 'cancelled')) as failed, count(*) as n
            from offpath.job j where coalesce(j.group_id, j.id::text) = g.id
        ) as c
        where g.open <> c.open or g.failed < c.failed or c.n = 0
    """,
    "groups that are done and to be closed": "select id from offpath.job_group where to_close",
    "members of groups without a row": """
        select j.id, j.group_id from offpath.job j
        where j.grouped
            and not exists (
                select from offpath.job_group g where g.id = coalesce(j.group_id, j.id::text)
            )
    """,
    "roots that their group does not count": """
        select j.id from offpath.job j join offpath.job_group g on g.id = j.id::text
        where not j.grouped and j.group_id is null
    """,
    "gates that are open": """
        select g.id, g.deadline, g.need, g.succeeded, g.failed, g.total, g.counting
        from offpath.job_gate g
        where g.state = 'open' and exists (
            select from offpath.job j
            where j.gated_by = g.id and j.gate is not null and j.state = 'blocked'
        )
    """,
    "gates that are behind": "select id from offpath.job_gate where behind",
    "gates whose counts are not those of what they watch": """
        select g.id, g.state, g.succeeded, g.failed, c.succeeded, c.failed
        from offpath.job_gate g
        cross join lateral (
            select count(*) filter (where w.outcome = 'succeeded') as succeeded,
                count(*) filter (where w.outcome = 'failed') as failed
            from offpath.gate_watch w where w.gate = g.id
        ) as c
        where (g.succeeded, g.failed) is distinct from (c.succeeded, c.failed)
    """,
    "gates that should have been decided": """
        select g.id, g.need, g.counting, g.total, g.succeeded, g.failed
        from offpath.job_gate g
        where g.state = 'open' and (
            g.succeeded + case g.counting when 'settled' then g.failed else 0 end >= g.need
            or (g.counting = 'succeeded' and g.total - g.failed < g.need)
        )
    """,
    "ended jobs that an open gate has not counted": """
        select g.id, j.id, j.state, j.watched, w.early
        from offpath.job_gate g
        join offpath.gate_watch w on w.gate = g.id
        join offpath.job j on j.id = w.job
        where g.state = 'open' and j.finished_at is not null and w.outcome is null
    """,
    "watches of gates that are gone": """
        select w.job from offpath.gate_watch w
        where not exists (select from offpath.job_gate g where g.id = w.gate)
    """,
    "gates without jobs": """
        select g.id from offpath.job_gate g
        where not exists (select from offpath.job j where j.gated_by = g.id)
    """,
    "keys that are not empty": """
        select key, admitted, waiting from offpath.limit_key where admitted <> 0 or waiting
    """,
    "nudges that nobody took in": "select key, count(*) from offpath.limit_nudge group by key",
    "steps of jobs that are gone": """
        select s.job from offpath.step s
        where not exists (select from offpath.job j where j.id = s.job)
    """,
    "failures of jobs that are gone": """
        select f.job from offpath.failure f
        where not exists (select from offpath.job j where j.id = f.job)
    """,
    "signals that are marked as missed": "select id from offpath.signal where missed",
}

"""Queries that find what is not as it must be once everything has ended."""

KEPT = {
    "groups that count failures that there were not": """
        select g.id, g.failed
        from offpath.job_group g
        where g.failed <> (
            select count(*) from offpath.job j
            where coalesce(j.group_id, j.id::text) = g.id and j.state in ('dead', 'cancelled')
        )
    """,
    "gates that were decided by other ends than there were": """
        select g.id, g.state, w.job, w.outcome, j.state, w.early, j.watched
        from offpath.job_gate g
        join offpath.gate_watch w on w.gate = g.id
        join offpath.job j on j.id = w.job
        where g.state = 'open' and w.outcome is distinct from case
            when j.state in ('dead', 'cancelled') then 'failed'
            when j.state = 'succeeded' then 'succeeded'
        end
    """,
    "jobs that ran though their gate had not fired": """
        select j.id, j.state, g.state
        from offpath.job j join offpath.job_gate g on g.id = j.gated_by
        where j.deliveries > 0 and j.redrives = 0 and g.state <> 'fired'
    """,
    # A redrive leaves a job dead whose unique key another has as its gate opens again.
    "jobs that a fired gate did not release": """
        select j.id, j.state, j.reason
        from offpath.job j join offpath.job_gate g on g.id = j.gated_by
        where g.state = 'fired' and j.state = 'dead'
            and (j.reason = 'gate_timeout' or (j.reason = 'unsatisfiable' and j.unique_key is null))
    """,
    "values that are not what was given": """
        select g.id, g.value from offpath.job_group g where g.value !~ '^[0-9]+$'
    """,
}
"""The same, where no job was removed meanwhile."""
