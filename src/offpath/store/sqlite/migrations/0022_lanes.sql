-- Lanes are found by task, then queue: those of tasks that a worker does not have cost it nothing.

drop index offpath_job_ready;

create index offpath_job_ready on offpath_job (task, queue, priority desc, run_at, id, suspected)
where state = 'ready';

drop index offpath_job_scheduled;

create index offpath_job_scheduled on offpath_job (task, queue, run_at)
where state = 'scheduled';
