-- part: procrastinate_todo
-- Jobs that wait, behind one, by id.
select id::text, task_name, queue_name, priority, lock, queueing_lock, args::text,
       to_char(scheduled_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')
from procrastinate_jobs
where status = 'todo' and id > :after
order by id
limit :most

-- name: procrastinate_seen
-- What an import would take.
/* part: procrastinate_todo */

-- name: procrastinate_waiting
-- What an import takes: a job that a worker just begins is passed over.
/* part: procrastinate_todo */
for update skip locked

-- name: procrastinate_take
-- Cancel what was taken, as Procrastinate itself does: its triggers note it.
update procrastinate_jobs set status = 'cancelled'
where id in (select value::bigint from json_array_elements_text(:ids::json))

-- name: procrastinate_running
-- The number of jobs that run.
select count(*) from procrastinate_jobs where status = 'doing'
