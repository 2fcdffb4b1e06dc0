-- part: django_ready
-- Jobs that wait, behind one, by id.
select id::text, task_path, queue_name, priority, args_kwargs::text,
       to_char(run_after at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'),
       to_char(enqueued_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')
from django_tasks_database_dbtaskresult
where status = 'READY' and id > cast(:after as uuid)
order by id
limit :most

-- name: django_seen_postgres
-- What an import would take.
/* part: django_ready */

-- name: django_waiting_postgres
-- What an import takes: a job that a worker just begins is passed over.
/* part: django_ready */
for update skip locked

-- part: django_ready_sqlite
-- Jobs that wait, behind one, by id.
select id, task_path, queue_name, priority, args_kwargs, run_after, enqueued_at
from django_tasks_database_dbtaskresult
where status = 'READY' and id > replace(:after, '-', '')
order by id
limit :most

-- name: django_seen_sqlite
-- What an import would take.
/* part: django_ready_sqlite */

-- name: django_waiting_sqlite
-- What an import takes: there is one writer, so nobody has it in hand.
/* part: django_ready_sqlite */

-- name: django_take_postgres
-- Remove what was taken: its result is looked for under the same id here.
delete from django_tasks_database_dbtaskresult
where id in (select value::uuid from json_array_elements_text(:ids::json))

-- name: django_take_sqlite
-- Remove what was taken: its result is looked for under the same id here.
delete from django_tasks_database_dbtaskresult
where id in (select value from json_each(:ids))

-- name: django_running
-- The number of jobs that run.
select count(*) from django_tasks_database_dbtaskresult where status = 'RUNNING'
