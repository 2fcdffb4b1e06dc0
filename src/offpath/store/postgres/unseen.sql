-- name: look_again
-- Ids that were looked for and not found.
select u.n, u.id::text
from offpath.unseen u
order by u.since, u.n
limit :limit::int
for update skip locked

-- name: found_again
-- Those of these jobs that are there and free, so that they can be held.
select j.id::text
from offpath.job j
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
order by j.id
for update skip locked

-- name: watch_found
-- These jobs, which are held, are watched if a gate waited for them. If one has ended, that is
-- still to be counted.
update offpath.job j
set watched = 1
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and j.watched = 0
    and exists (select from offpath.gate_watch w where w.job = j.id and w.early)

-- name: found_roots
-- Those of these jobs, which are held, whose group does not count them yet.
select j.id::text
from offpath.job j
where j.id = any (array(select jsonb_array_elements_text(:ids::text::jsonb)::uuid))
    and j.group_id is null
    and not j.grouped
    and exists (select from offpath.job_group g where g.id = j.id::text)

-- name: forget_unseen
-- These jobs were found, or nobody is at work any more who could have been adding them; those that
-- will not come are in the answer.
with looked as materialized (
    select u.n, u.since, u.id = any (
        array(select jsonb_array_elements_text(:found::text::jsonb)::uuid)
    ) as found
    from offpath.unseen u
    where u.n = any (array(select jsonb_array_elements_text(:places::text::jsonb)::bigint))
),
gone as (
    delete from offpath.unseen u
    using looked l
    where u.n = l.n
        and (
            l.found
            or (
                l.since > 0
                and l.since <= pg_snapshot_xmin(pg_current_snapshot())::text::bigint
                and not exists (select from offpath.job j where j.id = u.id)
            )
        )
    returning u.id, l.found
),
dated as (
    update offpath.unseen u
    set since = pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    from looked l
    where u.n = l.n and l.since = 0 and not l.found
)
select distinct g.id::text from gone g where not g.found
