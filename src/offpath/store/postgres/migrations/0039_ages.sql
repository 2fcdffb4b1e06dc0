-- By age, jobs with a fair key are found without a step to each key; those without one pay nothing.

create index job_ages on offpath.job (task, queue, enqueued_at, id)
where state = 'ready' and fair_key <> '';
