-- part: pgqueuer_queued
-- Jobs that wait, behind one, by id.
select id::text, entrypoint, priority, dedupe_key, payload, nullif(headers::text, 'null'),
       to_char(execute_after at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')
from pgqueuer
where status = 'queued' and id > :after
order by id
limit :most

-- name: pgqueuer_seen
-- What an import would take.
/* part: pgqueuer_queued */

-- name: pgqueuer_waiting
-- What an import takes: a job that a worker just begins is passed over.
/* part: pgqueuer_queued */
for update skip locked

-- name: pgqueuer_take
-- Remove what was taken and log it, as PgQueuer itself does.
with gone as (
    delete from pgqueuer
    where id in (select value::bigint from json_array_elements_text(:ids::json))
    returning id, entrypoint, priority
)
insert into pgqueuer_log (job_id, status, entrypoint, priority)
select id, 'deleted', entrypoint, priority from gone

-- name: pgqueuer_running
-- The number of jobs that run.
select count(*) from pgqueuer where status = 'picked'

-- name: pgqueuer_schedules
-- The schedules that a scheduler of PgQueuer has put there.
select entrypoint, expression from pgqueuer_schedules order by entrypoint, expression
