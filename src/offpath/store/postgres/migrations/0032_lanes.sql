-- Lanes are found by task, then queue: those of tasks that a worker does not have cost it nothing.

drop index offpath.job_turns;
create index job_turns on offpath.job (
    task, queue, (coalesce(fair_key, '')), priority desc, enqueued_at, id
) where state = 'ready';
