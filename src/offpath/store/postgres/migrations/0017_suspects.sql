-- Suspects: jobs that run apart from others, since their workers died too often.

-- The worker in whose crash a job came under suspicion; empty: it was not in the half that crashed again.
alter table offpath.job add column suspected text;

-- Whether it was handed out with no other suspect.
alter table offpath.job add column alone boolean;

create index job_suspected on offpath.job (suspected)
    where suspected is not null and state in ('scheduled', 'ready', 'running', 'blocked');
