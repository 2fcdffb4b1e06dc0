-- Lists of a dashboard over a large table.

-- Scheduled jobs by queue, which are stepped to and counted up to a limit.
drop index concurrently if exists offpath.job_later;
create index concurrently job_later on offpath.job (queue) where state = 'scheduled';
