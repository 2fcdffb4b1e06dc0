-- Lists of a dashboard over a large table.

-- Scheduled jobs by queue, which are stepped to and counted up to a limit.
drop index concurrently if exists offpath.job_later;
create index concurrently job_later on offpath.job (queue) where state = 'scheduled';

-- All that faults are told by, so that a hundred thousand dead jobs are not looked up one by one.
drop index concurrently if exists offpath.job_faults;
create index concurrently job_faults on offpath.job (id)
    include (task, reason, error_key, queue, finished_at)
    where state = 'dead';
