-- Suspects: jobs that run apart from others, since their workers died too often.

-- The worker in whose crash a job came under suspicion; empty: it was not in the half that crashed again.
alter table offpath_job add column suspected text;

-- Whether it was handed out with no other suspect.
alter table offpath_job add column alone integer;

create index offpath_job_suspected on offpath_job (suspected)
where suspected is not null and finished_at is null;

-- Leases pass over suspects without reading their rows.
drop index offpath_job_ready;

create index offpath_job_ready on offpath_job (queue, task, priority desc, run_at, id, suspected)
where state = 'ready';
